/**
 * The list of everything that is published: the topics of the event log, the channels of the signals, and
 * their payloads. Events name entities by id; the delivering process loads the current entity.
 */

/** The events of a space, in order: topic `space:<id>`. */
export type SpaceLogEvent =
  | { type: 'MessagePosted'; messageId: string }
  | MessageTextDeltaEvent
  | { type: 'MessagePartChanged'; messageId: string; partIndex: number }
  | { type: 'MessageUpdated'; messageId: string }
  | { type: 'MessageFinished'; messageId: string }
  | { type: 'MemberJoined'; entityId: string }
  | { type: 'MemberLeft'; entityId: string }
  | { type: 'SpaceUpdated' }
  /** Many messages changed: subscribers must read the space again. */
  | { type: 'SpaceSnapshot' }
  /** Always the last event. */
  | { type: 'SpaceDeleted' }

/**
 * `offset` is the position of `delta` in the part, in UTF-16 units. If it is lower than the length of the
 * known text, the overlap is ignored.
 */
export type MessageTextDeltaEvent = {
  type: 'MessageTextDelta'
  messageId: string
  partIndex: number
  offset: number
  delta: string
}

/** The events of a run, in order: topic `run:<id>`. The last one is RunCompleted, RunFailed or RunCanceled. */
export type RunLogEvent =
  | { type: 'RunStarted' }
  | { type: 'RunWaitingTool'; toolCallIds: string[] }
  | { type: 'RunResumed' }
  | { type: 'RunCompleted' }
  | { type: 'RunFailed'; error: string }
  | { type: 'RunCanceled' }
  | { type: 'RunStepFinished'; step: number; usage: LoggedUsage }
  | { type: 'RunTextDelta'; step: number; delta: string; confidential?: true }
  | { type: 'RunReasoningDelta'; step: number; delta: string; confidential?: true }
  | {
      type: 'RunToolInputDelta'
      step: number
      toolCallId: string
      toolName: string
      delta: string
      confidential?: true
    }
  | { type: 'RunToolCalled'; toolCallId: string }
  | { type: 'RunToolReturned'; toolCallId: string }
  | { type: 'RunToolCallChanged'; toolCallId: string }
  | { type: 'RunSpaceEntered'; spaceId: string }

/** The tokens of one step. `estimated`: the provider reported none. */
export type LoggedUsage = {
  estimated: boolean
  inputTokens: number
  /** Absent in events that older versions wrote. */
  cachedInputTokens?: number
  outputTokens: number
  totalTokens: number
  /** Null: the model has no known price. Absent in events that older versions wrote. */
  costUsd?: number | null
}

export const spaceTopic = (spaceId: string): string => `space:${spaceId}`
export const runTopic = (runId: string): string => `run:${runId}`

/**
 * Channel `jobs`: there may be a run or job to claim. `by`: the process that has already received the signal
 * (heard-here.ts).
 */
export type JobsSignal = { type?: undefined; by?: string }
/**
 * A tool call began to wait, stopped waiting or changed. `audience`: those who can answer the call, or those
 * who can approve it. (Signals of versions without approvals have no audience.)
 */
export type ToolSignal = {
  type: 'tool-waiting' | 'tool-changed' | 'tool-settled'
  toolCallId: string
  audience?: 'answerers' | 'deciders'
}
/**
 * A run whose status changed, with everything that `agentActivity` needs, so that receivers do not query the
 * database. Its fields change only together with the status, except that the summary changes when a person it
 * names is erased. Times are ISO strings.
 */
export type ChangedRun = {
  id: string
  agentId: string
  status: 'QUEUED' | 'RUNNING' | 'WAITING_TOOL' | 'COMPLETED' | 'FAILED' | 'CANCELED'
  /** The number of claims. It orders signals about one run, which several processes send in any order. */
  attempt: number
  triggerType: 'SPACE_MESSAGE' | 'PLAN' | 'SERVICE' | 'INBOX'
  triggerName: string | null
  triggerSpaceId: string | null
  triggerSenderId: string | null
  triggerServiceId: string | null
  triggerSummary: string
  queuedAt: string
  startedAt: string | null
}
/**
 * Channel `agent:<id>`: the status of one of its runs changed (`run`), its activity changed otherwise (no
 * `run`), or one of its EXTERNAL calls began or stopped waiting for a service.
 */
export type AgentSignal = { type: 'run-changed'; run?: ChangedRun } | ToolSignal
/**
 * Channel `entity:<id>`: this human or agent joined or left a space, moved its read marker, was asked to
 * decide on a tool call, or was deleted.
 */
export type EntitySignal =
  | { type: 'member-joined' | 'member-left' | 'read'; spaceId: string }
  | { type: 'gone' }
  | ToolSignal
/** Channel `calls`: a call was approved and must be executed. */
export type CallsSignal = { type: 'carry'; toolCallId: string }
/** Channel `token:<id>`: the token was revoked. */
export type TokenSignal = { type: 'revoked' }
/**
 * Channel `runs`: `stop` tells the worker to stop a run that is CANCELED; `stopped` is the worker's
 * acknowledgement.
 */
export type RunSignal = { type: 'stop' | 'stopped'; runId: string }
/**
 * Channel `space:<id>`: its settings or members changed, a message was posted or finished, a tool call that
 * it shows began to wait or was settled, or the space was deleted.
 */
export type SpaceSignal =
  | { type: 'changed' | 'message' | 'member-joined' | 'member-left' | 'deleted'; entityId?: string }
  | ToolSignal

export type SignalPayload =
  | JobsSignal
  | AgentSignal
  | EntitySignal
  | TokenSignal
  | RunSignal
  | SpaceSignal
  | CallsSignal

export const JOBS_CHANNEL = 'jobs'
export const CALLS_CHANNEL = 'calls'
export const RUNS_CHANNEL = 'runs'
/** For admins, from all spaces: tool calls that begin or stop waiting. */
export const ADMIN_CHANNEL = 'admins'
export const agentChannel = (agentId: string): string => `agent:${agentId}`
export const entityChannel = (entityId: string): string => `entity:${entityId}`
export const tokenChannel = (tokenId: string): string => `token:${tokenId}`
export const spaceChannel = (spaceId: string): string => `space:${spaceId}`
