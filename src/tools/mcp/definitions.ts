import { createHash } from 'node:crypto'
import type { ListToolsResult } from '@ai-sdk/mcp'
import { MCP_NAME_SEPARATOR } from '../../agents/tool-names.ts'
import { cut, DEEPEST_JSON, isTooDeep, type Json, type JsonObject, storableText } from '../../lib/json.ts'
import { checkInputSchema } from '../custom/json-schema.ts'

/** A tool of an MCP server, as a model is shown it. */
export interface McpTool {
  /** `<server>__<tool>`, made to fit what providers allow. */
  name: string
  serverName: string
  /** The server's own name for it, for calls. */
  toolName: string
  description: string
  inputSchema: JsonObject
  /** Changes whenever what the model is shown of it does. */
  fingerprint: string
}

/** What a server offers. A tool that models' providers would refuse is left out, with the reason. */
export interface McpDefinitions {
  tools: McpTool[]
  refused: { toolName: string; reason: string }[]
}

const MOST_TOOLS = 100
const LONGEST_DESCRIPTION = 8_000
const LONGEST_SCHEMA = 65_536

/** Reads a server's list of tools; of the allowed ones only, where `allowedTools` is not null. */
export function readDefinitions(
  serverName: string,
  listed: ListToolsResult['tools'],
  allowedTools: string[] | null,
): McpDefinitions {
  const tools: McpTool[] = []
  const refused: McpDefinitions['refused'] = []
  const names = new Set<string>()
  for (const definition of listed) {
    if (allowedTools !== null && !allowedTools.includes(definition.name)) continue
    const read = readDefinition(serverName, definition)
    const isRepeated = names.has(read.tool.name)
    const reason = read.reason ?? (isRepeated ? 'Another tool of the server has the same name.' : null)
    if (reason !== null) refused.push({ toolName: definition.name, reason })
    else if (tools.length >= MOST_TOOLS)
      refused.push({ toolName: definition.name, reason: `Only ${MOST_TOOLS} tools of a server are offered.` })
    else tools.push(read.tool)
    names.add(read.tool.name)
  }
  return { tools, refused }
}

function readDefinition(
  serverName: string,
  definition: ListToolsResult['tools'][number],
): { tool: McpTool; reason: string | null } {
  const { name: toolName, description = '', inputSchema } = definition
  // From JSON, whatever its type says.
  const given = inputSchema as JsonObject
  const schema: JsonObject = { ...given, type: given.type ?? 'object', properties: given.properties ?? {} }
  const reason = faultOf(toolName, schema)
  // Of the whole definition, so that a change behind what is cut off shows too.
  const fingerprint = createHash('sha256')
    .update(reason === null ? canonical({ name: toolName, description, inputSchema: given }) : '')
    .digest('base64url')
  const tool = {
    name: offeredName(serverName, toolName),
    serverName,
    toolName,
    description: cut(description, LONGEST_DESCRIPTION),
    inputSchema: schema,
    fingerprint,
  }
  return { tool, reason }
}

/** Why a tool cannot be offered, in a sentence; null where it can. */
function faultOf(toolName: string, schema: JsonObject): string | null {
  if (toolName === '' || toolName.length > LONGEST_OWN_NAME || storableText(toolName) !== toolName)
    return `Its name is empty, longer than ${LONGEST_OWN_NAME} characters, or no text.`
  if (isTooDeep(schema)) return `Its input schema is nested deeper than ${DEEPEST_JSON}.`
  if (JSON.stringify(schema).length > LONGEST_SCHEMA)
    return `Its input schema is longer than ${LONGEST_SCHEMA} characters.`
  return checkInputSchema(schema)
}

const LONGEST_OWN_NAME = 200
const LONGEST_NAME = 64

/** Providers allow letters, digits, `_` and `-`, 64 at most; what does not fit ends with a part of its hash, to stay unique. */
function offeredName(serverName: string, toolName: string): string {
  const name = `${serverName}${MCP_NAME_SEPARATOR}${toolName}`
  if (/^[A-Za-z0-9_-]+$/.test(name) && name.length <= LONGEST_NAME) return name
  const hash = createHash('sha256').update(name).digest('hex').slice(0, 8)
  return `${name.replace(/[^A-Za-z0-9_-]+/g, '_').slice(0, LONGEST_NAME - hash.length - 1)}_${hash}`
}

/** JSON with the keys of every object in order: the same definition has the same text however the server orders it. */
function canonical(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const entries = Object.keys(value)
    .sort()
    .map((key) => `${JSON.stringify(key)}:${canonical(value[key] as Json)}`)
  return `{${entries.join(',')}}`
}
