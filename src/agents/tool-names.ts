import { createHash } from 'node:crypto'
import { BadInputError } from '../lib/errors.ts'

/** The maximum length of tool names that models accept. */
export const LONGEST_TOOL_NAME = 64
export const TOOL_NAME_HASH_LENGTH = 8

/** Separates the name of an MCP server from that of its tool. */
export const MCP_NAME_SEPARATOR = '__'

/** The names of the built-in tools in both toolsets. A custom tool cannot have one of these names. */
export const BUILT_IN_TOOL_NAMES = [
  'enter_space',
  'send_message',
  'sendSpaceMessage',
  'read_messages',
  'readSpaceMessages',
  'read_file',
  'readFile',
  'send_file',
  'sendFile',
  'search_messages',
  'searchMessages',
  'get_my_runs',
  'getMyRuns',
  'stop_run',
  'set_memories',
  'setMemories',
  'delete_memories',
  'deleteMemories',
  'set_goals',
  'setGoals',
  'delete_goals',
  'deleteGoals',
  'set_plans',
  'setPlans',
  'get_plans',
  'getPlans',
  'delete_plans',
  'deletePlans',
  'mentionAgent',
  'delegate',
  'skip',
  'delegateToAgent',
  'edit_message',
  'editMessage',
  'delete_message',
  'deleteMessage',
  'react',
] as const

export type BuiltInToolName = (typeof BUILT_IN_TOOL_NAMES)[number]

const BUILT_IN: ReadonlySet<string> = new Set(BUILT_IN_TOOL_NAMES)

export const isBuiltInTool = (name: string): boolean => BUILT_IN.has(name)

const TOOL_NAME = /^[A-Za-z0-9_-]{1,64}$/

/** Checks that models accept a tool's name. @throws BadInputError */
export function checkToolName(name: string, field: string): string {
  if (!TOOL_NAME.test(name)) {
    throw new BadInputError('A tool name has 1 to 64 letters, digits, underscores and hyphens.', field)
  }
  return name
}

/**
 * The stored tool name of a call whose tool does not exist. The name that the model generated is stored only in the
 * step, which only admins see, because it can contain text that readers of the call may not see.
 */
export const UNKNOWN_TOOL = 'unknown'

/**
 * Returns an agent's name for a tool of an MCP server. Providers allow at most 64 letters, digits, `_` and `-`. A name
 * that does not fit is shortened and ends with a hash, so that it stays unique.
 */
export function mcpToolName(serverName: string, toolName: string): string {
  const name = `${serverName}${MCP_NAME_SEPARATOR}${toolName}`
  if (TOOL_NAME.test(name)) return name
  const hash = createHash('sha256').update(name).digest('hex').slice(0, TOOL_NAME_HASH_LENGTH)
  return `${name.replace(/[^A-Za-z0-9_-]+/g, '_').slice(0, LONGEST_TOOL_NAME - hash.length - 1)}_${hash}`
}
