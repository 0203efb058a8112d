import type { Platform } from '../../platform/platform.ts'
import { decodeCursor, encodeCursor } from '../../realtime/cursor.ts'
import type { Delivery, LogEntry } from '../../realtime/event-log.ts'
import { type RunLogEvent, runTopic } from '../../realtime/topics.ts'
import type { App } from '../../schema/app.ts'
import type { Run } from '../../schema/shapes.ts'
import type { RunEvent, Watcher } from '../../schema/streams.ts'
import type { EndedRuns } from './ended-runs.ts'
import type { Guards } from './guards.ts'
import { createLiveIteration } from './live-iteration.ts'
import { endOf, type RunJournal, replayOf } from './run-replay.ts'
import { standing } from './standing.ts'

export interface RunEventsParts {
  guards: Guards
  app: Pick<App, 'visibility' | 'runs' | 'toolCalls'>
  journal: RunJournal
  endedRuns: EndedRuns
}

const ENDS: ReadonlySet<string> = new Set(['RunCompleted', 'RunFailed', 'RunCanceled'] satisfies RunLogEvent['type'][])
const THOUGHTS: ReadonlySet<string> = new Set([
  'RunTextDelta',
  'RunReasoningDelta',
  'RunToolInputDelta',
] satisfies RunLogEvent['type'][])

/** Where a subscriber begins in the log, and what is told first because the log does not hold it (any more). */
interface Beginning {
  after: string
  told: RunEvent[]
}

/** The events of one run, as its subscribers get them: from its start or from where they were, to its one end. */
export function createRunEvents({ log, clock }: Pick<Platform, 'log' | 'clock'>, parts: RunEventsParts) {
  const { guards, app, journal, endedRuns } = parts

  const eventOf = (runId: string, cursor: string, at: Date, event: RunLogEvent): RunEvent => ({
    ...event,
    cursor,
    at,
    runId,
  })

  /** The entry at a cursor. */
  async function entryAt(topic: string, cursor: string): Promise<LogEntry | null> {
    const { epoch, n } = decodeCursor(cursor)
    if (n === 0) return null
    const delivery = await log.read(topic, encodeCursor({ epoch, n: n - 1 }), 1)
    return delivery.type === 'entries' ? (delivery.entries[0] ?? null) : null
  }

  async function beginningOf(run: Run): Promise<Beginning> {
    const topic = runTopic(run.id)
    const [head = ''] = await log.heads([topic])
    const start = encodeCursor({ ...decodeCursor(head), n: 0 })
    const delivery = await log.read(topic, start, 1)
    const first = delivery.type === 'entries' ? delivery.entries[0] : undefined
    const isWhole =
      first === undefined ? run.status === 'QUEUED' : first.event.type === 'RunStarted' || ENDS.has(first.event.type)
    if (isWhole && delivery.type === 'entries') return { after: start, told: [] }
    // The log begins later than the run: what the database holds was there before this head, or is told twice.
    const [now] = await app.runs.getMany([run.id])
    const replayed = replayOf(now ?? run, await journal.read(run.id))
    return { after: head, told: replayed.map(({ at, event }) => eventOf(run.id, head, at, event)) }
  }

  /** A cycle that was rolled back has no row any more: it ended as CANCELED. */
  function endEvent(runId: string, cursor: string, run: Run | null): RunEvent | null {
    const end = run === null ? { at: new Date(), event: { type: 'RunCanceled' as const } } : endOf(run)
    return end && eventOf(runId, cursor, end.at, end.event)
  }

  /** What a gap comes to: the run as it is now, and its end where it has ended. */
  async function* acrossGap(runId: string, cursor: string): AsyncGenerator<RunEvent> {
    const [run = null] = await app.runs.getMany([runId])
    if (run !== null) yield { type: 'RunSnapshot', cursor, at: new Date(clock.now()), runId }
    const end = endEvent(runId, cursor, run)
    if (end !== null) yield end
  }

  async function* eventsIn(delivery: Delivery, runId: string): AsyncGenerator<RunEvent> {
    if (delivery.type === 'gap') yield* acrossGap(runId, delivery.cursor)
    else
      for (const { cursor, at, event } of delivery.entries)
        yield eventOf(runId, cursor, new Date(at), event as RunLogEvent)
  }

  /** What follows on a cursor. It ends after the run's end, or when it is known that none will come. */
  async function* follow(watcher: Watcher, run: Run, after: string, signal: AbortSignal): AsyncGenerator<RunEvent> {
    const lost = new AbortController()
    let cursor = after
    let found: Run | null = run
    const leave = endedRuns.watch(run.id, (now) => {
      found = now
      lost.abort()
    })
    try {
      const stop = AbortSignal.any([signal, lost.signal])
      for await (const delivery of log.follow(runTopic(run.id), { after, signal: stop, onSlow: watcher.onSlow })) {
        for await (const event of eventsIn(delivery, run.id)) {
          cursor = event.cursor
          yield event
          if (ENDS.has(event.type)) return
        }
      }
    } finally {
      leave()
    }
    const end = lost.signal.aborted ? endEvent(run.id, cursor, found) : null
    if (end !== null && !(await hasEndedBefore(runTopic(run.id), cursor))) yield end
  }

  /** Whether the end was what stands at the cursor. */
  async function hasEndedBefore(topic: string, cursor: string): Promise<boolean> {
    return ENDS.has((await entryAt(topic, cursor))?.event.type ?? '')
  }

  async function* eventsOf(
    watcher: Watcher,
    run: Run,
    after: string | null,
    signal: AbortSignal,
  ): AsyncGenerator<RunEvent> {
    if (after !== null && (await hasEndedBefore(runTopic(run.id), after))) return
    const beginning = after === null ? await beginningOf(run) : { after, told: [] }
    yield* beginning.told
    if (beginning.told.some(({ type }) => ENDS.has(type))) return
    const hasStarted = beginning.told.length > 0
    for await (const event of follow(watcher, run, beginning.after, signal)) {
      if (!(hasStarted && event.type === 'RunStarted')) yield event
    }
  }

  /** An event with what is known of what it names, should that be gone when it is delivered; null for one not to be told. */
  async function asShown(event: RunEvent, run: Run, showsThoughts: boolean): Promise<RunEvent | null> {
    if (THOUGHTS.has(event.type)) return showsThoughts ? event : null
    if ('toolCallId' in event && run.triggerType === 'INBOX') {
      const [call] = await app.toolCalls.getMany([event.toolCallId])
      return call == null ? null : { ...event, lastKnownCall: call }
    }
    return { ...event, lastKnown: event.type === 'RunCanceled' ? { ...run, status: 'CANCELED' } : run }
  }

  async function* shown(events: AsyncIterable<RunEvent>, run: Run, showsThoughts: boolean): AsyncGenerator<RunEvent> {
    for await (const event of events) {
      const told = await asShown(event, run, showsThoughts)
      if (told !== null) yield told
    }
  }

  return async (
    watcher: Watcher,
    { runId, after }: { runId: string; after: string | null },
  ): Promise<AsyncIterable<RunEvent>> => {
    if (after !== null) decodeCursor(after)
    const live = createLiveIteration<RunEvent>()
    const iteration = live.from((signal) =>
      shown(eventsOf(watcher, run, after, signal), run, app.visibility.runThoughts(watcher.viewer, run)),
    )
    const run = await standing(iteration, async () => {
      await guards.viewer(watcher.viewer, live)
      return guards.run(watcher.viewer, runId, live)
    })
    return iteration
  }
}
