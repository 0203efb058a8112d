import { createAuditLog } from '../access/audit-log.ts'
import { createInvitations } from '../access/invitations.ts'
import type { PushKeyPair } from '../access/push-keys.ts'
import type { Rates } from '../access/rates.ts'
import type { Record } from '../access/record.ts'
import { createSessions } from '../access/sessions.ts'
import { createTokens } from '../access/tokens.ts'
import { createAgentVersions } from '../agents/agent-versions.ts'
import { createAgents } from '../agents/agents.ts'
import { createConsciousnessReading } from '../agents/consciousness.ts'
import { createCustomTools } from '../agents/custom-tools.ts'
import { createEntities } from '../agents/entities.ts'
import { createGoals } from '../agents/goals.ts'
import { createHumans } from '../agents/humans.ts'
import { createInboxReading } from '../agents/inbox-reading.ts'
import { createMcpConfirmation } from '../agents/mcp-confirmation.ts'
import { createMcpServers } from '../agents/mcp-servers.ts'
import { createMemories } from '../agents/memories.ts'
import { createCardConfirmation } from '../agents/remote-cards.ts'
import { createWebhooks } from '../agents/webhooks.ts'
import { createStepRecords } from '../context/step-records.ts'
import { createFileReading } from '../files/file-reading.ts'
import { createConversations } from '../flows/conversations.ts'
import { createSpaceCreation } from '../flows/create-space.ts'
import { createForgetting } from '../flows/forget.ts'
import { createForking } from '../flows/fork-space.ts'
import { createInviting } from '../flows/invite.ts'
import { createJoinLinks } from '../flows/join-links.ts'
import { createJoining } from '../flows/join-space.ts'
import { createMailLinks } from '../flows/mail-links.ts'
import { createMindControl } from '../flows/mind-control.ts'
import { createModelProviders } from '../flows/model-providers.ts'
import { createNotifications } from '../flows/notification-settings.ts'
import { createWakePreview } from '../flows/preview-wakes.ts'
import { createWebhookDeliveries } from '../flows/receive-webhook.ts'
import { createRerunning } from '../flows/rerun-step.ts'
import { createRetrying } from '../flows/retry.ts'
import { createSending } from '../flows/send-message.ts'
import { createOidcSignIns } from '../flows/sign-in-by-oidc.ts'
import { createStopRun } from '../flows/stop-run.ts'
import { createTaskPushes } from '../flows/task-pushes.ts'
import { createTriggers } from '../flows/trigger-agent.ts'
import { createHumanUpdates } from '../flows/update-human.ts'
import { createSpaceUpdates } from '../flows/update-space.ts'
import type { Models } from '../models/models.ts'
import { createFailedJobs } from '../operation/failed-jobs.ts'
import { createMailStatus } from '../operation/mail-status.ts'
import { createFiringReading } from '../plans/firing-reading.ts'
import { createPlans } from '../plans/plans.ts'
import type { Platform } from '../platform/platform.ts'
import { createRunReading } from '../runs/reading.ts'
import { createTaskReading } from '../runs/task-reading.ts'
import { createWhyReading } from '../runs/why.ts'
import { createChangeReading } from '../spaces/change-reading.ts'
import { createMembers } from '../spaces/members.ts'
import { createPresence } from '../spaces/presence.ts'
import { createReading } from '../spaces/reading.ts'
import { createSpaces } from '../spaces/spaces.ts'
import { createChains } from '../stores/chain-store.ts'
import type { Core } from './core.ts'
import { createDeletion } from './deletion.ts'
import type { ToolSetup } from './tool-setup.ts'

export interface DomainParts {
  core: Core
  adminToken: string
  models: Models
  record: Record
  rates: Rates
  toolSetup: ToolSetup
  pushKeys: PushKeyPair | null
  /** The `fetch` for requests to identity providers. */
  oidcFetch: typeof globalThis.fetch
}

/** Builds the domain for the GraphQL schema: the operations of people, admins and services. */
export function createDomain(
  platform: Platform,
  { core, adminToken, models, record, rates, toolSetup, pushKeys, oidcFetch }: DomainParts,
) {
  const { visibility, publisher, settleCall, decideCall } = core
  const members = createMembers(platform)
  const sessions = createSessions(platform, adminToken)
  const triggers = createTriggers(platform, { visibility })
  const tokens = createTokens(platform, adminToken)
  const mailLinks = createMailLinks(platform, { ...core, sessions })
  const spaceCreation = createSpaceCreation(platform, core)
  const files = createFileReading(platform, { tokens })
  const reading = createReading(platform, publisher)
  return {
    tokens,
    sessions,
    oidc: createOidcSignIns(platform, { sessions, members, publisher, fetch: oidcFetch, adminToken }),
    rates,
    visibility,
    entities: createEntities(platform),
    humans: {
      ...createHumans(platform),
      ...createHumanUpdates(platform, { mailLinks, visibility, members, publisher, files }),
    },
    agents: createAgents(platform, { models }),
    agentVersions: createAgentVersions(platform),
    modelProviders: createModelProviders(platform, { models }),
    customTools: createCustomTools(platform),
    remoteCards: createCardConfirmation(platform),
    mcpServers: { ...createMcpServers(platform), ...createMcpConfirmation(platform) },
    toolSetup,
    memories: createMemories(platform),
    goals: createGoals(platform),
    inboxReading: createInboxReading(platform),
    consciousness: createConsciousnessReading(platform),
    minds: createMindControl(platform),
    forgetting: createForgetting(platform),
    spaces: {
      ...createSpaces(platform),
      ...spaceCreation,
      ...createSpaceUpdates(platform, core),
    },
    conversations: createConversations(platform, { visibility, spaces: spaceCreation }),
    taskPushes: createTaskPushes(platform),
    forking: { ...createForking(platform, core), ...createRerunning(platform, { ...core, models }) },
    members: { ...members, ...createJoining(platform, core), remove: core.leaving.remove },
    presence: createPresence(platform, { visibility }),
    joinLinks: createJoinLinks(platform, core),
    notifications: createNotifications(platform, pushKeys),
    mailLinks,
    inviting: createInviting(platform, core),
    wakes: createWakePreview(platform, { visibility }),
    reading,
    taskReading: createTaskReading({ ...core, reading }),
    files: { ...files, ...core.uploads },
    resumableUploads: core.resumableUploads,
    search: core.search,
    sending: createSending(platform, { visibility, announcer: core.announcer, post: core.posting.post }),
    messageChanges: {
      edit: core.messageEdits.edit,
      delete: core.messageDeletions.deleteMessage,
      react: core.reacting.react,
    },
    changeReading: createChangeReading(platform),
    runs: core.runs,
    runReading: createRunReading(platform),
    stepRecords: createStepRecords(platform, { ...core, models }),
    why: createWhyReading(platform, { visibility }),
    chains: createChains(platform),
    control: {
      ...createStopRun(core),
      submitToolResult: settleCall.submitToolResult,
      decideToolCall: decideCall.decideToolCall,
      claimToolCall: decideCall.claimToolCall,
      pendingToolCalls: core.toolCalls.pendingToolCalls,
      ...createRetrying(platform, core),
      triggerAgent: triggers.trigger,
    },
    toolCalls: core.toolCalls,
    callClaims: { claimersOf: decideCall.claimersOf },
    callConnections: decideCall,
    approvalReading: core.approvalReading,
    grants: core.grants,
    grantReading: core.grantReading,
    limits: platform.config.limits,
    publicUrl: platform.publicUrl,
    plans: { ...createPlans(platform), runNow: core.planFiring.runNow },
    firingReading: createFiringReading(platform),
    record,
    auditLog: createAuditLog(platform),
    usage: core.usage,
    failedJobs: createFailedJobs(platform),
    mailStatus: createMailStatus(platform),
    invitations: createInvitations(platform, sessions),
    deletion: createDeletion(platform, core),
    webhooks: { ...createWebhooks(platform), ...createWebhookDeliveries(platform, triggers) },
  }
}

export type OwnDomain = ReturnType<typeof createDomain>
