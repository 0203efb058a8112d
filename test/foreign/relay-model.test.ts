import { expect, test, vi } from 'vitest'
import { createRelayModel, type RelayParts } from '../../src/engine/relay-model.ts'
import { ASK_REMOTE_AGENT } from '../../src/lib/foreign-model.ts'
import type { CallOptions, ToolResultOutput } from '../../src/models/language-model.ts'

/** Returns the parts of the generation if posting the answer had this result. */
async function afterPosting(output: ToolResultOutput, text = 'Hi', parts: Partial<RelayParts> = {}): Promise<string[]> {
  const model = createRelayModel('a2a:x', { type: 'a2a', cardUrl: 'https://a.example/card' }, parts as RelayParts)
  const results = [
    { toolName: ASK_REMOTE_AGENT, output: { type: 'json', value: { taskId: 't', contextId: null } } },
    { toolName: 'send_message', output },
  ]
  const content = results.map((result, n) => ({ type: 'tool-result', toolCallId: `c${n}`, ...result }))
  const post = { type: 'tool-call', toolCallId: 'c1', toolName: 'send_message', input: { text } }
  const prompt = [
    { role: 'assistant', content: [post] },
    { role: 'tool', content },
  ]
  const { stream } = await model.doStream({ prompt } as unknown as CallOptions)
  const types: string[] = []
  for await (const { type } of stream) types.push(type)
  return types
}

test('a run whose answer was posted is complete', async () => {
  expect(await afterPosting({ type: 'json', value: { messageId: 'm' } })).toEqual(['stream-start', 'finish'])
})

test('a run whose answer could not be posted fails with the reason', async () => {
  const value = { error: { code: 'NOT_ALLOWED', message: 'The agent has left the space.' } }
  await expect(afterPosting({ type: 'json', value })).rejects.toThrow(/could not be posted: The agent has left/)
})

test('the task of an answer that is longer than a message is canceled once the beginning is posted', async () => {
  const cancelTasks = vi.fn(async () => {})
  const posted = { type: 'json', value: { messageId: 'm' } } as const
  await afterPosting(posted, `${'x'.repeat(31_998)}…`, { cancelTasks })
  expect(cancelTasks).toHaveBeenCalledOnce()
  await afterPosting(posted, `${'x'.repeat(1000)}…`, { cancelTasks })
  await afterPosting(posted, 'x'.repeat(32_000), { cancelTasks })
  expect(cancelTasks).toHaveBeenCalledOnce()
})
