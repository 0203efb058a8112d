// Many subscribers, each with a socket and an operation id of its own. It reads no JSON, so that the servers are the limit.
import type { ClientsOrder, ClientsResult } from './fanout-clients.ts'
import type { Subscribing } from './fanout-server.ts'
import { now } from './model.ts'
import { openWireClient } from './wire-client.ts'

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

async function subscribe(subscribing: Subscribing): Promise<void> {
  const client = await openWireClient([subscribing])
  client.onMessage = onEvent
  client.socket.once('close', () => {
    console.error('a subscriber was closed')
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
