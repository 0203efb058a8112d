import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { DailyUsage } from '../../src/generated/prisma/client.ts'
import type { BudgetLimits } from '../../src/lib/budget.ts'
import { costOf, type ModelPrice } from '../../src/lib/model-cost.ts'
import { runsOf } from '../support/effort.ts'
import type { ModelAction, ModelRequest, TokenFigures } from '../support/model-server-script.ts'
import { hasPostgres } from '../support/postgres.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'

const MOST_TOKENS = 100
const PRICES: Record<string, ModelPrice> = {
  'openai.chat:cheap': { input: 1, cachedInput: 1, output: 2 },
  'openai.chat:dear': { input: 5, cachedInput: 0.5, output: 20 },
}
const DEAREST_NANOS = MOST_TOKENS * 20_000

const limit = (most: number) => fc.option(fc.integer({ min: 0, max: most }), { nil: undefined, freq: 2 })
const budgets = fc.record({
  tokensPerDay: limit(800),
  tokensPerRoot: limit(500),
  usdPerDay: limit(8).map((cents) => cents && cents / 1000),
  usdPerRoot: limit(5).map((cents) => cents && cents / 1000),
})
const agents = fc.array(
  fc.record({
    mind: fc.constantFrom('STATELESS' as const, 'PERSISTENT' as const),
    model: fc.constantFrom(...Object.keys(PRICES)),
    maxConcurrentRuns: fc.integer({ min: 1, max: 3 }),
    budget: budgets,
  }),
  { minLength: 1, maxLength: 3 },
)
const spaces = fc.array(fc.record({ budget: budgets }), { minLength: 1, maxLength: 2 })

/** Returns a generator of random numbers from a seed. */
function createDice(seed: number): (most: number) => number {
  let state = seed >>> 0
  return (most) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state % most
  }
}

interface Spent {
  tokens: number
  nanos: number
}
const sumOf = (all: Spent[]): Spent => ({
  tokens: all.reduce((sum, { tokens }) => sum + tokens, 0),
  nanos: all.reduce((sum, { nanos }) => sum + nanos, 0),
})

type Counted = Pick<DailyUsage, 'inputTokens' | 'outputTokens'> & { costNanos: number | null }
const ofRun = ({ inputTokens, outputTokens, costNanos }: Counted): Spent => ({
  tokens: inputTokens + outputTokens,
  nanos: costNanos ?? Number.NaN,
})
const spentBy = (rows: Counted[]): Spent => sumOf(rows.map(ofRun))

/** The limits of one scope, what it has spent, and the number of its concurrent generations. */
function expectWithin(
  what: string,
  { tokens, nanos }: Spent,
  most: BudgetLimits,
  per: 'Day' | 'Root',
  underWay: number,
) {
  const [mostTokens, mostUsd] = [most[`tokensPer${per}`], most[`usdPer${per}`]]
  if (mostTokens !== undefined)
    expect(tokens, `${what}, tokens`).toBeLessThanOrEqual(mostTokens + underWay * MOST_TOKENS)
  if (mostUsd !== undefined) expect(nanos, `${what}, USD`).toBeLessThanOrEqual(mostUsd * 1e9 + underWay * DEAREST_NANOS)
}

const lowest = (limits: (number | undefined)[]): number | undefined => {
  const set = limits.filter((one) => one !== undefined)
  return set.length === 0 ? undefined : Math.min(...set)
}

describe.skipIf(!hasPostgres)('random interactions of agents', () => {
  let parley: TestServer

  beforeAll(async () => {
    parley = await startTestServer({
      stack: 'postgres',
      settings: { PARLEY_PRICES: JSON.stringify(PRICES), PARLEY_MAX_ROOT_RUNS: '14' },
    })
  })
  afterAll(() => parley?.close())

  /** The usage that the model server has reported, by the name of the agent. */
  function playing(seed: number, spaceIds: string[]) {
    const dice = createDice(seed)
    const sent = new Map<string, Spent[]>()
    const skipped: Spent[] = []
    parley.models.script((request) => {
      const name = /You are (\S+?)[.,\s]/.exec(request.instructions)?.[1] ?? ''
      const figures: TokenFigures = {
        inputTokens: 10 + dice(60),
        outputTokens: 1 + dice(30),
        cachedInputTokens: dice(10),
      }
      const spent = spentOn(request, figures)
      sent.set(name, [...(sent.get(name) ?? []), spent])
      const action = actionOf(request, dice, spaceIds)
      if ('toolCall' in action && action.toolCall === 'skip') skipped.push(spent)
      return [action, { usage: figures }]
    })
    return { sent, skipped }
  }

  /**
   * Checks that the ledger of an agent equals the sum of its runs, including deleted ones. @returns how many times a budget has
   * refused
   */
  async function ledgerHolds(ids: string[], skipped: Spent[]): Promise<number> {
    const { prisma } = parley.app.platform.db
    const where = { agentId: { in: ids } }
    const runs = await prisma.run.findMany({ where })
    const counted = runs.filter(({ usageDay }) => usageDay !== null)
    const deleted = counted.slice(0, 1)
    await prisma.run.deleteMany({ where: { id: { in: deleted.map(({ id }) => id) } } })
    const left = await prisma.run.findMany({ where })
    const daily = await prisma.dailyUsage.findMany({ where })
    expect(spentBy(daily)).toEqual(sumOf([...[...left, ...deleted].map(ofRun), ...skipped]))
    expect(daily.reduce((sum, row) => sum + row.runs, 0)).toBe(counted.length)
    expect(daily.reduce((sum, row) => sum + row.skippedCycles, 0)).toBe(skipped.length)
    const byHuman = await prisma.humanUsage.findMany({ where })
    expect(byHuman.reduce((sum, row) => sum + row.runs, 0)).toBe(counted.length)
    expect(byHuman.reduce((sum, row) => sum + row.skippedCycles, 0)).toBe(skipped.length)
    const refused = await prisma.outcome.count({ where: { ...where, kind: 'OVER_BUDGET' } })
    return refused + runs.filter(({ stopReason }) => stopReason === 'OVER_BUDGET').length
  }

  test('no budget is exceeded by more than the unfinished generations, and the ledger matches the providers', async () => {
    let over = 0
    await fc.assert(
      fc.asyncProperty(agents, spaces, budgets, fc.nat(), async (cast, places, ofHuman, seed) => {
        parley.models.reset()
        const { app } = parley
        const { prisma } = app.platform.db
        const human = await parley.human('Husam')
        await app.domain.humans.update(parley.admin, { id: human.id, budget: ofHuman as BudgetLimits })
        const made = await Promise.all(cast.map((input, n) => parley.agent(`A${seed}x${n}`, input)))
        const ids = made.map(({ id }) => id)
        const rooms = await Promise.all(places.map(() => parley.space(human, ids)))
        for (const [n, { id }] of rooms.entries())
          await app.domain.spaces.update(parley.admin, { id, budget: places[n]?.budget ?? null })
        const { sent, skipped } = playing(
          seed,
          rooms.map(({ id }) => id),
        )
        const roots = await Promise.all(
          [0, 1, 2].map(async (n) => {
            const room = rooms[n % rooms.length]!
            return { id: (await parley.send(human, room.id, `Message ${n}`)).message.id, room: n % rooms.length }
          }),
        )
        await until('all runs have ended', async () => {
          const living = { agentId: { in: ids }, status: { in: ['QUEUED', 'RUNNING', 'WAITING_TOOL'] as never[] } }
          const waiting = { agentId: { in: ids }, doneAt: null, waitsUntil: null }
          return (await prisma.run.count({ where: living })) + (await prisma.inboxEvent.count({ where: waiting })) === 0
        })

        const atOnce = cast.map(({ mind, maxConcurrentRuns }) => (mind === 'PERSISTENT' ? 1 : maxConcurrentRuns))
        const inAll = atOnce.reduce((sum, one) => sum + one, 0)
        const daily = await prisma.dailyUsage.findMany({ where: { agentId: { in: ids } } })
        for (const [n, { id }] of made.entries()) {
          const spent = spentBy(daily.filter(({ agentId }) => agentId === id))
          expectWithin(`agent ${n}`, spent, cast[n]!.budget as BudgetLimits, 'Day', atOnce[n]!)
          expect(spent, `the ledger of agent ${n}`).toEqual(sumOf(sent.get(`A${seed}x${n}`) ?? []))
        }
        for (const [n, { id }] of rooms.entries()) {
          const spent = spentBy(daily.filter(({ spaceId }) => spaceId === id))
          expectWithin(`space ${n}`, spent, places[n]!.budget as BudgetLimits, 'Day', inAll)
        }
        const humans = await prisma.humanUsage.findMany({ where: { agentId: { in: ids } } })
        expectWithin('the human', spentBy(humans), ofHuman as BudgetLimits, 'Day', inAll)
        expect(spentBy(humans), 'the ledger of the human').toEqual(spentBy(daily))
        for (const { id, room } of roots) {
          const worked = await prisma.run.findMany({ where: { rootId: id }, distinct: ['agentId'] })
          const limits = [
            places[room]!.budget,
            ofHuman,
            ...worked.map(({ agentId }) => cast[ids.indexOf(agentId)]!.budget),
          ]
          const most = {
            tokensPerRoot: lowest(limits.map(({ tokensPerRoot }) => tokensPerRoot)),
            usdPerRoot: lowest(limits.map(({ usdPerRoot }) => usdPerRoot)),
          }
          const root = await prisma.rootUsage.findUnique({ where: { rootId: id } })
          const spent = { tokens: (root?.inputTokens ?? 0) + (root?.outputTokens ?? 0), nanos: root?.costNanos ?? 0 }
          expectWithin('a root', spent, most as BudgetLimits, 'Root', inAll)
        }

        over += await ledgerHolds(ids, skipped)
      }),
      { numRuns: runsOf({ usual: 3, nightly: 30 }) },
    )
    expect(over).toBeGreaterThan(0)
    expect(parley.models.refusals).toEqual([])
  }, 600_000)
})

function spentOn({ model }: ModelRequest, { inputTokens, outputTokens, cachedInputTokens = 0 }: TokenFigures): Spent {
  const price = PRICES[`openai.chat:${model}`] as ModelPrice
  return { tokens: inputTokens + outputTokens, nanos: costOf(price, { inputTokens, outputTokens, cachedInputTokens }) }
}

/** Posts in this space or another one, reads, or ends. A cycle without actions may skip. */
function actionOf(
  { messages, toolNames }: ModelRequest,
  dice: (most: number) => number,
  spaceIds: string[],
): ModelAction {
  const isNewCycle = messages.at(-1)?.text.startsWith('INBOX (') === true
  const spaceId = spaceIds[dice(spaceIds.length)]
  switch (dice(6)) {
    case 0:
      return { text: 'Done.' }
    case 1:
      return isNewCycle && toolNames.includes('skip') ? { toolCall: 'skip', input: {} } : { text: 'Done.' }
    case 2:
      return { toolCall: 'read_messages', input: {} }
    case 3:
      return { toolCall: 'enter_space', input: { spaceId } }
    default:
      return { toolCall: 'send_message', input: { text: 'And you?' } }
  }
}
