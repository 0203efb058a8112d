import { messageOf } from '../../lib/errors.ts'
import { DEEPEST_JSON, isTooDeep, type Json, type JsonObject } from '../../lib/json.ts'
import { type Tool, ToolFailure, type ToolUse } from '../tool.ts'
import type { GuardedHttp } from './guarded-http.ts'

/** A tool that an agent brings, as it is stored. */
export interface OwnToolSettings {
  name: string
  description: string
  inputSchema: JsonObject
  execution: 'HTTP' | 'SPACE' | 'EXTERNAL' | 'INTERNAL'
  visible: boolean
  timeoutMs: number
  url: string | null
}

export interface OwnToolParts {
  http: GuardedHttp
  /** The request's headers, decrypted; asked for at the moment of the call. */
  headers(): Record<string, string>
}

/**
 * An agent's own tool, by its execution: HTTP calls its `url`, SPACE and EXTERNAL wait for an answer, INTERNAL returns its
 * input.
 */
export function ownTool(settings: OwnToolSettings, parts: OwnToolParts): Tool {
  const { name, description, inputSchema, execution, visible, timeoutMs } = settings
  const waits = execution === 'SPACE' || execution === 'EXTERNAL'
  return {
    name,
    description,
    inputSchema,
    presence: visible ? { type: 'part' } : { type: 'hidden' },
    execution,
    ...(waits ? { waitMs: timeoutMs } : {}),
    execute: (input, use) => (execution === 'HTTP' ? call(settings, parts, input, use) : Promise.resolve(input)),
  }
}

/** POSTs the input as JSON. The call's id goes as `Idempotency-Key`: a call that is repeated after a crash has the same. */
async function call(
  { url, timeoutMs }: OwnToolSettings,
  { http, headers }: OwnToolParts,
  input: JsonObject,
  use: ToolUse,
): Promise<Json> {
  const outcome = await http.send({
    method: 'POST',
    url: url ?? '',
    headers: {
      accept: 'application/json',
      ...headers(),
      'content-type': 'application/json',
      'idempotency-key': use.callId,
    },
    body: JSON.stringify(input),
    timeoutMs,
    signal: use.run.signal,
  })
  if (outcome.type === 'failure') throw new ToolFailure(outcome.code, outcome.message)
  return answerOf(outcome.contentType, outcome.body)
}

/** JSON where the answer says that it is, else its text. */
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
