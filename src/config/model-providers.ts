import { z } from 'zod'
import { FOREIGN_PREFIXES } from '../lib/foreign-model.ts'
import { isObject } from '../lib/json.ts'
import { PROVIDER_NAME } from '../lib/model-name.ts'
import {
  isBaseUrl,
  isPackageInstalled,
  isPrivateUrl,
  MODEL_APIS,
  type ModelProviderSettings,
  PROVIDER_PRESETS,
  type ProviderPreset,
  providerSettings,
  sendableSecret,
} from '../lib/model-provider.ts'
import { readJsonSetting } from './json-setting.ts'

type Environment = Record<string, string | undefined>

/** The base URL of a provider. Admins can read it and errors contain it, so a secret must be in a header instead. */
export const baseUrl = z
  .string()
  .refine(isBaseUrl, 'must be a URL that begins with http:// or https://, without user, password, query or fragment')

const PROVIDER = z.strictObject({
  api: z.enum(MODEL_APIS, `must be one of ${MODEL_APIS.join(', ')}`),
  baseUrl: baseUrl.optional(),
  apiKey: z.string().optional(),
  headers: z.record(z.string(), z.string()).optional(),
})

/** The providers, and one line for each fault. The lines contain no secrets. */
export interface ReadProviders {
  providers: ModelProviderSettings[]
  faults: string[]
  warnings: string[]
}

/**
 * Reads the providers of PARLEY_PROVIDERS. Then adds `openai` and `openai.chat` from OPENAI_API_KEY and
 * OPENAI_BASE_URL, and each provider whose usual variable contains a key, unless these names are taken. A key or header
 * `env:NAME` is replaced with the value of that variable.
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
  // Anthropic's own clients read ANTHROPIC_BASE_URL, without the version path that Parley's setting needs.
  if (environment.ANTHROPIC_BASE_URL)
    warnings.push(
      `ANTHROPIC_BASE_URL: has no effect: set PARLEY_PROVIDERS='{ "anthropic": { "baseUrl": "https://gateway.example.com/v1" } }'`,
    )
  const isFree = (name: string) => named.every((other) => other.name !== name)
  const keyed = keyedProviders(environment, isFree)
  faults.push(...keyed.faults)
  const usual = openAIProviders(environment).filter(({ name }) => isFree(name))
  return { providers: [...named, ...usual, ...keyed.providers], faults, warnings: [...warnings, ...keyed.warnings] }
}

/** Returns the providers whose usual variables contain a key. Their packages are loaded when a model is used. */
function keyedProviders(environment: Environment, isFree: (name: string) => boolean): ReadProviders {
  const found = [...PROVIDER_PRESETS].filter(
    ([name, { keyVariables = [] }]) => isFree(name) && keyVariables.some((variable) => environment[variable]),
  )
  const read = found.map(([name, { keyVariables = [] }]) => {
    const { provider, faults } = readProvider(name, {}, environment)
    const [variable] = keyVariables.filter((one) => environment[one])
    return { provider, faults: faults.map((fault) => fault.replace(`${name}.apiKey`, variable ?? name)) }
  })
  const azure = isFree('azure') ? readAzure(environment) : { providers: [], faults: [], warnings: [] }
  return {
    providers: [...read.flatMap(({ provider }) => provider ?? []), ...azure.providers],
    faults: [...read.flatMap(({ faults }) => faults), ...azure.faults],
    warnings: azure.warnings,
  }
}

/** Reads the settings for OpenAI's API on Azure, where deployment names identify the models. */
function readAzure(environment: Environment): ReadProviders {
  const { AZURE_API_KEY: apiKey, AZURE_RESOURCE_NAME: resource } = environment
  const nothing = { providers: [], faults: [], warnings: [] }
  if (!apiKey) return nothing
  if (!resource) return { ...nothing, warnings: ['AZURE_API_KEY: the provider azure also needs AZURE_RESOURCE_NAME'] }
  if (!/^[a-z0-9][a-z0-9-]{0,63}$/i.test(resource))
    return {
      ...nothing,
      faults: ['AZURE_RESOURCE_NAME: must be the name of the resource: letters, digits and hyphens'],
    }
  const baseUrl = `https://${resource}.openai.azure.com/openai/v1`
  const given = { api: 'openai', baseUrl, apiKey: 'env:AZURE_API_KEY', headers: { 'api-key': 'env:AZURE_API_KEY' } }
  const { provider, faults } = readProvider('azure', given, environment)
  const named = [...new Set(faults.map((fault) => `AZURE_API_KEY: ${fault.split(': ').slice(1).join(': ')}`))]
  return { ...nothing, providers: provider === null ? [] : [provider], faults: named }
}

function entriesOf(text: string | undefined, faults: string[]): [string, unknown][] {
  if (text === undefined) return []
  const read = readJsonSetting(text)
  if (read.type === 'value' && isObject(read.value)) return Object.entries(read.value)
  const fault = read.type === 'fault' ? read.fault : 'must be an object that maps names to providers'
  faults.push(`PARLEY_PROVIDERS: ${fault}`)
  return []
}

function readProvider(
  name: string,
  given: unknown,
  environment: Environment,
): { provider: ModelProviderSettings | null; faults: string[] } {
  const isNameable = PROVIDER_NAME.test(name) && name !== 'demo' && !FOREIGN_PREFIXES.has(name)
  if (!isNameable)
    return { provider: null, faults: [`${JSON.stringify(name.slice(0, 64))} is not a valid provider name`] }
  const { keyVariables = [], smallModel: _, ...preset }: Partial<ProviderPreset> = PROVIDER_PRESETS.get(name) ?? {}
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
  const usual = keyVariables.map((variable) => environment[variable]).find((value) => value)
  const readKey = key ?? usual
  const apiKey = readKey === undefined ? null : secretOf('apiKey', readKey)
  const headers = Object.fromEntries(
    Object.entries(parsed.data.headers ?? {}).map(([header, value]) => [header, secretOf(`headers.${header}`, value)]),
  )
  faults.push(...faultsOfHeaders(name, headers))
  const provider = providerSettings({ name, api, baseUrl, apiKey, headers }, ['an apiKey', ...keyVariables])
  return { provider: faults.length > 0 ? null : provider, faults }
}

type Secret = { value: string } | { fault: string }

function readSecret(text: string, environment: Environment): Secret {
  if (!text.startsWith('env:')) return sendable(text)
  const variable = text.slice('env:'.length)
  // The text can be a misplaced secret, so the fault must not contain it.
  if (!/^[A-Z_][A-Z0-9_]*$/.test(variable))
    return { fault: 'env: must be followed by the name of an environment variable in capitals' }
  const value = environment[variable]
  return value === undefined ? { fault: `the variable ${variable} is not set` } : sendable(value)
}

/** Rejects text that a header cannot contain. */
function sendable(text: string): Secret {
  const value = sendableSecret(text)
  return value === null ? { fault: 'must be printable ASCII' } : { value }
}

function faultsOfHeaders(name: string, headers: Record<string, string>): string[] {
  return Object.entries(headers).flatMap(([header, value]) => {
    try {
      new Headers([[header, value]])
      return []
    } catch {
      return [
        `${name}.headers: ${JSON.stringify(header.slice(0, 64))} is not a valid header name, or has an invalid value`,
      ]
    }
  })
}

function openAIProviders({ OPENAI_API_KEY, OPENAI_BASE_URL }: Environment): ModelProviderSettings[] {
  const apiKey = OPENAI_API_KEY ?? null
  const baseUrl = OPENAI_BASE_URL ?? null
  const isUsable = apiKey !== null || baseUrl !== null
  const lacks = isUsable
    ? null
    : 'needs OPENAI_API_KEY, or OPENAI_BASE_URL for a compatible server; "demo" needs neither'
  const isLocal = isPrivateUrl(baseUrl)
  const vacancy = isUsable ? {} : { isVacant: true }
  const common = { package: '@ai-sdk/openai' as const, baseUrl, apiKey, headers: {}, lacks, isLocal, ...vacancy }
  return [
    { name: 'openai', api: 'openai', ...common },
    { name: 'openai.chat', api: 'openai-chat', ...common },
  ]
}
