import { createRates } from './access/rates.ts'
import { createCore } from './app/core.ts'
import { createDomain } from './app/domain.ts'
import { type Engine, startEngine } from './app/engine.ts'
import { type AppOptions, openOutside } from './app/outside.ts'
import type { Config } from './config.ts'
import { createModels } from './models/models.ts'
import { keptSecret, type Secret } from './platform/secrets.ts'
import { watchLivingRuns } from './runs/run-metrics.ts'

export type { AppOptions } from './app/outside.ts'

/** The application: every part built once. @throws where the database or Redis cannot be used, with one readable line. */
export async function createApp(config: Config, options: AppOptions = {}) {
  const { platform, realtime, record, close } = await openOutside(config, options)
  const adminToken: Secret = keptSecret(config.dataDirectory, 'admin-token', config.adminToken)
  watchLivingRuns(platform)
  const core = createCore(platform)
  const models = createModels(platform, { providers: config.modelProviders, ...options.models })
  let origin = `http://${config.host}:${config.port}`
  const domain = createDomain(platform, {
    core,
    adminToken: adminToken.value,
    ...{ models, record },
    rates: createRates(config.rates, realtime.shared),
    baseUrl: () => origin,
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
    models,
    domain,
    /** What runs have done: it tells of them again where their events are gone. */
    journal: core.journal,
    /** Where the server is reached, once it listens: what addresses that are given out begin with. */
    setOrigin(url: string) {
      origin = url
    },
    /** Begins to execute runs in this process. */
    async startWorker() {
      engine = await startEngine(platform, { config, core, domain, models })
    },
    /** Gives running work `graceMs`, and hands the rest back. */
    stopWorker,
    /** The same, and lets go of everything. */
    async close(graceMs: number) {
      await stopWorker(graceMs)
      await core.announcer.close()
      await close()
    },
  }
}

export type Application = Awaited<ReturnType<typeof createApp>>
