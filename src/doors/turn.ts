// A turn is the work of agents on one message, or all their current work in a space. This file follows the events
// of the space until no agent is working, or all active agents are waiting for people.
import { decodeCursor, isAfter } from '../broker/cursor.ts'
import { type Bell, createBell } from '../lib/async.ts'
import { cut } from '../lib/json.ts'
import { ACTIVE_RUN_STATUSES } from '../rules/statuses.ts'
import type { Activity } from './activity.ts'
import type { Caller, DoorError, Follower } from './exchange.ts'
import {
  CALL,
  type Connection,
  nodesOf,
  type PendingCall,
  readPlace,
  SPACE_EVENTS,
  type SpaceEvent,
} from './operations.ts'

/** The runs that are followed. */
export interface TurnScope {
  spaceId: string
  /** The root of the runs, which is a human's message or another trigger. Null for all runs of the space. */
  rootId: string | null
}

export interface Usage {
  inputTokens: number
  cachedInputTokens: number
  outputTokens: number
  totalTokens: number
}

export interface Outcome {
  kind: string
  error: string | null
  agent: { id: string; name: string }
  run: { id: string; status: string; finishedAt: string | null } | null
}

/** The state of a turn. */
export interface TurnState {
  /** Whether at least one agent is working. An agent that only waits for people does not count. */
  isBusy: boolean
  /** The calls that wait for people. */
  waiting: PendingCall[]
  /** The outcome of the turn's message for each agent. Empty if the turn has no message. */
  outcomes: Outcome[]
  usage: Usage | null
  /** Everything that the state shows is contained in the events up to this cursor. */
  cursor: string
}

/** Whether people have stopped all runs that the message started. */
export function isCanceled({ outcomes }: TurnState): boolean {
  const statuses = outcomes.flatMap(({ run }) => run?.status ?? [])
  return statuses.length > 0 && statuses.every((status) => status === 'CANCELED')
}

const LONGEST_FAILURE = 4000

/** The reasons why an agent does not work on a message. */
const REASONS: Readonly<Record<string, string>> = {
  FAILED: 'failed.',
  OVER_BUDGET: 'is over its budget.',
  PAUSED: 'is paused.',
  LOOP_LIMIT: 'was not woken: a limit on chained runs was reached.',
}

/** Returns the reason why no agent answered a message; null if an agent did. */
export function failureOf({ outcomes }: TurnState): { message: string; code: string } | null {
  const failed = outcomes.filter(({ kind }) => REASONS[kind] !== undefined)
  const others = outcomes.filter(({ kind }) => REASONS[kind] === undefined && kind !== 'NOT_ROUTED')
  const [first] = failed
  if (first === undefined || others.length > 0) return null
  const words = failed.map(
    ({ agent, kind, error }) => `${agent.name} ${REASONS[kind]}${error === null ? '' : ` ${error}`}`,
  )
  return { message: cut(words.join(' '), LONGEST_FAILURE), code: first.kind === 'FAILED' ? 'RUN_FAILED' : first.kind }
}

interface StateData {
  space: {
    streamCursor: string
    messages: Connection<{
      status: string
      run: { rootId: string } | null
      waitingCall: { id: string } | null
    }>
  } | null
  message?: { outcomes: (Outcome & { readAt: string | null })[]; rootUsage: Usage | null } | null
  runs: Connection<{ id: string; status: string }>
}

/** How many of the newest messages are searched for waiting calls. */
const MESSAGES_WITH_CALLS = 10

/** This query is executed often, so it selects only a few fields. */
const STATE = `query DoorTurn($spaceId: ID!, $messageId: ID!, $hasMessage: Boolean!, $filter: RunFilter!) {
  space(id: $spaceId) {
    streamCursor
    messages(last: ${MESSAGES_WITH_CALLS}) { edges { node { status run { rootId } waitingCall { id } } } }
  }
  message(id: $messageId) @include(if: $hasMessage) {
    outcomes { kind error readAt agent { id name } run { id status finishedAt } }
    rootUsage { inputTokens cachedInputTokens outputTokens totalTokens }
  }
  runs(filter: $filter, first: 10) { edges { node { id status } } }
}`

interface ShownWait {
  id: string
  waitsFor: PendingCall['waitsFor']
}

interface WaitingData {
  runs: Connection<{ toolCalls: ShownWait[] }>
  space: {
    messages: Connection<{
      run: { rootId: string } | null
      waitingCall: ShownWait | null
      parts: { toolCall?: ShownWait }[]
    }>
  } | null
  viewer: { pendingToolCalls: { id: string }[] }
}

const WAITING = `query DoorWaiting($spaceId: ID!, $filter: RunFilter!) {
  runs(filter: $filter, first: 20) { edges { node { toolCalls { id waitsFor } } } }
  space(id: $spaceId) {
    messages(last: ${MESSAGES_WITH_CALLS}) {
      edges { node { run { rootId } waitingCall { id waitsFor } parts { ... on ToolCallPart { toolCall { id waitsFor } } } } }
    }
  }
  viewer { pendingToolCalls { id } }
}`

const CALLS = `query DoorCalls($ids: [ID!]!) { nodes(ids: $ids) { ... on ToolCall { ...DoorCall } } }
${CALL}`

const MOST_WAITING = 50

/** Reads the state of a turn; null if the space no longer exists. @throws DoorError */
export async function readTurn(caller: Caller, { spaceId, rootId }: TurnScope): Promise<TurnState | null> {
  const hasMessage = rootId?.startsWith('msg_') === true
  const status = ACTIVE_RUN_STATUSES
  const filter = rootId === null ? { spaceId, status } : { rootId, status }
  const variables = { spaceId, hasMessage, messageId: hasMessage ? rootId : spaceId, filter }
  const { space, message, runs } = await caller.ask<StateData>(STATE, variables)
  if (space === null) return null
  const active = nodesOf(runs)
  const shown = nodesOf(space.messages).filter(({ run }) => run !== null && (rootId === null || run.rootId === rootId))
  const mayWait =
    active.some(({ status }) => status === 'WAITING_TOOL') ||
    shown.some(({ status, waitingCall }) => status === 'REQUIRES_ACTION' || waitingCall !== null)
  const waiting = mayWait ? await readWaiting(caller, { spaceId, rootId, filter }) : []
  const waitingRuns = new Set(waiting.flatMap(({ run }) => run?.id ?? []))
  const outcomes = message?.outcomes ?? []
  const isUnread = outcomes.some(({ kind, readAt }) => kind === 'INBOX' && readAt === null)
  const waitsForReply = new Set(waiting.flatMap(({ waitsFor, run }) => (waitsFor === 'MESSAGE' ? (run?.id ?? []) : [])))
  const isBusy =
    isUnread || active.some(({ id, status }) => !(status === 'WAITING_TOOL' ? waitingRuns : waitsForReply).has(id))
  return {
    isBusy,
    waiting,
    outcomes,
    usage: message?.rootUsage ?? null,
    // When the turn is over, a separate query reads the cursor after the runs. The cursor from the query for the
    // runs may be older than their last events.
    cursor: isBusy ? space.streamCursor : (await readPlace(caller, spaceId)).cursor,
  }
}

/**
 * Reads the calls that wait for people. These are calls of active runs, and calls that messages show, including
 * those of persistent agents.
 */
async function readWaiting(
  caller: Caller,
  { spaceId, rootId, filter }: TurnScope & { filter: object },
): Promise<PendingCall[]> {
  const { runs, space, viewer } = await caller.ask<WaitingData>(WAITING, { spaceId, filter })
  const answerable = new Set(viewer.pendingToolCalls.map(({ id }) => id))
  const shown = (space === null ? [] : nodesOf(space.messages))
    .filter(({ run }) => run !== null && (rootId === null || run.rootId === rootId))
    .flatMap(({ parts, waitingCall }) => [waitingCall, ...parts.map(({ toolCall }) => toolCall)])
  const calls = [...nodesOf(runs).flatMap(({ toolCalls }) => toolCalls), ...shown].filter((call) => call != null)
  // All other calls that wait for a result are answered by a service.
  const forPeople = calls.filter(
    ({ waitsFor, id }) => waitsFor !== null && (waitsFor !== 'RESULT' || answerable.has(id)),
  )
  const ids = [...new Set(forPeople.map(({ id }) => id))].slice(0, MOST_WAITING)
  if (ids.length === 0) return []
  const { nodes } = await caller.ask<{ nodes: (PendingCall | null)[] }>(CALLS, { ids })
  return nodes.filter((call) => call !== null && call.waitsFor !== null) as PendingCall[]
}

export interface FollowOptions extends TurnScope {
  /** The cursor after which events are delivered. */
  after: string
  /** Whether to continue while calls are waiting for people. */
  waitsForPeople: boolean
  activity: Activity
  /** Called at intervals while nothing happens. */
  onIdle(): void
}

const IDLE_MS = 12_000
/**
 * The intervals at which the state is read again after events that report changes. They grow, so that the end of a
 * short turn is detected at once, and a long turn costs few queries.
 */
const AFTER_CHANGES_MS = [25, 50, 100, 250, 500]
/** The intervals at which the state is read again while no event reports a change. */
const RECHECKS_MS = [2000, 5000, 15_000, 60_000]

/** Events that can end a turn or make it wait. */
const MAY_CHANGE_STATE: ReadonlySet<SpaceEvent['__typename']> = new Set([
  'SpaceSnapshot',
  'MessageUpdated',
  'MemberLeft',
])

type Followed = { type: 'event'; event: SpaceEvent } | { type: 'end'; state: TurnState }

/**
 * Yields the events of the space, and finally the last state of the turn.
 * @throws DoorError, for example when the caller loses access
 */
export async function* followTurn(caller: Caller, options: FollowOptions): AsyncGenerator<Followed, void> {
  const { waitsForPeople, onIdle } = options
  const bell = createBell()
  const reception = new Reception(caller, options, bell)
  const checks = new Checks()
  let position = options.after
  let state: TurnState | null = null
  let idleSince = performance.now()

  /** Whether the turn has ended and all events up to its end have been delivered. */
  function isOver(now: TurnState | null): now is TurnState {
    if (now === null || now.isBusy || (waitsForPeople && now.waiting.length > 0)) return false
    return !checks.isStale() && !isAfter(decodeCursor(now.cursor), decodeCursor(position))
  }

  try {
    for (;;) {
      caller.signal.throwIfAborted()
      const event = reception.take()
      if (event !== null) {
        yield { type: 'event', event }
        position = event.cursor
        if (MAY_CHANGE_STATE.has(event.__typename)) checks.noteChange()
        idleSince = performance.now()
        continue
      }
      if (reception.hasChanged()) checks.noteChange()
      if (checks.isDue()) {
        checks.noteCheck()
        // The state is null if the caller has lost access to the space. The subscription then ends with an error
        // that contains the reason.
        state = await readTurn(caller, options)
        continue
      }
      if (isOver(state)) return yield { type: 'end', state }
      if (reception.hasEnded()) return
      if (performance.now() - idleSince >= IDLE_MS) {
        onIdle()
        idleSince = performance.now()
      }
      await bell.wait(Math.min(checks.untilDueMs(), IDLE_MS), caller.signal)
    }
  } finally {
    await reception.close()
  }
}

/** Decides when to read the state of a turn again. */
class Checks {
  #isStale = true
  #changes = 0
  #count = 0
  #checkedAt = Number.NEGATIVE_INFINITY

  isStale(): boolean {
    return this.#isStale
  }

  noteChange(): void {
    this.#isStale = true
    this.#count = 0
  }

  noteCheck(): void {
    if (this.#isStale) this.#changes += 1
    else this.#count += 1
    this.#isStale = false
    this.#checkedAt = performance.now()
  }

  isDue(): boolean {
    return this.untilDueMs() === 0
  }

  untilDueMs(): number {
    const [times, count] = this.#isStale ? [AFTER_CHANGES_MS, this.#changes - 1] : [RECHECKS_MS, this.#count]
    const intervalMs = times[Math.min(Math.max(count, 0), times.length - 1)]!
    return Math.max(0, this.#checkedAt + intervalMs - performance.now())
  }
}

/**
 * Receives the events of a space one at a time, and records when the status of a run in the space changes. A class
 * is used because closures would take more memory in each idle stream.
 */
class Reception implements Follower<{ spaceMessages: SpaceEvent }> {
  readonly #bell: Bell
  readonly #stopListening: () => void
  /** Resolves with a function that ends the subscription. */
  readonly #following: Promise<(() => void) | null>
  /** The event that waits to be taken. The subscription delivers the next event after `#onTaken` was called. */
  #event: SpaceEvent | null = null
  #onTaken: (() => void) | null = null
  #hasChanged = false
  #hasEnded = false
  #failure: unknown = null

  constructor(caller: Caller, { spaceId, after, activity }: FollowOptions, bell: Bell) {
    this.#bell = bell
    this.#following = caller.follow(SPACE_EVENTS, { spaceId, after }, this).catch((error: unknown) => {
      this.#failure = error
      bell.ring()
      return null
    })
    this.#stopListening = activity.listen(caller, spaceId, () => {
      this.#hasChanged = true
      bell.ring()
    })
  }

  onEvent({ spaceMessages }: { spaceMessages: SpaceEvent }): Promise<void> {
    this.#event = spaceMessages
    this.#bell.ring()
    return new Promise<void>((resolve) => {
      this.#onTaken = resolve
    })
  }

  onEnd(error: DoorError | null): void {
    this.#failure = error
    this.#hasEnded = true
    this.#bell.ring()
  }

  /** Returns the next event; null if there is none at the moment. @throws the error that has ended the subscription */
  take(): SpaceEvent | null {
    const event = this.#event
    this.#event = null
    if (event === null && this.#failure !== null) throw this.#failure
    this.#onTaken?.()
    this.#onTaken = null
    return event
  }

  hasChanged(): boolean {
    const changed = this.#hasChanged
    this.#hasChanged = false
    return changed
  }

  hasEnded(): boolean {
    return this.#hasEnded && this.#event === null
  }

  async close(): Promise<void> {
    this.#onTaken?.()
    this.#stopListening()
    const end = await this.#following
    end?.()
  }
}
