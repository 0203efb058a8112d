import { queryObjects } from 'node:v8'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import WebSocket from 'ws'
import { RULE_STACKS } from '../support/application.ts'
import { collectGarbage, heapUsed } from '../support/heap.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'

const ROUNDS = 3
/** The number of subscriptions per round. With LEAK_CYCLES=3400, there are 10,000 in total. */
const CYCLES = Number(process.env['LEAK_CYCLES'] ?? 300)
const SOCKETS = 20

/** Starts a client that subscribes and unsubscribes repeatedly on one socket. */
async function openCycler(origin: string, authorization: string, query: string) {
  const socket = new WebSocket(`${origin.replace('http', 'ws')}/graphql`, 'graphql-transport-ws')
  let onMessage = (_type: string) => {}
  socket.on('message', (data) => onMessage(JSON.parse(String(data)).type))
  const next = (type: string) =>
    new Promise<void>((resolve) => {
      onMessage = (got) => got === type && resolve()
    })
  await new Promise((resolve) => socket.once('open', resolve))
  const acknowledged = next('connection_ack')
  socket.send(JSON.stringify({ type: 'connection_init', payload: { authorization } }))
  await acknowledged
  async function begin(id = '1'): Promise<void> {
    const begun = next('next')
    socket.send(JSON.stringify({ id, type: 'subscribe', payload: { query } }))
    await begun
  }
  return {
    socket,
    begin,
    async cycle(id: string) {
      await begin(id)
      socket.send(JSON.stringify({ id, type: 'complete' }))
    },
  }
}

describe.each(RULE_STACKS)('subscriptions on the %s stack that start and end', (stack) => {
  let parley: TestServer
  beforeAll(async () => {
    parley = await startTestServer({ stack, worker: false })
  })
  afterAll(() => parley?.close())

  test('leave no listener, no subscription in Redis and no heap behind', async () => {
    const human = await parley.human('Ada')
    const spaces = [await parley.space(human, []), await parley.space(human, [])]
    const authorization = `Bearer ${await parley.tokenOf(human)}`
    const { log, config } = parley.app.platform
    const redis = config.redisUrl === null ? null : new Redis(config.redisUrl)
    const channels = async () => ((await redis?.pubsub('CHANNELS', `*${spaces[0]?.id.slice(0, 20)}*`)) ?? []).length
    const cyclers = await Promise.all(
      Array.from({ length: SOCKETS }, (_, index) => {
        const query = `subscription { spaceMessages(spaceId: "${spaces[index % 2]?.id}") { __typename cursor } }`
        return openCycler(parley.origin, authorization, query)
      }),
    )
    const heaps: number[] = []
    // The first round fills caches and compiles code, so its memory is not a leak.
    for (let round = 0; round <= ROUNDS; round++) {
      const each = Math.ceil(CYCLES / SOCKETS)
      await Promise.all(
        cyclers.map(async ({ cycle }) => {
          for (let n = 0; n < each; n++) await cycle(`${round}-${n}`)
        }),
      )
      await until('there are no followers', () => log.stats().followers === 0 && log.stats().topics === 0)
      await until('there are no subscriptions in Redis', async () => (await channels()) === 0)
      heaps.push(heapUsed())
    }
    for (const { socket } of cyclers) socket.terminate()
    redis?.disconnect()
    const [first = 0] = heaps.slice(1)
    expect((heaps.at(-1) ?? 0) / first).toBeLessThan(1.05)
  })
})

describe('subscribers who share payloads', () => {
  test('keep no data of their first subscriber, who has left', async () => {
    const parley = await startTestServer({ stack: 'embedded', worker: false })
    const human = await parley.human('Ada')
    const authorization = `Bearer ${await parley.tokenOf(human)}`
    const before = queryObjects(WebSocket, { format: 'count' })
    const first: WebSocket[] = []
    const second: WebSocket[] = []
    for (let n = 0; n < 10; n++) {
      const { id } = await parley.space(human, [])
      const query = `subscription { spaceMessages(spaceId: "${id}") { __typename cursor } }`
      for (const sockets of [first, second]) {
        const { socket, begin } = await openCycler(parley.origin, authorization, query)
        await begin()
        sockets.push(socket)
      }
    }
    for (const socket of first.splice(0)) socket.terminate()
    // For each remaining subscription, the objects of the client and of the server exist. Sometimes a recent call still
    // references one more.
    const areLeft = () => {
      collectGarbage()
      return queryObjects(WebSocket, { format: 'count' }) - before < 2 * second.length + 5
    }
    await until('only the others are left', areLeft, { intervalMs: 100 })
    for (const socket of second) socket.terminate()
    await parley.close()
  })
})
