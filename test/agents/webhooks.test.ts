import { Webhook as Signer } from 'standardwebhooks'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Webhook } from '../../src/agents/webhooks.ts'
import type { Delivery } from '../../src/flows/receive-webhook.ts'
import { UnauthenticatedError } from '../../src/lib/errors.ts'
import { newId } from '../../src/lib/ids.ts'
import type { Platform } from '../../src/platform/platform.ts'
import { type Domain, openDomain } from '../support/domain.ts'
import { createPlanning, type Planning, withJobs } from '../support/planning.ts'
import { hasPostgres } from '../support/postgres.ts'

const NOW = Date.parse('2030-01-01T10:00:00Z')
const MINUTE_MS = 60_000
const BODY = '{"event":"ticket_critical","ticketId":"PROJ-123"}'

describe.skipIf(!hasPostgres)('a webhook', () => {
  let domain: Domain
  let platform: Platform
  let planning: Planning
  let agentId: string
  let webhook: Webhook
  let secret: string

  beforeAll(async () => {
    domain = await openDomain()
    platform = await withJobs(domain.platform)
    planning = createPlanning(platform)
    agentId = (await domain.agent('Ops')).id
  })
  beforeEach(async () => {
    domain.clock.set(NOW)
    ;({ webhook, secret } = await planning.webhooks.create(domain.admin, { agentId, serviceName: 'Jira' }))
  })
  afterAll(async () => {
    await platform.jobs.close()
    await domain.close()
  })

  interface Parcel {
    id?: string
    sentAt?: number
    body?: string | Buffer
    signedBy?: string
    headers?: Record<string, string>
    to?: string
  }

  /** Creates a delivery with the Standard Webhooks library, as a service does. `headers` replace some of its headers. */
  const deliver = ({
    id = 'msg_1',
    sentAt = NOW,
    body = BODY,
    signedBy = secret,
    headers = {},
    to = webhook.id,
  }: Parcel = {}) => {
    const signature = new Signer(signedBy).sign(id, new Date(sentAt), String(body))
    const signed = {
      'webhook-id': id,
      'webhook-timestamp': String(Math.floor(sentAt / 1000)),
      'webhook-signature': signature,
    }
    return planning.webhooks.receive(to, { ...signed, ...headers }, async () => Buffer.from(body))
  }
  const runOf = ({ runId }: Delivery) => platform.db.prisma.run.findUniqueOrThrow({ where: { id: runId ?? '' } })
  const countRuns = () => platform.db.prisma.run.count({ where: { triggerServiceId: webhook.id } })

  test('has a secret that is shown once and stored encrypted, and its own URL', async () => {
    expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/)
    expect(webhook).toEqual({
      id: expect.stringMatching(/^whk_[0-9a-f]{32}$/),
      agentId,
      serviceName: 'Jira',
      path: `/hooks/agents/${webhook.id}`,
      urgent: false,
      lastUsedAt: null,
      createdAt: new Date(NOW),
    })
    expect(await planning.webhooks.getMany([newId('whk'), webhook.id, '\0'])).toEqual([null, webhook, null])
    const row = await platform.db.prisma.webhook.findUniqueOrThrow({ where: { id: webhook.id } })
    expect(JSON.stringify(row)).not.toContain(secret.slice(6, 20))
  })

  test('refuses bytes that are not UTF-8, and numbers that JavaScript would change, and says which', async () => {
    await expect(deliver({ body: Buffer.from([0x22, 0xff, 0x22]) })).rejects.toMatchObject({ code: 'BAD_INPUT' })
    await expect(deliver({ body: '{"id":9007199254740993}' })).rejects.toThrow('9007199254740993')
    expect(await countRuns()).toBe(0)
  })

  test('is created by admins only, with a name, for an existing agent', async () => {
    for (const viewer of [await domain.human('Ada'), await domain.service('Jira', null)]) {
      const created = planning.webhooks.create(viewer, { agentId, serviceName: 'Jira' })
      await expect(created).rejects.toMatchObject({ code: 'FORBIDDEN' })
    }
    const create = (input: object) => planning.webhooks.create(domain.admin, { agentId, serviceName: 'Jira', ...input })
    await expect(create({ agentId: newId('agt') })).rejects.toMatchObject({ code: 'NOT_FOUND' })
    await expect(create({ serviceName: '' })).rejects.toMatchObject({ code: 'BAD_INPUT', field: 'input.serviceName' })
  })

  test('lets a signed delivery wake the agent', async () => {
    const delivery = await deliver()
    expect(delivery).toEqual({ runId: expect.stringMatching(/^run_/), isNew: true })
    expect(await runOf(delivery)).toMatchObject({
      agentId,
      triggerType: 'SERVICE',
      triggerName: 'Jira',
      triggerServiceId: webhook.id,
      triggerPayload: JSON.parse(BODY),
      depth: 0,
    })
  })

  test('processes a delivery once by its id, however often it arrives and with any body', async () => {
    const deliveries = await Promise.all([deliver(), deliver(), deliver({ body: 'another' })])
    domain.clock.set(NOW + 4 * MINUTE_MS)
    deliveries.push(await deliver({ sentAt: NOW + 4 * MINUTE_MS }))
    expect(deliveries.filter(({ isNew }) => isNew)).toHaveLength(1)
    expect(new Set(deliveries.map(({ runId }) => runId)).size).toBe(1)
    await deliver({ id: 'msg_2' })
    expect(await countRuns()).toBe(2)
  })

  test('puts an event into the inbox of a persistent agent', async () => {
    const thinker = await domain.agent('Thinker', { mind: 'PERSISTENT' })
    const own = await planning.webhooks.create(domain.admin, { agentId: thinker.id, serviceName: 'Jira' })
    const parcel = { to: own.webhook.id, signedBy: own.secret }
    expect([await deliver(parcel), await deliver(parcel)]).toEqual([
      { runId: null, isNew: true },
      { runId: null, isNew: false },
    ])
    expect(await platform.db.prisma.inboxEvent.findMany({ where: { agentId: thinker.id } })).toMatchObject([
      { type: 'SERVICE', payload: { serviceId: own.webhook.id, name: 'Jira', payload: JSON.parse(BODY) } },
    ])
  })

  test('accepts one valid signature among several, as during a rotation of the secret', async () => {
    const signature = new Signer(secret).sign('msg_1', new Date(NOW), BODY)
    const headers = { 'webhook-signature': `v1,${Buffer.alloc(32).toString('base64')} v2,x ${signature} v1` }
    expect(await deliver({ headers })).toMatchObject({ isNew: true })
  })

  test.each<[string, Parcel]>([
    ['another secret', { signedBy: `whsec_${Buffer.alloc(32, 1).toString('base64')}` }],
    ['another body', { headers: { 'webhook-signature': new Signer('MA==').sign('msg_1', new Date(NOW), '{}') } }],
    ['another id', { headers: { 'webhook-id': 'msg_2' } }],
    ['another time', { headers: { 'webhook-timestamp': String(NOW / 1000 + 1) } }],
    ['no signature', { headers: { 'webhook-signature': '' } }],
    ['a signature of another version', { headers: { 'webhook-signature': 'v1a,xxxx' } }],
    ['no id', { headers: { 'webhook-id': '' } }],
    ['an endless id', { id: 'x'.repeat(257) }],
    ['no time', { headers: { 'webhook-timestamp': '' } }],
    ['a time that is none', { headers: { 'webhook-timestamp': `${NOW / 1000}x` } }],
    ['a time more than 5 minutes ago', { sentAt: NOW - 5 * MINUTE_MS - 1000 }],
    ['a time more than 5 minutes ahead', { sentAt: NOW + 5 * MINUTE_MS + 1000 }],
  ])('refuses a delivery with %s, and does nothing', async (_, parcel) => {
    await expect(deliver(parcel)).rejects.toThrow(UnauthenticatedError)
    expect(await countRuns()).toBe(0)
  })

  test.each([-5, 5])('accepts a delivery %d minutes from now', async (minutes) => {
    expect(await deliver({ sentAt: NOW + minutes * MINUTE_MS })).toMatchObject({ isNew: true })
  })

  test.each([
    ['JSON', '[1, 2]', [1, 2]],
    ['text', 'deploy #287 failed', 'deploy #287 failed'],
    ['nothing', '', ''],
    ['what PostgreSQL cannot hold', '"a\\u0000\\ud800"', 'a\ufffd'],
  ])('forwards a body of %s', async (_, body, payload) => {
    expect(await runOf(await deliver({ body }))).toMatchObject({ triggerPayload: payload })
  })

  test('refuses a body that is too large or too deep', async () => {
    for (const body of ['x'.repeat(256 * 1024), '['.repeat(1000) + ']'.repeat(1000)]) {
      await expect(deliver({ body })).rejects.toMatchObject({ code: 'BAD_INPUT' })
    }
    expect(await countRuns()).toBe(0)
  })

  test('a webhook that does not exist is not found, with any signature', async () => {
    for (const to of [newId('whk'), agentId, 'nonsense\0']) {
      await expect(deliver({ to })).rejects.toMatchObject({ code: 'NOT_FOUND' })
    }
  })
})
