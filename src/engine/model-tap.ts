import { type LanguageModel, type LanguageModelMiddleware, wrapLanguageModel } from 'ai'
import type { StreamPart } from '../models/language-model.ts'

/** Sees what a model streams, part by part, before the SDK acts on it. Must not throw. */
export type StreamTap = (part: StreamPart) => void

/**
 * A model whose stream is seen at its edge. Everything of a generation has passed here when `onLanguageModelCallEnd` is
 * called and before any tool executes, which the SDK's own `fullStream` does not promise to its consumer.
 */
export function tapModel(model: LanguageModel, tap: StreamTap): LanguageModel {
  if (typeof model === 'string') return model
  const middleware: LanguageModelMiddleware = {
    specificationVersion: 'v4',
    async wrapStream({ doStream }) {
      const { stream, ...rest } = await doStream()
      const tapped = new TransformStream<StreamPart, StreamPart>({
        transform(part, controller) {
          tap(part)
          controller.enqueue(part)
        },
      })
      return { stream: stream.pipeThrough(tapped), ...rest }
    },
  }
  return wrapLanguageModel({ model: model as Parameters<typeof wrapLanguageModel>[0]['model'], middleware })
}
