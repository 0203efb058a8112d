import { type Connection, payloadOf } from '../../client/index.ts'
import { basePath } from '../location.ts'
import { ADD_PUSH_SUBSCRIPTION, REMOVE_PUSH_SUBSCRIPTION } from './operations.ts'

/** The human for whom this browser receives push messages, by server. */
const SUBSCRIBED_KEY = `parley.push${basePath}`
const SCOPE = `${basePath}/`

/**
 * Returns whether this browser can receive push messages, which needs https or localhost. Some browsers cannot in private
 * windows.
 */
export const canPush = () =>
  'serviceWorker' in navigator && 'PushManager' in window && 'Notification' in window && window.isSecureContext

/** Returns whether this browser receives push messages for this human. */
export const isSubscribed = (humanId: string | null) =>
  humanId !== null &&
  'Notification' in window &&
  localStorage.getItem(SUBSCRIBED_KEY) === humanId &&
  Notification.permission === 'granted'

interface TrustedTypes {
  createPolicy(name: string, rules: { createScriptURL(url: string): string }): { createScriptURL(url: string): string }
}

/** The page's security policy requires a trusted URL for scripts. */
let workerUrl: string | null = null
function urlOfWorker(): string {
  const { trustedTypes } = window as { trustedTypes?: TrustedTypes }
  const rules = { createScriptURL: () => `${basePath}/service-worker.js` }
  workerUrl ??= (trustedTypes?.createPolicy('parley', rules) ?? rules).createScriptURL('')
  return workerUrl
}

/** Registers the service worker, which shows push messages. */
export async function registerWorker(): Promise<ServiceWorkerRegistration | null> {
  if (!('serviceWorker' in navigator)) return null
  await navigator.serviceWorker.register(urlOfWorker(), { scope: SCOPE })
  return navigator.serviceWorker.ready
}

/** Subscribes this browser, after asking for permission. @throws an error whose message the person can read */
export async function subscribe(connection: Connection, publicKey: string, humanId: string): Promise<void> {
  if ((await Notification.requestPermission()) !== 'granted')
    throw new Error('This browser does not allow notifications from this site. Allow them in its settings.')
  await subscribeAllowed(connection, publicKey, humanId)
}

async function subscribeAllowed(connection: Connection, publicKey: string, humanId: string): Promise<void> {
  const registration = await registerWorker()
  if (registration === null) throw new Error('This browser has no service workers.')
  const key = bytesOf(publicKey)
  const before = await registration.pushManager.getSubscription()
  const isOfKey = before !== null && sameBytes(before.options.applicationServerKey, key)
  if (before !== null && !isOfKey) await before.unsubscribe()
  const subscription = isOfKey
    ? before
    : await registration.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key })
  const { endpoint = '', keys = {} } = subscription.toJSON()
  const input = { endpoint, p256dh: keys['p256dh'] ?? '', auth: keys['auth'] ?? '' }
  payloadOf((await connection.ask(ADD_PUSH_SUBSCRIPTION, { input })).addPushSubscription, 'AddPushSubscriptionPayload')
  localStorage.setItem(SUBSCRIBED_KEY, humanId)
}

/** Subscribes this browser again if it was subscribed before, because the session is new or the browser has renewed its keys. */
export async function renewSubscription(connection: Connection, publicKey: string, humanId: string): Promise<void> {
  if (canPush() && isSubscribed(humanId)) await subscribeAllowed(connection, publicKey, humanId)
}

/** Ends the subscription of this browser. The server deletes it at once, if it can be reached. */
export async function unsubscribe(connection: Connection | null): Promise<void> {
  if (localStorage.getItem(SUBSCRIBED_KEY) === null) return
  localStorage.removeItem(SUBSCRIBED_KEY)
  const registration = await navigator.serviceWorker?.getRegistration(SCOPE)
  const subscription = await registration?.pushManager.getSubscription()
  if (subscription == null) return
  const { endpoint } = subscription
  await subscription.unsubscribe()
  await connection?.ask(REMOVE_PUSH_SUBSCRIPTION, { endpoint })
}

function bytesOf(base64url: string): Uint8Array<ArrayBuffer> {
  const text = atob(base64url.replaceAll('-', '+').replaceAll('_', '/'))
  return Uint8Array.from(text, (character) => character.charCodeAt(0))
}

function sameBytes(one: ArrayBuffer | null, other: Uint8Array): boolean {
  return one !== null && one.byteLength === other.length && new Uint8Array(one).every((byte, at) => byte === other[at])
}
