import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { HumanViewer } from '../../src/access/viewer.ts'
import { heapUsed } from '../support/heap.ts'
import { startTestServer, type TestServer } from '../support/served.ts'

const LONG_RESPONSE = 'query ($id: ID!) { space(id: $id) { messages { edges { node { text } } } } }'
const MIB = 1024 * 1024

describe('responses of 64 KiB and more, once they were sent', () => {
  let parley: TestServer
  let human: HumanViewer
  let id: string
  beforeAll(async () => {
    parley = await startTestServer({ worker: false })
    human = await parley.human('Ada')
    ;({ id } = await parley.space(human, []))
    const client = await parley.clientOf(human)
    for (const letter of ['a', 'b', 'c']) {
      const variables = { input: { spaceId: id, text: letter.repeat(30_000) } }
      await client.ask('mutation ($input: SendMessageInput!) { sendMessage(input: $input) { __typename } }', variables)
    }
  })
  afterAll(() => parley?.close())

  test('leave nothing of their operations on an open socket', async () => {
    const client = await parley.clientOf(human)
    await client.connect()
    const ask = async (n: number) => {
      const { promise, resolve, reject } = Promise.withResolvers<void>()
      const variables = { id, unused: String(n).padStart(200_000, '.') }
      const operation = client.subscribe({ toString: () => LONG_RESPONSE } as never, variables as never)
      operation.ended.then((reason) => (operation.seen.length === 1 ? resolve() : reject(reason)), reject)
      return promise
    }
    for (let n = 0; n < 10; n++) await ask(n)
    const before = heapUsed()
    for (let n = 0; n < 100; n++) await ask(n)
    expect((heapUsed() - before) / MIB).toBeLessThan(5)
  })
})
