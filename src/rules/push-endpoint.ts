import { isPublicAddress } from '../lib/addresses.ts'

/** A push subscription in the form in which a browser provides it. */
export interface GivenSubscription {
  endpoint: string
  /** The browser's public key: 65 bytes in base64url. */
  p256dh: string
  /** The browser's secret: 16 bytes in base64url. */
  auth: string
}

/** A fault in a field of a subscription. */
export interface SubscriptionFault {
  field: keyof GivenSubscription
  message: string
}

const LONGEST_ENDPOINT = 2048
const PUBLIC_KEY_BYTES = 65
const SECRET_BYTES = 16
const BASE64 = /^[\w+/-]{1,200}={0,2}$/
/** Names that resolve only within a private network (RFC 6762, 8375, 6761; ICANN has reserved `internal`). */
const INTERNAL_NAME = /(^|\.)(localhost|localdomain|local|internal|intranet|private|lan|home|corp|home\.arpa)$/

/**
 * Returns why a push subscription is refused; null if it is accepted. Does not resolve the host name, because the
 * answer would reveal which names exist in the server's network. The address is checked at each connection instead
 * (guarded-connector.ts).
 */
export function faultOfSubscription({ endpoint, p256dh, auth }: GivenSubscription): SubscriptionFault | null {
  if (!isPublicHttps(endpoint))
    return {
      field: 'endpoint',
      message: `Must be a public https address of at most ${LONGEST_ENDPOINT} characters, from the browser's push subscription.`,
    }
  const key = bytesOf(p256dh)
  if (key?.length !== PUBLIC_KEY_BYTES || key[0] !== 4)
    return {
      field: 'p256dh',
      message: `p256dh must be the subscription's public key: ${PUBLIC_KEY_BYTES} bytes in base64url.`,
    }
  if (bytesOf(auth)?.length !== SECRET_BYTES)
    return { field: 'auth', message: `auth must be the subscription's secret: ${SECRET_BYTES} bytes in base64url.` }
  return null
}

/** Whether an endpoint is an https URL whose host is not within a private network. */
export function isPublicHttps(endpoint: string): boolean {
  const url = endpoint.length <= LONGEST_ENDPOINT ? URL.parse(endpoint) : null
  if (url === null || url.protocol !== 'https:' || url.username !== '' || url.password !== '') return false
  const host = url.hostname.replace(/\.$/, '')
  if (host.startsWith('[')) return isPublicAddress(host.slice(1, -1))
  // The URL parser has converted every form of an IPv4 address to four decimal numbers.
  if (/^[\d.]+$/.test(host)) return isPublicAddress(host)
  return host.includes('.') && !INTERNAL_NAME.test(host)
}

function bytesOf(text: string): Buffer | null {
  return BASE64.test(text) ? Buffer.from(text, 'base64') : null
}
