import type { AuditLog } from '../access/audit-log.ts'
import type { Invitations } from '../access/invitations.ts'
import type { Rates } from '../access/rates.ts'
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
import type { WebhookDeliveries } from '../agents/webhook-deliveries.ts'
import type { Webhooks } from '../agents/webhooks.ts'
import type { ModelProvider } from '../models/models.ts'
import type { AgentDeletion } from '../operation/agent-deletion.ts'
import type { Erasure } from '../operation/erasure.ts'
import type { Forgetting } from '../operation/forgetting.ts'
import type { SpaceDeletion } from '../operation/space-deletion.ts'
import type { Firing } from '../plans/firing.ts'
import type { FiringReading } from '../plans/firing-reading.ts'
import type { Plans } from '../plans/plans.ts'
import type { Record } from '../platform/record.ts'
import type { Retrying } from '../routing/retrying.ts'
import type { CallClaims } from '../runs/call-claims.ts'
import type { Chains } from '../runs/chains.ts'
import type { Control } from '../runs/control.ts'
import type { ApprovalReading } from '../runs/deciders.ts'
import type { Deciding } from '../runs/deciding.ts'
import type { RunReading } from '../runs/reading.ts'
import type { Runs } from '../runs/runs.ts'
import type { StepRecords } from '../runs/step-records.ts'
import type { ToolCalls } from '../runs/tool-call-reading.ts'
import type { UsageReading } from '../runs/usage.ts'
import type { Members } from '../spaces/members.ts'
import type { Reading } from '../spaces/reading.ts'
import type { Sending } from '../spaces/sending.ts'
import type { Spaces } from '../spaces/spaces.ts'

/** The port through which the API calls the application. src/app.ts provides it. */
export interface Domain {
  rates: Rates
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
  forgetting: Forgetting
  minds: MindControl
  spaces: Spaces
  members: Members
  reading: Reading
  sending: Sending<NonNullable<Awaited<ReturnType<Runs['getMany']>>[number]>>
  runs: Runs
  runReading: RunReading
  stepRecords: StepRecords
  chains: Chains
  control: Control & Deciding & Retrying & { triggerAgent: Triggers['trigger'] }
  callClaims: Pick<CallClaims, 'claimersOf'>
  approvalReading: ApprovalReading
  limits: { toolWaitSeconds: number }
  toolCalls: Pick<ToolCalls, 'getMany' | 'getBriefMany' | 'contentsOf' | 'ofRuns' | 'waitsFor' | 'waitingByMessage'>
  plans: Pick<Plans, 'create' | 'update' | 'delete' | 'getMany' | 'listMany'> & Pick<Firing, 'runNow'>
  firingReading: FiringReading
  record: Pick<Record, 'during'>
  auditLog: AuditLog
  usage: Pick<UsageReading, 'query' | 'ofRoots' | 'today'>
  webhooks: Webhooks & WebhookDeliveries
  invitations: Invitations
  deletion: AgentDeletion & Pick<SpaceDeletion, 'deleteSpace'> & Pick<Erasure, 'eraseHuman'>
}
