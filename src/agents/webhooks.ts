import { randomBytes, timingSafeEqual } from 'node:crypto'
import { Webhook as StandardWebhook } from 'standardwebhooks'
import type { Viewer } from '../access/viewer.ts'
import type { Prisma } from '../generated/prisma/client.ts'
import { ForbiddenError, NotFoundError, UnauthenticatedError } from '../lib/errors.ts'
import { newId, wellFormedIds } from '../lib/ids.ts'
import { inOrderOf } from '../lib/in-order.ts'
import { type Json, toJson } from '../lib/json.ts'
import { checkJsonSize, checkName } from '../lib/validate.ts'
import type { Platform } from '../platform/platform.ts'
import { checkAgent } from './existing-agent.ts'
import type { Triggers } from './triggers.ts'

export interface Webhook {
  id: string
  agentId: string
  serviceName: string
  /** Where the service posts to. */
  url: string
  createdAt: Date
}

/** What a delivery came to: it woke the agent, or had before. */
export interface Delivery {
  /** Null where it went to a persistent agent's inbox. */
  runId: string | null
  /** False for a repeat. */
  isNew: boolean
}

export interface WebhookHooks {
  call: Triggers['call']
  /** Where this server is reached, without a path and without a slash at the end. */
  baseUrl(): string
}

/** Signed ways in for services. Source: https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md */
export interface Webhooks {
  /** Admins only. The secret is shown this once, and kept encrypted. @throws ForbiddenError, NotFoundError, BadInputError */
  create(viewer: Viewer, input: { agentId: string; serviceName: string }): Promise<{ webhook: Webhook; secret: string }>
  /** By id, in the order of the ids; null where there is none. Says nothing of who may see them. */
  getMany(ids: readonly string[]): Promise<(Webhook | null)[]>
  /**
   * A delivery, its headers named in lower case: its id counts once, its body is JSON or text. Answers once the trigger is
   * written.
   * @throws NotFoundError for no such webhook, UnauthenticatedError where it is not signed by it or not sent just now,
   * BadInputError for a payload that is too much.
   */
  receive(webhookId: string, headers: Record<string, string>, rawBody: Buffer): Promise<Delivery>
}

const SECRET_PREFIX = 'whsec_'
const SECRET_BYTES = 32
const TOLERANCE_SECONDS = 5 * 60
const LONGEST_DELIVERY_ID = 256
const MOST_SIGNATURES = 20

export function createWebhooks({ db, secretBox, clock }: Platform, { call, baseUrl }: WebhookHooks): Webhooks {
  const webhookOf = ({ secretSealed, ...row }: Prisma.WebhookGetPayload<object>): Webhook => ({
    ...row,
    url: `${baseUrl()}/hooks/agents/${row.id}`,
  })

  return {
    async create(viewer, { agentId, serviceName }) {
      if (viewer.scope !== 'ADMIN') throw new ForbiddenError('Only an admin can create webhooks.')
      const name = checkName(serviceName, 'input.serviceName')
      await checkAgent(db.prisma, agentId)
      const id = newId('whk')
      const secret = SECRET_PREFIX + randomBytes(SECRET_BYTES).toString('base64')
      const row = await db.prisma.webhook.create({
        data: {
          id,
          agentId,
          serviceName: name,
          secretSealed: secretBox.seal(secret, id),
          createdAt: new Date(clock.now()),
        },
      })
      return { webhook: webhookOf(row), secret }
    },
    async getMany(ids) {
      const rows = await db.prisma.webhook.findMany({ where: { id: { in: wellFormedIds(ids) } } })
      return inOrderOf(ids, rows.map(webhookOf))
    },
    async receive(webhookId, headers, rawBody) {
      const [row] = await db.prisma.webhook.findMany({ where: { id: { in: wellFormedIds([webhookId]) } } })
      if (row === undefined) throw new NotFoundError(NO_SUCH_WEBHOOK)
      const signed = readHeaders(headers, clock.now())
      const { agentId, serviceName: name } = row
      if (!isSignedBy(secretBox.open(row.secretSealed, row.id), signed, rawBody)) {
        throw new UnauthenticatedError('No signature matches.')
      }
      const payload = readBody(rawBody)
      const key = { callerId: row.id, value: signed.deliveryId }
      const woken = await call({ agentId, name, serviceId: row.id, payload, urgent: false, key })
      if (woken === null) throw new NotFoundError(NO_SUCH_WEBHOOK)
      return { runId: woken.run?.id ?? null, isNew: woken.isNew }
    },
  }
}

const NO_SUCH_WEBHOOK = 'There is no such webhook.'

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
    throw new UnauthenticatedError('The webhook-timestamp is not within 5 minutes of the time here.')
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
