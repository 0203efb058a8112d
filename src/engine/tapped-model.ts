import { type LanguageModel, type LanguageModelMiddleware, wrapLanguageModel } from 'ai'
import { DEEPEST_JSON, isTooDeep } from '../lib/json.ts'
import type { StreamPart } from '../models/language-model.ts'

/** Replaces an input that is nested too deeply. The replacement is not JSON, so the call fails validation. */
export const NESTED_TOO_DEEP = `(JSON nested more than ${DEEPEST_JSON} levels deep)`

/**
 * Wraps a model so that `tap` receives each part of its stream before the SDK does. The SDK pipes each part through
 * several streams, but only its final result is used, so consecutive deltas are joined for the SDK. When the SDK calls
 * `onLanguageModelCallEnd`, `tap` has received all parts, unlike readers of the SDK's own stream. `tap` must not throw.
 */
export function tapModel(model: LanguageModel, tap: (part: StreamPart) => void): LanguageModel {
  if (typeof model === 'string') return model
  const middleware: LanguageModelMiddleware = {
    specificationVersion: 'v4',
    async wrapStream({ doStream }) {
      const { stream, ...rest } = await doStream()
      return { stream: joined(stream, tap), ...rest }
    },
  }
  return wrapLanguageModel({ model: model as Parameters<typeof wrapLanguageModel>[0]['model'], middleware })
}

type Delta = Extract<StreamPart, { delta: string }>

/**
 * Joins consecutive deltas of the same block. The very first delta is not joined, because the SDK uses it to measure
 * the time to the first output.
 */
function joined(stream: ReadableStream<StreamPart>, tap: (part: StreamPart) => void): ReadableStream<StreamPart> {
  const reader = stream.getReader()
  let hasBegun = false
  let held: Delta | null = null
  let fault: { error: unknown } | null = null

  function release(): StreamPart[] {
    const parts = held === null ? [] : [held]
    held = null
    return parts
  }

  /** Returns the parts to pass on now. */
  function take(part: StreamPart): StreamPart[] {
    tap(part)
    if (!('delta' in part)) return [...release(), shallow(part)]
    if (!hasBegun) {
      hasBegun = true
      return [part]
    }
    if (held?.type === part.type && held.id === part.id) {
      held = longer(held, part)
      return []
    }
    const before = release()
    held = part
    return before
  }

  return new ReadableStream<StreamPart>({
    async pull(controller) {
      for (let passed: StreamPart[] = []; passed.length === 0; ) {
        if (fault !== null) throw fault.error
        // After an error, the parts that were received before it are passed on first.
        const { done, value } = await reader.read().catch((error: unknown) => {
          fault = { error }
          return { done: false, value: undefined }
        })
        passed = value === undefined ? release() : take(value)
        for (const part of passed) controller.enqueue(part)
        if (done) return controller.close()
      }
    },
    cancel: (reason) => reader.cancel(reason),
  })
}

function longer(held: Delta, { delta, providerMetadata }: Delta): Delta {
  const metadata = providerMetadata ?? held.providerMetadata
  const grown = { ...held, delta: held.delta + delta }
  return metadata === undefined ? grown : { ...grown, providerMetadata: metadata }
}

function shallow(part: StreamPart): StreamPart {
  if (part.type !== 'tool-call' || part.input.length <= 2 * DEEPEST_JSON) return part
  try {
    return isTooDeep(JSON.parse(part.input)) ? { ...part, input: NESTED_TOO_DEEP } : part
  } catch {
    return part
  }
}
