import type { AddableBy, Mind, PlainText, Toolset } from '../generated/prisma/client.ts'
import type { BudgetInput } from '../lib/budget.ts'
import type { ToolInput } from './custom-tools.ts'
import type { CycleSettingsInput } from './cycle-settings.ts'
import type { McpServerInput } from './mcp-servers.ts'
import type { RemoteAgentInput } from './remote-agent.ts'
import type { ToolPhaseInput } from './tool-phases.ts'

/** Absent and null mean the default, except `tokenBudget: null`, which means no budget. */
export interface CreateAgentInput {
  name: string
  description?: string | null
  instructions: string
  model?: string | null
  fallbackModels?: readonly string[] | null
  /** ModelSettings, not yet validated. */
  modelSettings?: unknown
  mind: Mind
  toolset: Toolset
  maxSteps?: number | null
  maxToolCalls?: number | null
  tokenBudget?: number | null
  budget?: BudgetInput | null
  maxConcurrentRuns?: number | null
  tools?: readonly ToolInput[] | null
  phases?: readonly ToolPhaseInput[] | null
  cycle?: CycleSettingsInput | null
  mcpServers?: readonly McpServerInput[] | null
  notifyUrl?: string | null
  addableBy?: AddableBy | null
  plainText?: PlainText | null
  remote?: RemoteAgentInput | null
}

/**
 * Absent: unchanged. Null clears the agent's field if it is nullable, and is otherwise a BadInputError. Lists are replaced as a
 * whole.
 */
export interface UpdateAgentInput
  extends Partial<Omit<CreateAgentInput, 'name' | 'instructions' | 'mind' | 'toolset'>> {
  id: string
  name?: string | null
  instructions?: string | null
  paused?: boolean | null
}
