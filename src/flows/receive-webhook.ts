import { timingSafeEqual } from 'node:crypto'
import { Webhook as StandardWebhook } from 'standardwebhooks'
import { NO_SUCH_WEBHOOK } from '../agents/webhooks.ts'
import type { Prisma } from '../generated/prisma/client.ts'
import { NotFoundError, UnauthenticatedError } from '../lib/errors.ts'
import { decodeUtf8, parseExactJson } from '../lib/exact-json.ts'
import { wellFormedIds } from '../lib/ids.ts'
import { type Json, toJson } from '../lib/json.ts'
import { checkJsonSize, LARGEST_JSON_BYTES } from '../lib/validate.ts'
import type { Platform } from '../platform/platform.ts'
import { saveWebhookUse } from '../stores/webhook-store.ts'
import type { Triggers } from './trigger-agent.ts'

/** The result of a delivery that has woken the agent, either now or when it was first received. */
export interface Delivery {
  /** The run; null if a persistent agent received an inbox event instead. */
  runId: string | null
  /** False if the delivery was received before. */
  isNew: boolean
}

/** Receives webhook deliveries. */
export interface WebhookDeliveries {
  /**
   * Receives a delivery. The header names are in lower case; the body is JSON or text. A delivery id that was used
   * before has no effect. Calls `body` with the size limit after checking the headers. Resolves when the trigger has
   * been written.
   * @throws NotFoundError for an unknown webhook; UnauthenticatedError for an invalid signature or an old timestamp;
   * BadInputError for a payload that is not UTF-8, is too large, or contains numbers that JavaScript cannot represent
   * exactly
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
/** The maximum size of a body for an unknown webhook. */
const MOST_BYTES_FOR_NOBODY = 64 * 1024
/** The resolution of `lastUsedAt`, which limits the number of writes. */
const USE_NOTED_MS = 60_000

type Row = Prisma.WebhookGetPayload<object>

export function createWebhookDeliveries(
  { db, secretBox, clock }: Platform,
  { call }: Pick<Triggers, 'call'>,
): WebhookDeliveries {
  async function noteUse({ id, lastUsedAt }: Row): Promise<void> {
    if (clock.now() - Number(lastUsedAt) < USE_NOTED_MS) return
    await saveWebhookUse(db.prisma, id, new Date(clock.now()))
  }

  /** Returns the secrets that are currently valid, newest first. */
  function secretsOf({ id, secretSealed, oldSecretSealed, oldSecretUntil }: Row): string[] {
    const oldHolds = oldSecretSealed !== null && Number(oldSecretUntil) > clock.now()
    return [secretSealed, ...(oldHolds ? [oldSecretSealed] : [])].map((sealed) => secretBox.open(sealed, id))
  }

  return {
    async receive(webhookId, headers, body) {
      const [row] = await db.prisma.webhook.findMany({ where: { id: { in: wellFormedIds([webhookId]) } } })
      if (row === undefined) {
        // Reads the body first, so that the sender receives the response instead of a closed connection.
        await body(MOST_BYTES_FOR_NOBODY)
        throw new NotFoundError(NO_SUCH_WEBHOOK)
      }
      const signed = readHeaders(headers, clock.now())
      const rawBody = await body(LARGEST_JSON_BYTES)
      const text = decodeUtf8(rawBody)
      const { agentId, serviceName: name, urgent } = row
      if (!secretsOf(row).some((secret) => isSignedBy(secret, signed, rawBody))) {
        throw new UnauthenticatedError('No signature in webhook-signature matches the body: check the secret.')
      }
      await noteUse(row)
      const payload = readBody(text)
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
    throw new UnauthenticatedError(`The webhook-id header must have at most ${LONGEST_DELIVERY_ID} characters.`)
  }
  const seconds = /^\d{1,12}$/.test(timestamp) ? Number(timestamp) : Number.NaN
  if (!(Math.abs(now / 1000 - seconds) <= TOLERANCE_SECONDS)) {
    throw new UnauthenticatedError('The webhook-timestamp differs from the server time by more than 5 minutes.')
  }
  return { deliveryId, sentAt: new Date(seconds * 1000), signatures: signature.split(' ').slice(0, MOST_SIGNATURES) }
}

/**
 * Whether one of the signatures is valid. Uses the library only for signing. Timestamps are checked in this file
 * because the clock is injected, and signatures are compared over the raw bytes, which are UTF-8.
 */
function isSignedBy(secret: string, { deliveryId, sentAt, signatures }: SignedHeaders, rawBody: Buffer): boolean {
  const expected = Buffer.from(new StandardWebhook(secret).sign(deliveryId, sentAt, rawBody.toString()))
  return signatures
    .map((signature) => Buffer.from(signature))
    .map((given) => given.length === expected.length && timingSafeEqual(given, expected))
    .some((matches) => matches)
}

/**
 * Parses the body as JSON. Returns the text itself if it is not JSON.
 * @throws BadInputError
 */
function readBody(text: string): Json {
  const value = parsed(text)
  checkJsonSize(value, 'body')
  return toJson(value)
}

function parsed(text: string): unknown {
  try {
    return parseExactJson(text)
  } catch (error) {
    if (error instanceof SyntaxError) return text
    throw error
  }
}
