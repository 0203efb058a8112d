import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { sleep } from '../../src/lib/async.ts'
import { startServer } from '../../src/server/server.ts'
import { createMutatingClient, SEND, SENT } from '../support/mutating-client.ts'
import { hasPostgres } from '../support/postgres.ts'
import { startTestServer, type TestServer } from '../support/served.ts'

const CLIENTS = 200
/** The rate of each client if the machine can keep up, so that no requests remain. */
const MUTATIONS_A_SECOND = 20
const SECONDS = 8
/** Enough requests for both servers to serve some, even on a slow machine. */
const MORE_THAN_ON_THEIR_WAY = 4 * CLIENTS
const SPACES = 20

describe('two servers under load, one of which drains', () => {
  let parley: TestServer
  beforeAll(async () => {
    const stack = hasPostgres ? 'postgres' : 'embedded'
    const settings = { PARLEY_RATE_MESSAGES: '0', PARLEY_RATE_REQUESTS: '0' }
    parley = await startTestServer({ stack, worker: false, settings })
  })
  afterAll(() => parley?.close())

  const begin = () => startServer({ app: parley.app, config: { ...parley.app.platform.config, port: 0 } })

  test(`each mutation of ${CLIENTS} clients, ${MUTATIONS_A_SECOND} per second of each kind, succeeds and writes one row`, async () => {
    const [first, second] = [await begin(), await begin()]
    let { port } = first
    const human = await parley.human('Bob')
    const authorization = `Bearer ${await parley.tokenOf(human)}`
    const spaces = await Promise.all(Array.from({ length: SPACES }, () => parley.space(human, [])))
    const url = () => `ws://127.0.0.1:${port}/graphql`
    const clients = Array.from({ length: CLIENTS }, () => createMutatingClient(url, authorization))
    await Promise.all(clients.map(({ connected }) => connected))
    const begunAt = performance.now()
    const answers: unknown[] = []
    let sent = 0

    async function sendOn({ run }: (typeof clients)[number], index: number): Promise<void> {
      for (let n = 0; performance.now() - begunAt < SECONDS * 1000 || sent <= MORE_THAN_ON_THEIR_WAY; n++) {
        sent += 1
        const spaceId = spaces[index % SPACES]?.id
        answers.push(await run(SEND, { input: { spaceId, text: `client ${index} message ${n}` } }))
        await sleep(Math.max(0, begunAt + ((n + 1) * 1000) / MUTATIONS_A_SECOND - performance.now()))
      }
    }

    async function drainHalfWay(): Promise<void> {
      await sleep((SECONDS * 1000) / 2)
      port = second.port
      await first.close()
    }
    await Promise.all([...clients.map(sendOn), drainHalfWay()])
    const others = new Set(answers.map((answer) => JSON.stringify(answer)))
    others.delete(JSON.stringify(SENT))
    expect([...others]).toEqual([])
    const rows = await parley.app.platform.db.prisma.message.findMany({ select: { parts: true } })
    expect(new Set(rows.map(({ parts }) => JSON.stringify(parts))).size).toBe(sent)
    expect(rows).toHaveLength(sent)
    await Promise.all(clients.map((client) => client.dispose()))
    await second.close({ drain: false })
  })
})
