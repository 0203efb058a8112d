import { createHash } from 'node:crypto'
import { sleep } from '../lib/async.ts'
import { type DemoStep, decideDemoStep } from './demo-behaviour.ts'
import { readDemoPrompt } from './demo-reading.ts'
import type { CallOptions, Generated, LanguageModelV4, StreamPart } from './language-model.ts'

export interface DemoModelOptions {
  /** The output speed. 0 means no delay. */
  tokensPerSecond?: number
}

/**
 * The built-in demo model. It needs no key and is deterministic: the same prompt always results in the same parts. Like
 * any other model, it acts through its tools.
 */
export function createDemoModel({ tokensPerSecond = 40 }: DemoModelOptions = {}): LanguageModelV4 {
  const tokenMs = tokensPerSecond === 0 ? 0 : 1_000 / tokensPerSecond
  return {
    specificationVersion: 'v4',
    provider: 'parley',
    modelId: 'demo',
    supportedUrls: {},
    async doGenerate(options) {
      const { content, finishReason, usage } = generate(options)
      return { content, finishReason, usage, warnings: [] }
    },
    async doStream(options) {
      return { stream: streamOf(generate(options), tokenMs, options.abortSignal) }
    },
  }
}

type Generation = Pick<Generated, 'content' | 'finishReason' | 'usage'>

function generate(options: CallOptions): Generation {
  const prompt = JSON.stringify(options.prompt)
  const content = contentOf(decideDemoStep(readDemoPrompt(options)), prompt)
  const written = content.map((part) =>
    part.type === 'text' ? part.text : part.type === 'tool-call' ? part.input : '',
  )
  const outputTokens = tokensOf(written.join('')).length
  // OpenAI's rule of thumb: four characters per token.
  const inputTokens = Math.ceil(prompt.length / 4)
  const calls = content.some(({ type }) => type === 'tool-call')
  return {
    content,
    finishReason: { unified: calls ? 'tool-calls' : 'stop', raw: undefined },
    usage: {
      inputTokens: { total: inputTokens, noCache: inputTokens, cacheRead: 0, cacheWrite: 0 },
      outputTokens: { total: outputTokens, text: outputTokens, reasoning: 0 },
    },
  }
}

/**
 * Returns the content of a step. The ids of calls are derived from the prompt, so equal prompts result in equal ids,
 * and different steps have different ids.
 */
function contentOf(step: DemoStep, prompt: string): Generated['content'] {
  if (step.type === 'text') return [{ type: 'text', text: step.text }]
  const hash = createHash('sha256').update(prompt).digest('hex').slice(0, 16)
  return step.calls.map(({ toolName, input }, index) => ({
    type: 'tool-call',
    toolCallId: `call_${hash}_${index}`,
    toolName,
    input: JSON.stringify(input),
  }))
}

/**
 * Streams the parts when the consumer reads them, with a delay per token. The stream fails with the signal's reason
 * when the signal aborts.
 */
function streamOf(
  generation: Generation,
  tokenMs: number,
  signal: AbortSignal | undefined,
): ReadableStream<StreamPart> {
  const parts = partsOf(generation)
  const startedAt = performance.now()
  let written = 0
  return new ReadableStream(
    {
      async pull(controller) {
        const next = parts.next()
        if (next.done === true) return controller.close()
        if (isDelta(next.value)) {
          const dueMs = startedAt + written * tokenMs - performance.now()
          written += 1
          if (dueMs > 0) await sleep(dueMs, signal)
        }
        if (signal?.aborted === true) return controller.error(signal.reason)
        controller.enqueue(next.value)
      },
    },
    { highWaterMark: 0 },
  )
}

function isDelta(part: StreamPart): boolean {
  return part.type === 'text-delta' || part.type === 'tool-input-delta'
}

function* partsOf({ content, finishReason, usage }: Generation): Generator<StreamPart> {
  yield { type: 'stream-start', warnings: [] }
  for (const part of content) {
    if (part.type === 'text') {
      yield { type: 'text-start', id: '0' }
      for (const delta of tokensOf(part.text)) yield { type: 'text-delta', id: '0', delta }
      yield { type: 'text-end', id: '0' }
    } else if (part.type === 'tool-call') {
      const id = part.toolCallId
      yield { type: 'tool-input-start', id, toolName: part.toolName }
      for (const delta of tokensOf(part.input)) yield { type: 'tool-input-delta', id, delta }
      yield { type: 'tool-input-end', id }
      yield part
    }
  }
  yield { type: 'finish', finishReason, usage }
}

/**
 * Splits a text into pieces about as long as a real model's tokens. A piece is the beginning of a word with the
 * preceding space, or up to six further characters.
 */
function tokensOf(text: string): string[] {
  return text.match(/\s*[^\s]{1,6}|\s+/gu) ?? []
}
