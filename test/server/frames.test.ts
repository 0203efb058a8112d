import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { expect, test } from 'vitest'
import { WebSocket, WebSocketServer } from 'ws'
import type { Answer } from '../../src/delivery/answer.ts'
import { framesOf, headOf } from '../../src/server/sockets/frames.ts'

const answerOf = (payload: unknown): Answer => ({
  text: JSON.stringify(payload),
  errors: [],
  hasData: true,
  versions: { from: 0, to: 0 },
})

test('shared payloads reach each operation under its own id, at any length, in any alphabet and with any id', async () => {
  const payloads = [1, 'é€😀', 'x'.repeat(60), 'x'.repeat(130), 'ü'.repeat(40_000), 'x'.repeat(70_000), { a: [null] }]
  const answers = payloads.map(answerOf)
  const ids = ['1', '2', '10', 'ä"\\', crypto.randomUUID(), crypto.randomUUID(), 'x'.repeat(65_500)]
  const server = new WebSocketServer({ port: 0, perMessageDeflate: false })
  server.on('connection', (_, { socket }) => {
    for (const id of ids) socket.write(framesOf(answers, headOf(id)), 'latin1')
  })
  const client = new WebSocket(`ws://127.0.0.1:${(server.address() as AddressInfo).port}`)
  const expected = ids.flatMap((id) => payloads.map((payload) => ({ id, type: 'next', payload })))
  const received: unknown[] = []
  client.on('message', (data) => {
    received.push(JSON.parse(String(data)))
    if (received.length === expected.length) client.close()
  })
  await once(client, 'close')
  server.close()
  expect(received).toEqual(expected)
})
