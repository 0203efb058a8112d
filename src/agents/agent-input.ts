import type { AddableBy, Mind, PlainText, Toolset } from '../generated/prisma/client.ts'
import type { BudgetInput } from '../lib/budget.ts'
import type { ToolInput } from './custom-tools.ts'
import type { CycleSettingsInput } from './cycle-settings.ts'
import type { McpServerInput } from './mcp-servers.ts'
import type { RemoteAgentInput } from './remote-agent.ts'
import type { ToolPhaseInput } from './tool-phases.ts'

/**
 * The input for a new agent. Fields that are absent or null get the default. Only `tokenBudget: null` differs: it means
 * no budget.
 */
export interface CreateAgentInput {
  name: string
  description?: string | null
  instructions: string
  model?: string | null
  fallbackModels?: readonly string[] | null
  /** The ModelSettings before validation. */
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
 * The changes to an agent. Absent fields stay unchanged. Null clears a nullable field. For other fields, null causes a
 * BadInputError. A list replaces the whole list.
 */
export interface UpdateAgentInput
  extends Partial<Omit<CreateAgentInput, 'name' | 'instructions' | 'mind' | 'toolset'>> {
  id: string
  name?: string | null
  instructions?: string | null
  paused?: boolean | null
}
