import { expect, test } from 'vitest'
import { startTestServer } from '../support/served.ts'
import { until } from '../support/until.ts'
import { rawClient, TASKS } from './mcp-client.ts'

test('a server that is shutting down responds to waiting calls with the current state, and ends streams with their result', async () => {
  const parley = await startTestServer()
  try {
    const { human, space } = await parley.room()
    parley.models.script(() => [{ hang: true }])
    const client = rawClient(parley, await parley.tokenOf(human))
    const stream = await client.listen({ resourceSubscriptions: [`parley://spaces/${space.id}`] })
    await until('the stream is open', () => stream.seen.length === 1)
    const args = { spaceId: space.id, text: 'Go', waitSeconds: 300 }
    const waiting = client.call('send_message', args)
    const asTask = client.call('send_message', { ...args, text: 'Go on' }, { capabilities: TASKS })
    await until('the messages are sent', async () => (await parley.messages(space.id)).length === 2)
    const closed = parley.server.close({ drain: true })
    expect(await waiting).toMatchObject({ structuredContent: { status: 'working' } })
    expect(await asTask).toMatchObject({ resultType: 'task', status: 'working' })
    await stream.ended
    expect(stream.seen.at(-1)).toMatchObject({ result: { resultType: 'complete' } })
    await closed
  } finally {
    await parley.close()
  }
})
