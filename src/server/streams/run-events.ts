import type { Platform } from '../../platform/platform.ts'
import { decodeCursor, encodeCursor } from '../../realtime/cursor.ts'
import type { Delivery, LogEntry } from '../../realtime/event-log.ts'
import { type RunLogEvent, runTopic } from '../../realtime/topics.ts'
import type { Domain } from '../../schema/domain.ts'
import type { Run } from '../../schema/shapes.ts'
import type { RunEvent, Watcher } from '../../schema/streams.ts'
import type { EndedRuns } from './ended-runs.ts'
import { type Feed, type LiveRules, openFeed, type Receiver, type Told } from './feed.ts'
import type { Guards } from './guards.ts'
import { endOf, type RunJournal, replayOf } from './run-replay.ts'

export interface RunEventsParts {
  guards: Guards
  domain: Pick<Domain, 'visibility' | 'runs' | 'toolCalls'>
  journal: RunJournal
  endedRuns: EndedRuns
}

const ENDS: ReadonlySet<string> = new Set(['RunCompleted', 'RunFailed', 'RunCanceled'] satisfies RunLogEvent['type'][])
const THOUGHTS: ReadonlySet<string> = new Set([
  'RunTextDelta',
  'RunReasoningDelta',
  'RunToolInputDelta',
] satisfies RunLogEvent['type'][])

/**
 * Where a subscriber begins in the log, and the events to deliver first, because the log does not hold them
 * (any more).
 */
interface Beginning {
  after: string
  told: RunEvent[]
}

/** The events of one run for its subscribers: from its start or their cursor, to its single end event. */
export function createRunEvents({ log, clock }: Pick<Platform, 'log' | 'clock'>, parts: RunEventsParts) {
  const { guards, domain, journal, endedRuns } = parts

  const eventOf = (runId: string, cursor: string, at: Date, event: RunLogEvent): RunEvent => ({
    ...event,
    cursor,
    at,
    runId,
  })

  /** Returns the log entry at a cursor. */
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
    // The log begins later than the run: events that the database holds happened before this head, or are
    // delivered twice.
    const [now] = await domain.runs.getMany([run.id])
    const replayed = replayOf(now ?? run, await journal.read(run.id))
    return { after: head, told: replayed.map(({ at, event }) => eventOf(run.id, head, at, event)) }
  }

  /** A think cycle that was rolled back has no row any more and counts as CANCELED. */
  function endEvent(runId: string, cursor: string, run: Run | null): RunEvent | null {
    const end = run === null ? { at: new Date(), event: { type: 'RunCanceled' as const } } : endOf(run)
    return end && eventOf(runId, cursor, end.at, end.event)
  }

  /** Replaces a gap by a snapshot of the run, and its end event if it has ended. */
  async function* acrossGap(runId: string, cursor: string): AsyncGenerator<RunEvent> {
    const [run = null] = await domain.runs.getMany([runId])
    if (run !== null) yield { type: 'RunSnapshot', cursor, at: new Date(clock.now()), runId }
    const end = endEvent(runId, cursor, run)
    if (end !== null) yield end
  }

  async function* toldOf(delivery: Delivery, runId: string): AsyncGenerator<Told<RunEvent>> {
    if (delivery.type === 'gap') for await (const event of acrossGap(runId, delivery.cursor)) yield { of: null, event }
    else for (const entry of delivery.entries) yield { of: entry, event: eventOfEntry(runId, entry) }
  }

  /**
   * Delivers the entries after a cursor. Resolves after the run's end event, or when that event is known to
   * be missing.
   */
  async function follow(
    { run, onSlow, signal, rules }: Following,
    after: string,
    to: Receiver<RunEvent>,
  ): Promise<void> {
    const lost = new AbortController()
    let cursor = after
    let found: Run | null = run
    const leave = endedRuns.watch(run.id, (now) => {
      found = now
      lost.abort()
    })
    try {
      const deliveries = log.follow(runTopic(run.id), {
        after,
        signal: AbortSignal.any([signal, lost.signal]),
        onSlow,
        async onSeat(window, seat, until) {
          const before = seat.n
          await to.sit(window, seat, until, rules)
          if (seat.n > before) cursor = encodeCursor({ ...decodeCursor(cursor), n: seat.n })
        },
      })
      for await (const delivery of deliveries) {
        const told: Told<RunEvent>[] = []
        for await (const one of toldOf(delivery, run.id)) {
          told.push(one)
          if (ENDS.has(one.event.type)) break
        }
        await to.tell(told)
        cursor = told.at(-1)?.event.cursor ?? cursor
        if (ENDS.has(told.at(-1)?.event.type ?? '')) return
      }
    } finally {
      leave()
    }
    const end = lost.signal.aborted ? endEvent(run.id, cursor, found) : null
    if (end !== null && !(await hasEndedBefore(runTopic(run.id), cursor))) await to.tell([{ of: null, event: end }])
  }

  /** Whether the entry at the cursor is the end event. */
  async function hasEndedBefore(topic: string, cursor: string): Promise<boolean> {
    return ENDS.has((await entryAt(topic, cursor))?.event.type ?? '')
  }

  /**
   * Adds the last known state of the entity that the event names, in case it is deleted before delivery.
   * Returns null if this viewer does not receive the event.
   */
  function asShown(
    event: RunEvent,
    { run, showsThoughts, isAdmin }: Watched,
  ): RunEvent | null | Promise<RunEvent | null> {
    const isConfided = 'confidential' in event && event.confidential === true
    if (THOUGHTS.has(event.type)) return showsThoughts && (isAdmin || !isConfided) ? event : null
    if ('toolCallId' in event && run.triggerType === 'INBOX') return withCall(event)
    return { ...event, lastKnown: event.type === 'RunCanceled' ? { ...run, status: 'CANCELED' } : run }
  }

  async function withCall(event: RunEvent & { toolCallId: string }): Promise<RunEvent | null> {
    const [call] = await domain.toolCalls.getMany([event.toolCallId])
    return call == null ? null : { ...event, lastKnownCall: call }
  }

  /** Filters the events that this viewer may receive. */
  function shownTo(to: Receiver<RunEvent>, watched: Watched): Receiver<RunEvent> {
    return {
      async tell(told) {
        const shown: Told<RunEvent>[] = []
        for (const { of, event } of told) {
          const one = await asShown(event, watched)
          if (one !== null) shown.push({ of, event: one })
        }
        if (shown.length > 0) await to.tell(shown)
      },
      isPastPace: to.isPastPace,
      sit: to.sit,
    }
  }

  /**
   * All viewers of one scope who may watch a run receive the same events: a service only watches runs that it
   * triggered.
   */
  const rulesOf = (watched: Watched): LiveRules<RunEvent> => ({
    eventOf: (entry) => asShown(eventOfEntry(watched.run.id, entry), watched),
    isSpecial: ({ event }) => ENDS.has(event.type) || event.type === 'RunStarted',
    concerns: () => true,
  })

  async function deliver(following: Following, after: string | null, to: Receiver<RunEvent>): Promise<void> {
    const { run } = following
    if (after !== null && (await hasEndedBefore(runTopic(run.id), after))) return
    const beginning = after === null ? await beginningOf(run) : { after, told: [] }
    for (const event of beginning.told) await to.tell([{ of: null, event }])
    if (beginning.told.some(({ type }) => ENDS.has(type))) return
    await follow(following, beginning.after, beginning.told.length > 0 ? withoutStart(to) : to)
  }

  return (
    { viewer, onSlow }: Watcher,
    { runId, after }: { runId: string; after: string | null },
  ): Promise<Feed<RunEvent>> =>
    openFeed(async (lifeline) => {
      if (after !== null) decodeCursor(after)
      await guards.viewer(viewer, lifeline)
      const run = await guards.run(viewer, runId, lifeline)
      const isAdmin = viewer.scope === 'ADMIN'
      const watched = { run, isAdmin, showsThoughts: domain.visibility.runThoughts(viewer, run) }
      const { signal } = lifeline
      return (to) => deliver({ run, onSlow, signal, rules: rulesOf(watched) }, after, shownTo(to, watched))
    })
}

/** A run, and whether the viewer receives its agent's thoughts. */
interface Watched {
  run: Run
  showsThoughts: boolean
  isAdmin: boolean
}

interface Following {
  run: Run
  onSlow(): void
  signal: AbortSignal
  rules: LiveRules<RunEvent>
}

function eventOfEntry(runId: string, { cursor, at, event }: LogEntry): RunEvent {
  return { ...(event as RunLogEvent), cursor, at: new Date(at), runId }
}

/** For a subscriber that has already received the start event. */
function withoutStart(to: Receiver<RunEvent>): Receiver<RunEvent> {
  return { ...to, tell: (told) => to.tell(told.filter(({ event }) => event.type !== 'RunStarted')) }
}
