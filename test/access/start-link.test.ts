import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { createStartLink } from '../../src/access/start-link.ts'
import { RULE_STACKS } from '../support/application.ts'
import { createParleyClient } from '../support/parley-client.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import type { Read } from '../support/stage.ts'

const MINUTE_MS = 60_000
const REDEEMED = `{ auditLog { edges { node { action actor { id } targetId } } } }`

describe.each(RULE_STACKS)('the sign-in link that is printed at startup, on the %s stack', (stack) => {
  let parley: TestServer
  const open = async (settings: Record<string, string> = {}) => {
    parley = await startTestServer({ stack, settings, worker: false, isFresh: true })
  }
  beforeEach(() => open())
  afterEach(async () => {
    vi.restoreAllMocks()
    await parley?.close()
  })

  const post = (path: string, headers = {}) => fetch(parley.origin + path, { method: 'POST', headers })
  const create = async () => (await parley.app.startLink.create()) ?? ''
  const afterMinutes = (minutes: number) => {
    const later = Date.now() + minutes * MINUTE_MS
    vi.spyOn(parley.app.platform.clock, 'now').mockImplementation(() => later)
  }

  test('signs one admin in, once even with concurrent attempts, and is recorded in the audit log', async () => {
    const path = await create()
    expect(path).toMatch(/^\/sign-in\/[\w-]{43}$/)
    const answers = await Promise.all(Array.from({ length: 10 }, () => post(path)))
    expect(answers.map(({ status }) => status).toSorted()).toEqual([200, ...Array.from({ length: 9 }, () => 404)])
    const given = answers.find(({ ok }) => ok)
    expect(given?.headers.get('cache-control')).toBe('no-store')
    const { token = '' } = ((await given?.json()) ?? {}) as { token?: string }
    const client = createParleyClient({ origin: parley.origin, token })
    const { auditLog } = (await client.ask<Read>(REDEEMED)).data ?? {}
    expect(auditLog?.edges[0]?.node).toMatchObject({
      action: 'redeemStartLink',
      targetId: expect.stringMatching(/^acc_/),
    })
    await client.close()
    expect((await post(path)).status).toBe(404)
    const [stored] = await parley.app.platform.db.prisma.accessToken.findMany({ where: { scope: 'ADMIN' } })
    const hours = ((stored?.expiresAt?.getTime() ?? 0) - Date.now()) / (60 * MINUTE_MS)
    expect([hours > 11.9, hours <= 12]).toEqual([true, true])
  })

  test('is not consumed by opening, prefetching or probing it, nor by another site', async () => {
    const path = await create()
    for (const init of [{}, { headers: { 'sec-purpose': 'prefetch' } }, { method: 'HEAD' }, { method: 'PUT' }])
      await fetch(parley.origin + path, init)
    expect((await post(path, { origin: 'https://elsewhere.example' })).status).toBe(404)
    expect((await post(`${path.slice(0, -1)}_`)).status).toBe(404)
    expect((await post(path.replace('sign-in', 'invitations'))).status).toBe(404)
    expect((await post(path)).status).toBe(200)
  })

  test('works for 15 minutes', async () => {
    const early = await create()
    afterMinutes(15.01)
    expect((await post(early)).status).toBe(404)
    vi.restoreAllMocks()
    const other = await create()
    afterMinutes(14.9)
    expect((await post(other)).status).toBe(200)
  })

  test('still works if the database failed during its first use', async () => {
    const path = await create()
    vi.spyOn(parley.app.platform.db, 'transaction').mockRejectedValueOnce(new Error('The database is away.'))
    expect([(await post(path)).status, (await post(path)).status, (await post(path)).status]).toEqual([500, 200, 404])
  })

  test('is replaced by a newer one', async () => {
    const [first, second] = [await create(), await create()]
    expect([(await post(first)).status, (await post(second)).status]).toEqual([404, 200])
  })

  test('is neither valid nor printed once a human has existed, even an erased one', async () => {
    const path = await create()
    const { id } = await parley.human('Ada')
    expect((await post(path)).status).toBe(404)
    expect(await parley.app.startLink.create()).toBeNull()
    await parley.app.platform.db.prisma.entity.update({ where: { id }, data: { goneAt: new Date() } })
    expect(await parley.app.startLink.create()).toBeNull()
  })

  test.each([{ HOST: '0.0.0.0' }, { HOST: '::' }, { PARLEY_ROLE: 'worker' }])(
    'is not printed with %j',
    async (settings) => {
      const { config } = parley.app.platform
      const { HOST, PARLEY_ROLE } = { HOST: config.host, PARLEY_ROLE: config.role, ...settings }
      const changed = { ...config, host: HOST, role: PARLEY_ROLE as typeof config.role }
      expect(await createStartLink({ ...parley.app.platform, config: changed }).create()).toBeNull()
    },
  )
})
