// The feed of `runEvents`: the events of one run, from its start or a cursor to its end, limited to those that the
// viewer may receive.
import { decodeCursor, encodeCursor } from '../../broker/cursor.ts'
import type { LogBatch, Publication } from '../../broker/log.ts'
import { type RunLogEvent, runTopic } from '../../broker/topics.ts'
import type { Domain } from '../../graphql/domain.ts'
import type { Run } from '../../graphql/shapes.ts'
import type { RunEvent, Watcher } from '../../graphql/streams.ts'
import type { Platform } from '../../platform/platform.ts'
import { isAdmin } from '../../rules/permissions.ts'
import { type Delivery, type Feed, type HubRules, openFeed, type Subscriber } from '../feed.ts'
import type { Guards } from '../guards.ts'
import type { EndedRuns } from '../recheck.ts'
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
 * The cursor at which a subscriber begins in the log, and the events that are delivered first because they are
 * missing in the log.
 */
interface Beginning {
  after: string
  replayed: RunEvent[]
}

/**
 * Delivers the events of one run to its subscribers, from the start of the run or from a cursor, up to its end
 * event.
 */
export function createRunEvents({ log, clock }: Pick<Platform, 'log' | 'clock'>, parts: RunEventsParts) {
  const { guards, domain, journal, endedRuns } = parts

  const eventOf = (runId: string, cursor: string, at: Date, event: RunLogEvent): RunEvent => ({
    ...event,
    cursor,
    at,
    runId,
  })

  /** Returns the publication at a cursor; null if the log no longer has it. */
  async function publicationAt(topic: string, cursor: string): Promise<Publication | null> {
    const { epoch, offset } = decodeCursor(cursor)
    if (offset === 0) return null
    const batch = await log.read(topic, encodeCursor({ epoch, offset: offset - 1 }), 1)
    return batch.type === 'publications' ? (batch.publications[0] ?? null) : null
  }

  async function beginningOf(run: Run): Promise<Beginning> {
    const topic = runTopic(run.id)
    const [head = ''] = await log.heads([topic])
    const start = encodeCursor({ ...decodeCursor(head), offset: 0 })
    const batch = await log.read(topic, start, 1)
    const first = batch.type === 'publications' ? batch.publications[0] : undefined
    const isWhole =
      first === undefined ? run.status === 'QUEUED' : first.event.type === 'RunStarted' || ENDS.has(first.event.type)
    if (isWhole && batch.type === 'publications') return { after: start, replayed: [] }
    // The log does not contain the beginning of the run. The head was read before the journal, so each event is in
    // the journal, after the head, or in both. No event is missed, and a few may be delivered twice.
    const [now] = await domain.runs.getMany([run.id])
    const replayed = replayOf(now ?? run, await journal.read(run.id))
    return { after: head, replayed: replayed.map(({ at, event }) => eventOf(run.id, head, at, event)) }
  }

  /**
   * Returns the end event of a run; null if the run is active. A think cycle that was rolled back no longer has a
   * row, and counts as CANCELED.
   */
  function endEvent(runId: string, cursor: string, run: Run | null): RunEvent | null {
    const end = run === null ? { at: new Date(), event: { type: 'RunCanceled' as const } } : endOf(run)
    return end && eventOf(runId, cursor, end.at, end.event)
  }

  /**
   * Yields a snapshot of the run instead of the events in a gap. Also yields the run's end event if the run has
   * ended.
   */
  async function* acrossGap(runId: string, cursor: string): AsyncGenerator<RunEvent> {
    const [run = null] = await domain.runs.getMany([runId])
    if (run !== null) yield { type: 'RunSnapshot', cursor, at: new Date(clock.now()), runId }
    const end = endEvent(runId, cursor, run)
    if (end !== null) yield end
  }

  async function* deliveriesOf(batch: LogBatch, runId: string): AsyncGenerator<Delivery<RunEvent>> {
    if (batch.type === 'gap') for await (const event of acrossGap(runId, batch.cursor)) yield { shareKey: null, event }
    else
      for (const publication of batch.publications)
        yield { shareKey: publication, event: eventOfPublication(runId, publication) }
  }

  /**
   * Delivers the publications after a cursor. Resolves after the run's end event has been delivered. If the end
   * event is missing from the log, creates it from the run's row.
   */
  async function follow(
    { run, onSlow, signal, rules }: Following,
    after: string,
    to: Subscriber<RunEvent>,
  ): Promise<void> {
    const lost = new AbortController()
    let cursor = after
    let found: Run | null = run
    const leave = endedRuns.watch(run.id, (now) => {
      found = now
      lost.abort()
    })
    try {
      const batches = log.follow(runTopic(run.id), {
        after,
        signal: AbortSignal.any([signal, lost.signal]),
        onSlow,
        async onCaughtUp(window, position, until) {
          const before = position.offset
          await to.attach(window, position, until, rules)
          if (position.offset > before) cursor = encodeCursor({ ...decodeCursor(cursor), offset: position.offset })
        },
      })
      for await (const batch of batches) {
        const deliveries: Delivery<RunEvent>[] = []
        for await (const one of deliveriesOf(batch, run.id)) {
          deliveries.push(one)
          if (ENDS.has(one.event.type)) break
        }
        await to.deliver(deliveries)
        cursor = deliveries.at(-1)?.event.cursor ?? cursor
        if (ENDS.has(deliveries.at(-1)?.event.type ?? '')) return
      }
    } finally {
      leave()
    }
    const end = lost.signal.aborted ? endEvent(run.id, cursor, found) : null
    if (end !== null && !(await hasEndedBefore(runTopic(run.id), cursor)))
      await to.deliver([{ shareKey: null, event: end }])
  }

  /** Whether the publication at the cursor is the end event. */
  async function hasEndedBefore(topic: string, cursor: string): Promise<boolean> {
    return ENDS.has((await publicationAt(topic, cursor))?.event.type ?? '')
  }

  /**
   * Adds the last known state of the entity that the event refers to, because the entity may be deleted before the
   * delivery. Returns null if this viewer does not receive the event.
   */
  function eventFor(
    event: RunEvent,
    { run, showsThoughts, seesConfided }: Watched,
  ): RunEvent | null | Promise<RunEvent | null> {
    const isConfided = 'confidential' in event && event.confidential === true
    if (THOUGHTS.has(event.type)) return showsThoughts && (seesConfided || !isConfided) ? event : null
    if ('toolCallId' in event && run.triggerType === 'INBOX') return withCall(event)
    return { ...event, lastKnown: event.type === 'RunCanceled' ? { ...run, status: 'CANCELED' } : run }
  }

  async function withCall(event: RunEvent & { toolCallId: string }): Promise<RunEvent | null> {
    const [call] = await domain.toolCalls.getMany([event.toolCallId])
    return call == null ? null : { ...event, lastKnownCall: call }
  }

  /** Drops the events that this viewer may not receive. */
  function filteredFor(to: Subscriber<RunEvent>, watched: Watched): Subscriber<RunEvent> {
    return {
      async deliver(deliveries) {
        const shown: Delivery<RunEvent>[] = []
        for (const { shareKey, event } of deliveries) {
          const one = await eventFor(event, watched)
          if (one !== null) shown.push({ shareKey, event: one })
        }
        if (shown.length > 0) await to.deliver(shown)
      },
      isPastPace: to.isPastPace,
      attach: to.attach,
    }
  }

  /**
   * All viewers of one scope who may watch a run receive the same events, because a service may watch only runs
   * that it triggered.
   */
  const hubRulesOf = (watched: Watched): HubRules<RunEvent> => ({
    eventOf: (publication) => eventFor(eventOfPublication(watched.run.id, publication), watched),
    mayNeedFeed: ({ event }) => ENDS.has(event.type) || event.type === 'RunStarted',
    needsFeed: () => true,
  })

  async function deliver(following: Following, after: string | null, to: Subscriber<RunEvent>): Promise<void> {
    const { run } = following
    if (after !== null && (await hasEndedBefore(runTopic(run.id), after))) return
    const beginning = after === null ? await beginningOf(run) : { after, replayed: [] }
    for (const event of beginning.replayed) await to.deliver([{ shareKey: null, event }])
    if (beginning.replayed.some(({ type }) => ENDS.has(type))) return
    await follow(following, beginning.after, beginning.replayed.length > 0 ? withoutStart(to) : to)
  }

  return (
    { viewer, onSlow }: Watcher,
    { runId, after }: { runId: string; after: string | null },
  ): Promise<Feed<RunEvent>> =>
    openFeed(async (lifeline) => {
      if (after !== null) decodeCursor(after)
      await guards.viewer(viewer, lifeline)
      const run = await guards.run(viewer, runId, lifeline)
      const watched = { run, seesConfided: isAdmin(viewer), showsThoughts: domain.visibility.runThoughts(viewer, run) }
      const { signal } = lifeline
      return (to) => deliver({ run, onSlow, signal, rules: hubRulesOf(watched) }, after, filteredFor(to, watched))
    })
}

/** A run, and whether the viewer receives its thoughts, which are its text, reasoning and tool input. */
interface Watched {
  run: Run
  showsThoughts: boolean
  /** Whether the viewer also receives thoughts with content from confidential spaces. */
  seesConfided: boolean
}

interface Following {
  run: Run
  onSlow(): void
  signal: AbortSignal
  rules: HubRules<RunEvent>
}

function eventOfPublication(runId: string, { cursor, at, event }: Publication): RunEvent {
  return { ...(event as RunLogEvent), cursor, at: new Date(at), runId }
}

/** Drops the start event, because the subscriber has already received one. */
function withoutStart(to: Subscriber<RunEvent>): Subscriber<RunEvent> {
  return { ...to, deliver: (deliveries) => to.deliver(deliveries.filter(({ event }) => event.type !== 'RunStarted')) }
}
