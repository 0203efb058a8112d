import ipaddr from 'ipaddr.js'
import { isPublicAddress } from './addresses.ts'

/** The protocols that a provider can use. */
export const MODEL_APIS = ['openai', 'openai-chat', 'anthropic', 'google'] as const

/** The protocol of a provider: OpenAI Responses, OpenAI Chat Completions, Anthropic Messages, or Google Gemini. */
export type ModelApi = (typeof MODEL_APIS)[number]

/** The AI SDK package that implements a provider's protocol. */
export type ProviderPackage = '@ai-sdk/openai' | '@ai-sdk/openai-compatible' | '@ai-sdk/anthropic' | '@ai-sdk/google'

/** The settings of a model provider. */
export interface ModelProviderSettings {
  /** The part before the colon in model names. */
  name: string
  api: ModelApi
  package: ProviderPackage
  /** The base URL with its version path; null for the API's default URL. Must not contain a secret. */
  baseUrl: string | null
  apiKey: string | null
  headers: Record<string, string>
  /** Why the provider's models cannot be used, as the end of a sentence; null if they can be used. */
  lacks: string | null
  /** Whether the provider is the preset of a self-hosted server, or has a loopback or private address. */
  isLocal: boolean
  /**
   * Whether this is the name of a well-known provider that is not configured. An admin can add a provider with this
   * name.
   */
  isVacant?: boolean
}

/** The defaults of a well-known provider. */
export interface ProviderPreset {
  api: ModelApi
  baseUrl?: string
  /** The environment variables that can contain the provider's key. */
  keyVariables?: readonly string[]
  /** A small model that is the default for agents; null if each server has its own model names. */
  smallModel?: string | null
}

/** Defaults for providers that are configured only by name, or detected by the environment variable with their key. */
export const PROVIDER_PRESETS = new Map<string, ProviderPreset>(
  Object.entries<ProviderPreset>({
    ollama: { api: 'openai-chat', baseUrl: 'http://localhost:11434/v1' },
    lmstudio: { api: 'openai-chat', baseUrl: 'http://localhost:1234/v1' },
    vllm: { api: 'openai-chat', baseUrl: 'http://localhost:8000/v1' },
    anthropic: { api: 'anthropic', keyVariables: ['ANTHROPIC_API_KEY'], smallModel: 'claude-haiku-4-5' },
    google: {
      api: 'google',
      keyVariables: ['GEMINI_API_KEY', 'GOOGLE_GENERATIVE_AI_API_KEY'],
      smallModel: 'gemini-2.5-flash',
    },
    openrouter: {
      api: 'openai-chat',
      baseUrl: 'https://openrouter.ai/api/v1',
      keyVariables: ['OPENROUTER_API_KEY'],
      smallModel: 'openai/gpt-5-mini',
    },
    groq: {
      api: 'openai-chat',
      baseUrl: 'https://api.groq.com/openai/v1',
      keyVariables: ['GROQ_API_KEY'],
      smallModel: 'openai/gpt-oss-20b',
    },
    mistral: {
      api: 'openai-chat',
      baseUrl: 'https://api.mistral.ai/v1',
      keyVariables: ['MISTRAL_API_KEY'],
      smallModel: 'mistral-small-latest',
    },
    deepseek: {
      api: 'openai-chat',
      baseUrl: 'https://api.deepseek.com/v1',
      keyVariables: ['DEEPSEEK_API_KEY'],
      smallModel: 'deepseek-chat',
    },
    xai: {
      api: 'openai-chat',
      baseUrl: 'https://api.x.ai/v1',
      keyVariables: ['XAI_API_KEY'],
      smallModel: 'grok-4-fast-non-reasoning',
    },
  }),
)

const SMALL_OPENAI_MODEL = 'gpt-5-mini'

const LOCAL_PRESETS = new Set(['ollama', 'lmstudio', 'vllm'])

/** Returns a small model of the first provider with a key; null if there is none. */
export function smallModelOf(providers: readonly ModelProviderSettings[]): string | null {
  for (const { name, apiKey } of providers) {
    const model = name === 'openai' ? SMALL_OPENAI_MODEL : PROVIDER_PRESETS.get(name)?.smallModel
    if (apiKey !== null && model != null) return `${name}:${model}`
  }
  return null
}

/** How the names of providers' own models begin. */
const MAKERS: readonly [RegExp, string][] = [
  [/^claude-/, 'anthropic'],
  [/^(gpt-|chatgpt-|o\d)/, 'openai'],
  [/^gemini-/, 'google'],
  [/^(mistral|magistral|codestral|ministral)-/, 'mistral'],
  [/^deepseek-/, 'deepseek'],
  [/^grok-/, 'xai'],
]

/** Returns the provider of a well-known model whose name was written without the provider; null for any other name. */
export function makerOf(model: string): string | null {
  return /^[\w.-]+$/.test(model) ? (MAKERS.find(([beginning]) => beginning.test(model))?.[1] ?? null) : null
}

/**
 * Returns an instruction that makes a well-known provider available, such as `set ANTHROPIC_API_KEY`; null for any
 * other name.
 */
export function settingOfPreset(name: string): string | null {
  if (name === 'azure') return 'set AZURE_API_KEY and AZURE_RESOURCE_NAME'
  const preset = PROVIDER_PRESETS.get(name)
  if (preset === undefined) return null
  const { keyVariables = [] } = preset
  return keyVariables.length > 0 ? `set ${keyVariables.join(' or ')}` : `set PARLEY_PROVIDERS='{ "${name}": {} }'`
}

/** The settings of a provider as they were given. */
export interface NewProvider {
  name: string
  api: ModelApi
  baseUrl: string | null
  apiKey: string | null
  headers: Record<string, string>
}

/**
 * Completes the settings of a provider. `keyPlaces` says where a missing key can be set. It becomes part of `lacks`.
 */
export function providerSettings(
  { name, api, baseUrl, apiKey, headers }: NewProvider,
  keyPlaces: readonly string[],
): ModelProviderSettings {
  const preset = PROVIDER_PRESETS.get(name)
  const hasKeyVariables = (preset?.keyVariables ?? []).length > 0
  const isKeyless = baseUrl !== null && (!hasKeyVariables || baseUrl !== preset?.baseUrl)
  const isBare = apiKey === null && Object.keys(headers).length === 0 && !isKeyless
  const lacks = isBare ? `needs ${keyPlaces.join(', or ')}` : null
  const isLocal = LOCAL_PRESETS.has(name) || isPrivateUrl(baseUrl)
  return { name, api, package: packageOf(api, baseUrl), baseUrl, apiKey, headers, lacks, isLocal }
}

/**
 * Returns the context for the encryption of a key. It ensures that the key cannot be decrypted for another API or
 * address.
 */
export function keyContext({ name, api, baseUrl }: { name: string; api: string; baseUrl: string | null }): string {
  return `provider:${name}:${api}:${baseUrl ?? ''}`
}

/** For Chat Completions, OpenAI's own reasoning models need options that compatible servers do not understand. */
function packageOf(api: ModelApi, baseUrl: string | null): ProviderPackage {
  if (api === 'anthropic' || api === 'google') return `@ai-sdk/${api}`
  return api === 'openai-chat' && baseUrl !== null ? '@ai-sdk/openai-compatible' : '@ai-sdk/openai'
}

/** Whether a text is a valid base URL: http or https, without user, password, query or fragment. */
export function isBaseUrl(text: string): boolean {
  if (!URL.canParse(text)) return false
  const { protocol, username, password, search, hash } = new URL(text)
  return ['http:', 'https:'].includes(protocol) && [username, password, search, hash].every((part) => part === '')
}

/**
 * Returns a secret without surrounding spaces; null if a header cannot contain it. With such a secret, every request
 * would fail with an error that shows the secret.
 */
export function sendableSecret(text: string): string | null {
  const value = text.trim()
  return /^[\x20-\x7e]+$/.test(value) ? value : null
}

/** Whether a URL has a private address, or a host name that only private networks use. */
export function isPrivateUrl(url: string | null): boolean {
  if (url === null || !URL.canParse(url)) return false
  const host = new URL(url).hostname.replace(/^\[|\]$/g, '')
  if (ipaddr.isValid(host)) return !isPublicAddress(host)
  return !host.includes('.') || /\.(localhost|local|internal|lan)$/.test(host)
}

export function isPackageInstalled(name: ProviderPackage): boolean {
  try {
    import.meta.resolve(name)
    return true
  } catch {
    return false
  }
}
