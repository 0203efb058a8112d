import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { HumanViewer } from '../../src/access/viewer.ts'
import { readToolVersions } from '../../src/agents/tool-versions.ts'
import { newId } from '../../src/lib/ids.ts'
import type { JsonObject } from '../../src/lib/json.ts'
import { checkJson } from '../../src/lib/schema-checks.ts'
import { insertGrant, recordGrantDecision } from '../../src/stores/grant-store.ts'
import { startApplication, type TestApplication } from '../support/application.ts'
import { runsOf } from '../support/effort.ts'
import { steps } from '../support/model-server-script.ts'
import { hasPostgres } from '../support/postgres.ts'
import { until } from '../support/until.ts'

const CALLS = 50
const CALLS_OF_A_RUN = 5
const TOOL = {
  name: 'pay',
  description: 'Pays.',
  inputSchema: {
    type: 'object',
    properties: { amount: { type: ['number', 'string', 'null'] }, kind: { type: 'string' } },
  },
  execution: 'INTERNAL' as const,
  approval: { quorum: 1 },
}
const KINDS = ['a', 'b', 'c']

/** Amounts with two decimals, some of which are too large for any grant. */
const amounts = fc.oneof(
  { weight: 8, arbitrary: fc.integer({ min: 0, max: 2000 }).map((cents) => cents / 100) },
  { weight: 1, arbitrary: fc.constantFrom(-1, null, undefined, 'five', 1e15) },
)
const inputs = fc.record({ amount: amounts, kind: fc.constantFrom(...KINDS) })
const bounds = fc
  .record({
    maxCalls: fc.option(fc.integer({ min: 1, max: 12 })),
    maxAmount: fc.option(fc.integer({ min: 1, max: 20_000 }).map((cents) => cents / 100)),
    kinds: fc.option(fc.subarray(KINDS, { minLength: 1 })),
  })
  .filter(({ maxCalls, maxAmount, kinds }) => maxCalls !== null || maxAmount !== null || kinds !== null)

describe.skipIf(!hasPostgres)('standing grants for which 50 calls race on two processes', () => {
  let one: TestApplication
  let other: TestApplication
  beforeAll(async () => {
    const settings = { PARLEY_LOG_LEVEL: 'silent' }
    one = await startApplication({ stack: 'postgres', settings })
    other = await startApplication({ stack: 'postgres', settings, beside: one })
  })
  afterAll(async () => {
    await other?.close()
    await one?.close()
  })

  test('let no call exceed a limit, and count each call once (property)', async () => {
    const world = fc.record({
      grants: fc.array(bounds, { minLength: 1, maxLength: 3 }),
      calls: fc.array(inputs, { minLength: CALLS, maxLength: CALLS }),
      revokesAfter: fc.option(fc.integer({ min: 1, max: 20 })),
    })
    await fc.assert(fc.asyncProperty(world, race), { numRuns: runsOf({ usual: 2, nightly: 30 }), endOnFailure: true })
  }, 600_000)

  async function race({ grants, calls, revokesAfter }: Race): Promise<void> {
    const { prisma } = one.app.platform.db
    const { human, agent, space } = await one.room('Ada', { tools: [TOOL], maxConcurrentRuns: 100 })
    const ids = await insertAll(grants, { agentId: agent.id, humanId: human.id, spaceId: space.id })
    const batches = Array.from({ length: CALLS / CALLS_OF_A_RUN }, (_, at) =>
      calls.slice(at * CALLS_OF_A_RUN, (at + 1) * CALLS_OF_A_RUN).map((input) => ({ toolCall: 'pay', input })),
    )
    one.models.reset()
    const waiting = [...batches]
    one.models.script((request) =>
      request.step === 0 ? waiting.shift() : (steps([], [{ text: 'Done.' }])(request) ?? [{ text: 'Done.' }]),
    )
    const runs = await Promise.all(batches.map(() => one.send(human, space.id, 'Pay').then((sent) => sent.runs[0]!.id)))
    const revoked = revokesAfter === null ? null : await revokeAfter(revokesAfter, human, ids[0]!, runs)
    const found = await until('each call was let through or is asked about', async () => {
      const all = await settled(runs)
      return all.length === CALLS && all
    })
    const stored = await prisma.standingGrant.findMany({ where: { id: { in: ids } } })
    for (const [index, id] of ids.entries()) {
      const grant = stored.find((row) => row.id === id)!
      const through = found.filter(({ grantId }) => grantId === id)
      expect(grant.usedCalls).toBe(through.length)
      if (index === 0 && revoked !== null) expect(grant.usedCalls).toBe(revoked.usedCalls)
      const inputs = through.map(({ input }) => input as JsonObject)
      expectWithin(grants[index]!, inputs, Math.round(grant.usedAmount * 100))
    }
    const stops = runs.map((runId) => one.app.domain.control.stopRun(human, { runId, cascade: false }).catch(() => {}))
    await Promise.all(stops)
  }

  /** Revokes a grant once some calls were executed under it. Returns null if all calls had ended before that. */
  async function revokeAfter(count: number, human: HumanViewer, id: string, runs: string[]) {
    const { prisma } = one.app.platform.db
    await until('enough calls were let through, or all calls are over', async () => {
      const isBegun = (await prisma.toolCall.count({ where: { grantId: id } })) >= count
      return isBegun || (await settled(runs)).length === CALLS
    })
    return other.app.domain.grants.revoke(human, { id }).catch(() => null)
  }

  /** Returns the calls that were executed under the grant, or that wait for a decision. */
  async function settled(runIds: string[]) {
    const calls = await one.app.platform.db.prisma.toolCall.findMany({ where: { runId: { in: runIds } } })
    return calls.filter(({ approvalState, settledAt }) => settledAt !== null || approvalState !== null)
  }

  async function insertAll(
    given: Race['grants'],
    { agentId, humanId, spaceId }: { agentId: string; humanId: string; spaceId: string },
  ): Promise<string[]> {
    const { prisma } = one.app.platform.db
    const { grantDigest: toolDigest = null } = (await readToolVersions(prisma, agentId)).get('pay') ?? {}
    const ids: string[] = []
    for (const { maxCalls, maxAmount, kinds } of given) {
      const id = newId('grt')
      const inputSchema = kinds === null ? null : { properties: { kind: { enum: kinds } } }
      if (inputSchema !== null)
        expect(await checkJson(inputSchema, { kind: kinds![0] }, { id: humanId, isPatient: true })).toBeNull()
      const amountProperty = maxAmount === null ? null : 'amount'
      await insertGrant(prisma, {
        id,
        agentId,
        toolName: 'pay',
        toolDigest: toolDigest!,
        spaceId,
        quorum: 1,
        approverIds: [],
        inputSchema,
        maxCalls,
        amountProperty,
        maxAmount,
        expiresInSeconds: 3600,
        proposedById: humanId,
        places: [],
        label: [],
      })
      await recordGrantDecision(prisma, { grantId: id, humanId, approve: true, reason: null })
      await prisma.standingGrant.update({ where: { id }, data: { activeSince: new Date() } })
      ids.push(id)
    }
    return ids
  }
})

function expectWithin({ maxCalls, maxAmount, kinds }: Bounds, through: JsonObject[], usedCents: number): void {
  if (maxCalls !== null) expect(through.length).toBeLessThanOrEqual(maxCalls)
  if (kinds !== null) for (const { kind } of through) expect(kinds).toContain(kind)
  if (maxAmount === null) return
  const cents = through.reduce((sum, { amount }) => sum + Math.round(Number(amount) * 100), 0)
  expect(cents).toBeLessThanOrEqual(Math.round(maxAmount * 100))
  expect(usedCents).toBe(cents)
  for (const { amount } of through) expect(amount).toBeGreaterThanOrEqual(0)
}

interface Bounds {
  maxCalls: number | null
  maxAmount: number | null
  kinds: string[] | null
}

interface Race {
  grants: Bounds[]
  calls: { amount: unknown; kind: string }[]
  revokesAfter: number | null
}
