import { MockLanguageModelV4 } from 'ai/test'
import { describe, expect, test } from 'vitest'
import type { StepPlan } from '../../src/context/mind.ts'
import { attempt, type GenerationParts } from '../../src/engine/attempt.ts'
import type { StreamPart } from '../../src/models/language-model.ts'

type DoStream = MockLanguageModelV4['doStream']

const PLAN: StepPlan = {
  instructions: 'You are an agent.',
  messages: [{ role: 'user', content: 'Hello' }],
  added: 1,
  models: ['mock'],
  modelSettings: {},
  activeTools: [],
  toolChoice: 'auto',
  withheld: [],
}
const BEGINNING: StreamPart[] = [
  { type: 'stream-start', warnings: [] },
  { type: 'text-start', id: 't' },
  { type: 'text-delta', id: 't', delta: 'a' },
]

/** Starts an attempt with a model that gives this response. `begun` resolves with the first delta. */
function asking(doStream: DoStream, signal: AbortSignal) {
  const { promise: begun, resolve } = Promise.withResolvers<void>()
  const parts = {
    run: { context: { run: { agentId: 'agt_1' } }, signal },
    tools: new Map(),
    pictures: { showIn: async (_: string, messages: unknown[]) => ({ messages, hasPictures: false }), refusedBy() {} },
    models: { resolve: async () => new MockLanguageModelV4({ doStream }), redact: (text: string) => text },
    silenceMs: 60_000,
    writer: {},
    events: { text: () => resolve() },
  } as unknown as GenerationParts
  return { begun, made: attempt(parts, 0, PLAN, { name: 'mock', maxRetries: 0, before: null }) }
}

/** Sends these parts, and then nothing more. */
const sending = (parts: StreamPart[], then?: 'close') =>
  new ReadableStream<StreamPart>({
    start(controller) {
      for (const part of parts) controller.enqueue(part)
      if (then === 'close') controller.close()
    },
  })

describe('a model that ignores the abort signal', () => {
  test('is abandoned before it responds', async () => {
    const stop = new AbortController()
    const { made } = asking(() => new Promise(() => {}), stop.signal)
    stop.abort()
    expect(await made).toMatchObject({ end: null, failure: null })
  })

  test('is abandoned during its response', async () => {
    const stop = new AbortController()
    const { begun, made } = asking(async () => ({ stream: sending(BEGINNING) }), stop.signal)
    await begun
    stop.abort()
    const { live, ...came } = await made
    expect(came).toMatchObject({ end: null, failure: null })
    expect(live.received()).toBe('a')
  })
})

describe('a model with an empty response', () => {
  test('is not reported as a refusal of the prompt', async () => {
    const { made } = asking(async () => ({ stream: sending([], 'close') }), new AbortController().signal)
    expect(await made).toMatchObject({ end: null, failure: null })
  })
})

test('warnings about unsupported options are logged with provider and model', async () => {
  const said: unknown[] = []
  const before = globalThis.AI_SDK_LOG_WARNINGS
  globalThis.AI_SDK_LOG_WARNINGS = (one) => said.push(one)
  const warnings = [{ type: 'unsupported' as const, feature: 'temperature' }]
  const { made } = asking(
    async () => ({ stream: sending([{ type: 'stream-start', warnings }], 'close') }),
    new AbortController().signal,
  )
  await made
  globalThis.AI_SDK_LOG_WARNINGS = before
  expect(said).toEqual([{ warnings, provider: 'mock-provider', model: 'mock-model-id' }])
})
