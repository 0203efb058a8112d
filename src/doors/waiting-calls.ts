import { type Caller, DoorError } from './exchange.ts'
import { CALL, DECIDE, mutate, type PendingCall, SUBMIT_RESULT, sendMessage } from './operations.ts'

/** Returns a sentence that says whom or what an agent is waiting for. */
export function wordsOf({ waitsFor, agent, toolName, approval }: PendingCall): string {
  if (waitsFor === 'MESSAGE') return `${agent.name} is waiting for a reply.`
  if (waitsFor === 'RESULT') return `${agent.name} is waiting for the result of ${toolName}.`
  const approvers = approval?.approvers.map(({ name }) => name) ?? []
  const who = approvers.length === 0 ? 'Somebody' : listOf(approvers)
  return `${who} must decide whether ${agent.name} may call ${toolName}.`
}

const MOST_NAMES = 5

function listOf(names: readonly string[]): string {
  const shown = names.length > MOST_NAMES ? [...names.slice(0, MOST_NAMES), 'others'] : [...names]
  const last = shown.pop() ?? ''
  return shown.length === 0 ? last : `${shown.join(', ')} or ${last}`
}

/** Returns the path of the page in the console where people answer a call. */
export const pathOfCall = ({ message }: Pick<PendingCall, 'message'>): string =>
  message === null ? '/waiting' : `/spaces/${message.space.id}#${message.id}`

/** An answer to a waiting call. */
export type CallAnswer =
  | { type: 'decision'; approve: boolean; reason: string | null; input: unknown; inputDigest: string | null }
  | { type: 'result'; result: unknown }
  | { type: 'message'; text: string; idempotencyKey: string }

const READ = `query DoorCall($id: ID!) { node(id: $id) { ... on ToolCall { ...DoorCall } } }
${CALL}`

/** Reads a call. @throws DoorError if the call does not exist */
export async function readCall(caller: Caller, id: string): Promise<PendingCall> {
  const { node } = await caller.ask<{ node: PendingCall | null }>(READ, { id })
  if (node?.id === undefined) throw new DoorError('NOT_FOUND', 'There is no such tool call.')
  return node
}

/**
 * Answers a call. Does nothing if the call was already answered or decided, or if its input was changed. @throws
 * DoorError
 */
export async function answerCall(caller: Caller, { id, message }: PendingCall, answer: CallAnswer): Promise<void> {
  try {
    if (answer.type === 'message') {
      const { text, idempotencyKey } = answer
      if (message === null) return
      // A question that was asked in a thread is answered in this thread.
      const place = message.threadRoot === null ? {} : { replyToId: message.id }
      await sendMessage(caller, { spaceId: message.space.id, text, idempotencyKey, ...place })
    } else if (answer.type === 'result') {
      await mutate(caller, SUBMIT_RESULT, { toolCallId: id, result: answer.result })
    } else {
      const { type: _, input: edited, ...decision } = answer
      await mutate(caller, DECIDE, { toolCallId: id, ...decision, ...(edited === undefined ? {} : { input: edited }) })
    }
  } catch (error) {
    if (!(error instanceof DoorError && error.code === 'CONFLICT')) throw error
  }
}
