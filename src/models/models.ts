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
  /** It failed too often: until then it is passed over where there is a fallback. */
  restsUntil: Date | null
}

/** The models of this server, and how their providers do, in whichever process. */
export interface Models extends ModelRegistry {
  /** A model's provider has failed: the fifth time within a minute it rests for 30 s. */
  failed(name: string): Promise<void>
  /** Those of the models whose providers rest now, with until when. */
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

/** The SDK would say with each generation, on stderr, that a model does not take a setting: it is said once, in the log. */
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
