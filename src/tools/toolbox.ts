import type { Toolset } from '../generated/prisma/client.ts'
import type { History } from '../spaces/history.ts'
import { enterSpaceTool } from './space/enter-space.ts'
import { readMessagesTool } from './space/read-messages.ts'
import { sendMessageTool } from './space/send-message.ts'
import type { Speech, Tool } from './tool.ts'

/** What decides which tools a run gets. */
export interface ToolboxInput {
  toolset: Toolset
  speech: Speech
}

/** The tools of a run, by name: the sum of toolset, routing, mind and the agent's own. */
export interface Toolbox {
  toolsFor(input: ToolboxInput): Map<string, Tool>
}

export function createToolbox({ history, historyLimit }: { history: History; historyLimit: number }): Toolbox {
  return {
    toolsFor({ speech }) {
      const tools = [enterSpaceTool(history, historyLimit), sendMessageTool(speech), readMessagesTool(history)]
      return new Map(tools.map((tool) => [tool.name, tool]))
    },
  }
}
