import type { AuditLog } from '../access/audit-log.ts'
import type { Invitations } from '../access/invitations.ts'
import type { Rates } from '../access/rates.ts'
import type { Record } from '../access/record.ts'
import type { Sessions } from '../access/sessions.ts'
import type { Tokens } from '../access/tokens.ts'
import type { Visibility } from '../access/visibility.ts'
import type { AgentVersions } from '../agents/agent-versions.ts'
import type { Agents } from '../agents/agents.ts'
import type { ConsciousnessReading } from '../agents/consciousness.ts'
import type { CustomTools } from '../agents/custom-tools.ts'
import type { Entities } from '../agents/entities.ts'
import type { Goals } from '../agents/goals.ts'
import type { Humans } from '../agents/humans.ts'
import type { InboxReading } from '../agents/inbox-reading.ts'
import type { McpConfirmation } from '../agents/mcp-confirmation.ts'
import type { McpServers } from '../agents/mcp-servers.ts'
import type { Memories } from '../agents/memories.ts'
import type { CardConfirmation } from '../agents/remote-cards.ts'
import type { Webhooks } from '../agents/webhooks.ts'
import type { StepRecords } from '../context/step-records.ts'
import type { FileReading } from '../files/file-reading.ts'
import type { Conversations } from '../flows/conversations.ts'
import type { SpaceCreation } from '../flows/create-space.ts'
import type { DecideCall } from '../flows/decide-call.ts'
import type { AgentDeletion } from '../flows/delete-agent.ts'
import type { MessageDeletions } from '../flows/delete-message.ts'
import type { SpaceDeletion } from '../flows/delete-space.ts'
import type { MessageEdits } from '../flows/edit-message.ts'
import type { Firing } from '../flows/fire-plan.ts'
import type { Forgetting } from '../flows/forget.ts'
import type { Forking } from '../flows/fork-space.ts'
import type { Inviting } from '../flows/invite.ts'
import type { JoinLinks } from '../flows/join-links.ts'
import type { Joining } from '../flows/join-space.ts'
import type { Leaving } from '../flows/leave-space.ts'
import type { MailLinks } from '../flows/mail-links.ts'
import type { MindControl } from '../flows/mind-control.ts'
import type { ModelProviders } from '../flows/model-providers.ts'
import type { Notifications } from '../flows/notification-settings.ts'
import type { WakePreview } from '../flows/preview-wakes.ts'
import type { Reacting } from '../flows/react.ts'
import type { WebhookDeliveries } from '../flows/receive-webhook.ts'
import type { Rerunning } from '../flows/rerun-step.ts'
import type { ResumableUploads } from '../flows/resumable-uploads.ts'
import type { Retrying } from '../flows/retry.ts'
import type { Sending } from '../flows/send-message.ts'
import type { SettleCall } from '../flows/settle-call.ts'
import type { OidcSignIns } from '../flows/sign-in-by-oidc.ts'
import type { StandingGrants } from '../flows/standing-grants.ts'
import type { StopRun } from '../flows/stop-run.ts'
import type { TaskPushes } from '../flows/task-pushes.ts'
import type { Triggers } from '../flows/trigger-agent.ts'
import type { HumanUpdates } from '../flows/update-human.ts'
import type { SpaceUpdates } from '../flows/update-space.ts'
import type { Uploads } from '../flows/upload-file.ts'
import type { Erasure } from '../operation/erasure.ts'
import type { FailedJobs } from '../operation/failed-jobs.ts'
import type { MailStatus } from '../operation/mail-status.ts'
import type { FiringReading } from '../plans/firing-reading.ts'
import type { Plans } from '../plans/plans.ts'
import type { PublicUrl } from '../platform/public-url.ts'
import type { WaitLimits } from '../rules/approvals.ts'
import type { ApprovalReading } from '../runs/approval-reading.ts'
import type { GrantReading } from '../runs/grant-reading.ts'
import type { RunReading } from '../runs/reading.ts'
import type { Runs } from '../runs/runs.ts'
import type { ToolCalls } from '../runs/tool-call-reading.ts'
import type { UsageReading } from '../runs/usage.ts'
import type { WhyReading } from '../runs/why.ts'
import type { ChangeReading } from '../spaces/change-reading.ts'
import type { Members } from '../spaces/members.ts'
import type { PresenceService } from '../spaces/presence.ts'
import type { Reading } from '../spaces/reading.ts'
import type { Search } from '../spaces/search.ts'
import type { Spaces } from '../spaces/spaces.ts'
import type { Chains } from '../stores/chain-store.ts'
import type { ToolTrial } from '../tools/custom/tool-trial.ts'
import type { McpOAuth } from '../tools/mcp/oauth.ts'
import type { PersonAuthorization } from '../tools/mcp/person-authorization.ts'
import type { ServerTrial } from '../tools/mcp/server-trial.ts'
import type { OpenApiReader } from '../tools/openapi/reader.ts'

/** The interface through which the API calls the application. src/app provides the implementation. */
export interface Domain {
  rates: Rates
  tokens: Tokens
  sessions: Sessions
  oidc: OidcSignIns
  visibility: Visibility
  entities: Entities
  humans: Humans & HumanUpdates
  agents: Agents
  agentVersions: AgentVersions
  modelProviders: ModelProviders
  customTools: CustomTools
  mcpServers: McpServers & McpConfirmation
  remoteCards: CardConfirmation
  toolSetup: ServerTrial & OpenApiReader & ToolTrial & PersonAuthorization & { finishAuthorization: McpOAuth['finish'] }
  memories: Memories
  goals: Goals
  inboxReading: InboxReading
  consciousness: ConsciousnessReading
  forgetting: Forgetting
  minds: MindControl
  spaces: Spaces & SpaceCreation & SpaceUpdates
  /** Opens and finds the conversations of the protocol endpoints in src/doors. */
  conversations: Conversations
  taskPushes: TaskPushes
  forking: Forking & Rerunning
  members: Members & Joining & Pick<Leaving, 'remove'>
  joinLinks: JoinLinks
  notifications: Notifications
  presence: PresenceService
  mailLinks: MailLinks
  inviting: Inviting
  reading: Reading
  search: Search
  sending: Sending
  files: FileReading & Pick<Uploads, 'upload'>
  resumableUploads: ResumableUploads
  messageChanges: Pick<MessageEdits, 'edit'> & Pick<Reacting, 'react'> & { delete: MessageDeletions['deleteMessage'] }
  changeReading: ChangeReading
  wakes: WakePreview
  runs: Runs
  runReading: RunReading
  stepRecords: StepRecords
  why: WhyReading
  chains: Chains
  control: StopRun &
    Pick<SettleCall, 'submitToolResult'> &
    Pick<DecideCall, 'decideToolCall' | 'claimToolCall'> &
    Pick<ToolCalls, 'pendingToolCalls'> &
    Retrying & { triggerAgent: Triggers['trigger'] }
  callClaims: Pick<DecideCall, 'claimersOf'>
  callConnections: Pick<DecideCall, 'awaitedConnection' | 'connected'>
  approvalReading: ApprovalReading
  grants: StandingGrants
  grantReading: GrantReading
  limits: WaitLimits
  publicUrl: Pick<PublicUrl, 'to'>
  toolCalls: Pick<ToolCalls, 'getMany' | 'getBriefMany' | 'contentsOf' | 'ofRuns' | 'waitingByMessage'>
  plans: Pick<Plans, 'create' | 'update' | 'delete' | 'getMany' | 'listMany' | 'timesOf' | 'nextTimesOf'> &
    Pick<Firing, 'runNow'>
  firingReading: FiringReading
  record: Pick<Record, 'during'>
  auditLog: AuditLog
  failedJobs: FailedJobs
  mailStatus(): Promise<MailStatus>
  usage: Pick<UsageReading, 'query' | 'ofRoots' | 'today'>
  webhooks: Webhooks & WebhookDeliveries
  invitations: Invitations
  deletion: Pick<AgentDeletion, 'deleteAgent'> & Pick<SpaceDeletion, 'deleteSpace'> & Pick<Erasure, 'eraseHuman'>
}
