/**
 * The one table of what is published: the topics of the event log and the channels of the signals, with what goes over
 * each. Events name things by id; whoever delivers one loads the thing as it is then.
 */

/** What happened in a space, in order: topic `space:<id>`. */
export type SpaceLogEvent =
  | { type: 'MessagePosted'; messageId: string }
  | MessageTextDeltaEvent
  | { type: 'MessagePartChanged'; messageId: string; partIndex: number }
  | { type: 'MessageUpdated'; messageId: string }
  | { type: 'MessageFinished'; messageId: string }
  | { type: 'MemberJoined'; entityId: string }
  | { type: 'MemberLeft'; entityId: string }
  | { type: 'SpaceUpdated' }
  /** Messages are not what they were: it is to be read anew. */
  | { type: 'SpaceSnapshot' }
  /** The last one. */
  | { type: 'SpaceDeleted' }

/** `delta` belongs at UTF-16 unit `offset` of the part; where that is less than what is known, the overlap is dropped. */
export type MessageTextDeltaEvent = {
  type: 'MessageTextDelta'
  messageId: string
  partIndex: number
  offset: number
  delta: string
}

/** What happened in a run, in order: topic `run:<id>`. The last is one of RunCompleted, RunFailed and RunCanceled. */
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

/** Tokens of one step; `estimated` where the provider gave no figures. */
export type LoggedUsage = {
  estimated: boolean
  inputTokens: number
  /** Not in events of before they were counted. */
  cachedInputTokens?: number
  outputTokens: number
  totalTokens: number
  /** Null: the model had no known price. Not in events of before it was counted. */
  costUsd?: number | null
}

export const spaceTopic = (spaceId: string): string => `space:${spaceId}`
export const runTopic = (runId: string): string => `run:${runId}`

/** Channel `jobs`: there may be something to claim. `by`: the process that has heard it already (heard-here.ts). */
export type JobsSignal = { type?: undefined; by?: string }
/**
 * A call waits, no longer does, or something about it changed; for who may answer it, or who may decide on it. (Before there were
 * decisions nothing was said of the audience.)
 */
export type ToolSignal = {
  type: 'tool-waiting' | 'tool-changed' | 'tool-settled'
  toolCallId: string
  audience?: 'answerers' | 'deciders'
}
/**
 * What is told of a run whose status changed, so that who follows an agent's runs need not look: nothing in it changes while its status
 * stays, but that somebody whom the summary names may be erased. Times are text.
 */
export type ChangedRun = {
  id: string
  agentId: string
  status: 'QUEUED' | 'RUNNING' | 'WAITING_TOOL' | 'COMPLETED' | 'FAILED' | 'CANCELED'
  /** How often it was claimed: news of one run come from several processes, in any order. */
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
 * Channel `agent:<id>`: the status of one of its runs changed, or something else of what it does (then there is no `run`); or an
 * EXTERNAL call of it waits for a service or no longer does.
 */
export type AgentSignal = { type: 'run-changed'; run?: ChangedRun } | ToolSignal
/**
 * Channel `entity:<id>`: this human or agent became a member of a space, ceased to be one, or has read on in it; is asked to decide;
 * or is no more.
 */
export type EntitySignal =
  | { type: 'member-joined' | 'member-left' | 'read'; spaceId: string }
  | { type: 'gone' }
  | ToolSignal
/** Channel `calls`: a call is approved, and to be carried out. */
export type CallsSignal = { type: 'carry'; toolCallId: string }
/** Channel `token:<id>`: it is no longer good. */
export type TokenSignal = { type: 'revoked' }
/** Channel `runs`: stop executing the run, its status is CANCELED; and the worker's answer, that it has let go. */
export type RunSignal = { type: 'stop' | 'stopped'; runId: string }
/** Channel `space:<id>`: its settings or members changed, a message was posted or finished, a call shown in it waits or was settled; or it is no more. */
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
/** What concerns admins wherever it happens: tool calls that wait, and their ends. */
export const ADMIN_CHANNEL = 'admins'
export const agentChannel = (agentId: string): string => `agent:${agentId}`
export const entityChannel = (entityId: string): string => `entity:${entityId}`
export const tokenChannel = (tokenId: string): string => `token:${tokenId}`
export const spaceChannel = (spaceId: string): string => `space:${spaceId}`
