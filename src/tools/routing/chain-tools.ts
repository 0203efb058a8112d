import type { HandingOn } from '../../runs/handing-on.ts'
import type { Tool, ToolScene } from '../tool.ts'
import { delegateTool } from './delegate.ts'
import { mentionAgentTool } from './mention-agent.ts'
import { skipTool } from './skip.ts'

/** What MENTION_CHAIN routing gives to every run of an agent that belongs to such a space. A persistent mind may always skip. */
export function chainTools({ agent, spaces }: ToolScene, { handingOn }: { handingOn: HandingOn }): Tool[] {
  const isInChainSpace = spaces.some(({ routing }) => routing === 'MENTION_CHAIN')
  const namesItsSpaces = agent.toolset === 'SPACE_TOOLS'
  return [
    ...(isInChainSpace ? [mentionAgentTool(handingOn, namesItsSpaces), delegateTool(handingOn, namesItsSpaces)] : []),
    ...(isInChainSpace || agent.mind === 'PERSISTENT' ? [skipTool(handingOn, agent.mind)] : []),
  ]
}
