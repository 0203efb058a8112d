import { expect, test } from 'vitest'
import { createRelayModel, type RelayParts } from '../../src/engine/relay-model.ts'
import { ASK_REMOTE_AGENT } from '../../src/lib/foreign-model.ts'
import type { CallOptions, ToolResultOutput } from '../../src/models/language-model.ts'

/** Returns the parts of the generation after the answer was posted with this result. */
async function afterPosting(output: ToolResultOutput): Promise<string[]> {
  const model = createRelayModel('a2a:x', { type: 'a2a', cardUrl: 'https://a.example/card' }, {} as RelayParts)
  const results = [
    { toolName: ASK_REMOTE_AGENT, output: { type: 'json', value: { taskId: 't', contextId: null } } },
    { toolName: 'send_message', output },
  ]
  const content = results.map((result, n) => ({ type: 'tool-result', toolCallId: `c${n}`, ...result }))
  const { stream } = await model.doStream({ prompt: [{ role: 'tool', content }] } as unknown as CallOptions)
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
