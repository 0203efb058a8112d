// The lower bound: one process with only `ws` that sends the same messages, each prefixed with the client's own id. `cork`
// writes all messages of one pause at once; `log` also stores events in Redis.
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { Redis } from 'ioredis'
import { type WebSocket, WebSocketServer } from 'ws'
import { serveFanout } from './fanout-server.ts'

const SPACES = 100
const LONGEST_REST_MS = 25
const corks = process.argv[2] === 'cork'
const keeps = process.argv[2] === 'log'
const redisUrl = process.env['TEST_REDIS_URL'] || 'redis://127.0.0.1:6379'
const prefix = `bench-fanout-${process.pid}:`
const names = Array.from({ length: SPACES }, (_, space) => `${prefix}${space}`)
const http = createServer().listen(0, '127.0.0.1')
await once(http, 'listening')
const server = new WebSocketServer({ server: http, perMessageDeflate: false })
const { port } = http.address() as AddressInfo
/** The sockets of each space, each with the prefix of its messages. */
const heads = names.map(() => new Map<WebSocket, string>())

server.on('connection', (socket) => {
  socket.on('message', (data) => {
    const { id, type, payload } = JSON.parse(String(data))
    if (type === 'connection_init') socket.send('{"type":"connection_ack"}')
    if (type !== 'subscribe') return
    const own = heads[payload.variables.space]
    own?.set(socket, `{"id":${JSON.stringify(id)},"type":"next","payload":`)
    socket.on('close', () => own?.delete(socket))
    socket.send(`{"id":${JSON.stringify(id)},"type":"next","payload":{}}`)
  })
})

const pending: string[][] = names.map(() => [])
let isWriting = false
let restsUntil = 0

/** Writes all waiting messages with one write to each socket, and then pauses while more messages accumulate. */
function flush(): void {
  isWriting = false
  const startedAt = performance.now()
  for (const [space, events] of pending.entries()) {
    if (events.length === 0) continue
    pending[space] = []
    for (const [socket, head] of heads[space]!) {
      const wire = (socket as unknown as { _socket: Socket })._socket
      wire.cork()
      for (const event of events) socket.send(head + event)
      wire.uncork()
    }
  }
  const endedAt = performance.now()
  restsUntil = endedAt + Math.min(LONGEST_REST_MS, (endedAt - startedAt) * 0.3)
}

function publish(space: number, event: string): void {
  if (!corks) {
    for (const [socket, head] of heads[space]!) socket.send(head + event)
    return
  }
  pending[space]!.push(event)
  if (isWriting) return
  isWriting = true
  const rest = restsUntil - performance.now()
  if (rest < 1) setImmediate(flush)
  else setTimeout(flush, rest)
}

const subscriber = new Redis(redisUrl)
const spaceOf = new Map(names.map((name, space) => [name, space]))
let count = 0
subscriber.on('message', (name: string, delta: string) => {
  count += 1
  const event = { ...JSON.parse(delta), cursor: `0123456789abcdef0123.${count}` }
  publish(spaceOf.get(name)!, `${JSON.stringify({ data: { spaceMessages: event } })}}`)
})
await subscriber.subscribe(...names)
if (keeps) process.once('SIGTERM', () => void new Redis(redisUrl).del(...names).then(() => process.exit(0)))

const subscribing = (space: number) => ({
  url: `ws://127.0.0.1:${port}/graphql`,
  authorization: null,
  query: '',
  variables: { space },
})
serveFanout({
  feed: {
    type: 'channels',
    keeps,
    redisUrl,
    prefix,
    names,
    events: { deltas: { __typename: 'MessageTextDelta', messageId: 'm'.repeat(36) } },
  },
  subscribings: names.map((_, space) => subscribing(space)),
  viewers: ({ viewers, spaces }) => Array.from({ length: viewers }, (_, n) => subscribing(n % spaces)),
})
