import { createTokens } from '../access/tokens.ts'
import { createVisibility } from '../access/visibility.ts'
import { createAgents } from '../agents/agents.ts'
import { createConsciousnessReading } from '../agents/consciousness.ts'
import { createCustomTools } from '../agents/custom-tools.ts'
import { createEntities } from '../agents/entities.ts'
import { createGoals } from '../agents/goals.ts'
import { createHumans } from '../agents/humans.ts'
import { createInboxReading } from '../agents/inbox-reading.ts'
import { createMcpServers } from '../agents/mcp-servers.ts'
import { createMemories } from '../agents/memories.ts'
import { createMindControl } from '../agents/mind-control.ts'
import { createTriggers } from '../agents/triggers.ts'
import { createWebhooks } from '../agents/webhooks.ts'
import { recalledOf } from '../minds/cycle-state.ts'
import type { Models } from '../models/models.ts'
import { createPlans } from '../plans/plans.ts'
import type { Platform } from '../platform/platform.ts'
import { createRetrying } from '../routing/retrying.ts'
import { createChains } from '../runs/chains.ts'
import { createControl } from '../runs/control.ts'
import { createRunReading } from '../runs/reading.ts'
import { createStepRecords } from '../runs/step-records.ts'
import { createMembers } from '../spaces/members.ts'
import { createReading } from '../spaces/reading.ts'
import { createSending } from '../spaces/sending.ts'
import { createSpaceNews } from '../spaces/space-news.ts'
import { createSpaces } from '../spaces/spaces.ts'
import { checkInputSchema } from '../tools/custom/json-schema.ts'
import type { Core } from './core.ts'

export interface ApiParts {
  core: Core
  adminToken: string
  models: Models
  /** Where this server is reached, without a path. */
  baseUrl(): string
}

/** What people, admins and services can ask for: the domain as the GraphQL schema sees it. */
export function createApi(platform: Platform, { core, adminToken, models, baseUrl }: ApiParts) {
  const visibility = createVisibility(platform)
  const news = createSpaceNews(platform)
  const triggers = createTriggers(platform, { visibility, waking: core.waking })
  return {
    tokens: createTokens(platform, adminToken),
    visibility,
    entities: createEntities(platform),
    humans: createHumans(platform),
    agents: createAgents(platform, { checkModel: models.check, checkInputSchema }),
    modelProviders: { list: models.listProviders },
    customTools: createCustomTools(platform),
    mcpServers: createMcpServers(platform),
    memories: createMemories(platform),
    goals: createGoals(platform),
    inboxReading: createInboxReading(platform),
    consciousness: createConsciousnessReading(platform),
    minds: createMindControl(platform),
    spaces: createSpaces(platform, visibility, news),
    members: createMembers(platform, visibility, news, core.leaving),
    reading: createReading(platform, news),
    sending: createSending(core.posting, visibility),
    runs: core.runs,
    runReading: createRunReading(platform),
    stepRecords: createStepRecords(platform, { recalled: (cycles) => recalledOf(core.recalling, cycles) }),
    chains: createChains(platform),
    control: {
      ...createControl(platform, { visibility, ...core }),
      ...createRetrying(platform, { visibility, ...core }),
      triggerAgent: triggers.trigger,
    },
    toolCalls: core.toolCalls,
    plans: createPlans(platform),
    webhooks: createWebhooks(platform, { call: triggers.call, baseUrl }),
  }
}

export type Api = ReturnType<typeof createApi>
