import type { ApprovalPolicy } from '../../agents/approval-policy.ts'
import { openHeaders } from '../../agents/outgoing-request.ts'
import { versionOfTool } from '../../agents/tool-versions.ts'
import type { AgentTool } from '../../generated/prisma/client.ts'
import type { JsonObject } from '../../lib/json.ts'
import type { SecretBox } from '../../platform/secret-box.ts'
import type { WaitLimits } from '../../rules/approvals.ts'
import { isAnsweredOutside } from '../../rules/call-answers.ts'
import { type HttpMethod, toolRequest } from '../../rules/http-request.ts'
import { askedApproval } from '../asked-approval.ts'
import { type ApprovedCall, type Tool, ToolFailure, type ToolOutput } from '../tool.ts'
import type { GuardedHttp } from './guarded-http.ts'
import { withoutValues, withTexts } from './header-removal.ts'
import { readHttpAnswer, readHttpError } from './http-answer.ts'

/** The settings of a tool that an admin defined for an agent (the agent's own tool). */
export interface OwnToolSettings {
  name: string
  description: string
  inputSchema: JsonObject
  execution: 'HTTP' | 'SPACE' | 'EXTERNAL' | 'INTERNAL'
  visible: boolean
  timeoutMs: number
  url: string | null
  method: HttpMethod | null
  mayReceiveConfidential: boolean
}

/** The dependencies of an agent's own tools. */
export interface OwnToolParts {
  http: GuardedHttp
  secretBox: SecretBox
  limits: WaitLimits
}

/** Builds an agent's own tool, including its approval policy, from its row. */
export function ownToolOf(row: AgentTool, { http, secretBox, limits }: OwnToolParts): Tool {
  const settings = { ...row, inputSchema: row.inputSchema as JsonObject, method: row.method as HttpMethod | null }
  const { versionDigest, grantDigest } = versionOfTool(row)
  const tool = {
    ...ownTool(settings, { http, headers: () => openHeaders('tool', settings, secretBox) }),
    versionDigest,
  }
  const policy = row.approval as ApprovalPolicy | null
  if (policy === null) return tool
  const terms = { ...settings, versionDigest, grantDigest, answerMs: tool.waitMs ?? null }
  return { ...tool, approval: askedApproval(policy, terms, limits) }
}

interface RequestParts {
  http: GuardedHttp
  /** Returns the request's headers, decrypted at the time of the call. */
  headers(): Record<string, string>
}

/**
 * Builds an agent's own tool. The tool's `execution` decides what a call does. HTTP sends a request to the tool's
 * `url`, SPACE and EXTERNAL wait for an external result, and INTERNAL returns the input.
 */
export function ownTool(settings: OwnToolSettings, parts: RequestParts): Tool {
  const { name, description, inputSchema, execution, visible, timeoutMs, mayReceiveConfidential } = settings
  const isOutside = execution === 'HTTP' || execution === 'EXTERNAL'
  const waits = isAnsweredOutside({ execution })
  const executeApproved = (input: JsonObject, use: ApprovedCall) =>
    execution === 'HTTP' ? call(settings, parts, input, use) : Promise.resolve<ToolOutput>({ output: input })
  return {
    name,
    description,
    inputSchema,
    isForeign: true,
    presence: visible ? { type: 'part' } : { type: 'hidden' },
    execution,
    ...(isOutside ? { outside: { mayReceiveConfidential } } : {}),
    ...(waits ? { waitMs: timeoutMs } : {}),
    executeApproved,
    execute: executeApproved,
  }
}

/**
 * Sends the input in the request that `toolRequest` defines. The `Idempotency-Key` is the call's id, which stays the
 * same if the call is repeated after a crash.
 */
async function call(
  { url, method, timeoutMs }: OwnToolSettings,
  { http, headers }: RequestParts,
  input: JsonObject,
  { callId, signal }: ApprovedCall,
): Promise<ToolOutput> {
  const request = toolRequest({ method, url: url ?? '' }, input)
  if (request.type === 'fault') throw new ToolFailure('BAD_INPUT', request.message)
  const own = headers()
  const outcome = await http.send({
    method: request.method,
    url: request.url,
    headers: {
      accept: 'application/json',
      ...own,
      ...(request.body === null ? {} : { 'content-type': 'application/json' }),
      'idempotency-key': callId,
    },
    ...(request.body === null ? {} : { body: request.body }),
    timeoutMs,
    signal,
  })
  if (outcome.type === 'answer') return readHttpAnswer(outcome.contentType, outcome.body)
  const { code, message, response } = outcome
  const clean = withoutValues(own)
  if (response === undefined) throw new ToolFailure(code, clean(message))
  const { output, files = [] } = readHttpError(response.contentType, response.body)
  const details = output === undefined ? {} : { details: withTexts(output, clean) }
  throw new ToolFailure(code, clean(message), { ...details, files })
}
