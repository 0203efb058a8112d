import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { WebSocket } from 'ws'
import { schema } from '../../src/graphql/schema.ts'
import { oneOf, type Random, type RandomDocuments, randomDocuments, randomOf } from './random-documents.ts'

/** The tokens of a sender, and the ids of existing objects. */
export interface RandomWorld {
  tokens: string[]
  ids: string[]
}

/** The target of random requests. They can destroy its content, so it can be replaced. */
export interface Target {
  origin: string
  createWorld(): Promise<RandomWorld>
}

/** The first few faults, each with the preceding requests. */
export type Findings = string[]

const AT_A_TIME = 8
const MOST_FINDINGS = 20
const ANSWERED_WITHIN_MS = 30_000
const MOST_FRAMES_OF_SOCKET = 60
/** The number of requests or frames after which a world is replaced. */
const AGE_OF_WORLD = 400
/** The share of sockets that wait for the acknowledgement. */
const PATIENT = 0.9
const BODIES = [
  '',
  '{',
  'null',
  '[]',
  '[{"query":"{__typename}"}]',
  '"x"',
  '{"query":1}',
  '{"query":null,"variables":[]}',
  '\u0000',
]
const TYPES = [
  'application/json',
  'application/json',
  'text/plain',
  'multipart/form-data; boundary=x',
  'application/graphql',
  '',
]

const ACCEPTED = [
  '*/*',
  'application/json',
  'application/graphql-response+json',
  'text/event-stream',
  'multipart/mixed',
]

/** Returns whether a response reports an internal error, or is not GraphQL. */
function faultIn(status: number, text: string): string | null {
  if (text.includes('INTERNAL_SERVER_ERROR')) return `internal: ${status} ${text.slice(0, 600)}`
  if (status >= 500 && status !== 503) return `${status} ${text.slice(0, 300)}`
  return null
}

/** Provides a world, which is replaced after many requests, or when it refuses connections. */
async function openWorld({ createWorld }: Target) {
  let world = await createWorld()
  let age = 0
  let renewing: Promise<void> | null = null
  async function renew(): Promise<void> {
    world = await createWorld()
    age = 0
    renewing = null
  }
  return {
    ids: () => world.ids,
    token: (random: Random) => oneOf(random, world.tokens),
    /** Counts requests. `isClosed`: the connection was refused. */
    async wears(sent: number, isClosed: boolean): Promise<void> {
      age += sent
      if (isClosed || age > AGE_OF_WORLD) renewing ??= renew()
      await renewing
    },
  }
}

/** The random numbers and the world of one parallel sender. */
interface Source {
  random: Random
  world: Awaited<ReturnType<typeof openWorld>>
  documents: RandomDocuments
}

/** The outcome of one request. */
interface Sent {
  sent: number
  isRefused: boolean
  findings: Findings
}

/** Sends until the given number is reached, or too many faults are found. */
async function sendInLanes(
  target: Target,
  { count, seed }: { count: number; seed: number },
  send: (source: Source) => Promise<Sent>,
): Promise<Findings> {
  const random = randomOf(seed)
  const world = await openWorld(target)
  const source = { random, world, documents: randomDocuments(schema, random, world.ids) }
  const findings: Findings = []
  let sent = 0
  async function lane(): Promise<void> {
    while (sent < count && findings.length < MOST_FINDINGS) {
      const told = await send(source)
      sent += told.sent
      findings.push(...told.findings)
      await world.wears(told.sent, told.isRefused)
    }
  }
  await Promise.all(Array.from({ length: AT_A_TIME }, lane))
  return findings
}

/** Sends random documents, some of them in invalid bodies. */
export function sendRandomDocuments(target: Target, count: number, seed: number): Promise<Findings> {
  return sendInLanes(target, { count, seed }, async ({ random, world, documents }) => {
    const isWhole = random() < 0.95
    const body = isWhole ? JSON.stringify(documents.next()) : oneOf(random, BODIES)
    const headers = {
      authorization: `Bearer ${world.token(random)}`,
      'content-type': isWhole ? 'application/json' : oneOf(random, TYPES),
      accept: oneOf(random, ACCEPTED),
    }
    const { status, fault } = await post(target.origin, headers, body).catch((error) => ({
      status: 0,
      fault: `no answer: ${error.cause ?? error}`,
    }))
    const findings = fault === null ? [] : [`${fault}\n  of ${body.slice(0, 2000)}`]
    return { sent: 1, isRefused: status === 401, findings }
  })
}

async function post(origin: string, headers: Record<string, string>, body: string) {
  const signal = AbortSignal.timeout(ANSWERED_WITHIN_MS)
  const response = await fetch(`${origin}/graphql`, { method: 'POST', headers, body, signal })
  const isStream = /event-stream|multipart/.test(response.headers.get('content-type') ?? '')
  const { status } = response
  if (!isStream || !SUBSCRIPTION.test(body)) return { status, fault: faultIn(status, await response.text()) }
  // A stream stays open as long as it is read. The events of subscriptions are read over sockets instead.
  await response.body?.cancel()
  return { status, fault: faultIn(status, '') }
}

/** Matches the body of an operation that does not end by itself. */
const SUBSCRIPTION = /subscription/

/** Sends random messages over sockets, well-formed or not, including invalid frames. */
export function sendRandomFrames(target: Target, count: number, seed: number): Promise<Findings> {
  return sendInLanes(target, { count, seed }, ({ random, world, documents }) => {
    const frames = 1 + Math.floor(random() * MOST_FRAMES_OF_SOCKET)
    return oneSocket(target.origin, { random, documents, token: world.token(random), frames })
  })
}

async function oneSocket(
  origin: string,
  { random, documents, token, frames }: { random: Random; documents: RandomDocuments; token: string; frames: number },
): Promise<Sent> {
  const findings: Findings = []
  const socket = new WebSocket(`${origin.replace('http', 'ws')}/graphql`, 'graphql-transport-ws')
  const said: string[] = []
  socket.on('message', (data) => {
    const fault = faultIn(200, String(data))
    if (fault !== null) findings.push(`${fault}\n  after ${said.join('\n  ').slice(-3000)}`)
  })
  socket.on('error', () => {})
  const closed = once(socket, 'close')
  await Promise.race([once(socket, 'open'), closed])
  const say = (frame: string | Buffer) => {
    if (socket.readyState !== socket.OPEN) return
    said.push(String(frame).slice(0, 1000))
    socket.send(frame)
  }
  if (random() < 0.95) {
    say(initOf(token))
    if (random() < PATIENT) await Promise.race([once(socket, 'message'), closed])
  }
  for (let n = 0; n < frames; n++) {
    if (random() < 0.002) breakOff(socket, random)
    else say(frameOf(random, documents, n))
  }
  // When the pong of this ping arrives, the server has processed the earlier messages.
  if (socket.readyState === socket.OPEN) {
    socket.ping()
    await Promise.race([once(socket, 'pong'), closed])
    socket.close()
  }
  setTimeout(() => socket.terminate(), 1000).unref()
  const [code] = await closed
  return { sent: said.length, isRefused: code === FORBIDDEN, findings }
}

/** The close code for a refused connection. */
const FORBIDDEN = 4403

const initOf = (token: string) =>
  JSON.stringify({ type: 'connection_init', payload: { authorization: `Bearer ${token}` } })

function frameOf(random: Random, documents: RandomDocuments, n: number): string | Buffer {
  const kind = random()
  const id = String(random() < 0.9 ? n : Math.floor(random() * 5))
  if (kind < 0.85) return JSON.stringify({ id, type: 'subscribe', payload: documents.next() })
  if (kind < 0.93) return JSON.stringify({ id, type: 'complete' })
  if (kind < 0.98) return JSON.stringify({ type: oneOf(random, ['ping', 'pong']), payload: { a: [null] } })
  if (kind < 0.985) return randomBytes(40)
  return oneOf(random, [
    '',
    '{',
    'null',
    '[]',
    '{"type":"x"}',
    '{"type":"subscribe"}',
    '{"id":1,"type":"subscribe","payload":{}}',
    initOf('x'),
    '{"id":"","type":"subscribe","payload":{"query":""}}',
  ])
}

/** Writes bytes that are not a WebSocket frame, bypassing the encoder of the client. */
function breakOff(socket: WebSocket, random: Random): void {
  const { _socket: transport } = socket as unknown as { _socket?: NodeJS.WritableStream }
  transport?.write(randomBytes(1 + Math.floor(random() * 200)))
}
