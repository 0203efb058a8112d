import { unlessAborted } from '../lib/async.ts'
import { cut } from '../lib/json.ts'
import type { LanguageModelV4 } from './language-model.ts'
import { readProviderError } from './provider-error.ts'

/** The result of a test call. */
export interface ProviderTest {
  ok: boolean
  /** The model's answer, or the provider's own error. It may contain secrets. */
  text: string
}

const TIMEOUT_MS = 20_000
/** How much of a text is read and redacted. */
const LONGEST_READ = 20_000
/** Enough for a short answer after some reasoning. */
const MOST_TOKENS = 1024
const PROMPT = 'Answer with one short sentence: say hello, and which model you are.'

/**
 * Calls a model once, as agents do, without retries. `baseUrl`: the provider's address; null for the default address.
 * Never throws.
 */
export async function testModel(open: () => Promise<LanguageModelV4>, baseUrl: string | null): Promise<ProviderTest> {
  const signal = AbortSignal.timeout(TIMEOUT_MS)
  try {
    const text = await unlessAborted(signal, answerOf(open, signal))
    return { ok: true, text: text.trim() === '' ? 'The model responded without text.' : text.trim() }
  } catch (error) {
    if (signal.aborted) return { ok: false, text: `The provider did not answer within ${TIMEOUT_MS / 1000} s.` }
    const { words, status } = readProviderError(error)
    const isVersionless = baseUrl !== null && !/\/v\d\w*\/?$/.test(baseUrl)
    const question = status === 404 && isVersionless ? ' Does baseUrl end with a version, such as /v1?' : ''
    return { ok: false, text: cut(words, LONGEST_READ) + question }
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
