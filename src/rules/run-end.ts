import { type OverBudget, WHY_OVER_BUDGET } from '../lib/budget.ts'
import { adviceOn, type ModelFault } from '../lib/model-fault.ts'

/** How a run ends, and why. */
export type RunEnding =
  | {
      status: 'COMPLETED'
      stopReason: 'FINISHED' | 'SKIPPED' | 'ALL_ANSWERED' | 'MAX_STEPS' | 'MAX_TOOL_CALLS' | 'TOKEN_BUDGET'
      summary: string | null
      /** Set if the run called skip. */
      skipped?: { reason: string | null }
    }
  | {
      status: 'FAILED'
      stopReason: 'MODEL_FAILED' | 'OVER_BUDGET' | 'TIME_LIMIT' | 'WORKER_LOST' | 'INTERNAL'
      error: string
      /** Set if the model's provider failed. */
      fault?: ModelFault
    }
  | { status: 'CANCELED'; stopReason: 'STOPPED'; stoppedById: string | null }
  /** The run's agent left the triggering space before the run began, or the agent or this space was deleted. */
  | { status: 'CANCELED'; stopReason: 'GONE' }
  | { status: 'CANCELED'; stopReason: 'HANDED_ON'; delegated: Delegated }

/** The target of a delegation, and its space. */
export interface Delegated {
  targetAgentId: string
  spaceId: string
  reason: string | null
}

/** An ending that comes from the run itself, not from outside. */
export type Completion = Omit<Extract<RunEnding, { status: 'COMPLETED' }>, 'skipped'>

/**
 * The cause of a failure. `provider`: the provider is unreachable, has no capacity, or rejected the key or model name.
 * `prompt`: the provider rejected the input. `unclear`: the response was interrupted or the server failed, which
 * happens on some servers if a prompt is too long. `limit`: the model reached its output limit.
 */
export type Blame = 'provider' | 'prompt' | 'unclear' | 'limit'

/** The fields of a run that determine the effects of its end. */
export interface EndingRun {
  id: string
  agentId: string
  triggerType: string
  triggerMessageId: string | null
  stepCount: number
  places: readonly string[]
  label: readonly string[]
  startedAt: Date | null
  finishedAt: Date | null
}

/** The state in the database that determines the effects of a run's end. */
export interface EndFacts {
  /** Whether the run has posted a message. */
  hasPosted: boolean
  /**
   * Whether the run has posted, mentioned an agent, or called a tool with an external effect. Set only for completed
   * runs.
   */
  hasActed: boolean
  /**
   * Whether the cycle posted nothing and made no call that can have an external effect. This field and the ones below
   * are set only for think cycles.
   */
  hasDoneNothing: boolean
  /** Why the model failed; null if it did not. */
  failure: Blame | null
  /** The events that the cycle has claimed and not finished, in order. */
  events: readonly ClaimedEvent[]
}

export interface ClaimedEvent {
  id: string
  messageId: string | null
  /** How many outages of the provider occurred in earlier cycles with this event. */
  outages: number
  /** The exhausted budget that makes the event wait. */
  over: OverBudget | null
  /** Whether the agent or the space of the event was deleted. */
  isGone: boolean
}

/**
 * How to proceed with an event that a cycle has claimed. `finish`: the event is done. `release`: the event waits for
 * the next cycle. `isolate`: the event waits for a cycle of its own. `retry`: the event is retried after a pause.
 * `postpone`: the event waits for the next day. `close`: the event is done, as if no cycle had claimed it.
 */
export type EventFate = 'finish' | 'release' | 'isolate' | 'retry' | 'postpone' | 'close'

/** The outcome of a message for the agent of the run. */
export interface PlannedOutcome {
  messageId: string
  kind: 'SKIPPED' | 'FAILED' | 'INBOX' | 'DROPPED' | 'OVER_BUDGET'
  reason: string | null
  error: string | null
  runId: string | null
  /** The marks and the times (in milliseconds since 1970) of a cycle whose run is deleted. */
  cycle?: { label: readonly string[]; readingSince: number | null; readAt: number | null }
}

/** The effects of a run's end. */
export interface EndPlan {
  /** The remaining events in order, and how to proceed with each. */
  events: readonly { event: ClaimedEvent; fate: EventFate }[]
  /**
   * The effect on the cycle. `remember`: the cycle becomes part of the consciousness. `erase`: the cycle is deleted.
   * `forget`: only its events from deleted sources are deleted. `none`: nothing is stored or deleted.
   */
  cycle: 'remember' | 'erase' | 'forget' | 'none'
  outcomes: readonly PlannedOutcome[]
  /**
   * Whether the run's turn in a chain ends. If it does not end, the run's events are retried, and the agent keeps the
   * turn.
   */
  endsTurn: boolean
  /**
   * The ending that the chain and the consciousness record. A skip after the run has acted counts as an ordinary end.
   */
  ending: RunEnding
  /** A new summary for the run; absent if it is unchanged. */
  summary?: string | null
  /** Whether the agent pauses before its next cycle. */
  rests: boolean
}

/** The delays before each retry after an outage. */
export const RETRY_MINUTES = [1, 5, 30]

export const WHY_DROPPED = 'The agent left the space, or was deleted, before it read the message.'

/** Decides the effects of a run's end. */
export function planEnd(run: EndingRun, ending: RunEnding, facts: EndFacts): EndPlan {
  if (run.triggerType !== 'INBOX') return planRunEnd(run, ending, facts)
  return ending.stopReason === 'GONE' ? planGoneCycle(run, ending, facts) : planCycleEnd(run, ending, facts)
}

function planRunEnd(run: EndingRun, ending: RunEnding, facts: EndFacts): EndPlan {
  return {
    events: [],
    cycle: 'none',
    outcomes: triggerOutcome(run, ending, facts),
    endsTurn: true,
    ending,
    rests: false,
  }
}

/**
 * Plans the end of a cycle whose agent was deleted, or that had events from a deleted space. The cycle is not
 * remembered. Its remaining events are requeued unless the cycle has already acted on them.
 */
function planGoneCycle(run: EndingRun, ending: RunEnding, facts: EndFacts): EndPlan {
  const fate = facts.hasDoneNothing ? 'release' : 'finish'
  const events = facts.events.filter(({ isGone }) => !isGone).map((event): Fates[number] => ({ event, fate }))
  const dropped = otherMessages(run, events).map((messageId) => ({
    messageId,
    kind: 'DROPPED' as const,
    reason: null,
    error: null,
    runId: run.id,
  }))
  return {
    events,
    cycle: 'forget',
    outcomes: [...triggerOutcome(run, ending, facts), ...dropped],
    endsTurn: true,
    ending,
    rests: false,
  }
}

function planCycleEnd(run: EndingRun, ending: RunEnding, facts: EndFacts): EndPlan {
  const skip = skipOf(ending)
  const isErased = skip !== null && facts.hasDoneNothing
  const events = facts.events.map((event) => ({ event, fate: fateOf(event, run, ending, facts) }))
  const isTriedAgain = ending.status === 'FAILED' && comesAgain(events)
  const isPutBack = events.some(({ fate }) => fate !== 'finish' && fate !== 'retry')
  const isUntouched =
    facts.hasDoneNothing && events.some(({ fate }) => fate === 'retry') && finished(events).length === 0
  const isLateSkip = skip !== null && ending.status === 'COMPLETED' && !isErased
  const summary = isLateSkip ? (skip.reason ?? ending.summary) : null
  return {
    events,
    cycle: isErased ? 'erase' : isPutBack || isUntouched ? 'none' : 'remember',
    outcomes: [
      ...(isTriedAgain || isLateSkip ? [] : triggerOutcome(run, ending, facts)),
      ...outcomesOfEvents(run, ending, events, isErased),
    ],
    endsTurn: !isTriedAgain,
    ending: isLateSkip ? { status: 'COMPLETED', stopReason: 'SKIPPED', summary } : ending,
    ...(isLateSkip ? { summary } : {}),
    rests: true,
  }
}

type Fates = EndPlan['events']

function fateOf(event: ClaimedEvent, run: EndingRun, ending: RunEnding, facts: EndFacts): EventFate {
  const { events, hasDoneNothing, failure } = facts
  // Other runs used up the budget between the claim of the events and the first step of this run.
  const isSpent = ending.stopReason === 'OVER_BUDGET' && run.stepCount === 0 && events.some(({ over }) => over !== null)
  if (isSpent) return event.over === null ? 'release' : event.over === 'ROOT' ? 'close' : 'postpone'
  if (isRefused(ending, facts) && events.length > 1 && hasDoneNothing) return 'isolate'
  // These failures may have a cause other than the prompt.
  const isOutage = ending.stopReason === 'MODEL_FAILED' && (failure === 'provider' || failure === 'unclear')
  return isOutage && event.outages < RETRY_MINUTES.length ? 'retry' : 'finish'
}

/** Whether the provider refused the prompt of the cycle. */
export function isRefused({ status }: RunEnding, { failure }: Pick<EndFacts, 'failure'>): boolean {
  return status === 'FAILED' && failure === 'prompt'
}

/** Whether events will be handled later: retried after a failed cycle, or postponed because of an exhausted budget. */
function comesAgain(events: Fates): boolean {
  const isForbidden = events.some(({ fate }) => fate === 'postpone') && !events.some(({ fate }) => fate === 'close')
  return isForbidden || events.some(({ fate }) => fate === 'retry')
}

function finished(events: Fates): string[] {
  return events.flatMap(({ event, fate }) => (fate === 'finish' && event.messageId !== null ? [event.messageId] : []))
}

/** Returns the messages of finished events, except the run's trigger. */
function otherMessages({ triggerMessageId }: EndingRun, events: Fates): string[] {
  return finished(events).filter((messageId) => messageId !== triggerMessageId)
}

function skipOf(ending: RunEnding): { reason: string | null } | null {
  return ending.status === 'COMPLETED' ? (ending.skipped ?? null) : null
}

/** Returns the outcome of the message that triggered the run. */
function triggerOutcome(run: EndingRun, ending: RunEnding, { hasPosted, hasActed }: EndFacts): PlannedOutcome[] {
  const { id: runId, triggerMessageId: messageId } = run
  if (messageId === null) return []
  const skip = skipOf(ending)
  if (skip !== null) {
    if (hasPosted) return []
    return [
      run.triggerType === 'INBOX' ? skippedCycle(run, messageId, skip.reason) : skipped(run, messageId, skip.reason),
    ]
  }
  if (ending.status === 'COMPLETED' && run.triggerType !== 'INBOX' && !hasActed) return [skipped(run, messageId, null)]
  if (ending.status === 'FAILED') {
    return [{ messageId, kind: 'FAILED', reason: null, error: shownError(run, ending), runId }]
  }
  return ending.stopReason === 'GONE' ? [{ messageId, kind: 'DROPPED', reason: WHY_DROPPED, error: null, runId }] : []
}

/**
 * Returns the outcome of a message that the run read without a visible reaction. If the run gave no reason, its closing
 * text is used, which may explain it.
 */
const skipped = ({ id: runId }: EndingRun, messageId: string, reason: string | null): PlannedOutcome => ({
  messageId,
  kind: 'SKIPPED' as const,
  reason,
  error: null,
  runId,
})

/** Returns the outcome of a message for a skipped cycle whose run is deleted. */
function skippedCycle(run: EndingRun, messageId: string, reason: string | null): PlannedOutcome {
  const [readingSince, readAt] = [run.startedAt, run.finishedAt].map((time) => time?.getTime() ?? null)
  const cycle = { label: [...run.places, ...run.label], readingSince: readingSince ?? null, readAt: readAt ?? null }
  return { ...skipped(run, messageId, reason), runId: null, cycle }
}

/**
 * Returns the error of a failed run in a form that members of its space may read. If the model's provider failed, the
 * text says what members can do. The error of a run with a confidentiality label can quote the prompt, so only the stop
 * reason is returned.
 */
export function errorForMembers(run: {
  error: string | null
  fault?: string | null | undefined
  label: readonly string[]
  stopReason: string | null
}): string | null {
  const { error, fault, label, stopReason } = run
  if (label.length > 0) return stopReason
  return fault == null ? error : adviceOn(fault as ModelFault)
}

function shownError({ label }: EndingRun, ending: Extract<RunEnding, { status: 'FAILED' }>): string {
  return firstLine(errorForMembers({ ...ending, label }) ?? '')
}

const firstLine = (text: string): string => text.split('\n', 1)[0] ?? ''

/** Returns the outcomes of the messages of a cycle's events, except its trigger. */
function outcomesOfEvents(run: EndingRun, ending: RunEnding, events: Fates, isErased: boolean): PlannedOutcome[] {
  const outcomes = events.flatMap(({ event, fate }) => waitingOutcome(run, event, fate))
  const others = otherMessages(run, events)
  if (isErased) {
    const reason = skipOf(ending)?.reason ?? null
    outcomes.push(...others.map((messageId) => skippedCycle(run, messageId, reason)))
  }
  if (ending.status === 'FAILED') {
    const failed = { kind: 'FAILED' as const, reason: null, error: shownError(run, ending), runId: run.id }
    outcomes.push(...others.map((messageId) => ({ messageId, ...failed })))
  }
  return outcomes
}

/**
 * Returns the outcome of a message that waits for the next day or for the provider. The outcome identifies the failed
 * cycle.
 */
function waitingOutcome({ id: runId }: EndingRun, event: ClaimedEvent, fate: EventFate): PlannedOutcome[] {
  const { messageId, over, outages } = event
  if (messageId === null) return []
  if (fate === 'retry') {
    const minutes = RETRY_MINUTES[outages] === 1 ? '1 minute' : `${RETRY_MINUTES[outages]} minutes`
    const reason = `The model's provider failed: the next attempt is in ${minutes}.`
    return [{ messageId, kind: 'INBOX', reason, error: null, runId }]
  }
  if (over === null || (fate !== 'postpone' && fate !== 'close')) return []
  return [{ messageId, kind: 'OVER_BUDGET', reason: WHY_OVER_BUDGET[over], error: null, runId: null }]
}

/**
 * The names, in both toolsets, of built-in tools that only read or only control the think cycle. A cycle that skips
 * after only such calls is forgotten.
 */
export const TOOLS_WITHOUT_EFFECT: readonly string[] = [
  'enter_space',
  'get_my_runs',
  'getMyRuns',
  'get_plans',
  'getPlans',
  'read_file',
  'readFile',
  'read_messages',
  'readSpaceMessages',
  'search_messages',
  'searchMessages',
  'skip',
]
