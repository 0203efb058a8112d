import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createMemorySignals } from '../../src/broker/memory/signals.ts'
import { agentChannel, type ChangedRun } from '../../src/broker/topics.ts'
import { createActiveRuns } from '../../src/delivery/feeds/active-runs.ts'
import type { ToldRun } from '../../src/graphql/shapes.ts'

const AGENT = 'agt_a'
const ENDED = ['COMPLETED', 'FAILED', 'CANCELED']
const logger = { warn() {}, info() {}, error() {}, debug() {} } as never

const newsOf = (id: string, status: ChangedRun['status'], attempt: number, triggerSummary = 'x'): ChangedRun => ({
  id,
  agentId: AGENT,
  status,
  attempt,
  triggerType: 'SPACE_MESSAGE',
  triggerName: null,
  triggerSpaceId: 'spc_a',
  triggerSenderId: null,
  triggerServiceId: null,
  triggerSummary,
  queuedAt: new Date(0).toISOString(),
  startedAt: null,
})

/** Creates the cache of active runs, with a fake database of runs. */
function stage() {
  const signals = createMemorySignals(logger)
  const rows = new Map<string, ChangedRun>()
  const looks = new Set<() => void>()
  let looked = 0
  let gate = Promise.resolve()
  let isAway = false
  const living = () =>
    [...rows.values()]
      .filter(({ status }) => !ENDED.includes(status))
      .map((row) => ({ ...row, queuedAt: new Date(row.queuedAt), startedAt: null }) as ToldRun)
  const runs = {
    async toldOf() {
      looked += 1
      if (isAway) throw new Error('the database is away')
      const found = living()
      const held = gate
      gate = Promise.resolve()
      await held
      return new Map([[AGENT, found]])
    },
  }
  const recheck = {
    onTick(onLook: () => void) {
      looks.add(onLook)
      return () => looks.delete(onLook)
    },
  }
  const board = createActiveRuns({ signals, logger }, { domain: { runs } as never, recheck })
  return {
    board,
    rows,
    looked: () => looked,
    shown: () => board.of(AGENT)?.map(({ id, status }) => `${id} ${status}`),
    tell: (run?: ChangedRun) => signals.publish(agentChannel(AGENT), { type: 'run-changed', ...(run && { run }) }),
    lookAgain: () => {
      for (const look of looks) look()
    },
    setAway(away: boolean) {
      isAway = away
    },
    /** Delays the next read until the returned function is called. The read then returns the runs as they were when it began. */
    hold() {
      const { promise, resolve } = Promise.withResolvers<void>()
      gate = promise
      return resolve
    },
  }
}

const settled = () => new Promise((resolve) => setImmediate(resolve))

describe('the runs of a followed agent', () => {
  test('are read once for all followers, and then updated by events', async () => {
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

  test('ignore events that are older than the read', async () => {
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

  test('use events that arrive during the read if they are newer', async () => {
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

  test('are unknown until the first read completes', async () => {
    const { board, rows, tell, shown, hold } = stage()
    rows.set('run_1', newsOf('run_1', 'RUNNING', 1))
    const release = hold()
    const watching = board.watch(AGENT, () => {})
    await settled()
    await tell(newsOf('run_2', 'QUEUED', 0))
    await settled()
    expect(shown()).toBeUndefined()
    release()
    await watching
    expect(shown()).toEqual(['run_2 QUEUED', 'run_1 RUNNING'])
  })

  test('are read once more after a read during which several events arrived', async () => {
    const { board, rows, tell, shown, hold, looked } = stage()
    let changes = 0
    await board.watch(AGENT, () => changes++)
    const release = hold()
    await tell()
    await settled()
    for (let n = 0; n < 50; n++) await tell()
    await settled()
    rows.set('run_1', newsOf('run_1', 'RUNNING', 1))
    release()
    await settled()
    expect([looked(), shown(), changes > 0]).toEqual([3, ['run_1 RUNNING'], true])
  })

  test('ignore events for runs that a read found ended', async () => {
    const { board, rows, tell, shown, lookAgain } = stage()
    rows.set('run_1', newsOf('run_1', 'QUEUED', 0))
    await board.watch(AGENT, () => {})
    rows.set('run_1', newsOf('run_1', 'FAILED', 1))
    lookAgain()
    await settled()
    await tell(newsOf('run_1', 'RUNNING', 1))
    await settled()
    expect(shown()).toEqual([])
  })

  test('lose the name of an erased human, even if an older event still has it', async () => {
    const { board, rows, tell, lookAgain } = stage()
    const summaries = () => board.of(AGENT)?.map(({ triggerSummary }) => triggerSummary)
    rows.set('run_1', newsOf('run_1', 'RUNNING', 1, 'Ada in "Room": "Hello"'))
    let changes = 0
    await board.watch(AGENT, () => changes++)
    rows.set('run_1', newsOf('run_1', 'RUNNING', 1, 'Erased in a space'))
    const before = changes
    lookAgain()
    await settled()
    expect([summaries(), changes - before]).toEqual([['Erased in a space'], 1])
    await tell(newsOf('run_1', 'WAITING_TOOL', 1, 'Ada in "Room": "Hello"'))
    await settled()
    expect(summaries()).toEqual(['Erased in a space'])
  })

  test('are read again if the first read fails, until there are no followers', async () => {
    const { board, rows, shown, lookAgain, setAway } = stage()
    rows.set('run_1', newsOf('run_1', 'RUNNING', 1))
    setAway(true)
    let changes = 0
    await board.watch(AGENT, () => changes++)
    expect([shown(), changes]).toEqual([undefined, 0])
    setAway(false)
    lookAgain()
    await settled()
    expect([shown(), changes]).toEqual([['run_1 RUNNING'], 1])
  })

  test('are corrected by the next read if no event arrived, and followers are notified', async () => {
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

  test('are published again if another property of the agent changed', async () => {
    const { board, tell, looked } = stage()
    let changes = 0
    await board.watch(AGENT, () => changes++)
    await tell()
    await settled()
    expect([changes, looked()]).toEqual([1, 2])
  })

  test('are eventually right, in any order of events from several processes and of reads', async () => {
    /** The statuses of a run in order. */
    const life = fc.array(fc.boolean(), { maxLength: 3 }).chain((waits) =>
      fc.boolean().map((isOver) => {
        const claims = waits.flatMap((waitsThen, index): [ChangedRun['status'], number][] => [
          ['RUNNING', index + 1],
          ...(waitsThen ? [['WAITING_TOOL', index + 1] as [ChangedRun['status'], number]] : []),
        ])
        const end: [ChangedRun['status'], number][] = isOver ? [['COMPLETED', waits.length]] : []
        return [['QUEUED', 0] as [ChangedRun['status'], number], ...claims, ...end]
      }),
    )
    const play = fc.record({
      lives: fc.array(life, { minLength: 1, maxLength: 4 }),
      // The delay of each event, which events are lost, and after which change the cache reads the database.
      lateness: fc.infiniteStream(fc.nat(6)),
      isLost: fc.infiniteStream(fc.integer({ min: 0, max: 9 }).map((n) => n === 0)),
      looksAt: fc.array(fc.nat(20), { maxLength: 4 }),
    })
    await fc.assert(
      fc.asyncProperty(play, async ({ lives, lateness, isLost, looksAt }) => {
        const { board, rows, tell, shown, lookAgain, hold } = stage()
        const over = new Set<string>()
        await board.watch(AGENT, () => {})
        const late: { due: number; run: ChangedRun }[] = []
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
