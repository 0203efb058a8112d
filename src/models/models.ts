import { counter } from '../lib/metrics.ts'
import { parseModelName } from '../lib/model-name.ts'
import type { Platform } from '../platform/platform.ts'
import { createProviderHealth } from './provider-health.ts'
import {
  createModelRegistry,
  type ModelRegistry,
  type ModelRegistryOptions,
  type RegisteredProvider,
} from './registry.ts'

/** A provider as admins see it. */
export interface ModelProvider extends RegisteredProvider {
  /** Set after too many failures: until then the provider is skipped if there is a fallback. */
  restsUntil: Date | null
}

/** The models of this server, and the health of their providers across processes. */
export interface Models extends ModelRegistry {
  /**
   * Records a failure of the model's provider. After the fifth failure within a minute the provider is skipped for 30
   * s.
   */
  failed(name: string): Promise<void>
  /** Returns those of the models whose providers are skipped now, and until when. */
  resting(names: readonly string[]): Promise<Map<string, Date>>
  listProviders(): Promise<ModelProvider[]>
}

export function createModels(
  platform: Pick<Platform, 'db' | 'logger' | 'metrics'>,
  options: ModelRegistryOptions,
): Models {
  const registry = createModelRegistry(options)
  sayWarningsOnce(platform.logger, registry.redact)
  const health = createProviderHealth(platform)
  const failures = counter(
    platform.metrics,
    'parley_provider_failures_total',
    'Failures of model providers seen by this process: no response, an error response, or a broken stream.',
    ['provider'],
  )
  return {
    ...registry,
    failed(name) {
      failures.inc({ provider: providerOf(name) })
      return health.failed(providerOf(name))
    },
    async resting(names) {
      const resting = await health.resting()
      return new Map(names.flatMap((name) => pairOf(name, resting.get(providerOf(name)))))
    },
    async listProviders() {
      const resting = await health.resting()
      return registry.providers.map((provider) => ({ ...provider, restsUntil: resting.get(provider.name) ?? null }))
    },
  }
}

const MOST_WARNINGS = 1000

/**
 * The SDK prints a warning to stderr for each generation whose model ignores a setting. This logs each warning once.
 */
function sayWarningsOnce(logger: Platform['logger'], redact: (text: string) => string): void {
  const said = new Set<string>()
  globalThis.AI_SDK_LOG_WARNINGS = ({ warnings, provider, model }) => {
    for (const warning of warnings) {
      const text = redact(JSON.stringify(warning))
      const key = `${provider} ${model} ${text}`
      if (said.has(key) || said.size >= MOST_WARNINGS) continue
      said.add(key)
      logger.warn({ provider, model, warning: text }, 'provider ignored a model setting')
    }
  }
}

function providerOf(name: string): string {
  return parseModelName(name)?.provider ?? name
}

function pairOf(name: string, until: Date | undefined): [string, Date][] {
  return until === undefined ? [] : [[name, until]]
}
