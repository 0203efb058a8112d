// Shows push messages, and opens the page of a tapped message. Caches nothing and answers no requests.

self.addEventListener('install', () => self.skipWaiting())
self.addEventListener('activate', (event) => event.waitUntil(self.clients.claim()))

/** Returns the URL of a path of the console, under the prefix with which browsers reach this server. */
const addressOf = (path) => new URL(String(path).replace(/^\/+/, ''), self.registration.scope)

self.addEventListener('push', (event) => {
  let content = {}
  try {
    content = event.data?.json() ?? {}
  } catch {
    // The message comes from another version of the server.
  }
  event.waitUntil(show(content))
})

async function show({ text = 'There is something new.', path = '/', topic = 'parley' }) {
  const pages = await self.clients.matchAll({ type: 'window' })
  // If a page is visible, it shows the notice itself.
  if (pages.some(({ focused, visibilityState }) => focused && visibilityState === 'visible')) return
  await self.registration.showNotification('Parley', {
    body: text,
    tag: topic,
    renotify: true,
    icon: addressOf('/console/icon-192.png').href,
    badge: addressOf('/console/badge-96.png').href,
    data: { path },
  })
}

self.addEventListener('notificationclick', (event) => {
  event.notification.close()
  event.waitUntil(open(event.notification.data?.path ?? '/'))
})

async function open(path) {
  const address = addressOf(path)
  // A path such as //example.com must not lead to another site.
  if (!address.href.startsWith(self.registration.scope)) return
  const pages = await self.clients.matchAll({ type: 'window', includeUncontrolled: true })
  const page = pages.find(({ url }) => url.startsWith(self.registration.scope))
  if (page === undefined) return self.clients.openWindow(address.href)
  await page.focus()
  page.postMessage({ type: 'open', path: String(path) })
}
