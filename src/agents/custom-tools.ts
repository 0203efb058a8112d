import type { Limits } from '../config.ts'
import type { Prisma, AgentTool as Row, ToolExecution } from '../generated/prisma/client.ts'
import { BadInputError } from '../lib/errors.ts'
import { type JsonObject, toJson } from '../lib/json.ts'
import { checkInteger, checkJsonSize, checkText } from '../lib/validate.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import type { SecretBox } from '../platform/secret-box.ts'
import { checkHeaders, checkUrl, type Headers, type HeadersInput, sealHeaders } from './outgoing-request.ts'
import { BUILT_IN_TOOL_NAMES, checkToolName, indexOfRepeat } from './tool-names.ts'

/** A tool that an agent brings. Its headers are sealed: see `openHeaders`. */
export interface CustomTool extends Omit<Row, 'inputSchema'> {
  inputSchema: JsonObject
}

export interface ToolInput {
  name: string
  description: string
  inputSchema: unknown
  execution: ToolExecution
  visible?: boolean | null
  timeoutMs?: number | null
  url?: string | null
  /** Undefined in an update keeps those of the tool of the same name; null removes them. */
  headers?: HeadersInput
}

/** A tool's settings, checked, defaults filled in. */
export interface CheckedTool {
  name: string
  description: string
  inputSchema: JsonObject
  execution: ToolExecution
  visible: boolean
  timeoutMs: number
  /** Whether it was given, and is not the default. */
  timeoutGiven: boolean
  url: string | null
  /** Undefined: keep. */
  headers: Headers | null | undefined
}

/** The tools that agents bring. */
export interface CustomTools {
  /** The tools of each agent in the order in which they were given; an agent without any is left out. */
  listMany(agentIds: readonly string[]): Promise<Map<string, CustomTool[]>>
}

const MOST_TOOLS = 100
const LONGEST_TOOL_DESCRIPTION = 8000
const HTTP_TIMEOUT_MS = 30_000
const LONGEST_HTTP_TIMEOUT_MS = 600_000
const LONGEST_WAIT_MS = 86_400_000

export function createCustomTools({ db }: Pick<Platform, 'db'>): CustomTools {
  return {
    async listMany(agentIds) {
      const rows = await db.prisma.agentTool.findMany({
        where: { agentId: { in: [...agentIds] } },
        orderBy: [{ agentId: 'asc' }, { position: 'asc' }],
      })
      const tools = rows.map((row): CustomTool => ({ ...row, inputSchema: row.inputSchema as JsonObject }))
      return Map.groupBy(tools, ({ agentId }) => agentId)
    },
  }
}

interface ToolHooks {
  checkInputSchema(schema: unknown): string | null
}

/** An agent's tools as they may be kept. @throws BadInputError with the field at fault. */
export function checkTools(tools: readonly ToolInput[], limits: Limits, hooks: ToolHooks): CheckedTool[] {
  if (tools.length > MOST_TOOLS) throw new BadInputError(`At most ${MOST_TOOLS} tools.`, 'input.tools')
  const checked = tools.map((tool, index) => checkTool(tool, `input.tools.${index}`, limits, hooks))
  const repeat = indexOfRepeat(checked.map(({ name }) => name))
  if (repeat !== -1) throw new BadInputError('Another tool of the agent has this name.', `input.tools.${repeat}.name`)
  return checked
}

function checkTool(tool: ToolInput, field: string, limits: Limits, hooks: ToolHooks): CheckedTool {
  const name = checkToolName(tool.name, `${field}.name`)
  if (BUILT_IN_TOOL_NAMES.has(name)) throw new BadInputError('A built-in tool has this name.', `${field}.name`)
  checkJsonSize(tool.inputSchema, `${field}.inputSchema`)
  const fault = hooks.checkInputSchema(tool.inputSchema)
  if (fault !== null) throw new BadInputError(fault, `${field}.inputSchema`)
  const isSpace = tool.execution === 'SPACE'
  if (isSpace && tool.visible === false) {
    throw new BadInputError('A SPACE tool is answered where it shows: it cannot be invisible.', `${field}.visible`)
  }
  return {
    name,
    description: checkText(tool.description, LONGEST_TOOL_DESCRIPTION, `${field}.description`),
    inputSchema: toJson(tool.inputSchema) as JsonObject,
    execution: tool.execution,
    visible: tool.visible ?? isSpace,
    timeoutMs: checkTimeout(tool, `${field}.timeoutMs`, limits),
    timeoutGiven: tool.timeoutMs != null,
    ...checkRequest(tool, field),
  }
}

function checkTimeout({ execution, timeoutMs }: ToolInput, field: string, { toolWaitSeconds }: Limits): number {
  const waits = execution === 'SPACE' || execution === 'EXTERNAL'
  const fallback = waits ? toolWaitSeconds * 1000 : HTTP_TIMEOUT_MS
  return checkInteger(timeoutMs ?? fallback, 1, waits ? LONGEST_WAIT_MS : LONGEST_HTTP_TIMEOUT_MS, field)
}

function checkRequest({ execution, url, headers }: ToolInput, field: string): Pick<CheckedTool, 'url' | 'headers'> {
  if (execution === 'HTTP') {
    if (url == null) throw new BadInputError('An HTTP tool needs a URL.', `${field}.url`)
    const kept = headers === undefined ? undefined : checkHeaders(headers, `${field}.headers`)
    return { url: checkUrl(url, `${field}.url`), headers: kept }
  }
  if (url != null) throw new BadInputError('Only an HTTP tool has a URL.', `${field}.url`)
  if (headers != null) throw new BadInputError('Only an HTTP tool has headers.', `${field}.headers`)
  return { url: null, headers: null }
}

/** Puts these tools in the place of those that the agent has, in the caller's transaction. */
export async function replaceTools(tx: Tx, agentId: string, tools: CheckedTool[], secretBox: SecretBox): Promise<void> {
  const before = await tx.agentTool.findMany({
    where: { agentId },
    select: { name: true, headersSealed: true, headerNames: true },
  })
  const kept = new Map(before.map(({ name, ...headers }) => [name, headers]))
  await tx.agentTool.deleteMany({ where: { agentId } })
  const data = tools.map(
    ({ headers, inputSchema, ...tool }, position): Prisma.AgentToolCreateManyInput => ({
      agentId,
      position,
      ...tool,
      inputSchema: inputSchema as Prisma.InputJsonValue,
      ...sealHeaders(headers, kept.get(tool.name), { kind: 'tool', agentId, name: tool.name }, secretBox),
    }),
  )
  await tx.agentTool.createMany({ data })
}
