import { unlessAborted } from '../lib/async.ts'
import { cut } from '../lib/json.ts'
import type { LanguageModelV4 } from './language-model.ts'
import { readProviderError } from './provider-error.ts'

/** The result of a test call. */
export interface ProviderTest {
  ok: boolean
  /** The model's answer, or the provider's own error. The text can contain secrets. */
  text: string
}

export interface CalledModel extends ProviderTest {
  /** Whether the provider rejected the key. */
  isKeyRefused: boolean
}

const TIMEOUT_MS = 20_000
/** How many characters of a text are read and redacted. */
const LONGEST_READ = 20_000
/** The output limit of a test call. It allows a short answer after some reasoning. */
const MOST_TOKENS = 1024
const PROMPT = 'Answer with one short sentence: say hello, and which model you are.'

/**
 * Calls a model once, as an agent would, but without retries. `baseUrl` is the provider's address; null for the default
 * address. Never throws.
 */
export async function testModel(open: () => Promise<LanguageModelV4>, baseUrl: string | null): Promise<CalledModel> {
  const signal = AbortSignal.timeout(TIMEOUT_MS)
  try {
    const text = await unlessAborted(signal, answerOf(open, signal))
    const answer = text.trim() === '' ? 'The model responded without text.' : text.trim()
    return { ok: true, text: answer, isKeyRefused: false }
  } catch (error) {
    if (signal.aborted)
      return { ok: false, text: `The provider did not answer within ${TIMEOUT_MS / 1000} s.`, isKeyRefused: false }
    const { words, status, fault } = readProviderError(error)
    const isVersionless = baseUrl !== null && !/\/v\d\w*\/?$/.test(baseUrl)
    const question = status === 404 && isVersionless ? ' Does baseUrl end with a version, such as /v1?' : ''
    // With status 403, the key can still be valid for other models.
    return { ok: false, text: cut(words, LONGEST_READ) + question, isKeyRefused: fault === 'KEY' && status !== 403 }
  }
}

async function answerOf(open: () => Promise<LanguageModelV4>, abortSignal: AbortSignal): Promise<string> {
  const model = await open()
  const { stream } = await model.doStream({
    prompt: [{ role: 'user', content: [{ type: 'text', text: PROMPT }] }],
    maxOutputTokens: MOST_TOKENS,
    abortSignal,
  })
  let text = ''
  for await (const part of stream) {
    if (part.type === 'error') throw part.error
    if (part.type === 'text-delta') text += part.delta
    if (text.length > LONGEST_READ) break
  }
  return cut(text, LONGEST_READ)
}
