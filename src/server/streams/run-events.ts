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

/** Where a subscriber begins in the log, and what is told first because the log does not hold it (any more). */
interface Beginning {
  after: string
  told: RunEvent[]
}

/** The events of one run, as its subscribers get them: from its start or from where they were, to its one end. */
export function createRunEvents({ log, clock }: Pick<Platform, 'log' | 'clock'>, parts: RunEventsParts) {
  const { guards, domain, journal, endedRuns } = parts

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
    const [now] = await domain.runs.getMany([run.id])
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
    const [run = null] = await domain.runs.getMany([runId])
    if (run !== null) yield { type: 'RunSnapshot', cursor, at: new Date(clock.now()), runId }
    const end = endEvent(runId, cursor, run)
    if (end !== null) yield end
  }

  async function* toldOf(delivery: Delivery, runId: string): AsyncGenerator<Told<RunEvent>> {
    if (delivery.type === 'gap') for await (const event of acrossGap(runId, delivery.cursor)) yield { of: null, event }
    else for (const entry of delivery.entries) yield { of: entry, event: eventOfEntry(runId, entry) }
  }

  /** What follows on a cursor. It ends after the run's end, or when it is known that none will come. */
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

  /** Whether the end was what stands at the cursor. */
  async function hasEndedBefore(topic: string, cursor: string): Promise<boolean> {
    return ENDS.has((await entryAt(topic, cursor))?.event.type ?? '')
  }

  /** An event with what is known of what it names, should that be gone when it is delivered; null for one not to be told. */
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

  /** Lets through what is shown. */
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

  /** Whoever watches a run may see the same of it as all of its scope: a service only watches what it triggered. */
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

/** A run, and whether what its agent thinks is told. */
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

/** For who was told of the start already. */
function withoutStart(to: Receiver<RunEvent>): Receiver<RunEvent> {
  return { ...to, tell: (told) => to.tell(told.filter(({ event }) => event.type !== 'RunStarted')) }
}
