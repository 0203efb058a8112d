import { messageOf } from '../../lib/errors.ts'
import { DEEPEST_JSON, isTooDeep, type Json, type JsonObject } from '../../lib/json.ts'
import { type CarriedCall, type Tool, ToolFailure } from '../tool.ts'
import type { GuardedHttp } from './guarded-http.ts'

/** An agent's own tool, as it is stored. */
export interface OwnToolSettings {
  name: string
  description: string
  inputSchema: JsonObject
  execution: 'HTTP' | 'SPACE' | 'EXTERNAL' | 'INTERNAL'
  visible: boolean
  timeoutMs: number
  url: string | null
  mayReceiveConfidential: boolean
}

export interface OwnToolParts {
  http: GuardedHttp
  /** Returns the request's headers, decrypted at the time of the call. */
  headers(): Record<string, string>
}

/**
 * Builds an agent's own tool by its execution: HTTP posts to its `url`, SPACE and EXTERNAL wait for a result
 * from outside, INTERNAL returns its input.
 */
export function ownTool(settings: OwnToolSettings, parts: OwnToolParts): Tool {
  const { name, description, inputSchema, execution, visible, timeoutMs, mayReceiveConfidential } = settings
  const isOutside = execution === 'HTTP' || execution === 'EXTERNAL'
  const waits = execution === 'SPACE' || execution === 'EXTERNAL'
  const carryOut = (input: JsonObject, use: CarriedCall) =>
    execution === 'HTTP' ? call(settings, parts, input, use) : Promise.resolve<Json>(input)
  return {
    name,
    description,
    inputSchema,
    isForeign: true,
    presence: visible ? { type: 'part' } : { type: 'hidden' },
    execution,
    ...(isOutside ? { outside: { mayReceiveConfidential } } : {}),
    ...(waits ? { waitMs: timeoutMs } : {}),
    carryOut,
    execute: (input, { callId, run }) => carryOut(input, { callId, signal: run.signal }),
  }
}

/**
 * POSTs the input as JSON. The `Idempotency-Key` is the call's id, which stays the same if the call is
 * repeated after a crash.
 */
async function call(
  { url, timeoutMs }: OwnToolSettings,
  { http, headers }: OwnToolParts,
  input: JsonObject,
  { callId, signal }: CarriedCall,
): Promise<Json> {
  const own = headers()
  const outcome = await http.send({
    method: 'POST',
    url: url ?? '',
    headers: {
      accept: 'application/json',
      ...own,
      'content-type': 'application/json',
      'idempotency-key': callId,
    },
    body: JSON.stringify(input),
    timeoutMs,
    signal,
  })
  if (outcome.type === 'failure') throw new ToolFailure(outcome.code, withoutValues(outcome.message, own))
  return answerOf(outcome.contentType, outcome.body)
}

/** Removes header values from a message, in case the server echoes them, so that the model does not see them. */
function withoutValues(message: string, headers: Record<string, string>): string {
  const secrets = Object.values(headers).filter(({ length }) => length >= SHORTEST_SECRET)
  return secrets.reduce((cleaned, secret) => cleaned.replaceAll(secret, '[removed]'), message)
}

/** Shorter values could match ordinary words. */
const SHORTEST_SECRET = 6

/** Parses the response as JSON if its content type is JSON, else returns its text. */
function answerOf(contentType: string, body: string): Json {
  if (!/[/+]json\b/.test(contentType)) return body
  try {
    const answer = JSON.parse(body) as Json
    if (!isTooDeep(answer)) return answer
  } catch (error) {
    throw new ToolFailure(
      'BAD_ANSWER',
      `The tool's server says that it answers with JSON, but does not: ${messageOf(error)}`,
    )
  }
  throw new ToolFailure('BAD_ANSWER', `The tool's server answers with JSON nested deeper than ${DEEPEST_JSON}.`)
}
