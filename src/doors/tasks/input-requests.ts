import { isObject } from '../../lib/json.ts'
import { questionKeyOf } from '../../rules/task-state.ts'
import { firstInBytes } from '../bytes.ts'
import { badInput, type Caller, DoorError } from '../exchange.ts'
import { DECIDE, mutate, SUBMIT_RESULT } from '../operations.ts'
import type { PendingCall } from './documents.ts'
import { isAnswerableCall } from './tasks.ts'

/** A request for an answer from the user, in the form in which MCP embeds it in results. */
export interface InputRequest {
  method: 'elicitation/create'
  params: { mode: 'form'; message: string; requestedSchema: FormSchema }
}

interface FormSchema {
  type: 'object'
  properties: Record<string, Record<string, unknown>>
  required?: string[]
}

export type InputRequests = Record<string, InputRequest>

/** The client's answers by the key of the request. They are not validated yet. */
export type InputResponses = Readonly<Record<string, unknown>>

/** The maximum number of characters of an input or a schema that a request shows. */
const LONGEST_SHOWN = 4000
/** The field types that forms support. */
const FIELD_TYPES = ['string', 'number', 'integer', 'boolean']
const OF_RESULT = 'result'

const keyOf = ({ id, waitsFor, approval }: PendingCall): string =>
  questionKeyOf({ id, waitsFor, inputDigest: approval?.inputDigest ?? null })

/**
 * Whether a form shows the whole input of the call. An answer to the form counts as an answer to the call only in
 * this case.
 */
const fitsForm = ({ input }: PendingCall): boolean => safeJson(input).length <= LONGEST_SHOWN
const takesForm = (call: PendingCall): boolean => isAnswerableCall(call) && fitsForm(call)

/**
 * Returns a request for each call that the viewer may answer with a form, up to `maxBytes` of JSON. The remaining
 * requests follow after these have been answered.
 */
export function inputRequestsOf(calls: readonly PendingCall[], maxBytes: number): InputRequests {
  const requests = calls.filter(takesForm).map((call) => [keyOf(call), requestOf(call)] as const)
  return Object.fromEntries(firstInBytes(requests, maxBytes))
}

/** Whether at least one of the calls can be answered with a form. */
export const takeForms = (calls: readonly PendingCall[]): boolean => calls.some(takesForm)

/** Returns a text that lists the calls whose input is too long for a form; null if there are none. */
export function consoleOnly(calls: readonly PendingCall[]): string | null {
  const long = calls.filter((call) => isAnswerableCall(call) && !fitsForm(call))
  if (long.length === 0) return null
  const names = long.map(({ agent, toolName, id }) => `${safeJson(agent.name)}: ${toolName} (${id})`).join(', ')
  return `The inputs of these calls are too long for a form. Answer them in the console: ${names}.`
}

function requestOf(call: PendingCall): InputRequest {
  const isDecision = call.waitsFor === 'DECISION'
  const { agent, toolName, id, input, resultSchema } = call
  const what = isDecision ? 'needs approval for the call' : 'waits for the result of the call'
  const message = `The agent ${safeJson(agent.name)} ${what} ${toolName} (${id}). Its input:\n${safeJson(input)}`
  if (isDecision) return { method: 'elicitation/create', params: { mode: 'form', message, requestedSchema: DECISION } }
  const form = formOf(resultSchema)
  const requestedSchema = form ?? textForm(resultSchema)
  return { method: 'elicitation/create', params: { mode: 'form', message, requestedSchema } }
}

const DECISION: FormSchema = {
  type: 'object',
  properties: {
    approve: { type: 'boolean', title: 'Approve', description: 'True executes the call, false denies it.' },
    reason: { type: 'string', title: 'Reason', description: 'Shown to the agent and to other approvers.' },
  },
  required: ['approve'],
}

const textForm = (schema: unknown): FormSchema => ({
  type: 'object',
  properties: {
    [OF_RESULT]: { type: 'string', title: 'Result', description: `JSON that matches this schema: ${shown(schema)}` },
  },
  required: [OF_RESULT],
})

/**
 * Returns JSON in which control, format and bidi characters are escaped, because they could hide or reorder other
 * characters.
 */
export function safeJson(value: unknown): string {
  return JSON.stringify(value ?? null).replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (character) =>
    Array.from({ length: character.length }, (_, at) => character.charCodeAt(at))
      .map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`)
      .join(''),
  )
}

function shown(value: unknown): string {
  const text = safeJson(value)
  return text.length > LONGEST_SHOWN ? `${text.slice(0, LONGEST_SHOWN)}…` : text
}

/** Returns the schema as a form; null if some fields have types that forms do not support. */
function formOf(schema: unknown): FormSchema | null {
  const { type, properties, required } = (schema ?? {}) as Partial<FormSchema>
  if (type !== 'object' || typeof properties !== 'object' || properties === null) return null
  const fields = Object.entries(properties)
  const isSimple = ([, field]: [string, Record<string, unknown>]) => FIELD_TYPES.includes(String(field?.['type']))
  if (fields.length === 0 || !fields.every(isSimple)) return null
  return { type, properties: Object.fromEntries(fields.map(formField)), ...(required ? { required } : {}) }
}

const KEPT = ['type', 'title', 'description', 'enum', 'default', 'minimum', 'maximum', 'minLength', 'maxLength']

function formField([name, field]: [string, Record<string, unknown>]): [string, Record<string, unknown>] {
  return [name, Object.fromEntries(KEPT.flatMap((key) => (key in field ? [[key, field[key]]] : [])))]
}

/**
 * Applies the client's answers to the waiting calls. Ignores answers to unknown calls, to settled calls, and to
 * calls whose input was edited since the request. Returns the keys of requests that the user dismissed.
 * @throws DoorError if an answer is refused, after applying the others
 */
export async function answerCalls(
  caller: Caller,
  calls: readonly PendingCall[],
  responses: InputResponses,
): Promise<ReadonlySet<string>> {
  const dismissed = new Set<string>()
  let refusal: DoorError | null = null
  for (const call of calls.filter(takesForm)) {
    const answer = answerOf(call, responses[keyOf(call)])
    if (answer === 'dismissed') dismissed.add(keyOf(call))
    if (answer === null || answer === 'dismissed') continue
    try {
      await mutate(caller, answer.document, answer.input)
    } catch (error) {
      if (!(error instanceof DoorError)) throw error
      if (!TOO_LATE.has(error.code)) refusal ??= error
    }
  }
  if (refusal !== null) throw refusal
  return dismissed
}

/** The codes of refused answers to calls that have ended, or that somebody else has answered or edited. */
const TOO_LATE: ReadonlySet<string> = new Set(['CONFLICT', 'NOT_FOUND'])

type Answer = { document: string; input: Record<string, unknown> }

/**
 * Reads the answer to a call; null if the response contains none.
 * @throws DoorError if the answer does not match the form
 */
function answerOf(call: PendingCall, response: unknown): Answer | 'dismissed' | null {
  if (!isObject(response)) return null
  const { action, content } = response
  if (action === 'cancel') return 'dismissed'
  if (action !== 'decline' && action !== 'accept') return null
  const given = action === 'accept' && isObject(content) ? content : {}
  if (call.waitsFor === 'DECISION') return decisionOf(call, action, given)
  if (action === 'decline') return 'dismissed'
  return { document: SUBMIT_RESULT, input: { toolCallId: call.id, result: resultOf(call, given) } }
}

/**
 * Reads a decision on a call. If the user declines the form, the call is denied, because the form asks for an
 * approval.
 */
function decisionOf(
  { id, approval }: PendingCall,
  action: 'accept' | 'decline',
  { approve: given, reason }: Record<string, unknown>,
): Answer {
  if (action === 'accept' && typeof given !== 'boolean') throw badInput('The answer needs `approve`: true or false.')
  const input = {
    toolCallId: id,
    approve: action === 'accept' && given === true,
    reason: typeof reason === 'string' && reason !== '' ? reason : null,
    inputDigest: approval?.inputDigest ?? null,
  }
  return { document: DECIDE, input }
}

function resultOf({ resultSchema }: PendingCall, given: Record<string, unknown>): unknown {
  if (formOf(resultSchema) !== null) return given
  const text = given[OF_RESULT]
  if (typeof text !== 'string') throw badInput('The answer needs `result`: JSON in a string.')
  try {
    return JSON.parse(text)
  } catch {
    // A text that is not JSON is used as the result itself, for example if the result of the tool is a string.
    return text
  }
}
