import fc from 'fast-check'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createInProcessSignals } from '../../src/realtime/in-process-signals.ts'
import { agentChannel, type RunNews } from '../../src/realtime/topics.ts'
import type { Run } from '../../src/schema/shapes.ts'
import { createActiveRuns } from '../../src/server/streams/active-runs.ts'
import { steps } from '../support/model-server-script.ts'
import { hasPostgres } from '../support/postgres.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'

const AGENT = 'agt_a'
const ENDED = ['COMPLETED', 'FAILED', 'CANCELED']
const logger = { warn() {}, info() {}, error() {}, debug() {} } as never

const newsOf = (id: string, status: RunNews['status'], attempt: number): RunNews => ({
  ...{ id, agentId: AGENT, status, attempt, triggerType: 'SPACE_MESSAGE', triggerName: null, triggerSpaceId: 'spc_a' },
  ...{ triggerSenderId: null, triggerServiceId: null, triggerSummary: 'x', queuedAt: new Date(0).toISOString() },
  startedAt: null,
})

/** The board, and a database of runs that is looked at. */
function stage() {
  const signals = createInProcessSignals(logger)
  const rows = new Map<string, RunNews>()
  const looks = new Set<() => void>()
  let looked = 0
  let gate = Promise.resolve()
  const living = () =>
    [...rows.values()]
      .filter(({ status }) => !ENDED.includes(status))
      .map((row) => ({ ...row, queuedAt: new Date(row.queuedAt), startedAt: null }) as unknown as Run)
  const runs = {
    async activeOf() {
      looked += 1
      const found = living()
      const held = gate
      gate = Promise.resolve()
      await held
      return new Map([[AGENT, found]])
    },
  }
  const secondLook = {
    each(onLook: () => void) {
      looks.add(onLook)
      return () => looks.delete(onLook)
    },
  }
  const board = createActiveRuns({ signals, logger }, { app: { runs } as never, secondLook })
  return {
    board,
    rows,
    looked: () => looked,
    shown: () => board.of(AGENT)?.map(({ id, status }) => `${id} ${status}`),
    tell: (run?: RunNews) => signals.publish(agentChannel(AGENT), { type: 'run-changed', ...(run && { run }) }),
    lookAgain: () => {
      for (const look of looks) look()
    },
    /** The next look answers, with what it found when it began, once this is called off. */
    hold() {
      const { promise, resolve } = Promise.withResolvers<void>()
      gate = promise
      return resolve
    },
  }
}

const settled = () => new Promise((resolve) => setImmediate(resolve))

describe('the runs of a watched agent', () => {
  test('are read once, however many watch, and then as they are told of', async () => {
    const { board, rows, tell, shown, looked } = stage()
    rows.set('run_1', newsOf('run_1', 'RUNNING', 1))
    let changes = 0
    const leaves = await Promise.all([board.watch(AGENT, () => changes++), board.watch(AGENT, () => {})])
    expect(shown()).toEqual(['run_1 RUNNING'])
    await tell(newsOf('run_2', 'QUEUED', 0))
    await tell(newsOf('run_1', 'WAITING_TOOL', 1))
    await settled()
    expect(shown()).toEqual(['run_2 QUEUED', 'run_1 WAITING_TOOL'])
    await tell(newsOf('run_1', 'COMPLETED', 2))
    await settled()
    expect([shown(), changes, looked()]).toEqual([['run_2 QUEUED'], 3, 1])
    for (const leave of leaves) leave()
    expect(shown()).toBeUndefined()
  })

  test('are not what was told of them before', async () => {
    const { board, tell, shown } = stage()
    await board.watch(AGENT, () => {})
    await tell(newsOf('run_1', 'RUNNING', 2))
    await tell(newsOf('run_1', 'WAITING_TOOL', 1))
    await settled()
    expect(shown()).toEqual(['run_1 RUNNING'])
    await tell(newsOf('run_1', 'FAILED', 2))
    await tell(newsOf('run_1', 'RUNNING', 2))
    await settled()
    expect(shown()).toEqual([])
  })

  test('are as they were told while somebody looked, where that is newer', async () => {
    const { board, rows, tell, shown, hold, lookAgain } = stage()
    for (const id of ['run_1', 'run_2']) rows.set(id, newsOf(id, 'RUNNING', 1))
    await board.watch(AGENT, () => {})
    const release = hold()
    lookAgain()
    await settled()
    await tell(newsOf('run_1', 'COMPLETED', 1))
    await tell(newsOf('run_2', 'WAITING_TOOL', 1))
    await tell(newsOf('run_3', 'QUEUED', 0))
    await settled()
    release()
    await settled()
    expect(shown()).toEqual(['run_3 QUEUED', 'run_2 WAITING_TOOL'])
  })

  test('are as the later of two looks found them, whichever is over first', async () => {
    const { board, rows, tell, shown, hold, lookAgain } = stage()
    rows.set('run_1', newsOf('run_1', 'RUNNING', 1))
    const release = hold()
    const watching = board.watch(AGENT, () => {})
    await tell(newsOf('run_2', 'QUEUED', 0))
    await settled()
    expect(shown()).toBeUndefined()
    rows.set('run_2', newsOf('run_2', 'QUEUED', 0))
    rows.set('run_1', newsOf('run_1', 'COMPLETED', 1))
    lookAgain()
    await settled()
    release()
    await watching
    expect(shown()).toEqual(['run_2 QUEUED'])
  })

  test('are found at the second look where nobody told of them, and whoever watches is told then', async () => {
    const { board, rows, shown, lookAgain } = stage()
    rows.set('run_1', newsOf('run_1', 'RUNNING', 1))
    let changes = 0
    await board.watch(AGENT, () => changes++)
    lookAgain()
    await settled()
    expect(changes).toBe(0)
    rows.set('run_1', newsOf('run_1', 'COMPLETED', 1))
    rows.set('run_2', newsOf('run_2', 'QUEUED', 0))
    lookAgain()
    await settled()
    expect([shown(), changes]).toEqual([['run_2 QUEUED'], 1])
  })

  test('are told of anew where something else of the agent changed', async () => {
    const { board, tell, looked } = stage()
    let changes = 0
    await board.watch(AGENT, () => changes++)
    await tell()
    await settled()
    expect([changes, looked()]).toEqual([1, 2])
  })

  test('are right in the end, in whatever order several processes tell of them, and whenever somebody looks', async () => {
    /** What becomes of a run, one status after another. */
    const life = fc.array(fc.boolean(), { maxLength: 3 }).chain((waits) =>
      fc.boolean().map((isOver) => {
        const claims = waits.flatMap((waitsThen, index): [RunNews['status'], number][] => [
          ['RUNNING', index + 1],
          ...(waitsThen ? [['WAITING_TOOL', index + 1] as [RunNews['status'], number]] : []),
        ])
        const end: [RunNews['status'], number][] = isOver ? [['COMPLETED', waits.length]] : []
        return [['QUEUED', 0] as [RunNews['status'], number], ...claims, ...end]
      }),
    )
    const play = fc.record({
      lives: fc.array(life, { minLength: 1, maxLength: 4 }),
      // How late each news is, which of them is lost, and after which change somebody looks.
      lateness: fc.infiniteStream(fc.nat(6)),
      isLost: fc.infiniteStream(fc.integer({ min: 0, max: 9 }).map((n) => n === 0)),
      looksAt: fc.array(fc.nat(20), { maxLength: 4 }),
    })
    await fc.assert(
      fc.asyncProperty(play, async ({ lives, lateness, isLost, looksAt }) => {
        const { board, rows, tell, shown, lookAgain, hold } = stage()
        const over = new Set<string>()
        await board.watch(AGENT, () => {})
        const late: { due: number; run: RunNews }[] = []
        let hasLost = false
        const pass = async (now: number) => {
          for (const news of late.splice(0)) {
            if (news.due > now) late.push(news)
            else {
              await tell(news.run)
              if (ENDED.includes(news.run.status)) over.add(news.run.id)
            }
          }
          await settled()
          for (const run of board.of(AGENT) ?? []) expect(over.has(run.id)).toBe(false)
        }
        const changes = lives.flatMap((statuses, n) =>
          statuses.map(([status, attempt], at) => ({ run: newsOf(`run_${n}`, status, attempt), at })),
        )
        let now = 0
        for (const { run } of changes.sort((a, b) => a.at - b.at)) {
          rows.set(run.id, run)
          const release = looksAt.includes(now) ? hold() : null
          if (release !== null) lookAgain()
          const [lateBy] = lateness.take(1)
          const [isGone] = isLost.take(1)
          if (isGone) hasLost = true
          else late.push({ due: now + (lateBy ?? 0), run })
          await pass(now)
          release?.()
          now += 1
        }
        await pass(Number.POSITIVE_INFINITY)
        if (hasLost) lookAgain()
        await settled()
        const truth = [...rows.values()].filter(({ status }) => !ENDED.includes(status))
        expect(shown()).toEqual(
          truth
            .map(({ id, status }) => `${id} ${status}`)
            .sort()
            .reverse(),
        )
      }),
      { numRuns: 300 },
    )
  })
})

const ACTIVITY = (fields: string) =>
  `subscription ($spaceId: ID!) { agentActivity(spaceId: $spaceId) { active runs { ${fields} } } }`
type Activity = { agentActivity: { active: boolean; runs: { id: string; status: string; stepCount?: number }[] } }
/** What looks at an agent's living runs, and at who may see them. */
const LOOKS = /^\s*SELECT \* FROM "Run" WHERE .*status IN \('QUEUED'|AS run\("humanId"/s

describe.skipIf(!hasPostgres)('who watches what agents do', () => {
  let parley: TestServer
  const statements: string[] = []
  const { query } = pg.Client.prototype

  beforeAll(async () => {
    parley = await startTestServer({ stack: 'postgres' })
    pg.Client.prototype.query = function (this: pg.Client, ...args: unknown[]) {
      const [given] = args as [string | { text?: string }]
      statements.push(typeof given === 'string' ? given : (given.text ?? ''))
      return query.apply(this, args as never)
    } as never
  })
  afterAll(async () => {
    pg.Client.prototype.query = query
    await parley?.close()
  })

  /** Three humans watch a run; how often the database was asked what the agent does, once they all knew that it did nothing. */
  async function looksDuringARun(fields: string): Promise<{ looks: number; seen: Activity[] }> {
    const people = await Promise.all(['Ada', 'Bob', 'Cyd'].map((name) => parley.human(name)))
    const agent = await parley.agent('Agent')
    const space = await parley.space(people[0]!, [agent.id])
    for (const { id } of people.slice(1))
      await parley.app.api.members.add(parley.admin, { spaceId: space.id, entityId: id })
    parley.models.reset()
    parley.models.script(steps([{ text: 'Hello.' }]))
    const lives = await Promise.all(
      people.map(async (human) =>
        (await parley.clientOf(human)).subscribe<Activity, object>(ACTIVITY(fields), { spaceId: space.id }),
      ),
    )
    await Promise.all(lives.map((live) => live.first(() => true)))
    statements.length = 0
    const { runs } = await parley.send(people[0]!, space.id, 'Hello')
    await parley.runWhen(runs[0]?.id ?? '')
    await until('all saw its end', () => lives.every(({ seen }) => hasSeenTheEnd(seen)))
    const looks = statements.filter((text) => LOOKS.test(text)).length
    for (const live of lives) live.stop()
    return { looks, seen: lives[0]!.seen }
  }
  function hasSeenTheEnd(seen: Activity[]): boolean {
    const begun = seen.some(({ agentActivity: { runs } }) => runs.length > 0)
    const last = seen.at(-1)?.agentActivity
    return begun && last?.active === false && last.runs.length === 0
  }

  test('sees what is told of each change, and nobody looks', async () => {
    const { looks, seen } = await looksDuringARun('id status triggerType triggerSummary queuedAt startedAt')
    expect(looks).toBe(0)
    const statuses = seen.flatMap(({ agentActivity: { runs } }) => runs.map(({ status }) => status))
    expect(statuses.at(-1)).toBe('RUNNING')
    const running = seen.findLast(({ agentActivity }) => agentActivity.active)?.agentActivity.runs[0]
    expect(running).toEqual({
      ...{ id: expect.stringMatching(/^run_/), status: 'RUNNING', triggerType: 'SPACE_MESSAGE' },
      ...{ triggerSummary: expect.stringContaining('Hello'), queuedAt: expect.stringMatching(/^2/) },
      startedAt: expect.stringMatching(/^2/),
    })
  })

  test('sees rows as they are where more is asked', async () => {
    const { looks } = await looksDuringARun('id ... on Node { id } more: stepCount')
    expect(looks).toBeGreaterThan(0)
  })
})
