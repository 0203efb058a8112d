import type { MessageStatus, RunStatus, ToolCallStatus } from '../generated/prisma/enums.ts'

/** Statuses of a run that can still execute. */
export const ACTIVE_RUN_STATUSES = ['QUEUED', 'RUNNING', 'WAITING_TOOL'] as const satisfies RunStatus[]
/** Statuses of a run that no worker executes now. */
export const UNCLAIMED_RUN_STATUSES = ['QUEUED', 'WAITING_TOOL'] as const satisfies RunStatus[]
export const ENDED_RUN_STATUSES = ['COMPLETED', 'FAILED', 'CANCELED'] as const satisfies RunStatus[]

/** Statuses of a tool call without a result. */
export const OPEN_CALL_STATUSES = ['STREAMING', 'RUNNING', 'WAITING'] as const satisfies ToolCallStatus[]
export const SETTLED_CALL_STATUSES = ['DONE', 'FAILED', 'TIMED_OUT', 'CANCELED'] as const satisfies ToolCallStatus[]
/** Statuses of a call that people or services can answer or could have answered: waiting, answered, or timed out. */
export const HANDED_OUT_CALL_STATUSES = ['WAITING', 'DONE', 'TIMED_OUT'] as const satisfies ToolCallStatus[]

/**
 * Statuses of a call with its own result, as opposed to a call that was settled by a time limit or by the end of its
 * run.
 */
export const ANSWERED_CALL_STATUSES = ['DONE', 'FAILED'] as const satisfies ToolCallStatus[]

/** Statuses of a message that can still change. */
export const OPEN_MESSAGE_STATUSES = ['STREAMING', 'REQUIRES_ACTION'] as const satisfies MessageStatus[]
/** Statuses of a message that was posted completely. Calls that the message shows may still be waiting for answers. */
export const POSTED_MESSAGE_STATUSES = ['COMPLETE', 'REQUIRES_ACTION'] as const satisfies MessageStatus[]
export const FINAL_MESSAGE_STATUSES = ['COMPLETE', 'INTERRUPTED'] as const satisfies MessageStatus[]

export type SettledCallStatus = (typeof SETTLED_CALL_STATUSES)[number]
export type FinalMessageStatus = (typeof FINAL_MESSAGE_STATUSES)[number]

export function isEndedRun(status: RunStatus): boolean {
  return isAmong(ENDED_RUN_STATUSES, status)
}

export function isSettledCall(status: ToolCallStatus): boolean {
  return isAmong(SETTLED_CALL_STATUSES, status)
}

export function isAnsweredCall(status: ToolCallStatus): boolean {
  return isAmong(ANSWERED_CALL_STATUSES, status)
}

export function isHandedOutCall(status: ToolCallStatus): boolean {
  return isAmong(HANDED_OUT_CALL_STATUSES, status)
}

export function isPostedMessage(status: MessageStatus): boolean {
  return isAmong(POSTED_MESSAGE_STATUSES, status)
}

export function isFinalMessage(status: MessageStatus): boolean {
  return isAmong(FINAL_MESSAGE_STATUSES, status)
}

function isAmong(statuses: readonly string[], status: string): boolean {
  return statuses.includes(status)
}
