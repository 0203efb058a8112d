import { pino } from 'pino'
import { createTokens } from './access/tokens.ts'
import { createVisibility } from './access/visibility.ts'
import { createAgents } from './agents/agents.ts'
import { createConsciousnessReading } from './agents/consciousness.ts'
import { createCustomTools } from './agents/custom-tools.ts'
import { createEntities } from './agents/entities.ts'
import { createGoals } from './agents/goals.ts'
import { createHumans } from './agents/humans.ts'
import { createInbox } from './agents/inbox.ts'
import { createInboxReading } from './agents/inbox-reading.ts'
import { createMcpServers } from './agents/mcp-servers.ts'
import { createMemories } from './agents/memories.ts'
import type { Config } from './config.ts'
import { createExecutor } from './engine/execute-run.ts'
import { createSceneLoader } from './engine/scene.ts'
import { createWorker, type Worker } from './engine/worker.ts'
import { messageOf } from './lib/errors.ts'
import { createModelRegistry, type ModelRegistryOptions } from './models/registry.ts'
import { type Clock, systemClock } from './platform/clock.ts'
import { openDatabase } from './platform/db.ts'
import { openJobs } from './platform/jobs.ts'
import type { Platform } from './platform/platform.ts'
import { createSecretBox } from './platform/secret-box.ts'
import { keptSecret, type Secret } from './platform/secrets.ts'
import { createRealtime } from './realtime/realtime.ts'
import { createDispatch } from './routing/dispatch.ts'
import { createRunEnd } from './routing/run-end.ts'
import { createChains } from './runs/chains.ts'
import { createControl } from './runs/control.ts'
import { createJournal } from './runs/journal.ts'
import { createLifecycle } from './runs/lifecycle.ts'
import { createRunReading } from './runs/reading.ts'
import { createRuns } from './runs/runs.ts'
import { createStepRecords } from './runs/step-records.ts'
import { createToolCalls } from './runs/tool-calls.ts'
import { createToolWaits } from './runs/tool-waits.ts'
import { createAnnouncer } from './spaces/announcer.ts'
import { createHistory } from './spaces/history.ts'
import { createMembers } from './spaces/members.ts'
import { createPosting, type Posting } from './spaces/posting.ts'
import { createReading } from './spaces/reading.ts'
import { createSending } from './spaces/sending.ts'
import { createSpaceNews } from './spaces/space-news.ts'
import { createSpaces } from './spaces/spaces.ts'
import { createGuardedHttp } from './tools/custom/guarded-http.ts'
import { checkInputSchema } from './tools/custom/json-schema.ts'
import { createMcpTools } from './tools/mcp/mcp-tools.ts'
import { createMcpToolset } from './tools/mcp/mcp-toolset.ts'
import { createToolbox } from './tools/toolbox.ts'

/** What tests put in the place of the outside. */
export interface AppOptions {
  clock?: Clock
  models?: ModelRegistryOptions
  /** Begins every key in Redis: tests that share one need different ones. */
  redisPrefix?: string
}

/** Opens the outside once; `close` closes it in the opposite order. */
async function openPlatform(config: Config, { clock = systemClock, redisPrefix }: AppOptions) {
  const logger = pino({ level: config.logLevel })
  const onError = (error: Error) => logger.warn({ error: messageOf(error) }, 'the database had a fault')
  const db = await openDatabase({ url: config.databaseUrl, dataDirectory: config.dataDirectory, onError })
  try {
    const realtime = await createRealtime({
      redisUrl: config.redisUrl,
      logger,
      ...(redisPrefix ? { prefix: redisPrefix } : {}),
    })
    const jobs = await openJobs(db, { supervise: config.role !== 'api', onError })
    const secretKey = keptSecret(config.dataDirectory, 'secret-key', config.secretKey)
    const { log, signals } = realtime
    const platform: Platform = {
      config,
      db,
      jobs,
      log,
      signals,
      clock,
      logger,
      secretBox: createSecretBox(secretKey.value),
    }
    const close = async () => {
      await jobs.close()
      await realtime.close()
      await db.close()
    }
    return { platform, realtime, close }
  } catch (error) {
    await db.close()
    throw error
  }
}

/** What a message sets off, and what posting and ending need of one another: the one circle, closed here. */
function createCore(platform: Platform) {
  const runs = createRuns(platform)
  const inbox = createInbox(platform)
  const announcer = createAnnouncer(platform)
  const dispatch = createDispatch(platform, { runs, inbox })
  const posting: Posting = createPosting(platform, announcer, { route: dispatch.route })
  const lifecycle = createLifecycle(platform, announcer, createRunEnd())
  const toolCalls = createToolCalls(platform, {
    onMessageAnswered: posting.finishAnswered,
    onAsyncResult: async () => null,
  })
  return { runs, inbox, announcer, posting, lifecycle, toolCalls }
}

/** The application: every part built once. @throws where the database or Redis cannot be used, with one readable line. */
export async function createApp(config: Config, options: AppOptions = {}) {
  const { platform, realtime, close } = await openPlatform(config, options)
  const adminToken: Secret = keptSecret(config.dataDirectory, 'admin-token', config.adminToken)
  const core = createCore(platform)
  const models = createModelRegistry({
    openai: { apiKey: config.openai.apiKey ?? undefined, baseURL: config.openai.baseUrl ?? undefined },
    ...options.models,
  })
  const visibility = createVisibility(platform)
  const news = createSpaceNews(platform)
  const history = createHistory(platform)
  const api = {
    tokens: createTokens(platform, adminToken.value),
    visibility,
    entities: createEntities(platform),
    humans: createHumans(platform),
    agents: createAgents(platform, { checkModel: models.check, checkInputSchema }),
    customTools: createCustomTools(platform),
    mcpServers: createMcpServers(platform),
    memories: createMemories(platform),
    goals: createGoals(platform),
    inbox: createInboxReading(platform),
    consciousness: createConsciousnessReading(platform),
    spaces: createSpaces(platform, visibility, news),
    members: createMembers(platform, visibility, news),
    reading: createReading(platform, news),
    sending: createSending(core.posting, visibility),
    runs: core.runs,
    runReading: createRunReading(platform),
    stepRecords: createStepRecords(platform),
    chains: createChains(platform),
    control: createControl(platform, { visibility, ...core }),
    toolCalls: core.toolCalls,
  }
  const http = createGuardedHttp({ allowPrivate: config.allowPrivateTools })
  const mcpTools = createMcpTools({ http, clock: platform.clock })
  let worker: Worker | null = null

  return {
    platform,
    realtime,
    announcer: core.announcer,
    adminToken,
    api,
    /** Begins to execute runs in this process. */
    async startWorker() {
      const journal = createJournal(platform)
      const waits = createToolWaits(platform)
      const scenes = createSceneLoader(platform, history)
      const { historyLimit } = config.limits
      const mcp = createMcpToolset(platform, mcpTools)
      const toolbox = createToolbox({ ...core, history, historyLimit, http, mcp, secretBox: platform.secretBox })
      const executor = createExecutor(platform, { ...core, journal, waits, scenes, toolbox, models })
      worker = await createWorker(platform, {
        lifecycle: core.lifecycle,
        executor,
        handlers: {
          'tool-deadline': ({ toolCallId }) => core.toolCalls.expire(toolCallId),
          'run-deadline': ({ runId }) => core.lifecycle.expire(runId),
          plan: async () => {},
          cycle: async () => {},
        },
      })
    },
    /** Gives running work `graceMs`, hands the rest back, and lets go of everything. */
    async close(graceMs: number) {
      await worker?.drain(graceMs)
      await core.announcer.close()
      await mcpTools.close()
      await http.close()
      await close()
    },
  }
}

export type Application = Awaited<ReturnType<typeof createApp>>
