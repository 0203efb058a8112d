import { Agent, type ClientRequest, get } from 'node:http'
import type { Benchmark, Figure } from './support/figures.ts'
import { modelName, startModel } from './support/model.ts'
import { SPACE_MESSAGES } from './support/operations.ts'
import { cpuSecondsOf, createRoom, type Room, residentMebibytesOf, type Stack, startStack } from './support/stack.ts'
import { say } from './support/watch.ts'

const RUNS = 150
const QUICK_RUNS = 20
const AT_ONCE = 5
/** A short answer, streamed as fast as possible. */
const ANSWER = modelName(30, 0)
/** An answer that pauses after its first token for longer than the measurement takes. */
const PAUSING = modelName(3, 600_000)

const STREAMS = 1000
const OPENED_AT_ONCE = 20
/** How long to wait for the memory of the process to settle. */
const SETTLING_MS = 20_000

/** Posts a message through a protocol endpoint, and resolves when its runs have ended and the client has their text. */
type Ask = (room: Room, origin: string) => Promise<unknown>

async function post({ token }: Room, url: string, body: object, headers: Record<string, string> = {}): Promise<string> {
  const response = await fetch(url, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${token}`,
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      ...headers,
    },
    body: JSON.stringify(body),
  })
  const text = await response.text()
  // The tokens are numbered, so the last number shows that the whole answer has arrived.
  if (!response.ok || !text.includes('.29'))
    throw new Error(`${url} answered ${response.status}: ${text.slice(0, 500)}`)
  return text
}

async function byGraphql(room: Room): Promise<void> {
  const finished = Promise.withResolvers<void>()
  const onEvent = ({ spaceMessages }: { spaceMessages: { __typename: string } }) => {
    if (spaceMessages.__typename === 'MessageFinished') finished.resolve()
  }
  const following = room.human.subscribe(SPACE_MESSAGES, { spaceId: room.spaceId }, onEvent)
  await following.first(({ spaceMessages }) => spaceMessages.__typename === 'SpaceSnapshot')
  await say(room)
  await finished.promise
  following.stop()
}

/** The last response in each room. Each request continues the conversation, so that it does not create a new space. */
const previousOf = new WeakMap<Room, string>()

const DOORS: Record<string, Ask> = {
  'AG-UI': (room, origin) =>
    post(room, `${origin}/ag-ui/spaces/${room.spaceId}`, {
      threadId: room.spaceId,
      runId: crypto.randomUUID(),
      state: {},
      tools: [],
      context: [],
      messages: [{ id: crypto.randomUUID(), role: 'user', content: 'Go' }],
    }),
  'Open Responses': async (room, origin) => {
    const previous = previousOf.get(room) ?? null
    const body = { model: room.agentIds[0], input: 'Go', stream: true, previous_response_id: previous }
    const text = await post(room, `${origin}/v1/responses`, body)
    previousOf.set(room, /resp_[0-9a-f]{32}/.exec(text)?.[0] ?? '')
  },
  MCP: (room, origin) =>
    post(room, `${origin}/mcp`, {
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: { name: 'send_message', arguments: { spaceId: room.spaceId, text: 'Go', waitSeconds: 60 } },
    }),
  A2A: (room, origin) =>
    post(
      room,
      `${origin}/a2a/spaces/${room.spaceId}`,
      {
        jsonrpc: '2.0',
        id: 1,
        method: 'SendStreamingMessage',
        params: { message: { messageId: crypto.randomUUID(), role: 'ROLE_USER', parts: [{ text: 'Go' }] } },
      },
      { 'a2a-version': '1.0' },
    ),
}

/** Measures the server's CPU time for one run, in milliseconds. Each protocol has its own rooms, whose histories grow equally. */
async function millisecondsOfRun(stack: Stack, runs: number, ask: Ask): Promise<number> {
  const rooms = await Promise.all(Array.from({ length: AT_ONCE }, () => createRoom(stack, ANSWER)))
  const askEach = async (count: number) => {
    let left = count
    const lane = async (room: Room) => {
      while (left-- > 0) await ask(room, stack.parley.origin)
    }
    await Promise.all(rooms.map(lane))
  }
  await askEach(Math.ceil(runs / 2))
  const before = await cpuSecondsOf(stack.parley.pid)
  await askEach(runs)
  const seconds = (await cpuSecondsOf(stack.parley.pid)) - before
  await Promise.all(rooms.map(({ human }) => human.close()))
  return (seconds * 1000) / runs
}

async function compareRuns(quick: boolean): Promise<Figure[]> {
  const model = await startModel()
  const stack = await startStack('PostgreSQL and Redis', model)
  const runs = quick ? QUICK_RUNS : RUNS
  // Measured before and after the endpoints, because the first runs of a process cost more.
  await millisecondsOfRun(stack, runs, byGraphql)
  const byDoor: [string, number][] = []
  for (const [name, ask] of Object.entries(DOORS)) byDoor.push([name, await millisecondsOfRun(stack, runs, ask)])
  const graphql = await millisecondsOfRun(stack, runs, byGraphql)
  await stack.stop()
  await model.stop()
  return [
    { what: 'a run that is started and followed by GraphQL: CPU', value: graphql, unit: 'ms' },
    ...byDoor.flatMap(([name, ms]): Figure[] => [
      { what: `by ${name}: CPU`, value: ms, unit: 'ms' },
      { what: `${name} over GraphQL`, value: ms / graphql, unit: '×', bound: { atMost: 1.15 } },
    ]),
  ]
}

/** Measures the resident memory of a rejoined AG-UI stream, in KiB, while its run continues but sends nothing. */
async function kibibytesOfStream(): Promise<number> {
  const model = await startModel()
  const stack = await startStack('PostgreSQL and Redis', model, { PARLEY_MAX_SOCKETS_PER_VIEWER: '5000' })
  const room = await createRoom(stack, PAUSING)
  const [cursor] = [await cursorOf(room), await say(room)]
  const agent = new Agent({ keepAlive: false })
  const url = `${stack.parley.origin}/ag-ui/spaces/${room.spaceId}?follow=true&after=${encodeURIComponent(cursor)}`
  const open = () =>
    new Promise<ClientRequest>((resolve, reject) => {
      const headers = { authorization: `Bearer ${room.token}`, accept: 'text/event-stream' }
      const request = get(url, { agent, headers }, (response) => {
        if (response.statusCode !== 200) return reject(new Error(`a stream was answered by ${response.statusCode}`))
        response.once('data', () => resolve(request)).resume()
      })
      request.on('error', () => {})
    })
  const openMany = async (count: number) => {
    const opened: ClientRequest[] = []
    while (opened.length < count)
      opened.push(...(await Promise.all(Array.from({ length: OPENED_AT_ONCE }, () => open()))))
    return opened
  }
  const settle = () => new Promise((resolve) => setTimeout(resolve, SETTLING_MS))
  // Memory that a process has used once stays resident, so the first streams are opened as a warm-up.
  const warm = await openMany(STREAMS)
  await settle()
  const before = await residentMebibytesOf(stack.parley.pid)
  await openMany(STREAMS)
  await settle()
  const after = await residentMebibytesOf(stack.parley.pid)
  for (const one of warm) one.destroy()
  agent.destroy()
  await room.human.close()
  await stack.stop()
  await model.stop()
  return ((after - before) * 1024) / STREAMS
}

async function cursorOf({ human, spaceId }: Room): Promise<string> {
  const { data } = await human.ask<{ space: { streamCursor: string } }>(
    'query ($id: ID!) { space(id: $id) { streamCursor } }',
    { id: spaceId },
  )
  if (data == null) throw new Error('the space has no cursor')
  return data.space.streamCursor
}

export const doors: Benchmark = {
  question: `What do other protocols cost: CPU of a run over GraphQL, and memory of each of ${STREAMS} idle rejoined AG-UI streams?`,
  // Opening two thousand streams in small groups takes several minutes.
  mostMinutes: 10,
  async run({ quick }) {
    return [
      ...(await compareRuns(quick)),
      {
        what: 'memory of an idle rejoined AG-UI stream',
        value: await kibibytesOfStream(),
        unit: 'KiB',
        bound: { atMost: 40 },
      },
    ]
  },
}
