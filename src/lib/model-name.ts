/** A model by the name that agents are given: the provider's name, and what the provider calls the model. */
export interface ModelName {
  provider: string
  modelId: string
}

/** What a provider may be called. */
export const PROVIDER_NAME = /^[A-Za-z0-9][\w.-]{0,63}$/

/** `demo`, or `<provider>:<model>`; null for anything else. A model's own name may hold colons and slashes, as `llama3.1:8b` does. */
export function parseModelName(name: string): ModelName | null {
  if (name === 'demo') return { provider: 'demo', modelId: 'demo' }
  const [, provider = '', modelId = ''] = /^([^:]*):([\x21-\x7e]{1,200})$/.exec(name) ?? []
  return PROVIDER_NAME.test(provider) ? { provider, modelId } : null
}
