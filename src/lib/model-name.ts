/** A model by the name that agents are given: the built-in one, or one of OpenAI's API by Responses or Chat Completions. */
export type ModelName = { provider: 'demo' } | { provider: 'openai'; endpoint: 'responses' | 'chat'; modelId: string }

/**
 * `demo`, `openai:<model>` or `openai.chat:<model>`; null for anything else. A model's own name may hold colons and slashes, as
 * `llama3.1:8b` does.
 */
export function parseModelName(name: string): ModelName | null {
  if (name === 'demo') return { provider: 'demo' }
  const match = /^(openai|openai\.chat):([\x21-\x7e]{1,200})$/.exec(name)
  if (match === null) return null
  return { provider: 'openai', endpoint: match[1] === 'openai' ? 'responses' : 'chat', modelId: match[2] as string }
}
