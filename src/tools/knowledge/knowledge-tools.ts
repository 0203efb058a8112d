import type { Goals } from '../../agents/goals.ts'
import type { Memories } from '../../agents/memories.ts'
import type { Plans } from '../../plans/plans.ts'
import type { Tool } from '../tool.ts'
import { deleteGoalsTool, setGoalsTool } from './goals.ts'
import { deleteMemoriesTool, setMemoriesTool } from './memories.ts'
import { deletePlansTool, getPlansTool, setPlansTool } from './plans.ts'

/** The dependencies of knowledge tools. */
export interface KnowledgeParts {
  memories: Memories
  goals: Goals
  plans: Plans
}

/** The naming style of tools: `set_memories` for ACTIVE_SPACE agents, `setMemories` for SPACE_TOOLS agents. */
export type NameStyle = 'snake' | 'camel'

/**
 * The tools for memories, goals and plans, which every agent has, in one of two naming styles. Each applies
 * to the run's own agent.
 */
export function knowledgeTools({ memories, goals, plans }: KnowledgeParts, style: NameStyle): Tool[] {
  const named = (name: string) => (style === 'snake' ? name : camelCase(name))
  return [
    setMemoriesTool(named('set_memories'), memories),
    deleteMemoriesTool(named('delete_memories'), memories),
    setGoalsTool(named('set_goals'), goals),
    deleteGoalsTool(named('delete_goals'), goals),
    setPlansTool(named('set_plans'), plans),
    getPlansTool(named('get_plans'), plans),
    deletePlansTool(named('delete_plans'), plans),
  ]
}

function camelCase(name: string): string {
  return name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())
}
