// Many subscribers, each with a socket and an operation id of its own. It reads no JSON, so that the servers are the limit.
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import WebSocket from 'ws'
import type { ClientsOrder, ClientsResult } from './fanout-clients.ts'
import type { Subscribing } from './fanout-server.ts'
import { now } from './model.ts'

let received = 0
let awaited = 0
let bytes = 0
let delays: number[] | null = null

function onEvent(data: Buffer): void {
  received += 1
  bytes += data.length
  if (delays !== null) {
    const text = data.toString('latin1')
    const end = text.lastIndexOf('|')
    delays.push(now() - Number(text.slice(text.lastIndexOf('"', end) + 1, end)))
  }
  if (received === awaited)
    process.send?.({ bytesOfEach: bytes / received, endedAt: now(), delays: delays ?? [] } satisfies ClientsResult)
}

async function subscribe({ url, authorization, query, variables }: Subscribing): Promise<void> {
  const socket = new WebSocket(url, 'graphql-transport-ws', { perMessageDeflate: false, skipUTF8Validation: true })
  await once(socket, 'open')
  socket.send(JSON.stringify({ type: 'connection_init', payload: authorization === null ? {} : { authorization } }))
  await once(socket, 'message')
  socket.send(JSON.stringify({ id: randomUUID(), type: 'subscribe', payload: { query, variables } }))
  await once(socket, 'message')
  socket.on('message', onEvent)
  socket.on('close', (code) => {
    console.error(`a subscriber was closed with ${code}`)
    process.exit(1)
  })
}

process.on('message', async (order: ClientsOrder) => {
  if (order.type === 'subscribe') {
    for (let count = 0; count < order.count; count += 50) {
      await Promise.all(Array.from({ length: Math.min(50, order.count - count) }, () => subscribe(order.subscribing)))
    }
  } else {
    received = 0
    bytes = 0
    awaited = order.messages
    delays = order.withDelays ? [] : null
  }
  process.send?.('ready')
})
