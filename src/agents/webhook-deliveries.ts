import { timingSafeEqual } from 'node:crypto'
import { Webhook as StandardWebhook } from 'standardwebhooks'
import type { Prisma } from '../generated/prisma/client.ts'
import { NotFoundError, UnauthenticatedError } from '../lib/errors.ts'
import { wellFormedIds } from '../lib/ids.ts'
import { type Json, toJson } from '../lib/json.ts'
import { checkJsonSize, LARGEST_JSON_BYTES } from '../lib/validate.ts'
import type { Platform } from '../platform/platform.ts'
import type { Triggers } from './triggers.ts'
import { NO_SUCH_WEBHOOK } from './webhooks.ts'

/** What a delivery came to: it woke the agent, or had before. */
export interface Delivery {
  /** Null where it went to a persistent agent's inbox. */
  runId: string | null
  /** False for a repeat. */
  isNew: boolean
}

/** What comes in by webhooks. */
export interface WebhookDeliveries {
  /**
   * A delivery, its headers named in lower case: its id counts once, its body is JSON or text. Answers once the trigger is
   * written. The body is asked for, with how many bytes it may have, when its headers are found to be good.
   * @throws NotFoundError for no such webhook, UnauthenticatedError where it is not signed by it or not sent just now,
   * BadInputError for a payload that is too much.
   */
  receive(
    webhookId: string,
    headers: Record<string, string>,
    body: (mostBytes: number) => Promise<Buffer>,
  ): Promise<Delivery>
}

const TOLERANCE_SECONDS = 5 * 60
const LONGEST_DELIVERY_ID = 256
const MOST_SIGNATURES = 20
/** Of a body for a webhook that there is not. */
const MOST_BYTES_FOR_NOBODY = 64 * 1024
/** The use of a webhook is noted to the minute: a statement a minute. */
const USE_NOTED_MS = 60_000

type Row = Prisma.WebhookGetPayload<object>

export function createWebhookDeliveries(
  { db, secretBox, clock }: Platform,
  { call }: Pick<Triggers, 'call'>,
): WebhookDeliveries {
  async function noteUse({ id, lastUsedAt }: Row): Promise<void> {
    if (clock.now() - Number(lastUsedAt) < USE_NOTED_MS) return
    await db.prisma.webhook.updateMany({ where: { id }, data: { lastUsedAt: new Date(clock.now()) } })
  }

  /** Those that hold now, the newest first. */
  function secretsOf({ id, secretSealed, oldSecretSealed, oldSecretUntil }: Row): string[] {
    const oldHolds = oldSecretSealed !== null && Number(oldSecretUntil) > clock.now()
    return [secretSealed, ...(oldHolds ? [oldSecretSealed] : [])].map((sealed) => secretBox.open(sealed, id))
  }

  return {
    async receive(webhookId, headers, body) {
      const [row] = await db.prisma.webhook.findMany({ where: { id: { in: wellFormedIds([webhookId]) } } })
      if (row === undefined) {
        // A sender that is told so only then keeps its connection.
        await body(MOST_BYTES_FOR_NOBODY)
        throw new NotFoundError(NO_SUCH_WEBHOOK)
      }
      const signed = readHeaders(headers, clock.now())
      const rawBody = await body(LARGEST_JSON_BYTES)
      const { agentId, serviceName: name, urgent } = row
      if (!secretsOf(row).some((secret) => isSignedBy(secret, signed, rawBody))) {
        throw new UnauthenticatedError('No signature in webhook-signature matches the body: check the secret.')
      }
      await noteUse(row)
      const payload = readBody(rawBody)
      const key = { callerId: row.id, value: signed.deliveryId }
      const woken = await call({ agentId, name, serviceId: row.id, payload, urgent, key })
      if (woken === null) throw new NotFoundError(NO_SUCH_WEBHOOK)
      return { runId: woken.run?.id ?? null, isNew: woken.isNew }
    },
  }
}

interface SignedHeaders {
  deliveryId: string
  sentAt: Date
  signatures: string[]
}

function readHeaders(headers: Record<string, string>, now: number): SignedHeaders {
  const { 'webhook-id': deliveryId, 'webhook-timestamp': timestamp, 'webhook-signature': signature } = headers
  if (!deliveryId || !timestamp || !signature) {
    throw new UnauthenticatedError('The headers webhook-id, webhook-timestamp and webhook-signature are required.')
  }
  if (deliveryId.length > LONGEST_DELIVERY_ID) {
    throw new UnauthenticatedError(`A webhook-id has at most ${LONGEST_DELIVERY_ID} characters.`)
  }
  const seconds = /^\d{1,12}$/.test(timestamp) ? Number(timestamp) : Number.NaN
  if (!(Math.abs(now / 1000 - seconds) <= TOLERANCE_SECONDS)) {
    throw new UnauthenticatedError('The webhook-timestamp differs from the server time by more than 5 minutes.')
  }
  return { deliveryId, sentAt: new Date(seconds * 1000), signatures: signature.split(' ').slice(0, MOST_SIGNATURES) }
}

/** The library signs; the time and the comparison are ours, for an injected clock and over the body's own bytes. */
function isSignedBy(secret: string, { deliveryId, sentAt, signatures }: SignedHeaders, rawBody: Buffer): boolean {
  const text = rawBody.toString()
  if (!Buffer.from(text).equals(rawBody)) return false // not UTF-8: what would be signed is not what was sent
  const expected = Buffer.from(new StandardWebhook(secret).sign(deliveryId, sentAt, text))
  return signatures
    .map((signature) => Buffer.from(signature))
    .map((given) => given.length === expected.length && timingSafeEqual(given, expected))
    .some((matches) => matches)
}

/** JSON where it is JSON, else the text itself. @throws BadInputError */
function readBody(rawBody: Buffer): Json {
  const value = parsed(rawBody.toString())
  checkJsonSize(value, 'body')
  return toJson(value)
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
