import { openToolHeaders } from '../agents/custom-tools.ts'
import type { AgentTool, Toolset } from '../generated/prisma/client.ts'
import type { JsonObject } from '../lib/json.ts'
import type { SecretBox } from '../platform/secret-box.ts'
import type { Lifecycle } from '../runs/lifecycle.ts'
import type { Runs } from '../runs/runs.ts'
import type { History } from '../spaces/history.ts'
import type { GuardedHttp } from './custom/guarded-http.ts'
import { ownTool } from './custom/own-tool.ts'
import { getMyRunsTool } from './runs/get-my-runs.ts'
import { stopRunTool } from './runs/stop-run.ts'
import { enterSpaceTool } from './space/enter-space.ts'
import { readMessagesTool } from './space/read-messages.ts'
import { sendMessageTool } from './space/send-message.ts'
import type { Speech, Tool } from './tool.ts'

/** What decides which tools a run gets. */
export interface ToolboxInput {
  toolset: Toolset
  ownTools: AgentTool[]
  speech: Speech
}

/** What tools are made from. */
export interface ToolboxParts {
  history: History
  historyLimit: number
  runs: Runs
  lifecycle: Lifecycle
  http: GuardedHttp
  secretBox: SecretBox
}

/** The tools of a run, by name: the sum of its toolset, its routing, its mind and the agent's own. */
export interface Toolbox {
  toolsFor(input: ToolboxInput): Map<string, Tool>
}

export function createToolbox(parts: ToolboxParts): Toolbox {
  return {
    toolsFor(input) {
      const tools = [...toolsetOf(input, parts), ...input.ownTools.map((tool) => own(tool, parts))]
      return new Map(tools.map((tool) => [tool.name, tool]))
    },
  }
}

function toolsetOf({ speech }: ToolboxInput, { history, historyLimit, runs, lifecycle }: ToolboxParts): Tool[] {
  return [
    enterSpaceTool(history, historyLimit),
    sendMessageTool(speech),
    readMessagesTool(history),
    getMyRunsTool(runs),
    stopRunTool(runs, lifecycle),
  ]
}

function own(row: AgentTool, { http, secretBox }: ToolboxParts): Tool {
  const settings = { ...row, inputSchema: row.inputSchema as JsonObject }
  return ownTool(settings, { http, headers: () => openToolHeaders(settings, secretBox) })
}
