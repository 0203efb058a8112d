import { createHash } from 'node:crypto'
import type { ListToolsResult } from '@ai-sdk/mcp'
import { LONGEST_TOOL_NAME, MCP_NAME_SEPARATOR, mcpToolName, TOOL_NAME_HASH_LENGTH } from '../../agents/tool-names.ts'
import { canonicalText, cut, DEEPEST_JSON, isTooDeep, type Json, type JsonObject } from '../../lib/json.ts'
import { normalSchema } from '../../lib/normal-schema.ts'
import { hasNameCharacters } from '../../lib/validate.ts'

/** A tool of an MCP server, as a model sees it. */
export interface McpTool {
  /** `<server>__<tool>`, adapted to the characters and length that model providers allow. */
  name: string
  serverName: string
  /** The server's name for the tool, used in calls. */
  toolName: string
  description: string
  inputSchema: JsonObject
  /** A digest of the whole definition. */
  fingerprint: string
}

/** The tools of a server. Tools that cannot be used are listed in `refused`, with a reason. */
export interface McpDefinitions {
  tools: McpTool[]
  refused: { toolName: string; reason: string }[]
  /** The fingerprints of all listed tools, whether allowed or not, by the server's names for the tools. */
  seen: Record<string, string>
}

const MOST_TOOLS = 100
const MOST_LISTED = 2000
const LONGEST_DESCRIPTION = 8_000
const LONGEST_SCHEMA = 65_536
/**
 * The maximum size of all tools of one server, in characters. There is a maximum because the tools are stored with
 * the server.
 */
const LONGEST_LIST = 1_048_576

/**
 * Reads a server's list of tools. If `allowedTools` is not null, keeps only the tools in it. Only sizes are checked
 * here; `checkInputSchema` checks the schemas of the offered tools.
 */
export function readDefinitions(
  serverName: string,
  listed: ListToolsResult['tools'],
  allowedTools: string[] | null,
): McpDefinitions {
  const tools: McpTool[] = []
  const refused: McpDefinitions['refused'] = []
  const names = new Set<string>()
  let size = 0
  const seen = new Map<string, string>()
  for (const definition of listed.slice(0, MOST_LISTED)) {
    const read = readDefinition(serverName, definition)
    if (read.reason === null) seen.set(definition.name, read.tool.fingerprint)
    if (allowedTools !== null && !allowedTools.includes(definition.name)) continue
    const isRepeated = names.has(read.tool.name)
    const reason = read.reason ?? (isRepeated ? 'Another tool of the server has the same name.' : null)
    if (reason !== null) refused.push({ toolName: definition.name, reason })
    else if (tools.length >= MOST_TOOLS)
      refused.push({ toolName: definition.name, reason: `A server may offer at most ${MOST_TOOLS} tools.` })
    else if (size + sizeOf(read.tool) > LONGEST_LIST)
      refused.push({
        toolName: definition.name,
        reason: `The tools of a server may have at most ${LONGEST_LIST} characters in total.`,
      })
    else {
      tools.push(read.tool)
      size += sizeOf(read.tool)
    }
    names.add(read.tool.name)
  }
  return { tools, refused, seen: Object.fromEntries(seen) }
}

const sizeOf = ({ description, inputSchema }: McpTool) => description.length + JSON.stringify(inputSchema).length

function readDefinition(
  serverName: string,
  definition: ListToolsResult['tools'][number],
): { tool: McpTool; reason: string | null } {
  const { name: toolName, description = '', inputSchema } = definition
  // The list is parsed from JSON, so the type is not guaranteed.
  const given = inputSchema as JsonObject
  const reason = faultOf(toolName, given)
  const schema = reason === null ? offeredSchema(given) : {}
  // The whole definition is hashed, so that a change in the truncated part also changes the fingerprint.
  const fingerprint = createHash('sha256')
    .update(reason === null ? canonicalText({ name: toolName, description, inputSchema: given }) : '')
    .digest('base64url')
  const tool = {
    name: mcpToolName(serverName, toolName),
    serverName,
    toolName,
    description: cut(description, LONGEST_DESCRIPTION),
    inputSchema: schema,
    fingerprint,
  }
  return { tool, reason }
}

/** Returns the schema in the form that models and validators accept. */
function offeredSchema(given: JsonObject): JsonObject {
  const { type, properties = {} } = given
  const isObject = type === undefined || (Array.isArray(type) && type.includes('object'))
  return normalSchema({ ...given, type: isObject ? 'object' : (type as Json), properties })
}

const isText = (name: string) => hasNameCharacters(name) && name.isWellFormed()

/** Returns the reason why a tool cannot be offered, as a sentence; null if it can. */
function faultOf(toolName: string, schema: JsonObject | boolean | undefined): string | null {
  if (toolName === '' || toolName.length > LONGEST_OWN_NAME || !isText(toolName))
    return `The tool's name is empty, longer than ${LONGEST_OWN_NAME} characters, or contains control characters.`
  if (isTooDeep(schema)) return `The tool's input schema is nested more than ${DEEPEST_JSON} levels deep.`
  if ((JSON.stringify(schema) ?? '').length > LONGEST_SCHEMA)
    return `The tool's input schema is longer than ${LONGEST_SCHEMA} characters.`
  return null
}

/** Whether a tool name from a model may belong to the server. */
export function mayBeOf(serverName: string, offered: string): boolean {
  return offered.startsWith(
    `${serverName}${MCP_NAME_SEPARATOR}`.slice(0, LONGEST_TOOL_NAME - TOOL_NAME_HASH_LENGTH - 1),
  )
}

const LONGEST_OWN_NAME = 200
