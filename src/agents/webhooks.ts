import { randomBytes, timingSafeEqual } from 'node:crypto'
import { Webhook as StandardWebhook } from 'standardwebhooks'
import type { Viewer } from '../access/viewer.ts'
import type { Prisma, Run } from '../generated/prisma/client.ts'
import { BadInputError, ForbiddenError, NotFoundError } from '../lib/errors.ts'
import { newId, wellFormedIds } from '../lib/ids.ts'
import { type Json, toJson } from '../lib/json.ts'
import { checkJsonSize, checkName } from '../lib/validate.ts'
import type { Platform } from '../platform/platform.ts'
import type { Triggers } from './triggers.ts'

export interface Webhook {
  id: string
  agentId: string
  serviceName: string
  /** Where the service posts to. */
  url: string
  createdAt: Date
}

/** What a delivery came to. Of the refused, none has done anything. */
export type Delivery =
  /** It woke the agent, or had before: `isNew` says which. `run` is null where it went to a persistent agent's inbox. */
  | { type: 'accepted'; isNew: boolean; run: Run | null }
  | { type: 'not-found' }
  /** The headers are missing, too old or too new, or the signature is not of this webhook and body. */
  | { type: 'unauthenticated'; reason: string }
  | { type: 'bad-input'; reason: string }

/** A request's headers with names in lower case, as Node gives them. */
export type Headers = Record<string, string | string[] | undefined>

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
  /** A delivery: its id counts once, its body is JSON or text. Answers once the trigger is written. */
  receive(webhookId: string, headers: Headers, rawBody: Buffer): Promise<Delivery>
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
      if ((await db.prisma.agent.count({ where: { id: { in: wellFormedIds([agentId]) } } })) === 0)
        throw new NotFoundError('There is no such agent.')
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
      const byId = new Map(rows.map((row) => [row.id, webhookOf(row)]))
      return ids.map((id) => byId.get(id) ?? null)
    },
    async receive(webhookId, headers, rawBody) {
      const [row] = await db.prisma.webhook.findMany({ where: { id: { in: wellFormedIds([webhookId]) } } })
      if (row === undefined) return { type: 'not-found' }
      const signed = readHeaders(headers, clock.now())
      if ('reason' in signed) return { type: 'unauthenticated', ...signed }
      if (!isSignedBy(secretBox.open(row.secretSealed, row.id), signed, rawBody)) {
        return { type: 'unauthenticated', reason: 'No signature matches.' }
      }
      const payload = readBody(rawBody)
      if ('reason' in payload) return { type: 'bad-input', ...payload }
      const { agentId, serviceName: name } = row
      const key = { callerId: row.id, value: signed.deliveryId }
      const woken = await call({ agentId, name, serviceId: row.id, payload: payload.json, urgent: false, key })
      return woken === null ? { type: 'not-found' } : { type: 'accepted', isNew: woken.isNew, run: woken.run }
    },
  }
}

interface SignedHeaders {
  deliveryId: string
  sentAt: Date
  signatures: string[]
}

function readHeaders(headers: Headers, now: number): SignedHeaders | { reason: string } {
  const [deliveryId, timestamp, signature] = ['webhook-id', 'webhook-timestamp', 'webhook-signature'].map((name) =>
    String(headers[name] ?? ''),
  )
  if (!deliveryId || !timestamp || !signature) {
    return { reason: 'The headers webhook-id, webhook-timestamp and webhook-signature are required.' }
  }
  if (deliveryId.length > LONGEST_DELIVERY_ID)
    return { reason: `A webhook-id has at most ${LONGEST_DELIVERY_ID} characters.` }
  const seconds = /^\d{1,12}$/.test(timestamp) ? Number(timestamp) : Number.NaN
  if (!(Math.abs(now / 1000 - seconds) <= TOLERANCE_SECONDS)) {
    return { reason: `The webhook-timestamp is not within ${TOLERANCE_SECONDS / 60} minutes of the server's time.` }
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

/** JSON where it is JSON, else the text itself. */
function readBody(rawBody: Buffer): { json: Json } | { reason: string } {
  const value = parsed(rawBody.toString())
  try {
    checkJsonSize(value, 'body')
    return { json: toJson(value) }
  } catch (error) {
    if (error instanceof BadInputError) return { reason: error.message }
    throw error
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
