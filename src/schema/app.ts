import type { Tokens } from '../access/tokens.ts'
import type { Viewer } from '../access/viewer.ts'
import type { Visibility } from '../access/visibility.ts'
import type { Agents } from '../agents/agents.ts'
import type { CustomTools } from '../agents/custom-tools.ts'
import type { Entities } from '../agents/entities.ts'
import type { Goals } from '../agents/goals.ts'
import type { Humans } from '../agents/humans.ts'
import type { McpServers } from '../agents/mcp-servers.ts'
import type { Memories } from '../agents/memories.ts'
import type { Json } from '../lib/json.ts'
import type { Page, PageRequest } from '../lib/page.ts'
import type { RunReading } from '../runs/reading.ts'
import type { Runs } from '../runs/runs.ts'
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
  customTools: CustomTools
  mcpServers: McpServers
  memories: Memories
  goals: Goals
  inbox: InboxReading
  consciousness: ConsciousnessReading
  spaces: Spaces
  members: Members
  reading: Reading
  sending: Sending
  runs: Runs
  runReading: RunReading
  stepRecords: StepRecords
  chains: Chains
  control: Control
  toolCalls: Pick<ToolCalls, 'getMany' | 'ofRuns'>
  plans: Plans
  webhooks: Webhooks
}

/** Per parent, in the order of the ids; an Error in place of what cannot be had for that parent alone. */
type PerParent<T> = Promise<(T | Error)[]>

/** What waits for think cycles, oldest first. */
export interface InboxReading {
  pageMany(agentIds: readonly string[], request: PageRequest): PerParent<Page<InboxEvent>>
  getMany(ids: readonly string[]): Promise<(InboxEvent | null)[]>
}

export interface InboxEvent {
  id: string
  type: 'SPACE_MESSAGE' | 'PLAN' | 'SERVICE' | 'TOOL_RESULT'
  urgent: boolean
  payload: unknown
  createdAt: Date
}

export interface ConsciousnessReading {
  /** Null for a stateless agent, or none. */
  getMany(agentIds: readonly string[]): Promise<(Consciousness | null)[]>
}

export interface Consciousness {
  /** AI SDK ModelMessage[] */
  messages: unknown
  cycleCount: number
  tokenEstimate: number
  lastCycleAt: Date | null
}

export interface StepRecords {
  pageMany(runIds: readonly string[], request: PageRequest): PerParent<Page<StepRecord>>
}

/** What a step was sent, and what came back. */
export interface StepRecord {
  id: string
  index: number
  model: string
  instructions: string
  messages: unknown
  activeTools: string[]
  response: unknown
  finishReason: string
  inputTokens: number
  outputTokens: number
  usageEstimated: boolean
  msToFirstChunk: number | null
  durationMs: number
}

export interface Chains {
  getMany(ids: readonly string[]): Promise<(Chain | null)[]>
}

/** Agents that hand a conversation on. */
export interface Chain {
  id: string
  depth: number
  /** Who waits to be called back, the last to be asked last. */
  replyStack: { entityId: string; reason: string | null }[]
}

type Run = NonNullable<Awaited<ReturnType<Runs['getMany']>>[number]>
type ToolCall = NonNullable<Awaited<ReturnType<ToolCalls['getMany']>>[number]>

/** What a viewer may do with agents, runs and what waits for an answer. */
export interface Control {
  /** @throws NotFoundError, ForbiddenError, ConflictError when it has ended already. */
  stopRun(viewer: Viewer, input: { runId: string; cascade: boolean }): Promise<Run>
  /** @throws NotFoundError, ForbiddenError, ConflictError, BadInputError */
  submitToolResult(viewer: Viewer, input: { toolCallId: string; result: Json }): Promise<ToolCall>
  /** Those that wait for an answer which the viewer may give, oldest first; at most 100. */
  pendingToolCalls(viewer: Viewer): Promise<ToolCall[]>
  /** `run` is null where the trigger went to a persistent agent's inbox. */
  triggerAgent(viewer: Viewer, input: TriggerAgentInput): Promise<{ run: Run | null }>
}

export interface TriggerAgentInput {
  agentId: string
  serviceName?: string | null
  payload: Json
  urgent?: boolean | null
  idempotencyKey?: string | null
}

export interface Plans {
  create(viewer: Viewer, input: CreatePlanInput): Promise<Plan>
  delete(viewer: Viewer, input: { id: string }): Promise<{ deletedPlanId: string }>
  getMany(ids: readonly string[]): Promise<(Plan | null)[]>
  listMany(agentIds: readonly string[]): Promise<Map<string, Plan[]>>
}

export interface Plan {
  id: string
  agentId: string
  name: string
  instruction: string
  cron: string | null
  nextRunAt: Date | null
  enabled: boolean
}

export interface CreatePlanInput {
  agentId: string
  name: string
  instruction: string
  /** Exactly one of the three. */
  schedule: { cron?: string | null; at?: Date | null; afterSeconds?: number | null }
}

export interface Webhooks {
  create(viewer: Viewer, input: { agentId: string; serviceName: string }): Promise<{ webhook: Webhook; secret: string }>
  getMany(ids: readonly string[]): Promise<(Webhook | null)[]>
}

export interface Webhook {
  id: string
  agentId: string
  serviceName: string
  url: string
  createdAt: Date
}
