import type { ConsoleModelsQuery, ConsoleModelUseQuery } from '../../generated/graphql.ts'

export type Provider = NonNullable<ConsoleModelsQuery['modelProviders']>[number]
type Agent = ConsoleModelUseQuery['agents']['edges'][number]['node']

export interface KnownProvider {
  name: string
  words: string
  api: string
  /** Whether the provider runs on the machine of the server, and needs no key. */
  isLocal?: true
}

/** Well-known providers, whose addresses the server knows. */
export const KNOWN: readonly KnownProvider[] = [
  { name: 'openai', words: 'OpenAI', api: 'openai' },
  { name: 'anthropic', words: 'Anthropic', api: 'anthropic' },
  { name: 'google', words: 'Google', api: 'google' },
  { name: 'openrouter', words: 'OpenRouter', api: 'openai-chat' },
  { name: 'groq', words: 'Groq', api: 'openai-chat' },
  { name: 'mistral', words: 'Mistral', api: 'openai-chat' },
  { name: 'deepseek', words: 'DeepSeek', api: 'openai-chat' },
  { name: 'xai', words: 'xAI', api: 'openai-chat' },
  { name: 'ollama', words: 'Ollama', api: 'openai-chat', isLocal: true },
  { name: 'lmstudio', words: 'LM Studio', api: 'openai-chat', isLocal: true },
]

export const LOCAL_WORDS = 'on the machine of the server'

export const APIS = [
  ['openai-chat', 'Chat Completions: most servers'],
  ['openai', 'OpenAI Responses'],
  ['anthropic', 'Anthropic Messages'],
  ['google', 'Google Gemini'],
] as const

/** The query in the URL of the page *Models* that opens the form for a new provider. */
export const WITH_NEW_PROVIDER = '?new'

/** Returns where a provider is called: its address, or its API in words. */
export const placeOf = ({ name, api, baseUrl }: Pick<Provider, 'name' | 'api' | 'baseUrl'>) =>
  baseUrl ?? (name === 'demo' ? 'scripted' : (APIS.find(([known]) => known === api)?.[1].split(':')[0] ?? api))

/** `openai` and `openai.chat` are listed even before they are set up. */
export const isSet = ({ name, fromEnvironment, hasKey, baseUrl }: Provider) =>
  name === 'demo' || fromEnvironment || hasKey || baseUrl !== null

const NOT_REACHED =
  /^(?:Nothing answers|The server found no address|Could not connect|The provider did not answer)|Cannot connect to API/
const KEY_REFUSED = /\bapi[ _-]?key\b|\bunauthori[sz]ed\b|\bauthentication\b/i

/** Returns what an admin can do about a provider that cannot be called, by the reason. */
export function remedyOf(
  { name, fromEnvironment }: Pick<Provider, 'name' | 'fromEnvironment'>,
  reason: string,
): string {
  if (fromEnvironment)
    return 'The environment of the server sets the key and the address: correct them there, or test another model.'
  if (NOT_REACHED.test(reason)) {
    const local = KNOWN.find((known) => known.name === name && known.isLocal)
    const words =
      local === undefined ? 'Check that it is reachable from the server' : `Start ${local.words} ${LOCAL_WORDS}`
    return `${words}, or correct the address with “Change”.`
  }
  if (KEY_REFUSED.test(reason)) return 'The provider did not accept the key: enter another with “Change”.'
  return 'Correct the key or the address with “Change”, or test another model.'
}

/** Returns why runs with a model would fail, by the state of its provider; null if there is no known reason. */
export function warningAbout(model: string, providers: readonly Provider[]): string | null {
  const [name = '', ...rest] = model.trim().split(':')
  if (name === '' || rest.length === 0) return null
  const provider = providers.find((one) => one.name === name)
  if (provider?.ready) return null
  return provider !== undefined && isSet(provider)
    ? `${name} is not ready: runs with this model fail.`
    : `No provider ${name} is set up: runs with this model fail.`
}

/** Providers that are set up: those that can be called, `demo` last, and those that cannot. */
export function sortedProviders(providers: readonly Provider[]): { ready: Provider[]; failing: Provider[] } {
  const ready = providers.filter((one) => isSet(one) && one.ready)
  return {
    ready: [...ready.filter(({ name }) => name !== 'demo'), ...ready.filter(({ name }) => name === 'demo')],
    failing: providers.filter((one) => isSet(one) && !one.ready),
  }
}

/** A model of a provider, with the agents that use it. */
export interface ModelUse {
  /** The provider's own name of the model. */
  model: string
  /** Whether agents that are created without a model get this model. */
  isDefault: boolean
  agents: { id: string; name: string; isFallback: boolean }[]
}

/** Returns the models of a provider that agents use or that new agents get, most used first. */
export function usesOf(provider: string, agents: readonly Agent[], defaultModel: string | null): ModelUse[] {
  const uses = new Map<string, ModelUse>()
  const entryOf = (name: string): ModelUse | null => {
    const model = modelOf(provider, name)
    if (model === null) return null
    const entry = uses.get(model) ?? { model, isDefault: name === defaultModel, agents: [] }
    uses.set(model, entry)
    return entry
  }
  if (defaultModel !== null) entryOf(defaultModel)
  for (const { id, name, model, internals } of agents) {
    entryOf(model)?.agents.push({ id, name, isFallback: false })
    for (const fallback of internals?.fallbackModels ?? [])
      if (fallback !== model) entryOf(fallback)?.agents.push({ id, name, isFallback: true })
  }
  return [...uses.values()].sort((one, other) => other.agents.length - one.agents.length)
}

/** Returns the provider's own name of a model; null for a model of another provider. */
function modelOf(provider: string, name: string): string | null {
  if (name === provider) return name
  return name.startsWith(`${provider}:`) ? name.slice(provider.length + 1) : null
}

/**
 * Returns the model to test if none is chosen: the default model, or else the most used; null if no model is used or listed
 * alone.
 */
export function modelToTest({ models }: Pick<Provider, 'models'>, uses: readonly ModelUse[]): string | null {
  const used = uses.find(({ isDefault }) => isDefault) ?? uses[0]
  return used?.model ?? (models.length === 1 ? (models[0] ?? null) : null)
}
