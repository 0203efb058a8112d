import type { Interrupt, ResumeEntry } from '@ag-ui/core'
import { badInput, type Caller, type Exchange } from '../exchange.ts'
import type { PendingCall } from '../operations.ts'
import { answerCall, type CallAnswer, pathOfCall, readCall, wordsOf } from '../waiting-calls.ts'
import { keyOf } from './messages.ts'

/**
 * Returns the id of the interrupt for a call. For a decision, the id contains a digest of the input, because a
 * changed input needs a new decision.
 */
const interruptId = ({ id, waitsFor, approval }: PendingCall): string =>
  waitsFor === 'DECISION' && approval !== null ? `${id}.${approval.inputDigest}` : id

const REASONS = { DECISION: 'approval_required', RESULT: 'tool_result_required', MESSAGE: 'reply_required' } as const

const DECISION_SCHEMA = {
  type: 'object',
  properties: {
    approve: { type: 'boolean' },
    reason: { type: 'string' },
    input: { description: 'Replaces the input of the call.' },
  },
  required: ['approve'],
}
const SCHEMAS = {
  DECISION: DECISION_SCHEMA,
  RESULT: null,
  MESSAGE: { type: 'object', properties: { text: { type: 'string' } } },
}

/** Returns the interrupt for a call that waits for people. */
export function interruptOf(
  call: PendingCall,
  { spaceId, linkTo }: { spaceId: string } & Pick<Exchange, 'linkTo'>,
): Interrupt {
  const { id, toolName, agent, waitsFor, approval, message } = call
  const expiresAt = waitsFor === 'DECISION' ? (approval?.expiresAt ?? null) : call.expiresAt
  const reason = waitsFor ?? 'RESULT'
  const schema = SCHEMAS[reason]
  const mayAnswer = waitsFor !== 'DECISION' || approval?.mayDecide === true
  const parley = { toolCallId: id, toolName, agent, mayAnswer, link: linkTo(pathOfCall(call)) }
  return {
    id: interruptId(call),
    reason: REASONS[reason],
    message: wordsOf(call),
    ...(message?.space.id === spaceId ? { toolCallId: id } : {}),
    ...(schema === null ? {} : { responseSchema: schema }),
    ...(expiresAt === null ? {} : { expiresAt }),
    metadata: { parley },
  }
}

/**
 * Answers calls with a client's `resume` entries. Returns the `rootId` of the run that made the last answered call;
 * null if there is none.
 * @throws DoorError
 */
export async function resume(caller: Caller, entries: readonly ResumeEntry[]): Promise<string | null> {
  let rootId: string | null = null
  for (const entry of entries) {
    const [callId = '', inputDigest = null] = entry.interruptId.split('.')
    const call = await readCall(caller, callId)
    rootId = call.run?.rootId ?? rootId
    const answer = answerOf(call, entry, inputDigest)
    if (answer !== null) await answerCall(caller, call, answer)
  }
  return rootId
}

/** Returns the answer to a call; null if the call no longer waits, or should keep waiting. @throws DoorError */
function answerOf({ waitsFor }: PendingCall, entry: ResumeEntry, inputDigest: string | null): CallAnswer | null {
  const { interruptId: id, status, payload } = entry
  if (waitsFor === null) return null
  if (waitsFor === 'RESULT')
    return { type: 'result', result: status === 'cancelled' ? { status: 'cancelled' } : (payload ?? null) }
  const given: unknown = payload
  const fields = (typeof given === 'object' && given !== null ? given : {}) as Record<string, unknown>
  if (waitsFor === 'MESSAGE') {
    const text = typeof given === 'string' ? given : fields['text']
    if (status === 'cancelled') return null
    if (typeof text !== 'string') throw badInput(`The payload for ${id} must have a text.`, 'resume')
    return { type: 'message', text, idempotencyKey: keyOf(id) }
  }
  const approve =
    status === 'cancelled' ? false : (asBoolean(given) ?? asBoolean(fields['approve']) ?? asBoolean(fields['approved']))
  if (approve === null)
    throw badInput(`The payload for ${id} must be { "approve": true } or { "approve": false }.`, 'resume')
  const { reason } = fields
  return {
    type: 'decision',
    approve,
    reason: typeof reason === 'string' ? reason : null,
    input: approve ? fields['input'] : undefined,
    inputDigest,
  }
}

const asBoolean = (value: unknown): boolean | null => (typeof value === 'boolean' ? value : null)
