// Runs many viewers in a separate process. The process parses no JSON, and most viewers only count, so that the servers reach
// their limit first.
import type { ClientsOrder, ClientsResult } from './fanout-clients.ts'
import { endWithParent, type Subscribing } from './fanout-server.ts'
import { now } from './model.ts'
import { openWireClient, type WireClient } from './wire-client.ts'

const AT_ONCE = 50
const DIFFERENT_IDS = 20
let clients: WireClient[] = []
let arrivals: ClientsResult['arrivals'] = []
let received = 0
let bytes = 0
let closed = 0
let onMessage: (() => void) | null = null

function take(payload: Buffer): void {
  received += 1
  bytes += payload.length
  onMessage?.()
}

/** Returns the next larger stride that visits every viewer before it repeats one. */
function strideOf(every: number, length: number): number {
  const commonDivisor = (a: number, b: number): number => (b === 0 ? a : commonDivisor(b, a % b))
  let stride = every === 1 ? 1 : every + 1
  while (commonDivisor(length, stride) > 1) stride += 1
  return stride
}

async function open(subscribings: Subscribing[], marked: number): Promise<void> {
  for (let from = 0; from < subscribings.length; from += AT_ONCE) {
    const some = subscribings.slice(from, from + AT_ONCE)
    const opened = await Promise.all(some.map((one, n) => openWireClient([one], 1 + ((from + n) % DIFFERENT_IDS))))
    for (const client of opened) {
      client.onMessage = take
      client.socket.once('close', () => {
        // Viewers that `close` has removed from the list are not counted as closed by the server.
        if (clients.includes(client)) closed += 1
      })
      clients.push(client)
    }
  }
  // The stride is one more than the interval. With the interval itself, the marked viewers of a hundred spaces would share the
  // same five spaces.
  const every = Math.floor(clients.length / marked)
  const stride = strideOf(every, clients.length)
  arrivals = Array.from({ length: marked }, (_, n) => {
    const viewer = (n * stride) % clients.length
    const at: number[] = []
    clients[viewer]!.onMessage = (payload) => {
      at.push(now())
      take(payload)
    }
    return { viewer, at }
  })
}

function begin(): void {
  received = 0
  bytes = 0
  for (const { at } of arrivals) at.length = 0
}

function close(): void {
  for (const { socket } of clients) socket.destroy()
  clients = []
  arrivals = []
  closed = 0
}

function reached(messages: number, timeoutMs: number): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer)
      onMessage = null
      resolve()
    }
    const timer = setTimeout(done, timeoutMs)
    onMessage = () => {
      if (received >= messages) done()
    }
    onMessage()
  })
}

endWithParent()
process.on('message', async (order: ClientsOrder) => {
  if (order.type === 'open') await open(order.subscribings, order.marked)
  else if (order.type === 'begin') begin()
  else if (order.type === 'await') await reached(order.messages, order.timeoutMs)
  else close()
  process.send?.({ received, bytes, arrivals, closed } satisfies ClientsResult)
})
