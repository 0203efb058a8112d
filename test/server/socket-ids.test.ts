import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import WebSocket from 'ws'
import { startTestServer, type TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'

interface Message {
  type: string
  payload?: { data?: object }
}

describe('the id of an operation', () => {
  let parley: TestServer
  beforeAll(async () => {
    parley = await startTestServer({ worker: false })
  })
  afterAll(() => parley?.close())

  /** Opens a socket whose operations all have the same id. */
  async function open() {
    const human = await parley.human('Ada')
    const space = await parley.space(human, [])
    const socket = new WebSocket(`${parley.origin.replace('http', 'ws')}/graphql`, 'graphql-transport-ws')
    const received: Message[] = []
    socket.on('message', (data) => received.push(JSON.parse(String(data))))
    await new Promise((resolve) => socket.once('open', resolve))
    const authorization = `Bearer ${await parley.tokenOf(human)}`
    socket.send(JSON.stringify({ type: 'connection_init', payload: { authorization } }))
    await until('the connection is acknowledged', () => received.shift())
    const begin = (query: string) => JSON.stringify({ id: '1', type: 'subscribe', payload: { query } })
    return {
      socket,
      received,
      say: () => parley.send(human, space.id, 'hello'),
      query: begin('{ viewer { id } }'),
      faulty: begin('{ nothing }'),
      watch: (alias: string) => begin(`subscription { ${alias}: spaceMessages(spaceId: "${space.id}") { cursor } }`),
      complete: JSON.stringify({ id: '1', type: 'complete' }),
      /** Send all messages in one piece, so that they reach the server at once. */
      sendTogether(...messages: string[]) {
        const { _socket: transport } = socket as unknown as { _socket: { cork(): void; uncork(): void } }
        transport.cork()
        for (const message of messages) socket.send(message)
        transport.uncork()
      },
      /** Returns the type of each received message, or the alias of its data if it has any. */
      told: () => received.map(({ type, payload }) => Object.keys(payload?.data ?? {})[0] ?? type),
    }
  }

  const nothingIsFollowed = () => parley.app.platform.log.stats().followers === 0

  test('can be reused right after its subscription is completed, while the first one is still ending', async () => {
    const { socket, watch, complete, sendTogether, told, say } = await open()
    socket.send(watch('one'))
    await until('the subscription has started', () => told().length === 1)
    sendTogether(complete, watch('two'))
    await until('the second one has started', () => told().includes('two'))
    await say()
    await until('the second one continues', () => told().filter((name) => name === 'two').length === 2)
    expect(told()).toEqual(['one', 'two', 'two'])
    socket.send(complete)
    await until('there are no followers any more', nothingIsFollowed)
    socket.terminate()
  })

  test('can be reused right after completion if the operation is only starting, has ended or was refused', async () => {
    const { socket, watch, query, faulty, complete, sendTogether, told, say } = await open()
    const begun = [watch('one'), query, faulty, watch('two'), query]
    sendTogether(...begun.flatMap((message) => [message, complete]), watch('last'))
    await until('the last one has started', () => told().includes('last'))
    await say()
    await until('the last one continues', () => told().length >= 2)
    expect(told()).toEqual(['last', 'last'])
    socket.send(complete)
    await until('there are no followers any more', nothingIsFollowed)
    socket.terminate()
  })

  test('does not let any of its operations outlive the socket', async () => {
    const { socket, watch, complete, sendTogether, told } = await open()
    sendTogether(watch('one'), complete, watch('two'), complete, watch('three'))
    await until('the last one has started', () => told().includes('three'))
    socket.terminate()
    await until('there are no followers any more', nothingIsFollowed)
  })
})
