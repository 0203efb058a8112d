import type { Limits } from '../config.ts'
import { Prisma, type AgentTool as Row, type ToolExecution } from '../generated/prisma/client.ts'
import { BadInputError } from '../lib/errors.ts'
import type { Requester } from '../lib/fair-queue.ts'
import { type Json, type JsonObject, toJson } from '../lib/json.ts'
import { checkInputSchema, checkSchema } from '../lib/schema-checks.ts'
import { checkInteger, checkJsonSize, checkText, indexOfRepeat } from '../lib/validate.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import type { SecretBox } from '../platform/secret-box.ts'
import { isAnsweredOutside } from '../rules/call-answers.ts'
import { HTTP_METHODS, type HttpMethod, templateFault } from '../rules/http-request.ts'
import { replaceToolRows } from '../stores/tool-store.ts'
import { type ApprovalPolicy, type ApprovalPolicyInput, checkApproval } from './approval-policy.ts'
import {
  checkHeaders,
  checkOriginOfKept,
  checkUrl,
  type Headers,
  type HeadersInput,
  sealHeaders,
} from './outgoing-request.ts'
import { checkToolName, isBuiltInTool } from './tool-names.ts'

/** A custom tool of an agent. Its headers are encrypted (see `openHeaders`). */
export interface CustomTool extends Omit<Row, 'inputSchema' | 'approval'> {
  inputSchema: JsonObject
  approval: ApprovalPolicy | null
}

export interface ToolInput {
  name: string
  description: string
  inputSchema: unknown
  execution: ToolExecution
  visible?: boolean | null
  timeoutMs?: number | null
  url?: string | null
  /** The HTTP method. If absent, the request is a POST with the whole input as JSON to the unchanged URL. */
  method?: string | null
  /** In an update, undefined lets the tool with the same name keep its headers, and null removes them. */
  headers?: HeadersInput
  approval?: ApprovalPolicyInput | null
  /** A JSON Schema for the submitted result. */
  resultSchema?: unknown
  mayReceiveConfidential?: boolean | null
  alwaysAsk?: boolean | null
}

/** The validated settings of a tool, with defaults filled in. */
export interface CheckedTool {
  name: string
  description: string
  inputSchema: JsonObject
  execution: ToolExecution
  visible: boolean
  timeoutMs: number
  /** Whether the input set the timeout. */
  timeoutGiven: boolean
  url: string | null
  method: HttpMethod | null
  /** The headers. Undefined keeps the stored ones. */
  headers: Headers | null | undefined
  approval: ApprovalPolicy | null
  resultSchema: Json
  mayReceiveConfidential: boolean
  /** Whether standing grants cannot cover the tool's calls. */
  alwaysAsk: boolean
}

/** The custom tools of agents. */
export interface CustomTools {
  /** Returns the tools of each agent in the order of the input. The map has no entry for an agent without tools. */
  listMany(agentIds: readonly string[]): Promise<Map<string, CustomTool[]>>
}

const MOST_TOOLS = 100
const LONGEST_TOOL_DESCRIPTION = 8000
const HTTP_TIMEOUT_MS = 30_000
const LONGEST_HTTP_TIMEOUT_MS = 600_000
/** The maximum value of GraphQL's Int. In milliseconds, this is 24 days. */
const LONGEST_WAIT_MS = 2_147_483_647

export function createCustomTools({ db }: Pick<Platform, 'db'>): CustomTools {
  return {
    async listMany(agentIds) {
      const rows = await db.prisma.agentTool.findMany({
        where: { agentId: { in: [...agentIds] } },
        orderBy: [{ agentId: 'asc' }, { position: 'asc' }],
      })
      const tools = rows.map(toolOf)
      return Map.groupBy(tools, ({ agentId }) => agentId)
    },
  }
}

function toolOf(row: Row): CustomTool {
  return { ...row, inputSchema: row.inputSchema as JsonObject, approval: row.approval as ApprovalPolicy | null }
}

/** The maximum length of a tool's schema in characters. It is limited because each request to the model contains the schema. */
const LONGEST_SCHEMA = 65_536

/** The requester of schema checks for admins. Only admins create tools, so these checks are not rate-limited. */
const ADMINS: Requester = { id: 'admins', isPatient: true }

/**
 * Checks the schemas of tools. Call this before locking rows, because the check of an untrusted schema can take long.
 * @throws BadInputError with the invalid field
 */
export async function checkToolSchemas(tools: readonly ToolInput[] | null | undefined): Promise<void> {
  for (const [index, tool] of (tools ?? []).slice(0, MOST_TOOLS).entries()) {
    await checkSchemasOfTool(tool, `input.tools.${index}`)
  }
}

/** Checks the schemas of one tool. @throws BadInputError */
export async function checkSchemasOfTool({ inputSchema, resultSchema }: ToolInput, field: string): Promise<void> {
  await checkOne(inputSchema, `${field}.inputSchema`, checkInputSchema)
  if (resultSchema != null) await checkOne(resultSchema, `${field}.resultSchema`, checkSchema)
}

async function checkOne(schema: unknown, field: string, check: typeof checkSchema): Promise<void> {
  checkJsonSize(schema, field)
  const isLong = JSON.stringify(schema).length > LONGEST_SCHEMA
  const fault = isLong ? `A schema has at most ${LONGEST_SCHEMA} characters.` : await check(schema, ADMINS)
  if (fault !== null) throw new BadInputError(fault, field)
}

/**
 * Validates an agent's tools, except their schemas (see `checkToolSchemas`). @throws BadInputError with the invalid
 * field
 * @param isTaken whether a built-in tool has the name
 */
export function checkTools(tools: readonly ToolInput[], limits: Limits, isTaken = isBuiltInTool): CheckedTool[] {
  if (tools.length > MOST_TOOLS)
    throw new BadInputError(`An agent can have at most ${MOST_TOOLS} tools.`, 'input.tools')
  const checked = tools.map((tool, index) => {
    const field = `input.tools.${index}`
    if (isTaken(tool.name))
      throw new BadInputError('A built-in tool has this name: choose another name.', `${field}.name`)
    return checkTool(tool, field, limits)
  })
  const repeat = indexOfRepeat(checked.map(({ name }) => name))
  if (repeat !== -1)
    throw new BadInputError(
      'Another tool of the agent has this name: choose another name.',
      `input.tools.${repeat}.name`,
    )
  return checked
}

/**
 * Validates one tool. Does not check its schemas, or whether its name is free. @throws BadInputError with the invalid
 * field
 */
export function checkTool(tool: ToolInput, field: string, limits: Limits): CheckedTool {
  const name = checkToolName(tool.name, `${field}.name`)
  const isSpace = tool.execution === 'SPACE'
  if (isSpace && tool.visible === false) {
    throw new BadInputError(
      'A SPACE tool must be visible, because members answer the call in the space.',
      `${field}.visible`,
    )
  }
  return {
    name,
    description: checkText(tool.description, LONGEST_TOOL_DESCRIPTION, `${field}.description`),
    inputSchema: toJson(tool.inputSchema) as JsonObject,
    execution: tool.execution,
    visible: tool.visible ?? isSpace,
    timeoutMs: checkTimeout(tool, `${field}.timeoutMs`, limits),
    timeoutGiven: tool.timeoutMs != null,
    approval: checkApproval(tool.approval, `${field}.approval`, limits),
    resultSchema: resultSchemaOf(tool, `${field}.resultSchema`),
    mayReceiveConfidential: tool.mayReceiveConfidential === true,
    alwaysAsk: tool.alwaysAsk === true,
    ...checkRequest(tool, field),
  }
}

function checkTimeout({ execution, timeoutMs }: ToolInput, field: string, { toolWaitSeconds }: Limits): number {
  const waits = isAnsweredOutside({ execution })
  const fallback = waits ? toolWaitSeconds * 1000 : HTTP_TIMEOUT_MS
  return checkInteger(timeoutMs ?? fallback, 1, waits ? LONGEST_WAIT_MS : LONGEST_HTTP_TIMEOUT_MS, field)
}

function resultSchemaOf({ execution, resultSchema }: ToolInput, field: string): Json {
  if (resultSchema == null) return null
  if (!isAnsweredOutside({ execution }))
    throw new BadInputError('Only a SPACE or EXTERNAL tool may have a resultSchema.', field)
  return toJson(resultSchema)
}

function checkRequest(
  { execution, url, method, headers }: ToolInput,
  field: string,
): Pick<CheckedTool, 'url' | 'method' | 'headers'> {
  if (execution === 'HTTP') {
    if (url == null) throw new BadInputError('An HTTP tool needs a URL.', `${field}.url`)
    const kept = headers === undefined ? undefined : checkHeaders(headers, `${field}.headers`)
    return { url: checkUrl(url, `${field}.url`), method: checkMethod(method, url, field), headers: kept }
  }
  if (method != null) throw new BadInputError('Only an HTTP tool has a method.', `${field}.method`)
  if (url != null) throw new BadInputError('Only an HTTP tool has a URL.', `${field}.url`)
  if (headers != null) throw new BadInputError('Only an HTTP tool has headers.', `${field}.headers`)
  return { url: null, method: null, headers: null }
}

function checkMethod(given: string | null | undefined, url: string, field: string): HttpMethod | null {
  if (given == null) return null
  const method = HTTP_METHODS.find((one) => one === given)
  if (method === undefined)
    throw new BadInputError(`The method must be one of ${HTTP_METHODS.join(', ')}.`, `${field}.method`)
  const fault = templateFault(url)
  if (fault !== null) throw new BadInputError(fault, `${field}.url`)
  return method
}

/** Replaces the tools of an agent, in the caller's transaction. */
export async function replaceTools(tx: Tx, agentId: string, tools: CheckedTool[], secretBox: SecretBox): Promise<void> {
  const before = await tx.agentTool.findMany({
    where: { agentId },
    select: { name: true, url: true, headersSealed: true, headerNames: true },
  })
  const kept = new Map(before.map(({ name, ...headers }) => [name, headers]))
  for (const [index, tool] of tools.entries()) checkOriginOfKept(tool, kept.get(tool.name), `input.tools.${index}`)
  const data = tools.map(
    ({ headers, inputSchema, approval, resultSchema, ...tool }, position): Prisma.AgentToolCreateManyInput => ({
      agentId,
      position,
      ...tool,
      inputSchema: inputSchema as Prisma.InputJsonValue,
      approval: approval ?? Prisma.DbNull,
      resultSchema: (resultSchema as Prisma.InputJsonValue | null) ?? Prisma.DbNull,
      ...sealHeaders(headers, kept.get(tool.name), { kind: 'tool', agentId, name: tool.name }, secretBox),
    }),
  )
  await replaceToolRows(tx, agentId, data)
}
