// Runs many subscribers that only count messages, in a separate process. A mark `<ms>|` in a delta is the time at which it was
// written.
import type { CrowdCounts, CrowdOrder } from './crowd.ts'
import { now } from './model.ts'
import { openWireClient, type WireClient } from './wire-client.ts'

const AT_ONCE = 50
const clients: WireClient[] = []
let begun: number[] = []
let delays: number[] = []
let closed = 0

function readMarks(payload: Buffer): void {
  const [, delta = ''] = /"delta":"([^"]*)"/.exec(payload.toString('latin1')) ?? []
  for (const [, mark] of delta.matchAll(/([\d.]+)\|/g)) delays.push(now() - Number(mark))
}

process.on('message', async (order: CrowdOrder) => {
  if (order.type === 'open') {
    for (let from = 0; from < order.sockets.length; from += AT_ONCE) {
      const opened = await Promise.all(order.sockets.slice(from, from + AT_ONCE).map(openWireClient))
      for (const client of opened) {
        client.socket.once('close', () => {
          closed += 1
        })
        clients.push(client)
      }
    }
    for (let index = 0; index < order.marked; index++) {
      const client = clients[Math.floor((index * clients.length) / order.marked)]
      if (client) client.onMessage = readMarks
    }
  } else if (order.type === 'pause') {
    for (const { socket } of clients.slice(0, order.count)) socket.pause()
  } else if (order.type === 'begin') {
    begun = clients.map(({ received }) => received())
    delays = []
  }
  const received = clients.map((client, index) => client.received() - (begun[index] ?? 0))
  process.send?.({ received, delays, closed } satisfies CrowdCounts)
})
