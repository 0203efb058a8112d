import type { RunStatus, TriggerType } from '../generated/prisma/enums.ts'
/**
 * The list of everything that is published: the topics of the event log, the channels of the signals, and their
 * payloads. Events refer to entities by id, and the delivering process loads the current entity.
 */

/** The events of a space, in order. They are in the topic `space:<id>`. */
export type SpaceLogEvent =
  | { type: 'MessagePosted'; messageId: string }
  | MessageTextDeltaEvent
  | MessageTextReplacedEvent
  | { type: 'MessagePartChanged'; messageId: string; partIndex: number }
  /** After a deletion, this is the first event that is left in the topic (see `forgets` in log.ts). */
  | { type: 'MessageUpdated'; messageId: string }
  | { type: 'MessageFinished'; messageId: string }
  | { type: 'MemberJoined'; entityId: string }
  | { type: 'MemberLeft'; entityId: string }
  | { type: 'SpaceUpdated' }
  /** Many messages have changed, so subscribers must read the space again. */
  | { type: 'SpaceSnapshot' }
  /** SpaceDeleted is always the last event. */
  | { type: 'SpaceDeleted' }

/**
 * `offset` is the position of `delta` in the part, in UTF-16 units. If `offset` is lower than the length of the
 * text so far, receivers ignore the overlap.
 */
export type MessageTextDeltaEvent = {
  type: 'MessageTextDelta'
  messageId: string
  partIndex: number
  offset: number
  delta: string
}

/**
 * Replaces the text of a streaming part from `offset` on with `text`. Sent if a generation is repeated and its text
 * differs from the earlier text from `offset` on.
 */
export type MessageTextReplacedEvent = {
  type: 'MessageTextReplaced'
  messageId: string
  partIndex: number
  offset: number
  text: string
}

/**
 * The events of a run, in order. They are in the topic `run:<id>`. The last one is RunCompleted, RunFailed or
 * RunCanceled.
 */
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

/** The tokens of one step. `estimated`: the provider reported none, so the numbers are estimates. */
export type LoggedUsage = {
  estimated: boolean
  inputTokens: number
  /** Absent in events that older versions wrote. */
  cachedInputTokens?: number
  outputTokens: number
  totalTokens: number
  /** Null if the model has no known price. Absent in events that older versions wrote. */
  costUsd?: number | null
}

export const spaceTopic = (spaceId: string): string => `space:${spaceId}`
export const runTopic = (runId: string): string => `run:${runId}`

/**
 * Channel `jobs`: there may be a run or job to claim. `by`: the process that has received the signal directly (see
 * signals.ts).
 */
export type JobsSignal = { type?: undefined; by?: string }
/**
 * A tool call began to wait, stopped waiting or changed. `audience`: the people and services that can answer the
 * call, or the people who can approve it. Versions without approvals send no audience.
 */
export type ToolSignal = {
  type: 'tool-waiting' | 'tool-changed' | 'tool-settled'
  toolCallId: string
  audience?: 'answerers' | 'deciders'
}
/** A standing grant was proposed, decided on or used, or has ended. */
export type GrantSignal = { type: 'grant-changed'; grantId: string }
/**
 * A run whose status changed. Contains all fields that `agentActivity` needs, so that receivers do not query the
 * database. The fields change only together with the status, except that the summary also changes when a person
 * named in it is erased. Times are ISO strings.
 */
export type ChangedRun = {
  id: string
  agentId: string
  status: RunStatus
  /**
   * How often the run was claimed. Receivers use it to order the signals about one run, because several processes
   * send them in any order.
   */
  attempt: number
  triggerType: TriggerType
  triggerName: string | null
  triggerSpaceId: string | null
  triggerSenderId: string | null
  triggerServiceId: string | null
  triggerSummary: string
  queuedAt: string
  startedAt: string | null
}
/**
 * Channel `agent:<id>`: the status of one of the agent's runs changed (`run` is set), the agent's activity changed
 * in another way (`run` is absent), or one of the agent's EXTERNAL calls began or stopped waiting for a service.
 */
export type AgentSignal = { type: 'run-changed'; run?: ChangedRun } | ToolSignal
/** A human receives a notification. */
export type NoticeSignal = {
  type: 'notice'
  kind: 'DECISION_WAITING' | 'MENTION' | 'MESSAGE' | 'RUN_FAILED'
  spaceId: string | null
  messageId: string | null
  toolCallId: string | null
  runId: string | null
}
/**
 * Channel `entity:<id>`: this human or agent joined or left a space, moved a read marker, was asked to decide on a
 * tool call or a standing grant, received a notification, got another role, or was deleted.
 */
export type EntitySignal =
  | { type: 'member-joined' | 'member-left' | 'read'; spaceId: string }
  | { type: 'gone' | 'role-changed' }
  | NoticeSignal
  | ToolSignal
  | GrantSignal
/** Channel `token:<id>`: the access token was revoked, or the session has ended. */
export type TokenSignal = { type: 'revoked' }
/** Channel `sessions`: these sessions have ended. */
export type SessionsSignal = { type: 'ended'; ids: string[] }
/**
 * Channel `runs`: `stop` tells the worker to stop a run that is CANCELED; `stopped` is the worker's
 * acknowledgement.
 */
export type RunSignal = { type: 'stop' | 'stopped'; runId: string }
/**
 * Channel `space:<id>`: the settings or members of the space changed, a message was posted or finished, a tool call
 * that the space shows began to wait or was settled, or the space was deleted.
 */
export type SpaceSignal =
  | { type: 'changed' | 'message' | 'member-joined' | 'member-left' | 'deleted'; entityId?: string }
  | ToolSignal
  | GrantSignal

/** Channel `models`: an admin added, changed or deleted a model provider. */
export type ModelsSignal = { type: 'providers-changed' }

/** Channel `budgets`: a reservation of a budget has ended, so runs that wait for the budget can try again. */
export type BudgetsSignal = { type: 'budget-released' }

/**
 * Channel `presence`. `by` is the sending process.
 *
 * `presence`: the changes since the last message, among the people connected to the process: who connected (`came`,
 * with the seconds since their last activity), disconnected (`went`) or was active, and who is typing in which
 * space (`leftMs`: the remaining time). `seq` counts the messages in which somebody connected or disconnected. A
 * message without content reports that the process is alive.
 *
 * `presence-of-all`: all people connected to the process. `presence-wanted`: a request for that list, to one
 * process or to all. `presence-left`: the process is shutting down.
 */
export type PresenceSignal =
  | {
      type: 'presence'
      by: string
      seq: number
      came: [humanId: string, idleSeconds: number][]
      went: string[]
      active: [humanId: string, idleSeconds: number][]
      typing: [humanId: string, spaceId: string, leftMs: number][]
    }
  | { type: 'presence-of-all'; by: string; seq: number; people: [humanId: string, idleSeconds: number][] }
  | { type: 'presence-wanted'; by: string; of: string | null }
  | { type: 'presence-left'; by: string }

/** Channel `presence-sharing`: this human started or stopped sharing their presence. */
export type PresenceSharingSignal = { type: 'sharing-changed'; humanId: string }

export type SignalPayload =
  | JobsSignal
  | AgentSignal
  | EntitySignal
  | TokenSignal
  | SessionsSignal
  | RunSignal
  | SpaceSignal
  | ModelsSignal
  | BudgetsSignal
  | PresenceSignal
  | PresenceSharingSignal

export const JOBS_CHANNEL = 'jobs'
export const RUNS_CHANNEL = 'runs'
export const MODELS_CHANNEL = 'models'
export const BUDGETS_CHANNEL = 'budgets'
export const PRESENCE_CHANNEL = 'presence'
export const PRESENCE_SHARING_CHANNEL = 'presence-sharing'
/** The channel for admins: tool calls in any space that begin or stop waiting, and standing grants that change. */
export const ADMIN_CHANNEL = 'admins'
export const agentChannel = (agentId: string): string => `agent:${agentId}`
export const entityChannel = (entityId: string): string => `entity:${entityId}`
export const SESSIONS_CHANNEL = 'sessions'
export const tokenChannel = (tokenId: string): string => `token:${tokenId}`
export const spaceChannel = (spaceId: string): string => `space:${spaceId}`
