// The wire: what one process can send by `ws` alone, the same messages with each client's own id in front.
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { WebSocketServer } from 'ws'
import { serveFanout } from './fanout-server.ts'

const http = createServer().listen(0, '127.0.0.1')
await once(http, 'listening')
const server = new WebSocketServer({ server: http, perMessageDeflate: false })
const { port } = http.address() as AddressInfo
const heads = new Map<object, string>()
server.on('connection', (socket) => {
  socket.on('message', (data) => {
    const { id, type } = JSON.parse(String(data))
    if (type === 'connection_init') socket.send('{"type":"connection_ack"}')
    if (type !== 'subscribe') return
    heads.set(socket, `{"id":${JSON.stringify(id)},"type":"next","payload":`)
    socket.send(`{"id":${JSON.stringify(id)},"type":"next","payload":{}}`)
  })
  socket.on('close', () => heads.delete(socket))
})
serveFanout([{ url: `ws://127.0.0.1:${port}/graphql`, authorization: null, query: '' }], async (delta, n) => {
  const event = {
    __typename: 'MessageTextDelta',
    cursor: `0123456789abcdef0123.${n}`,
    messageId: 'm'.repeat(36),
    delta,
  }
  const payload = JSON.stringify({ data: { spaceMessages: event } })
  for (const socket of server.clients) socket.send(`${heads.get(socket)}${payload}}`)
})
