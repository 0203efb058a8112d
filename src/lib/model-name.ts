/** A parsed model name: the provider, and the provider's own name of the model. */
export interface ModelName {
  provider: string
  modelId: string
}

/** The syntax of provider names. */
export const PROVIDER_NAME = /^[A-Za-z0-9][\w.-]{0,63}$/

/**
 * Parses `demo` or `<provider>:<model>`. Returns null for any other name. The model part can contain colons and
 * slashes, as in `llama3.1:8b`.
 */
export function parseModelName(name: string): ModelName | null {
  if (name === 'demo') return { provider: 'demo', modelId: 'demo' }
  const [, provider = '', modelId = ''] = /^([^:]*):([\x21-\x7e]{1,200})$/.exec(name) ?? []
  return PROVIDER_NAME.test(provider) ? { provider, modelId } : null
}
