// The reference for Parley: the same tool loops with only the AI SDK, without a database or subscribers.
import { createOpenAI } from '@ai-sdk/openai'
import { isStepCount, streamText, tool } from 'ai'
import { z } from 'zod'
import { tapModel } from '../../src/engine/tapped-model.ts'
import { now } from './model.ts'
import type { RawLoopsOrder, RawLoopsResult } from './raw-loops.ts'
import { createTokenNotes } from './tokens.ts'

const tokens = createTokenNotes()

const sendMessage = tool({
  description: 'Send a message to the active space.',
  inputSchema: z.object({ text: z.string() }),
  execute: async () => ({ success: true }),
})

async function loop({ baseUrl, model: name, areJoined, areNoted }: RawLoopsOrder): Promise<number> {
  const startedAt = now()
  const model = createOpenAI({ baseURL: baseUrl, apiKey: 'none' }).chat(name)
  const result = streamText({
    model: areJoined ? tapModel(model, () => {}) : model,
    instructions: 'You are an agent.',
    prompt: 'Hello',
    tools: { send_message: sendMessage },
    stopWhen: isStepCount(5),
  })
  let firstDeltaMs = Number.NaN
  for await (const part of result.stream) {
    if (part.type === 'tool-input-delta' && Number.isNaN(firstDeltaMs)) firstDeltaMs = now() - startedAt
    if (part.type === 'tool-input-delta' && areNoted) tokens.note(part.id, part.delta.replace('{"text":"', ''))
    if (part.type === 'error') throw part.error
  }
  return firstDeltaMs
}

process.on('message', async (order: RawLoopsOrder) => {
  const firstDeltaMs: number[] = []
  const before = process.cpuUsage()
  const startedAt = now()
  let left = order.loops
  const lane = async () => {
    while (left-- > 0) firstDeltaMs.push(await loop(order))
  }
  await Promise.all(Array.from({ length: order.atOnce }, lane))
  const { user, system } = process.cpuUsage(before)
  const result: RawLoopsResult = {
    seconds: (now() - startedAt) / 1000,
    cpuSeconds: (user + system) / 1e6,
    firstDeltaMs,
    arrivedAt: tokens.arrivedAt,
  }
  process.send?.(result)
})
