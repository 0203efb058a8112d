import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { HumanViewer } from '../../src/access/viewer.ts'
import { encodeIdCursor } from '../../src/lib/id-cursor.ts'
import { newId } from '../../src/lib/ids.ts'
import type { ParleyClient } from '../support/parley-client.ts'
import { startTestServer, type TestServer } from '../support/served.ts'

// biome-ignore lint/suspicious/noExplicitAny: assertions read fields that are not typed
type Anything = any

describe('resume points and pages', () => {
  let parley: TestServer
  let ada: HumanViewer
  let client: ParleyClient

  beforeAll(async () => {
    parley = await startTestServer({ worker: false })
    ada = await parley.human('Ada')
    client = await parley.clientOf(ada)
  })
  afterAll(() => parley?.close())

  /**
   * Posts a message right after each read of the space or its messages. A read that comes before the cursor would miss this
   * message.
   */
  async function postingBetweenReads<T>(spaceId: string, work: () => Promise<T>): Promise<T> {
    const { reading, spaces } = parley.app.domain
    const before = { ...reading, getSpaces: spaces.getMany }
    const then =
      <I extends unknown[], O>(read: (...input: I) => Promise<O>) =>
      async (...input: I): Promise<O> => {
        const found = await read(...input)
        await parley.send(ada, spaceId, 'in between')
        return found
      }
    reading.getMany = then(before.getMany)
    reading.pageMany = then(before.pageMany)
    reading.lastMany = then(before.lastMany)
    spaces.getMany = then(before.getSpaces)
    try {
      return await work()
    } finally {
      Object.assign(reading, before)
      spaces.getMany = before.getSpaces
    }
  }

  /** Returns the ids of the messages after a cursor. */
  async function postedAfter(spaceId: string, cursor: string): Promise<string[]> {
    const delivery = await parley.app.platform.log.read(`space:${spaceId}`, cursor, 1000)
    return delivery.type === 'gap'
      ? []
      : delivery.publications.flatMap(({ event }) => (event['messageId'] as string) ?? [])
  }

  test.each([
    [
      'a space',
      'query ($id: ID!) { space(id: $id) { streamCursor lastMessage { id } messages { edges { node { id } } } } }',
    ],
    [
      'a node',
      'query ($id: ID!) { space: node(id: $id) { ... on Space { messages { edges { node { id } } } streamCursor } } }',
    ],
    ['a list', 'query { spaces(first: 1) { edges { node { messages { edges { node { id } } } streamCursor } } } }'],
  ])('the cursor of %s is read before its content', async (_, query) => {
    const space = await parley.space(ada, [])
    await parley.send(ada, space.id, 'first')
    const { data } = await postingBetweenReads(space.id, () =>
      client.ask<Anything>(query, query.includes('$id') ? { id: space.id } : {}),
    )
    const found = data.space ?? data.spaces.edges[0].node
    const shown: string[] = found.messages.edges.map(({ node }: { node: { id: string } }) => node.id)
    const later = await postedAfter(space.id, found.streamCursor)
    const all = (await parley.messages(space.id)).map(({ id }) => id)
    expect(all.length).toBeGreaterThan(1)
    expect([...new Set([...shown, ...later])].sort()).toEqual(all.sort())
  })

  test('the cursor of a space that is selected through a message is read before the message', async () => {
    const space = await parley.space(ada, [])
    const { message } = await parley.send(ada, space.id, 'first')
    const order: string[] = []
    const { reading } = parley.app.domain
    const { log } = parley.app.platform
    const [{ getMany }, { heads }] = [reading, log]
    reading.getMany = async (ids) => {
      order.push('message')
      return getMany(ids)
    }
    log.heads = async (topics) => {
      order.push('cursor')
      return heads(topics)
    }
    const { data } = await client.ask('query ($id: ID!) { message(id: $id) { text space { streamCursor } } }', {
      id: message.id,
    })
    Object.assign(reading, { getMany })
    log.heads = heads
    expect(data).toMatchObject({ message: { text: 'first', space: { streamCursor: expect.any(String) } } })
    expect(order.lastIndexOf('message')).toBeGreaterThan(order.indexOf('cursor'))
  })

  test('a cursor that the query does not select is not read', async () => {
    const space = await parley.space(ada, [])
    const { log } = parley.app.platform
    const { heads } = log
    let asked = 0
    log.heads = async (topics) => {
      asked += 1
      return heads(topics)
    }
    await client.ask('query ($id: ID!) { space(id: $id) { id messages { edges { node { id } } } } }', { id: space.id })
    log.heads = heads
    expect(asked).toBe(0)
  })

  test('messages are paged in both directions, exact at each end, by cursor or by message id', async () => {
    const space = await parley.space(ada, [])
    const ids: string[] = []
    for (let n = 1; n <= 7; n++) ids.push((await parley.send(ada, space.id, `${n}`)).message.id)
    const page = async (args: string) => {
      const query = `query ($id: ID!) { space(id: $id) { messages${args} { pageInfo { hasNextPage hasPreviousPage startCursor endCursor } edges { cursor node { seq } } } } }`
      const { data, errors } = await client.ask<Anything>(query, { id: space.id })
      expect(errors).toBeUndefined()
      const { edges, pageInfo } = data.space.messages
      return { ...pageInfo, edges, seqs: edges.map(({ node }: { node: { seq: number } }) => node.seq) }
    }
    expect(await page('')).toMatchObject({ seqs: [1, 2, 3, 4, 5, 6, 7], hasNextPage: false, hasPreviousPage: false })
    const first = await page('(first: 3)')
    expect(first).toMatchObject({ seqs: [1, 2, 3], hasNextPage: true, hasPreviousPage: false })
    expect(first.startCursor).toBe(first.edges[0].cursor)
    expect(await page(`(first: 3, after: "${first.endCursor}")`)).toMatchObject({
      seqs: [4, 5, 6],
      hasNextPage: true,
      hasPreviousPage: true,
    })
    expect(await page(`(last: 2, before: "${ids[4]}")`)).toMatchObject({
      seqs: [3, 4],
      hasNextPage: true,
      hasPreviousPage: true,
    })
    expect(await page(`(after: "${ids[6]}")`)).toMatchObject({
      seqs: [],
      startCursor: null,
      endCursor: null,
      hasNextPage: false,
      hasPreviousPage: true,
    })
    expect(await page(`(first: 10, after: "${ids[1]}", before: "${ids[4]}")`)).toMatchObject({
      seqs: [3, 4],
      hasNextPage: true,
      hasPreviousPage: true,
    })
    const foreign = await parley.space(ada, [])
    const { message } = await parley.send(ada, foreign.id, 'x')
    const query = 'query ($id: ID!, $after: String) { space(id: $id) { messages(after: $after) { edges { cursor } } } }'
    expect((await client.ask(query, { id: space.id, after: message.id })).errors).toMatchObject([
      { extensions: { code: 'BAD_USER_INPUT' } },
    ])
  })

  test('every other connection is paginated in the same way', async () => {
    const agents = []
    for (const name of ['One', 'Two', 'Three']) agents.push(await parley.agent(`Paged ${name}`))
    const space = await parley.space(ada, [agents[0]?.id ?? ''])
    for (let n = 0; n < 3; n++) await parley.send(ada, space.id, 'go')
    const ask = async (query: string, variables: object = {}) => (await client.ask<Anything>(query, variables)).data
    const names = 'pageInfo { hasNextPage hasPreviousPage endCursor } edges { node { name } }'
    const page = await ask(`{ agents(first: 2, search: "paged") { ${names} } }`)
    expect(page.agents).toMatchObject({
      pageInfo: { hasNextPage: true, hasPreviousPage: false },
      edges: [{ node: { name: 'Paged Three' } }, { node: { name: 'Paged Two' } }],
    })
    const next = await ask(`query ($after: String) { agents(first: 2, search: "paged", after: $after) { ${names} } }`, {
      after: page.agents.pageInfo.endCursor,
    })
    expect(next.agents).toMatchObject({
      pageInfo: { hasNextPage: false, hasPreviousPage: true },
      edges: [{ node: { name: 'Paged One' } }],
    })
    const runs = await ask(
      'query ($id: ID!) { agent(id: $id) { runs(first: 2, status: [QUEUED]) { pageInfo { hasNextPage } edges { cursor node { status } } } none: runs(status: [FAILED]) { pageInfo { startCursor } edges { cursor } } activeRuns { id } } }',
      { id: agents[0]?.id },
    )
    expect(runs.agent.runs).toMatchObject({
      pageInfo: { hasNextPage: true },
      edges: [{ node: { status: 'QUEUED' } }, { node: { status: 'QUEUED' } }],
    })
    expect(runs.agent.none).toEqual({ pageInfo: { startCursor: null }, edges: [] })
    expect(runs.agent.activeRuns).toHaveLength(3)
  })

  test("a cursor of another agent's inbox, or of another run's steps, is invalid", async () => {
    const admin = await parley.clientOf(parley.admin)
    const minds = [await parley.agent('Mia', { mind: 'PERSISTENT' }), await parley.agent('Max', { mind: 'PERSISTENT' })]
    const TRIGGER = `mutation ($agentId: ID!) { triggerAgent(input: { agentId: $agentId, serviceName: "bell", payload: 1 }) { __typename } }`
    for (const { id } of [...minds, ...minds]) await admin.ask(TRIGGER, { agentId: id })
    const INBOX = `query ($id: ID!, $after: String) { agent(id: $id) { internals { inbox(after: $after) { edges { cursor } } } } }`
    const inboxOf = async (id: string, after: string | null = null) => {
      const { data, errors } = await admin.ask<Anything>(INBOX, { id, after })
      return errors ?? data.agent.internals.inbox.edges.map(({ cursor }: { cursor: string }) => cursor)
    }
    const [mia = '', max = ''] = minds.map(({ id }) => id)
    const [first, second] = await inboxOf(mia)
    expect(await inboxOf(mia, first)).toEqual([second])
    expect(await inboxOf(max, first)).toMatchObject([{ extensions: { code: 'BAD_USER_INPUT', field: 'after' } }])

    const STEPS = `query ($id: ID!, $before: String) { run(id: $id) { internals { steps(before: $before) { edges { cursor } } } } }`
    const { runs } = await parley.send(ada, (await parley.space(ada, [(await parley.agent('Ida')).id])).id, 'go')
    const id = runs[0]?.id ?? ''
    const own = await admin.ask<Anything>(STEPS, { id, before: encodeIdCursor(newId('stp'), id) })
    expect(own.data.run.internals.steps.edges).toEqual([])
    const foreign = await admin.ask(STEPS, { id, before: encodeIdCursor(newId('stp'), newId('run')) })
    expect(foreign.errors).toMatchObject([{ extensions: { code: 'BAD_USER_INPUT', field: 'before' } }])
  })
})
