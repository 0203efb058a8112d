import { openPushKeys } from './access/push-keys.ts'
import { createRates } from './access/rates.ts'
import { createStartLink } from './access/start-link.ts'
import { createCore } from './app/core.ts'
import { createDomain } from './app/domain.ts'
import { type Engine, startEngine } from './app/engine.ts'
import { type AppOptions, openOutside } from './app/outside.ts'
import { createToolSetup } from './app/tool-setup.ts'
import { MODELS_CHANNEL } from './broker/topics.ts'
import type { Config } from './config.ts'
import { watchJobs } from './jobs/job-metrics.ts'
import type { Embedder } from './lib/embedder.ts'
import { createEmbedder } from './models/embeddings.ts'
import { createModels, type Models } from './models/models.ts'
import type { Platform } from './platform/platform.ts'
import { keptSecret, type Secret } from './platform/secrets.ts'
import { warnOfOthers } from './runs/presence.ts'
import { watchLivingRuns } from './runs/run-metrics.ts'
import { openMeaning } from './spaces/meaning.ts'
import { createGuardedHttp } from './tools/custom/guarded-http.ts'

/** The maximum size of a response from an identity provider. */
const MOST_IDENTITY_BYTES = 256 * 1024

export type { AppOptions } from './app/outside.ts'

/**
 * Builds every part of the application once. @throws Error with a one-line message if the database or Redis cannot be
 * used
 */
export async function createApp(config: Config, options: AppOptions = {}) {
  const { platform, realtime, record, close } = await openOutside(config, options)
  const adminToken: Secret = keptSecret(config.dataDirectory, 'admin-token', config.adminToken)
  watchLivingRuns(platform)
  watchJobs(platform)
  const others = warnOfOthers(platform)
  const toolSetup = createToolSetup(platform)
  const models = createModels(platform, {
    providers: config.modelProviders,
    defaultModel: config.hasDefaultModel ? config.defaultModel : null,
    ...options.models,
  })
  const closeAndThrow = async (error: unknown): Promise<never> => {
    await models.close()
    await others.close()
    await close()
    throw error
  }
  await models.reload().catch(closeAndThrow)
  models.watch(MODELS_CHANNEL)
  await models.warnOfMissing().catch(closeAndThrow)
  const embedder = embedderOf(platform, models)
  const meaning = embedder && (await openMeaning(platform, embedder).catch(closeAndThrow))
  const core = createCore(platform, { meaning })
  const pushKeys = await openPushKeys(platform).catch(closeAndThrow)
  // The operator has chosen the identity providers, so private addresses are allowed.
  const identityProviders = createGuardedHttp({ allowPrivate: true, maxFetchBytes: MOST_IDENTITY_BYTES })
  const domain = createDomain(platform, {
    core,
    adminToken: adminToken.value,
    models,
    record,
    toolSetup,
    pushKeys,
    oidcFetch: identityProviders.fetch,
    rates: createRates(config.rates, realtime.shared),
  })
  let engine: Engine | null = null

  async function stopWorker(graceMs: number): Promise<void> {
    const stopping = engine
    engine = null
    await stopping?.close(graceMs)
  }

  return {
    platform,
    realtime,
    announcer: core.announcer,
    adminToken,
    startLink: createStartLink(platform),
    models,
    domain,
    /** Republishes the events of runs after the event log has lost them. */
    journal: core.journal,
    /** Starts executing runs in this process. */
    async startWorker() {
      const parts = { config, core, domain, models, pushKeys, push: options.push ?? {} }
      const tools = options.tools === undefined ? {} : { tools: options.tools }
      engine = await startEngine(platform, { ...parts, ...tools, embedder: meaning && embedder })
    },
    /** Gives active runs `graceMs` to finish, and then releases them. */
    stopWorker,
    /** Stops the worker like `stopWorker`, and then closes all connections. */
    async close(graceMs: number) {
      await stopWorker(graceMs)
      await models.close()
      await others.close()
      await core.announcer.close()
      await core.sharedStorage.close()
      await toolSetup.close()
      await identityProviders.close()
      await close()
    },
  }
}

/** Returns the embedder for the model of PARLEY_EMBEDDINGS; null if the variable is not set. */
function embedderOf(platform: Platform, { redact }: Pick<Models, 'redact'>): Embedder | null {
  const { embeddingModel: model, modelProviders: providers } = platform.config
  return model === null ? null : createEmbedder(platform, { model, providers, redact })
}

export type Application = Awaited<ReturnType<typeof createApp>>
