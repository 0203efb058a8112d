import { z } from 'zod'
import { PROVIDER_NAME } from '../lib/model-name.ts'
import { readJsonSetting } from './json-setting.ts'

const APIS = ['openai', 'openai-chat', 'anthropic', 'google'] as const

/** The protocol of a provider: OpenAI Responses, OpenAI Chat Completions, Anthropic Messages, or Google Gemini. */
export type ModelApi = (typeof APIS)[number]

/** The AI SDK package that implements the protocol. */
export type ProviderPackage = '@ai-sdk/openai' | '@ai-sdk/openai-compatible' | '@ai-sdk/anthropic' | '@ai-sdk/google'

/** The settings of a model provider. */
export interface ModelProviderSettings {
  /** The part before the colon in model names. */
  name: string
  api: ModelApi
  package: ProviderPackage
  /** With its version path; null for the default of the API. Must not contain a secret. */
  baseUrl: string | null
  apiKey: string | null
  headers: Record<string, string>
  /** Why no model of the provider can be used, as the end of a sentence; null if they can. */
  lacks: string | null
}

type Environment = Record<string, string | undefined>

/** The base URL of a provider. Admins and errors show it, so secrets belong in a header. */
export const baseUrl = z
  .string()
  .refine(isBaseUrl, 'must be a URL that begins with http:// or https://, without user, password, query or fragment')

const PROVIDER = z.strictObject({
  api: z.enum(APIS, `must be one of ${APIS.join(', ')}`),
  baseUrl: baseUrl.optional(),
  apiKey: z.string().optional(),
  headers: z.record(z.string(), z.string()).optional(),
})

type Preset = z.infer<typeof PROVIDER> & { keyVariable?: string }

/** Defaults for a provider that is given as one word, and the variable with its key. */
const PRESETS = new Map<string, Preset>(
  Object.entries({
    ollama: { api: 'openai-chat', baseUrl: 'http://localhost:11434/v1' },
    lmstudio: { api: 'openai-chat', baseUrl: 'http://localhost:1234/v1' },
    vllm: { api: 'openai-chat', baseUrl: 'http://localhost:8000/v1' },
    openrouter: { api: 'openai-chat', baseUrl: 'https://openrouter.ai/api/v1', keyVariable: 'OPENROUTER_API_KEY' },
  }),
)

/** The providers, and the faults found, a line each, without secrets. */
export interface ReadProviders {
  providers: ModelProviderSettings[]
  faults: string[]
  warnings: string[]
}

/**
 * Reads the providers of PARLEY_PROVIDERS, then adds `openai` and `openai.chat` from OPENAI_API_KEY and
 * OPENAI_BASE_URL, unless these names are taken. A key or header `env:NAME` is replaced by the value of that variable.
 */
export function readModelProviders(environment: Environment, isInstalled = isPackageInstalled): ReadProviders {
  const faults: string[] = []
  const named = entriesOf(environment.PARLEY_PROVIDERS, faults).flatMap(([name, given]) => {
    const read = readProvider(name, given, environment)
    faults.push(...read.faults.map((fault) => `PARLEY_PROVIDERS: ${fault}`))
    return read.provider ?? []
  })
  for (const { name, package: needed } of named) {
    if (!isInstalled(needed))
      faults.push(`PARLEY_PROVIDERS: ${name} needs the package ${needed}, which is not installed`)
  }
  const warnings = named.flatMap(({ name, lacks }) => (lacks === null ? [] : [`PARLEY_PROVIDERS: ${name} ${lacks}`]))
  const usual = usualProviders(environment).filter(({ name }) => named.every((other) => other.name !== name))
  return { providers: [...named, ...usual], faults, warnings }
}

function entriesOf(text: string | undefined, faults: string[]): [string, unknown][] {
  if (text === undefined) return []
  const read = readJsonSetting(text)
  if (read.type === 'value' && isObject(read.value)) return Object.entries(read.value)
  const fault = read.type === 'fault' ? read.fault : 'must be an object of providers by name'
  faults.push(`PARLEY_PROVIDERS: ${fault}`)
  return []
}

function readProvider(
  name: string,
  given: unknown,
  environment: Environment,
): { provider: ModelProviderSettings | null; faults: string[] } {
  const isNameable = PROVIDER_NAME.test(name) && name !== 'demo'
  if (!isNameable)
    return { provider: null, faults: [`${JSON.stringify(name.slice(0, 64))} is not a valid provider name`] }
  const { keyVariable, ...preset }: Partial<Preset> = PRESETS.get(name) ?? {}
  const parsed = PROVIDER.safeParse(isObject(given) ? { ...preset, ...given } : given)
  if (!parsed.success) {
    return {
      provider: null,
      faults: parsed.error.issues.map((issue) => `${[name, ...issue.path].join('.')}: ${issue.message}`),
    }
  }
  const { api, baseUrl = null } = parsed.data
  const faults: string[] = []
  const secretOf = (field: string, value: string) => {
    const read = readSecret(value, environment)
    if ('fault' in read) faults.push(`${name}.${field}: ${read.fault}`)
    return 'value' in read ? read.value : ''
  }
  const key = parsed.data.apiKey
  const apiKey = key === undefined ? (environment[keyVariable ?? ''] ?? null) : secretOf('apiKey', key)
  const headers = Object.fromEntries(
    Object.entries(parsed.data.headers ?? {}).map(([header, value]) => [header, secretOf(`headers.${header}`, value)]),
  )
  faults.push(...faultsOfHeaders(name, headers))
  const isKeyless = baseUrl !== null && (keyVariable === undefined || baseUrl !== preset.baseUrl)
  const isBare = apiKey === null && Object.keys(headers).length === 0 && !isKeyless
  const lacks = isBare ? `needs an apiKey${keyVariable === undefined ? '' : `, or ${keyVariable}`}` : null
  const provider = { name, api, package: packageOf(api, baseUrl), baseUrl, apiKey, headers, lacks }
  return { provider: faults.length > 0 ? null : provider, faults }
}

type Secret = { value: string } | { fault: string }

function readSecret(text: string, environment: Environment): Secret {
  if (!text.startsWith('env:')) return sendable(text)
  const variable = text.slice('env:'.length)
  // The text may be a misplaced secret, so the fault must not contain it.
  if (!/^[A-Z_][A-Z0-9_]*$/.test(variable))
    return { fault: 'env: must be the name of an environment variable, in capitals' }
  const value = environment[variable]
  return value === undefined ? { fault: `the variable ${variable} is not set` } : sendable(value)
}

/** Rejects text that no header can contain: every request would fail with an error that contains it. */
function sendable(text: string): Secret {
  const value = text.trim()
  return /^[\x20-\x7e]+$/.test(value) ? { value } : { fault: 'must be printable ASCII' }
}

function faultsOfHeaders(name: string, headers: Record<string, string>): string[] {
  return Object.entries(headers).flatMap(([header, value]) => {
    try {
      new Headers([[header, value]])
      return []
    } catch {
      return [
        `${name}.headers: ${JSON.stringify(header.slice(0, 64))} is not a valid header name, or its value is not valid`,
      ]
    }
  })
}

/** Chat Completions of OpenAI's own reasoning models need options that compatible servers do not understand. */
function packageOf(api: ModelApi, baseUrl: string | null): ProviderPackage {
  if (api === 'anthropic' || api === 'google') return `@ai-sdk/${api}`
  return api === 'openai-chat' && baseUrl !== null ? '@ai-sdk/openai-compatible' : '@ai-sdk/openai'
}

function usualProviders({ OPENAI_API_KEY, OPENAI_BASE_URL }: Environment): ModelProviderSettings[] {
  const apiKey = OPENAI_API_KEY ?? null
  const baseUrl = OPENAI_BASE_URL ?? null
  const isUsable = apiKey !== null || baseUrl !== null
  const lacks = isUsable
    ? null
    : 'needs OPENAI_API_KEY, or OPENAI_BASE_URL for a compatible server; "demo" needs neither'
  const common = { package: '@ai-sdk/openai' as const, baseUrl, apiKey, headers: {}, lacks }
  return [
    { name: 'openai', api: 'openai', ...common },
    { name: 'openai.chat', api: 'openai-chat', ...common },
  ]
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function isBaseUrl(text: string): boolean {
  if (!URL.canParse(text)) return false
  const { protocol, username, password, search, hash } = new URL(text)
  return ['http:', 'https:'].includes(protocol) && [username, password, search, hash].every((part) => part === '')
}

function isPackageInstalled(name: ProviderPackage): boolean {
  try {
    import.meta.resolve(name)
    return true
  } catch {
    return false
  }
}
