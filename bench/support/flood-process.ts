// A client that sends as much as the server allows: see flood.ts. The client reads as little of the responses as possible.
import { once } from 'node:events'
import { Agent, request } from 'node:http'
import WebSocket from 'ws'
import type { FloodKind, FloodOrder, FloodResult } from './flood.ts'

const AT_A_TIME = 8
const ON_A_SOCKET = 300
const HEAVY_SUBSCRIPTIONS = 20
const VIEWER_EVENTS = { sockets: 5, each: 100 }
const MESSAGES = 400

const agent = new Agent({ keepAlive: true })
const result: FloodResult = { sent: 0, served: 0 }
const aliases = (count: number, field: string) => Array.from({ length: count }, (_, n) => `a${n}: ${field}`).join(' ')
/** Selects 24,400 of the 25,000 fields that an operation may have. */
const HEAVY = (spaceId: string) =>
  `{ space(id: "${spaceId}") { ${aliases(50, 'messages(last: 100) { edges { node { id text sender { id } } } }')} } }`
const HEAVY_SUBSCRIPTION = (spaceId: string, n: number) =>
  `subscription Heavy${n} { spaceMessages(spaceId: "${spaceId}") { ... on MessagePosted { message { space {
    ${aliases(20 + n, 'messages(last: 100) { edges { node { id text } } }')} } } } } }`
/** Fields with the same response name, which validation compares in pairs. */
const LONG_TO_REFUSE = (n: number) => `query Q${n} { ${'viewer { id scope } '.repeat(800)} nothing${n} }`

function ask({ origin, token }: FloodOrder, query: string, variables?: object): Promise<number> {
  result.sent += 1
  return new Promise((resolve, reject) => {
    const headers = { 'content-type': 'application/json', authorization: `Bearer ${token}` }
    const sent = request(`${origin}/graphql`, { method: 'POST', agent, headers }, (response) => {
      response.resume().once('end', () => {
        if (response.statusCode === 200) result.served += 1
        resolve(response.statusCode ?? 0)
      })
    })
    sent.once('error', reject).end(JSON.stringify({ query, variables }))
  })
}

const SEND =
  'mutation ($spaceId: ID!, $text: String!) { sendMessage(input: { spaceId: $spaceId, text: $text }) { __typename } }'

async function open({ origin, token }: FloodOrder): Promise<WebSocket> {
  const socket = new WebSocket(`${origin.replace('http', 'ws')}/graphql`, 'graphql-transport-ws')
  await once(socket, 'open')
  socket.send(JSON.stringify({ type: 'connection_init', payload: { authorization: `Bearer ${token}` } }))
  await once(socket, 'message')
  return socket
}

function begin(socket: WebSocket, id: number, query: string): void {
  result.sent += 1
  socket.send(JSON.stringify({ id: String(id), type: 'subscribe', payload: { query } }))
}

const isOf = (type: string, frame: Buffer) => frame.subarray(0, 100).includes(`"type":"${type}"`)

async function repeat(times: number, until: number, what: (n: number) => Promise<unknown>): Promise<void> {
  let n = 0
  const lane = async () => {
    while (Date.now() < until) await what(n++)
  }
  await Promise.all(Array.from({ length: times }, lane))
}

async function keepBusy(order: FloodOrder, until: number): Promise<void> {
  const socket = await open(order)
  let id = 0
  const next = () => begin(socket, id++, HEAVY(order.spaceId))
  socket.on('message', (frame: Buffer) => {
    if (isOf('next', frame)) result.served += 1
    else if (Date.now() < until) next()
  })
  for (let n = 0; n < ON_A_SOCKET; n++) next()
  await new Promise((resolve) => setTimeout(resolve, until - Date.now()))
  socket.terminate()
}

async function watchAndSay(order: FloodOrder, until: number, sockets: number, queries: string[]): Promise<void> {
  const opened = await Promise.all(Array.from({ length: sockets }, () => open(order)))
  for (const socket of opened) {
    socket.on('message', (frame: Buffer) => {
      if (isOf('next', frame)) result.served += 1
    })
    for (const [id, query] of queries.entries()) begin(socket, id, query)
  }
  await repeat(1, until, () => ask(order, SEND, { spaceId: order.spaceId, text: 'Hello there' }))
  for (const socket of opened) socket.terminate()
}

const KINDS: Record<FloodKind, (order: FloodOrder, until: number) => Promise<void>> = {
  queries: (order, until) => repeat(AT_A_TIME, until, () => ask(order, HEAVY(order.spaceId))),
  documents: (order, until) => repeat(AT_A_TIME, until, (n) => ask(order, LONG_TO_REFUSE(n))),
  socket: keepBusy,
  subscriptions: (order, until) =>
    watchAndSay(
      order,
      until,
      1,
      Array.from({ length: HEAVY_SUBSCRIPTIONS }, (_, n) => HEAVY_SUBSCRIPTION(order.spaceId, n)),
    ),
  viewerEvents: (order, until) => {
    const queries = Array<string>(VIEWER_EVENTS.each).fill('subscription { viewerEvents { __typename } }')
    return watchAndSay(order, until, VIEWER_EVENTS.sockets, queries)
  },
  async messages(order, until) {
    const send = (n: number) =>
      n < MESSAGES ? ask(order, SEND, { spaceId: order.agentSpaceId, text: `No. ${n}` }) : null
    await Promise.all(
      Array.from({ length: AT_A_TIME }, async (_, lane) => {
        for (let n = lane; n < MESSAGES; n += AT_A_TIME) await send(n)
      }),
    )
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, until - Date.now())))
  },
}

process.once('message', async (order: FloodOrder) => {
  await KINDS[order.kind](order, Date.now() + order.seconds * 1000)
  process.send?.(result)
})
