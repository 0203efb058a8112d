import { createShared, sleep } from '../lib/async.ts'
import { messageOf } from '../lib/errors.ts'
import { isForeignModel } from '../lib/foreign-model.ts'
import { cut } from '../lib/json.ts'
import { counter } from '../lib/metrics.ts'
import { ModelNotSetUpError } from '../lib/model-fault.ts'
import { parseModelName } from '../lib/model-name.ts'
import { type ModelProviderSettings, settingOfPreset, smallModelOf } from '../lib/model-provider.ts'
import type { Platform } from '../platform/platform.ts'
import { type AddedProvider, readAddedProviders, settingsOfAdded } from './added-providers.ts'
import type { LanguageModelV4 } from './language-model.ts'
import { createProviderHealth } from './provider-health.ts'
import { createProviderChecks, type ProviderStatus } from './provider-status.ts'
import { type ProviderTest, testModel } from './provider-test.ts'
import { createRedaction } from './redaction.ts'
import {
  createModelRegistry,
  type ModelRegistry,
  type ModelRegistryOptions,
  type RegisteredProvider,
} from './registry.ts'

/** A provider as admins see it. */
export interface ModelProvider extends RegisteredProvider {
  /**
   * The end of the provider's cooldown; null if it is not in cooldown. A provider that fails too often is skipped until
   * then if there is a fallback.
   */
  restsUntil: Date | null
  /**
   * Checks whether a model can be called now, and lists the models, with one request to the provider. The result is
   * cached, and the request has a time limit.
   */
  status(): Promise<ProviderStatus>
}

/** The models in the form in which a run uses them. */
export interface RunModels extends Pick<ModelRegistry, 'resolve' | 'takesFile' | 'redact'> {
  /**
   * Records a failure of the model's provider. After the fifth failure within a minute, the provider is skipped for 30
   * s.
   */
  failed(name: string): Promise<void>
  /** Returns those models whose provider is now skipped, with the time at which this ends. */
  resting(names: readonly string[]): Promise<Map<string, Date>>
}

/** The models of this server, and the health of their providers across processes. */
export interface Models extends Pick<ModelRegistry, 'check' | 'isLocal' | 'takesFile' | 'redact'> {
  /** Returns the models for a run. Later changes and deletions of providers do not affect the run. */
  forRun(): RunModels
  /**
   * Returns the model for an agent that is created without one. This is the default model of the settings. If there is
   * none, it is a small model of the first added provider that has answered, and otherwise `demo`.
   */
  defaultModel(): Promise<string>
  /**
   * Loads the providers again if one of the models is unknown, because another process may have just added its
   * provider.
   */
  lookFor(names: readonly string[]): Promise<void>
  /** Loads the providers that admins added. */
  reload(): Promise<void>
  /** Loads the providers again, and resets the failures of a provider that was changed. */
  changed(provider: string): Promise<void>
  listProviders(): Promise<ModelProvider[]>
  /** Calls a model of a provider once, as a test. Returns null if there is no such provider. */
  test(provider: string, modelId: string): Promise<ProviderTest | null>
  /** Logs which models of agents cannot be called, and why. */
  warnOfMissing(): Promise<void>
  /** Starts to watch for changes by other processes. Uses the signals of a channel, and checks periodically. */
  watch(channel: string): void
  close(): Promise<void>
}

export interface ModelsOptions extends ModelRegistryOptions {
  /** The default model from the settings; null if there is none. */
  defaultModel?: string | null
}

/** The maximum length of the text that a test call returns. */
const LONGEST_TEXT = 2000
/** How often a process checks for changes whose signal was lost. */
const RECHECK_MS = 30_000

type Needed = Pick<Platform, 'db' | 'logger' | 'metrics' | 'secretBox' | 'signals'>

export function createModels(platform: Needed, { defaultModel = null, ...options }: ModelsOptions): Models {
  const { logger, signals } = platform
  let registry = createModelRegistry(options)
  let added: ModelProviderSettings[] = []
  let rows: readonly AddedProvider[] = []
  /** The keys to redact. Replaced keys stay in the set, because responses to earlier requests can contain them. */
  const keys = new Set<string>()
  let redactKeys = createRedaction([])
  const redact = (text: string) => redactKeys(registry.redact(text))
  const health = createProviderHealth(platform)
  const checks = createProviderChecks(redact)
  const ended = new AbortController()
  sayWarningsOnce(logger, redact)
  const failures = counter(
    platform.metrics,
    'parley_provider_failures_total',
    'Failures of model providers seen by this process: no response, an error response, or a broken stream.',
    ['provider'],
  )

  function apply(found: readonly AddedProvider[]): void {
    const before = new Map(rows.map((row, index) => [JSON.stringify(row), added[index]]))
    if (
      found.length === rows.length &&
      found.every((row, index) => JSON.stringify(row) === JSON.stringify(rows[index]))
    )
      return
    added = found.map((row) => before.get(JSON.stringify(row)) ?? settingsOfAdded(row, platform))
    rows = found
    for (const { apiKey } of added) if (apiKey !== null) keys.add(apiKey)
    redactKeys = createRedaction([...keys])
    registry = createModelRegistry({ ...options, added })
  }

  let loading: Promise<unknown> = Promise.resolve()
  const loadOnce = createShared(async (): Promise<unknown> => {
    try {
      apply(await readAddedProviders(platform))
      return null
    } catch (error) {
      return error
    }
  })

  const load = () => {
    const begun = loadOnce()
    loading = begun
    return begun
  }

  async function reload(): Promise<void> {
    const error = await load()
    if (error !== null) throw error
  }

  const tryToReload = async () => {
    const error = await load()
    if (error !== null && !ended.signal.aborted)
      logger.warn({ error: messageOf(error) }, 'could not read the model providers; retrying')
  }

  async function recheck(): Promise<void> {
    while (!ended.signal.aborted) {
      await sleep(RECHECK_MS, ended.signal)
      if (!ended.signal.aborted) await tryToReload()
    }
  }

  let watching: Promise<unknown> = Promise.resolve()
  const stops: (() => void)[] = []

  async function failed(name: string): Promise<void> {
    failures.inc({ provider: parseModelName(name)?.provider ?? name })
    await health.failed(providerOf(name))
  }

  return {
    check: (name) => registry.check(name),
    isLocal: (name) => registry.isLocal(name),
    takesFile: (name, mediaType) => registry.takesFile(name, mediaType),
    redact,
    forRun() {
      const begun = registry
      /**
       * Returns the registry for a model. Reloads the providers first if another process may have added the model's
       * provider.
       */
      const registryFor = async (name: string) => {
        if (begun.check(name) === null) return begun
        await tryToReload()
        return registry
      }
      return {
        async resolve(name) {
          const found = await registryFor(name)
          const provider = providerOf(name)
          const isMissing = found.check(name) !== null && found.settingsOf(provider) === undefined
          // For well-known providers, the message of `check` already says how to add the provider.
          if (isMissing && settingOfPreset(provider) === null)
            throw new ModelNotSetUpError(`${found.check(name)} An admin can also add the provider "${provider}" again.`)
          return found.resolve(name)
        },
        takesFile: (name, mediaType) => (begun.check(name) === null ? begun : registry).takesFile(name, mediaType),
        redact: (text) => redact(begun.redact(text)),
        failed,
        async resting(names) {
          const resting = await health.resting()
          return new Map(names.flatMap((name) => pairOf(name, resting.get(providerOf(name)))))
        },
      }
    },
    async defaultModel() {
      if (defaultModel !== null) return defaultModel
      const offered = added.filter((settings) => smallModelOf([settings]) !== null)
      const hasAnswered = await Promise.all(offered.map(checks.hasAnswered))
      return smallModelOf(offered.filter((_, index) => hasAnswered[index])) ?? 'demo'
    },
    async lookFor(names) {
      if (names.some((name) => registry.check(name) !== null)) await tryToReload()
    },
    reload,
    async changed(provider) {
      await health.forget(provider)
      await reload()
    },
    async listProviders() {
      const resting = await health.resting()
      return registry.providers.map((provider) => {
        const settings = registry.settingsOf(provider.name)
        const restsUntil = resting.get(provider.name) ?? null
        const status = async () => (settings === undefined ? BUILT_IN : checks.statusOf(settings, restsUntil))
        return { ...provider, restsUntil, status }
      })
    },
    async test(provider, modelId) {
      const settings = registry.settingsOf(provider)
      if (settings === undefined && provider !== 'demo') return null
      const name = settings === undefined ? 'demo' : `${provider}:${modelId}`
      const problem =
        settings === undefined && modelId !== 'demo' ? 'The only model of "demo" is "demo".' : registry.check(name)
      if (problem !== null) return { ok: false, text: redact(problem) }
      const called = await testModel(
        async () => (await registry.resolve(name)) as LanguageModelV4,
        settings?.baseUrl ?? null,
      )
      if (settings !== undefined) checks.tested(settings, called)
      return { ok: called.ok, text: cut(redact(called.text), LONGEST_TEXT) }
    },
    async warnOfMissing() {
      const rows = await platform.db.prisma.$queryRaw<{ name: string }[]>`
        SELECT DISTINCT name FROM "Agent", unnest(model || "fallbackModels") AS name ORDER BY name LIMIT ${MOST_WARNINGS}`
      for (const { name } of rows) {
        const problem = registry.check(name)
        if (problem !== null) logger.warn({ model: name }, `agents use a model that cannot be called. ${problem}`)
      }
    },
    watch(channel) {
      const subscribed = signals.subscribe(channel, () => void tryToReload())
      // While Redis is unreachable, the subscription stays pending, but the periodic checks continue.
      subscribed.then(
        (stop) => (ended.signal.aborted ? stop() : stops.push(stop)),
        () => {},
      )
      stops.push(signals.onReconnect(() => void tryToReload()))
      watching = recheck()
    },
    async close() {
      ended.abort()
      for (const stop of stops.splice(0)) stop()
      await Promise.all([watching, loading])
    },
  }
}

const BUILT_IN: ProviderStatus = { ready: true, notReadyReason: null, models: ['demo'] }

const MOST_WARNINGS = 1000

/**
 * Logs each warning of the SDK once. By default, the SDK prints a warning to stderr for each generation whose model
 * ignores a setting.
 */
function sayWarningsOnce(logger: Platform['logger'], redact: (text: string) => string): void {
  const said = new Set<string>()
  globalThis.AI_SDK_LOG_WARNINGS = ({ warnings, provider, model }) => {
    for (const warning of warnings) {
      const text = redact(JSON.stringify(warning))
      const key = `${provider} ${model} ${text}`
      if (said.has(key) || said.size >= MOST_WARNINGS) continue
      said.add(key)
      logger.warn({ provider, model, warning: text }, 'a provider ignored a model setting')
    }
  }
}

/** Returns the provider of a model name. Each agent on another server is a separate provider. */
function providerOf(name: string): string {
  if (isForeignModel(name)) return name
  return parseModelName(name)?.provider ?? name
}

function pairOf(name: string, until: Date | undefined): [string, Date][] {
  return until === undefined ? [] : [[name, until]]
}
