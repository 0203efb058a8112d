import type { RunStatus } from '../generated/prisma/enums.ts'
import type { CallWait } from './call-answers.ts'
import { isEndedRun } from './statuses.ts'

// The state of a task for one viewer. A task is a run, or a message together with the runs that it started.

/** The status of a task as MCP defines it. */
export type TaskStatus = 'working' | 'input_required' | 'completed' | 'cancelled'

/** The state of a task as A2A defines it. */
export type TaskState =
  | 'TASK_STATE_WORKING'
  | 'TASK_STATE_INPUT_REQUIRED'
  | 'TASK_STATE_COMPLETED'
  | 'TASK_STATE_FAILED'
  | 'TASK_STATE_CANCELED'
  | 'TASK_STATE_REJECTED'

/** One agent's part of a task. */
export interface TaskPart {
  /** The outcome of the message for the agent; RUN for a task that is a run. */
  readonly kind: string
  /** Whether the run or think cycle that included the message has ended. */
  readonly hasRead: boolean
  /** The status of the run; null if there is no run that the viewer may see. */
  readonly runStatus: RunStatus | null
}

/** The outcome of a message that an agent can still read. */
const UNREAD = 'INBOX'
const NEVER_STARTED: ReadonlySet<string> = new Set(['LOOP_LIMIT', 'OVER_BUDGET', 'PAUSED'])

/** @param awaitsViewer whether a call of the task waits for an answer that the viewer is allowed to give */
export function taskStatusOf(parts: readonly TaskPart[], awaitsViewer: boolean): TaskStatus {
  if (awaitsViewer) return 'input_required'
  if (parts.some(isUnfinished)) return 'working'
  const runs = parts.flatMap(({ runStatus }) => runStatus ?? [])
  return runs.length > 0 && runs.every((status) => status === 'CANCELED') ? 'cancelled' : 'completed'
}

function isUnfinished({ kind, hasRead, runStatus }: TaskPart): boolean {
  return runStatus === null ? kind === UNREAD && !hasRead : !isEndedRun(runStatus)
}

export function taskStateOf(status: TaskStatus, parts: readonly Omit<TaskPart, 'hasRead'>[]): TaskState {
  if (status === 'working') return 'TASK_STATE_WORKING'
  if (status === 'input_required') return 'TASK_STATE_INPUT_REQUIRED'
  if (status === 'cancelled') return 'TASK_STATE_CANCELED'
  const every = (what: (part: Omit<TaskPart, 'hasRead'>) => boolean) => parts.length > 0 && parts.every(what)
  if (every(({ runStatus, kind }) => runStatus === 'FAILED' || kind === 'FAILED')) return 'TASK_STATE_FAILED'
  return every(({ kind }) => NEVER_STARTED.has(kind)) ? 'TASK_STATE_REJECTED' : 'TASK_STATE_COMPLETED'
}

export const isOverTask = (state: TaskState): boolean =>
  state !== 'TASK_STATE_WORKING' && state !== 'TASK_STATE_INPUT_REQUIRED'

/**
 * Whether a viewer can answer a call without posting in its space. A call that waits for a reply can be answered only
 * by a message in the space.
 */
export function isAnswerable({ waitsFor, mayDecide }: { waitsFor: CallWait | null; mayDecide: boolean }): boolean {
  return waitsFor === 'RESULT' || (waitsFor === 'DECISION' && mayDecide)
}

/**
 * Returns a key for the question of a waiting call. The key includes the digest of the call's input, so an answer to an
 * earlier input is not applied to an edited one.
 */
export function questionKeyOf(call: { id: string; waitsFor: CallWait | null; inputDigest: string | null }): string {
  return `${call.id}:${call.waitsFor === 'DECISION' ? (call.inputDigest ?? '') : 'result'}`
}
