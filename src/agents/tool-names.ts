import { BadInputError } from '../lib/errors.ts'

/** The names of the built-in tools of every toolset, routing and memory mode. A custom tool must not use one. */
export const BUILT_IN_TOOL_NAMES: ReadonlySet<string> = new Set([
  ...['enter_space', 'send_message', 'read_messages', 'get_my_runs', 'stop_run'],
  ...['set_memories', 'delete_memories', 'set_goals', 'delete_goals', 'set_plans', 'get_plans', 'delete_plans'],
  ...['readSpaceMessages', 'sendSpaceMessage', 'getMyRuns'],
  ...['setMemories', 'deleteMemories', 'setGoals', 'deleteGoals', 'setPlans', 'getPlans', 'deletePlans'],
  ...['delegateToAgent', 'mentionAgent', 'delegate', 'skip'],
])

/** Separates the name of an MCP server from that of its tool. */
export const MCP_NAME_SEPARATOR = '__'

const TOOL_NAME = /^[A-Za-z0-9_-]{1,64}$/

/** Checks that models accept a tool's name. @throws BadInputError */
export function checkToolName(name: string, field: string): string {
  if (!TOOL_NAME.test(name)) {
    throw new BadInputError('A tool name has 1 to 64 letters, digits, underscores and hyphens.', field)
  }
  return name
}

/** Returns the index of the first name that repeats an earlier one; -1 if all differ. */
export function indexOfRepeat(names: readonly string[]): number {
  return names.findIndex((name, index) => names.indexOf(name) !== index)
}

/**
 * The stored name of a call whose tool does not exist. The model's own text is only in the step, which admins see,
 * because it may contain words that readers of the call may not read.
 */
export const UNKNOWN_TOOL = 'unknown'
