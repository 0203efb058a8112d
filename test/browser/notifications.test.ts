import { createECDH, randomBytes } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { hasBrowserFor } from '../support/browser.ts'
import { PATIENCE, subscribingTo } from '../support/console-page.ts'
import { playConsole } from '../support/console-play.ts'
import type { TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'

const hasBrowser = hasBrowserFor('the test of notifications in the console')

const keys = {
  p256dh: createECDH('prime256v1').generateKeys().toString('base64url'),
  auth: randomBytes(16).toString('base64url'),
}
const SUBSCRIPTION = { endpoint: 'https://push.example.com/of-this-browser', keys }
/** The person has blocked notifications in the settings of the browser. */
const blockingPush = `
  Object.defineProperty(Notification, 'permission', { configurable: true, get: () => 'denied' })
  window.dispatchEvent(new Event('focus'))
`
/** A script that replaces the push service of the browser, which then subscribes at once with these keys. */
const WITH_PUSH = subscribingTo(SUBSCRIPTION)

describe.skipIf(!hasBrowser)('notifications in the console', () => {
  let parley: TestServer
  const { openAs } = playConsole((started) => {
    parley = started
  })
  const subscriptions = (humanId: string) =>
    parley.app.platform.db.prisma.pushSubscription.findMany({ where: { humanId } })

  test('the console can be installed, and its service worker shows a push message and opens its page', async () => {
    const ada = await parley.human('Ada')
    const space = await parley.space(ada, [])
    const { page } = await openAs(ada, '/notifications')
    await page.getByRole('heading', { name: 'Notification settings' }).waitFor(PATIENCE)
    const manifest = await page.evaluate<{ start: string; icons: number[] }>(`(async () => {
      const link = document.querySelector('link[rel=manifest]').href
      const { start_url, icons } = await (await fetch(link)).json()
      const found = icons.map(async ({ src }) => (await fetch(new URL(src, link))).status)
      return { start: new URL(start_url, link).href, icons: await Promise.all(found) }
    })()`)
    expect(manifest).toEqual({ start: `${parley.origin}/`, icons: [200, 200, 200, 200] })

    const scope = await page.evaluate<string>('navigator.serviceWorker.ready.then(({ scope }) => scope)')
    expect(scope).toBe(`${parley.origin}/`)
    const session = await page.context().newCDPSession(page)
    const registrations: { registrationId: string; scopeURL: string }[] = []
    session.on('ServiceWorker.workerRegistrationUpdated', (event) => registrations.push(...event.registrations))
    await session.send('ServiceWorker.enable')
    const { registrationId } = await until('the worker is registered', () =>
      registrations.find(({ scopeURL }) => scopeURL === scope),
    )
    await page.context().grantPermissions(['notifications'], { origin: parley.origin })
    // No page of the console is in the foreground.
    await page.goto('about:blank')
    const content = { text: 'Somebody mentioned you.', path: `/spaces/${space.id}`, topic: space.id }
    await session.send('ServiceWorker.deliverPushMessage', {
      origin: parley.origin,
      registrationId,
      data: JSON.stringify(content),
    })
    await page.goto(`${parley.origin}/notifications`)
    const shown = () =>
      page.evaluate<{ body: string; tag: string; path: string }[]>(`navigator.serviceWorker.ready
        .then((registration) => registration.getNotifications())
        .then((all) => all.map(({ body, tag, data }) => ({ body, tag, path: data.path })))`)
    expect(await until('a notification is shown', async () => (await shown())[0])).toEqual({
      body: 'Somebody mentioned you.',
      tag: space.id,
      path: `/spaces/${space.id}`,
    })
  }, 60_000)

  test('a person sees why push is blocked, allows it, enables it on this device, and changes the level of a space', async () => {
    const ada = await parley.human('Ada')
    const space = await parley.space(ada, [])
    const { page, violations } = await openAs(ada, '/notifications')
    await page.evaluate(blockingPush)
    const device = page.getByRole('region', { name: 'This device' })
    await device.getByText('This browser blocks notifications from this site.').waitFor(PATIENCE)
    await device.getByText('What to do: Click the icon to the left of the address').waitFor(PATIENCE)
    expect(await device.getByRole('button', { name: 'Enable on this device' }).isDisabled()).toBe(true)
    expect(await violations()).toEqual([])
    await page.evaluate(WITH_PUSH)
    await page.getByRole('button', { name: 'Enable on this device' }).click(PATIENCE)
    await page.getByText('This device receives push messages.').waitFor(PATIENCE)
    expect(await subscriptions(ada.id)).toMatchObject([{ endpoint: SUBSCRIPTION.endpoint, ...keys }])
    expect(await violations()).toEqual([])

    await page.getByRole('button', { name: 'Disable on this device' }).click()
    await page.getByText('This device receives no push messages.').waitFor(PATIENCE)
    await until('the subscription is removed', async () => (await subscriptions(ada.id)).length === 0)

    await page.getByRole('link', { name: new RegExp(space.name) }).click()
    await page.getByRole('button', { name: 'About this space' }).click(PATIENCE)
    await page.getByLabel('Notify me of').selectOption({ label: 'Only requests for my decision' })
    await until('the level is saved', async () => {
      const levels = await parley.app.domain.notifications.levelsOf([{ humanId: ada.id, spaceId: space.id }])
      return levels.get(ada.id)?.get(space.id) === 'NOTHING'
    })
  }, 60_000)

  test('a notice that an admin opens while acting as a person is not marked as read', async () => {
    const { human, space } = await parley.room('Iris')
    const { page } = await openAs(parley.admin, '/people')
    await page.getByRole('button', { name: 'Act as Husam' }).click(PATIENCE)
    await page.getByText('You are Husam').waitFor(PATIENCE)
    await page.evaluate(`history.pushState(null, '', '/agents')`)
    await page.getByRole('heading', { name: 'Agents', level: 1 }).waitFor(PATIENCE)
    const sent: string[] = []
    page.on('request', (request) => sent.push(request.postData() ?? ''))
    parley.models.script(() => [{ error: 'No such model.', status: 400 }])
    await parley.send(human, space.id, 'Hello?')
    await page.getByRole('link', { name: /^A run that worked for you/ }).click(PATIENCE)
    await page.getByRole('heading', { name: 'Iris’s run' }).waitFor(PATIENCE)
    expect(sent.filter((body) => body.includes('markRead'))).toEqual([])
    expect(sent.filter((body) => body.includes('query ConsoleRun'))).not.toEqual([])
  }, 60_000)

  test('fields without an effect are hidden or disabled, and keep their values; a text describes which emails are sent', async () => {
    const { domain } = parley.app
    const ada = await parley.human('Ada')
    const settings = () => domain.notifications.settings(ada)
    const { page, violations } = await openAs(ada, '/notifications')
    const form = page.getByRole('form', { name: 'Channels' })
    const [mail, minutes] = [
      form.getByLabel('Email', { exact: true }),
      form.getByLabel('Minutes until an email is sent'),
    ]
    const areDisabled = async () => [await mail.isDisabled(), await minutes.isDisabled()]
    const save = async () => {
      await form.getByRole('button', { name: 'Save' }).click()
      await form.getByText('Saved.').waitFor(PATIENCE)
    }
    await form.getByText('This server sends no email.').waitFor(PATIENCE)
    expect([await mail.count(), await minutes.count()]).toEqual([0, 0])

    await page.route('**/auth/session', (route) => route.fulfill({ json: { scope: 'HUMAN', mail: true } }))
    await page.reload()
    await form.getByText('You have no email address.').waitFor(PATIENCE)
    expect(await areDisabled()).toEqual([true, true])
    await form.getByLabel('Push messages, on every device').uncheck()
    await save()
    expect(await settings()).toEqual({ push: false, mail: false, notifyAfterMinutes: 15 })

    await domain.humans.update(parley.admin, { id: ada.id, email: `ada.${ada.id}@example.com` })
    await page.reload()
    await form.getByText('You get an email 15 minutes after something happened').waitFor(PATIENCE)
    expect(await areDisabled()).toEqual([false, false])
    await minutes.fill('0')
    await form.getByText('You get an email at once.').waitFor(PATIENCE)
    expect(await violations()).toEqual([])
    await save()
    expect(await settings()).toEqual({ push: false, mail: true, notifyAfterMinutes: 0 })
    await minutes.fill('60')
    await mail.uncheck()
    await form.getByText('You get no email.').waitFor(PATIENCE)
    expect(await areDisabled()).toEqual([false, true])
    await save()
    expect(await settings()).toEqual({ push: false, mail: false, notifyAfterMinutes: 0 })
  }, 60_000)

  test('a mention shows a notice with a link, unless its space is in the foreground', async () => {
    const [ada, bob] = [await parley.human('Ada'), await parley.human('Bob')]
    const memberIds = [ada.id, bob.id]
    const space = await parley.app.domain.spaces.create(parley.admin, { name: 'Room', routing: 'BROADCAST', memberIds })
    const { page } = await openAs(ada, '/notifications')
    await page.getByRole('heading', { name: 'Notification settings' }).waitFor(PATIENCE)
    const mention = () =>
      parley.app.domain.sending.send(bob, { spaceId: space.id, text: 'Look', mentionedIds: [ada.id] })
    await mention()
    const notices = page.getByRole('status', { name: 'Notices' })
    const notice = notices.getByRole('link', { name: 'Somebody mentioned you in Room.' })
    await notice.waitFor(PATIENCE)
    // An equal notice replaces the first one.
    const firstPath = await notice.getAttribute('href')
    const { message } = await mention()
    await expect.poll(() => notice.getAttribute('href'), PATIENCE).not.toBe(firstPath)
    expect(await notices.getByRole('link').count()).toBe(1)
    await notice.click(PATIENCE)
    await page.getByText('Look').first().waitFor(PATIENCE)
    expect(new URL(page.url()).pathname + new URL(page.url()).hash).toBe(`/spaces/${space.id}#${message.id}`)
    expect(await notices.getByRole('link').count()).toBe(0)
  }, 60_000)
})
