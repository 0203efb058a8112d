import type { Tokens } from '../access/tokens.ts'
import type { Visibility } from '../access/visibility.ts'
import type { Agents } from '../agents/agents.ts'
import type { ConsciousnessReading } from '../agents/consciousness.ts'
import type { CustomTools } from '../agents/custom-tools.ts'
import type { Entities } from '../agents/entities.ts'
import type { Goals } from '../agents/goals.ts'
import type { Humans } from '../agents/humans.ts'
import type { InboxReading } from '../agents/inbox-reading.ts'
import type { McpServers } from '../agents/mcp-servers.ts'
import type { Memories } from '../agents/memories.ts'
import type { MindControl } from '../agents/mind-control.ts'
import type { Triggers } from '../agents/triggers.ts'
import type { Webhooks } from '../agents/webhooks.ts'
import type { ModelProvider } from '../models/models.ts'
import type { Plans } from '../plans/plans.ts'
import type { Retrying } from '../routing/retrying.ts'
import type { Chains } from '../runs/chains.ts'
import type { Control } from '../runs/control.ts'
import type { RunReading } from '../runs/reading.ts'
import type { Runs } from '../runs/runs.ts'
import type { StepRecords } from '../runs/step-records.ts'
import type { ToolCalls } from '../runs/tool-calls.ts'
import type { Members } from '../spaces/members.ts'
import type { Reading } from '../spaces/reading.ts'
import type { Sending } from '../spaces/sending.ts'
import type { Spaces } from '../spaces/spaces.ts'

/** What the API asks of the application. The composition root provides it: src/app.ts. */
export interface App {
  tokens: Tokens
  visibility: Visibility
  entities: Entities
  humans: Humans
  agents: Agents
  modelProviders: { list(): Promise<ModelProvider[]> }
  customTools: CustomTools
  mcpServers: McpServers
  memories: Memories
  goals: Goals
  inboxReading: InboxReading
  consciousness: ConsciousnessReading
  minds: MindControl
  spaces: Spaces
  members: Members
  reading: Reading
  sending: Sending<NonNullable<Awaited<ReturnType<Runs['getMany']>>[number]>>
  runs: Runs
  runReading: RunReading
  stepRecords: StepRecords
  chains: Chains
  control: Control & Retrying & { triggerAgent: Triggers['trigger'] }
  toolCalls: Pick<ToolCalls, 'getMany' | 'ofRuns' | 'waitsFor' | 'waitingByMessage'>
  plans: Pick<Plans, 'create' | 'delete' | 'getMany' | 'listMany'>
  webhooks: Pick<Webhooks, 'create' | 'getMany' | 'receive'>
}
