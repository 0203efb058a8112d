import { createAuditLog } from '../access/audit-log.ts'
import { createInvitations } from '../access/invitations.ts'
import type { Rates } from '../access/rates.ts'
import { createTokens } from '../access/tokens.ts'
import { OPERATOR_ID } from '../access/viewer.ts'
import { createVisibility } from '../access/visibility.ts'
import { createAgents } from '../agents/agents.ts'
import { createConsciousnessReading } from '../agents/consciousness.ts'
import { createCustomTools } from '../agents/custom-tools.ts'
import { createEntities } from '../agents/entities.ts'
import { createGoals } from '../agents/goals.ts'
import { createHumans } from '../agents/humans.ts'
import { createInboxReading } from '../agents/inbox-reading.ts'
import { askAgain } from '../agents/inbox-taking.ts'
import { createMcpServers } from '../agents/mcp-servers.ts'
import { createMemories } from '../agents/memories.ts'
import { createMindControl } from '../agents/mind-control.ts'
import { createTriggers } from '../agents/triggers.ts'
import { createWebhookDeliveries } from '../agents/webhook-deliveries.ts'
import { createWebhooks } from '../agents/webhooks.ts'
import type { Requester } from '../lib/fair-queue.ts'
import { recalledOf } from '../minds/cycle-state.ts'
import type { Models } from '../models/models.ts'
import { createForgetting } from '../operation/forgetting.ts'
import { createFiringReading } from '../plans/firing-reading.ts'
import { createPlans } from '../plans/plans.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import type { Record } from '../platform/record.ts'
import { createRetrying } from '../routing/retrying.ts'
import { createChains } from '../runs/chains.ts'
import { createControl } from '../runs/control.ts'
import { createDeciding } from '../runs/deciding.ts'
import { createPausing } from '../runs/pausing.ts'
import { createRunReading } from '../runs/reading.ts'
import { createStepRecords } from '../runs/step-records.ts'
import { createMembers } from '../spaces/members.ts'
import { createReading } from '../spaces/reading.ts'
import { createSending } from '../spaces/sending.ts'
import { createSpacePublisher } from '../spaces/space-publisher.ts'
import { createSpaces } from '../spaces/spaces.ts'
import { checkInputSchema, checkSchema } from '../tools/custom/schema-checks.ts'
import type { Core } from './core.ts'
import { createDeletion } from './deletion.ts'

export interface DomainParts {
  core: Core
  adminToken: string
  models: Models
  record: Record
  rates: Rates
  /** The server's public base URL, without a path. */
  baseUrl(): string
}

const onBudgetChanged = (tx: Tx, spaceId: string) => askAgain(tx, { spaceId })

/** Builds the domain as the GraphQL schema uses it: the operations of people, admins and services. */
export function createDomain(platform: Platform, { core, adminToken, models, record, rates, baseUrl }: DomainParts) {
  const visibility = createVisibility(platform)
  const publisher = createSpacePublisher(platform)
  const members = createMembers(platform, visibility, publisher, membershipHooks(core))
  const triggers = createTriggers(platform, { visibility, waking: core.waking })
  return {
    tokens: createTokens(platform, adminToken),
    rates,
    visibility,
    entities: createEntities(platform),
    humans: createHumans(platform, visibility, {
      async onRenamed(humanId) {
        for (const spaceId of await members.spacesOf(humanId)) await publisher.changed(spaceId)
      },
    }),
    agents: createAgents(platform, { ...SCHEMA_CHECKS, checkModel: models.check, ...createPausing(platform) }),
    modelProviders: { list: models.listProviders },
    customTools: createCustomTools(platform),
    mcpServers: createMcpServers(platform),
    memories: createMemories(platform),
    goals: createGoals(platform),
    inboxReading: createInboxReading(platform),
    consciousness: createConsciousnessReading(platform),
    minds: createMindControl(platform),
    forgetting: createForgetting(platform),
    spaces: createSpaces(platform, visibility, publisher, { onBudgetChanged }),
    members,
    reading: createReading(platform, publisher),
    sending: createSending(core.posting, visibility),
    runs: core.runs,
    runReading: createRunReading(platform),
    stepRecords: createStepRecords(platform, { recalled: (cycles) => recalledOf(core.recalling, cycles) }),
    chains: createChains(platform),
    control: {
      ...createControl(platform, { visibility, ...core }),
      ...createDeciding(platform, { visibility, ...core }),
      ...createRetrying(platform, { visibility, ...core }),
      triggerAgent: triggers.trigger,
    },
    ...callsOf(core),
    limits: platform.config.limits,
    plans: { ...createPlans(platform), runNow: core.planFiring.runNow },
    firingReading: createFiringReading(platform),
    ...{ record, auditLog: createAuditLog(platform), usage: core.usage },
    invitations: createInvitations(platform, { baseUrl }),
    deletion: createDeletion(platform, { members, visibility, publisher, ...core }),
    webhooks: { ...createWebhooks(platform, { baseUrl }), ...createWebhookDeliveries(platform, triggers) },
  }
}

const OPERATOR: Requester = { id: OPERATOR_ID, isPatient: true }

/** Only admins create tools, so the checks of their schemas are not rate-limited. */
const SCHEMA_CHECKS = {
  checkInputSchema: (schema: unknown) => checkInputSchema(schema, OPERATOR),
  checkSchema: (schema: unknown) => checkSchema(schema, OPERATOR),
}

/** Side effects of joining and leaving a space. */
const membershipHooks = ({ leaving, approvals }: Core) => ({
  onLeft: leaving.onLeft,
  onJoined: (spaceId: string) => approvals.recheck({ spaceId }),
})

/** The parts for reading tool calls. */
const callsOf = ({ toolCalls, callClaims, approvalReading }: Core) => ({ toolCalls, callClaims, approvalReading })

export type OwnDomain = ReturnType<typeof createDomain>
