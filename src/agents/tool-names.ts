import { BadInputError } from '../lib/errors.ts'

/** The names of the tools that every kind of agent may be given by toolset, routing and mind: none of an agent's own has one. */
export const BUILT_IN_TOOL_NAMES: ReadonlySet<string> = new Set([
  ...['enter_space', 'send_message', 'read_messages', 'get_my_runs', 'stop_run'],
  ...['set_memories', 'delete_memories', 'set_goals', 'delete_goals', 'set_plans', 'get_plans', 'delete_plans'],
  ...['readSpaceMessages', 'sendSpaceMessage', 'getMyRuns'],
  ...['setMemories', 'deleteMemories', 'setGoals', 'deleteGoals', 'setPlans', 'getPlans', 'deletePlans'],
  ...['delegateToAgent', 'mentionAgent', 'delegate', 'skip'],
])

/** Stands between an MCP server's name and its tool's. */
export const MCP_NAME_SEPARATOR = '__'

const TOOL_NAME = /^[A-Za-z0-9_-]{1,64}$/

/** A name that models accept. @throws BadInputError */
export function checkToolName(name: string, field: string): string {
  if (!TOOL_NAME.test(name)) {
    throw new BadInputError('A tool name has 1 to 64 letters, digits, underscores and hyphens.', field)
  }
  return name
}

/** The index of the first name that stands in the list before; -1 where all differ. */
export function indexOfRepeat(names: readonly string[]): number {
  return names.findIndex((name, index) => names.indexOf(name) !== index)
}

/**
 * The name of a call that names no tool of its agent. What the model wrote instead may be words that those who see the call may not read:
 * it stays in the step, which admins see.
 */
export const UNKNOWN_TOOL = 'unknown'
