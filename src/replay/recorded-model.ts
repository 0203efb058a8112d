import { APICallError, type LanguageModel } from 'ai'
import type { Step } from '../generated/prisma/client.ts'
import type { Json } from '../lib/json.ts'
import { inKeyOrder } from '../lib/key-orders.ts'
import { ModelNotSetUpError } from '../lib/model-fault.ts'
import type { CallOptions, LanguageModelV4, StreamPart } from '../models/language-model.ts'
import type { Recorded } from './recording.ts'

/** A model's answer in a replay. */
export type ModelAnswer =
  | { type: 'step'; step: Recorded<Step> }
  | { type: 'failure'; error: string; fault: string | null; hasFallback?: true }
  /** The recording has no answer. The model sends nothing until the run is stopped. */
  | { type: 'none' }
  /** Another model generates the answer. */
  | { type: 'model'; model: LanguageModelV4 }

export interface RecordedModelParts {
  answer(model: string, options: CallOptions): Promise<ModelAnswer>
  /** Resolves when the end of the answer may be sent. */
  complete(): Promise<void>
}

/**
 * A model that returns recorded answers. An answer is sent at once, but its end is delayed until `complete` resolves.
 */
export function createRecordedModel(name: string, { answer, complete }: RecordedModelParts): LanguageModel {
  const model: LanguageModelV4 = {
    specificationVersion: 'v4',
    provider: 'recording',
    modelId: name,
    supportedUrls: {},
    async doGenerate() {
      throw new Error('A recorded model supports only streaming.')
    },
    async doStream(options) {
      const found = await answer(name, options)
      if (found.type === 'model') return found.model.doStream(options)
      if (found.type === 'failure') {
        if (found.hasFallback !== true) await complete()
        throw errorOf(found.error, found.fault)
      }
      return { stream: streamOf(found.type === 'step' ? partsOf(found.step) : [], complete, options.abortSignal) }
    },
  }
  return model
}

function streamOf(
  parts: readonly StreamPart[],
  complete: () => Promise<void>,
  signal: AbortSignal | undefined,
): ReadableStream<StreamPart> {
  return new ReadableStream<StreamPart>({
    async start(controller) {
      const end = parts.at(-1)
      for (const part of parts.slice(0, -1)) controller.enqueue(part)
      const aborted = new Promise<void>((resolve) => signal?.addEventListener('abort', () => resolve(), { once: true }))
      // This is not awaited, because the stream must be readable while it waits for its end.
      void Promise.race([complete(), aborted]).then(
        () => {
          if (signal?.aborted === true || end === undefined)
            return controller.error(signal?.reason ?? new Error('aborted'))
          controller.enqueue(end)
          controller.close()
        },
        // This happens when the replay is being closed.
        (error: unknown) => controller.error(error),
      )
    },
  })
}

type Content = {
  type: string
  text?: string
  toolCallId?: string
  toolName?: string
  input?: unknown
  providerOptions?: unknown
}

/** Returns the stream of a recorded answer, with the recorded usage. */
function partsOf({
  assistant,
  keyOrders,
  finishReason,
  inputTokens,
  cachedInputTokens,
  outputTokens,
}: Recorded<Step>): StreamPart[] {
  const { content } = inKeyOrder(assistant as Json, keyOrders) as unknown as { content: string | Content[] }
  const list: Content[] = typeof content === 'string' ? [{ type: 'text', text: content }] : content
  const parts = list.flatMap((part, index): StreamPart[] => {
    const id = String(index)
    const metadata = part.providerOptions === undefined ? {} : { providerMetadata: part.providerOptions as never }
    if (part.type === 'text' || part.type === 'reasoning') {
      const kind = part.type
      return [
        { type: `${kind}-start`, id, ...metadata },
        { type: `${kind}-delta`, id, delta: part.text ?? '' },
        { type: `${kind}-end`, id, ...metadata },
      ] as StreamPart[]
    }
    const { toolCallId = '', toolName = '' } = part
    const input = JSON.stringify(part.input ?? {})
    return [
      { type: 'tool-input-start', id: toolCallId, toolName },
      { type: 'tool-input-delta', id: toolCallId, delta: input },
      { type: 'tool-input-end', id: toolCallId },
      { type: 'tool-call', toolCallId, toolName, input, ...metadata },
    ] as StreamPart[]
  })
  const noCache = inputTokens - cachedInputTokens
  const usage = {
    inputTokens: { total: inputTokens, noCache, cacheRead: cachedInputTokens, cacheWrite: 0 },
    outputTokens: { total: outputTokens, text: outputTokens, reasoning: 0 },
  }
  const finish = {
    type: 'finish',
    finishReason: { unified: finishReason ?? 'stop', raw: undefined },
    usage,
  } as StreamPart
  return [{ type: 'stream-start', warnings: [] }, ...parts, finish]
}

/** Returns an error that the engine treats like the recorded error, but that it does not retry. */
function errorOf(error: string, fault: string | null): Error {
  if (fault === 'NOT_SET_UP') return new ModelNotSetUpError(error)
  const [, words = error, status] = /^(.*?)(?: \(HTTP (\d+)\))?$/s.exec(error) ?? []
  return new APICallError({
    message: words,
    url: 'recording:',
    requestBodyValues: {},
    isRetryable: false,
    ...(status === undefined ? {} : { statusCode: Number(status) }),
  })
}
