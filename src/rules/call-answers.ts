import type { ToolCall, ToolExecution } from '../generated/prisma/client.ts'
import type { TokenScope } from '../generated/prisma/enums.ts'

/** Kinds of execution in which people or services submit the result. */
export const EXECUTIONS_OUTSIDE = ['SPACE', 'EXTERNAL'] as const satisfies ToolExecution[]

type Executed = Readonly<Pick<ToolCall, 'execution'>>

/** Whether people or services, not the server, execute the calls to a tool. */
export function isAnsweredOutside({ execution }: Executed): boolean {
  return EXECUTIONS_OUTSIDE.some((outside) => outside === execution)
}

/**
 * Whether viewers with this scope can submit results of calls to the tool: humans for SPACE, services for EXTERNAL,
 * admins for both. `mayAnswer` also checks the space or agent of the call.
 */
export function isAnsweredBy({ execution }: Executed, scope: TokenScope): boolean {
  if (scope === 'ADMIN') return isAnsweredOutside({ execution })
  return execution === (scope === 'HUMAN' ? 'SPACE' : 'EXTERNAL')
}

/** A viewer, with the facts that determine whether the viewer may answer a call. */
export type CallAnswerer =
  | { readonly scope: 'ADMIN' }
  /** `isMember`: whether the human is a member of the space that shows the call. */
  | { readonly scope: 'HUMAN'; readonly isMember: boolean }
  /** `isGranted`: whether the token gives access to the agent that made the call. */
  | { readonly scope: 'SERVICE'; readonly isGranted: boolean }

/** Whether a viewer may submit the result of a call. */
export function mayAnswer(call: Executed, answerer: CallAnswerer): boolean {
  if (!isAnsweredBy(call, answerer.scope)) return false
  switch (answerer.scope) {
    case 'ADMIN':
      return true
    case 'HUMAN':
      return answerer.isMember
    case 'SERVICE':
      return answerer.isGranted
  }
}

/**
 * The events for which a call can wait. RESULT: a submitted result. DECISION: a decision by people. MESSAGE: a message
 * in the call's space.
 */
export type CallWait = 'RESULT' | 'DECISION' | 'MESSAGE'

/** Returns what a call waits for; null if it does not wait. */
export function waitsFor(
  call: Readonly<Pick<ToolCall, 'status' | 'approvalState' | 'state' | 'settledAt'>>,
): CallWait | null {
  if (call.status === 'WAITING') return call.approvalState === 'PENDING' ? 'DECISION' : 'RESULT'
  return waitsForReply(call) ? 'MESSAGE' : null
}

/** Whether a built-in call waits for people or agents to reply to its message. */
export function waitsForReply({
  status,
  state,
  settledAt,
}: Readonly<Pick<ToolCall, 'status' | 'state' | 'settledAt'>>): boolean {
  return status === 'RUNNING' && settledAt === null && (state as { wait?: unknown } | null)?.wait !== undefined
}
