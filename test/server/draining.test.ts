import { connect } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type RunningServer, startServer } from '../../src/server/server.ts'
import { createMutatingClient, SEND, SENT } from '../support/mutating-client.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'

const CLIENTS = 200
const MUTATIONS = 400
/** The number of concurrent mutations. */
const AT_ONCE = 40

const isRefused = (port: number) =>
  new Promise<boolean>((resolve) => {
    const socket = connect(port, '127.0.0.1')
    socket.once('connect', () => {
      socket.destroy()
      resolve(false)
    })
    socket.once('error', () => resolve(true))
  })

describe('a draining server', () => {
  let parley: TestServer
  let authorization: string
  beforeAll(async () => {
    parley = await startTestServer({ worker: false })
  })
  afterAll(() => parley?.close())

  const begin = () => startServer({ app: parley.app, config: { ...parley.app.platform.config, port: 0 } })

  const clientOf = (url: () => string) => createMutatingClient(url, authorization)
  const addressOf = ({ port }: RunningServer) => `ws://127.0.0.1:${port}/graphql`

  test('finishes the operations on its sockets, and accepts no new ones', async () => {
    const [first, second] = [await begin(), await begin()]
    let server = first
    const human = await parley.human('Ada')
    authorization = `Bearer ${await parley.tokenOf(human)}`
    const space = await parley.space(human, [])
    const { domain } = parley.app
    const { send } = domain.sending
    const [asked, goOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    let calls = 0
    domain.sending.send = async (...input) => {
      calls += 1
      if (calls === 1) {
        asked.resolve()
        await goOn.promise
      }
      return send(...input)
    }
    const client = clientOf(() => addressOf(server))
    const codes: number[] = []
    client.on('closed', (event) => codes.push((event as { code: number }).code))
    const running = client.run(SEND, { input: { spaceId: space.id, text: 'one' } })
    await asked.promise
    server = second
    const closing = first.close()
    await until('the server accepts no connections', () => isRefused(first.port))
    const late = client.run(SEND, { input: { spaceId: space.id, text: 'two' } })
    expect(codes).toEqual([])
    goOn.resolve()
    expect(await running).toEqual(SENT)
    expect(await late).toEqual(SENT)
    domain.sending.send = send
    expect(codes).toEqual([1001])
    expect(calls).toBe(2)
    expect((await parley.messages(space.id)).map(({ parts }) => parts)).toHaveLength(2)
    await client.dispose()
    await closing
    await second.close({ drain: false })
  })

  test(`writes one row for each mutation, under ${CLIENTS} clients that keep sending`, {
    timeout: 120_000,
  }, async () => {
    const [first, second] = [await begin(), await begin()]
    let server = first
    const human = await parley.human('Bob')
    authorization = `Bearer ${await parley.tokenOf(human)}`
    const space = await parley.space(human, [])
    const clients = Array.from({ length: CLIENTS }, () => clientOf(() => addressOf(server)))
    await Promise.all(clients.map(({ connected }) => connected))
    let sent = 0
    let closing: Promise<void> | null = null
    async function sendOn(): Promise<void> {
      while (sent < MUTATIONS) {
        const n = sent++
        if (n === MUTATIONS / 2) {
          server = second
          closing = first.close()
        }
        const answer = await clients[n % CLIENTS]!.run(SEND, { input: { spaceId: space.id, text: `message ${n}` } })
        expect(answer).toEqual(SENT)
      }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, sendOn))
    const texts = (await parley.messages(space.id)).map(({ parts }) => JSON.stringify(parts))
    expect(new Set(texts).size).toBe(MUTATIONS)
    expect(texts).toHaveLength(MUTATIONS)
    await Promise.all(clients.map((client) => client.dispose()))
    await closing
    await second.close({ drain: false })
  })
})
