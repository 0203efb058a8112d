import { createClient } from 'graphql-ws'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import WebSocket from 'ws'
import type { HumanViewer } from '../../src/access/viewer.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'

const LIMIT = 64 * 1024
const TEXT = 'x'.repeat(2000)
const MESSAGES = 60

interface Edge {
  cursor: string
  node: { seq: number; text: string }
}
interface Connection {
  edges: Edge[]
  pageInfo: { hasNextPage: boolean; hasPreviousPage: boolean; startCursor: string | null; endCursor: string | null }
}
interface Answer {
  data?: { space: { messages: Connection } & Record<string, Connection> } | null
  errors?: { message: string; extensions: { code: string } }[]
}

const PAGE = 'edges { cursor node { seq text } } pageInfo { hasNextPage hasPreviousPage startCursor endCursor }'

describe('a response of at most 64 KiB', () => {
  let parley: TestServer
  let ada: HumanViewer
  let token: string
  let spaceId: string

  beforeAll(async () => {
    const settings = { PARLEY_MAX_RESPONSE_BYTES: String(LIMIT), PARLEY_RATE_MESSAGES: '0' }
    parley = await startTestServer({ worker: false, settings })
    ada = await parley.human('Ada')
    token = await parley.tokenOf(ada)
    spaceId = (await parley.space(ada, [])).id
    for (let n = 0; n < MESSAGES; n++) await parley.send(ada, spaceId, TEXT)
  })
  afterAll(() => parley?.close())

  async function post(query: string, variables: object = {}) {
    const response = await fetch(`${parley.origin}/graphql`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${token}` },
      body: JSON.stringify({ query, variables: { spaceId, ...variables } }),
    })
    const text = await response.text()
    return { bytes: Buffer.byteLength(text), answer: JSON.parse(text) as Answer }
  }
  const messages = (args: string, page = PAGE) =>
    post(`query ($spaceId: ID!) { space(id: $spaceId) { messages(${args}) { ${page} } } }`)

  test('has as many of the requested edges as fit', async () => {
    const { bytes, answer } = await messages('last: 50')
    const found = answer.data!.space.messages
    expect(bytes).toBeLessThanOrEqual(LIMIT)
    expect(bytes).toBeGreaterThan(LIMIT / 2)
    expect(found.edges.map(({ node }) => node.seq)).toEqual(
      Array.from({ length: found.edges.length }, (_, n) => MESSAGES - found.edges.length + 1 + n),
    )
    expect(found.pageInfo).toEqual({
      hasNextPage: false,
      hasPreviousPage: true,
      startCursor: found.edges[0]!.cursor,
      endCursor: found.edges.at(-1)!.cursor,
    })
  })

  test('can be paged to its end by its cursors, forwards and backwards', async () => {
    for (const [direction, cursorOf, hasMore] of [
      ['first: 50, after', (page: Connection) => page.pageInfo.endCursor, 'hasNextPage'],
      ['last: 50, before', (page: Connection) => page.pageInfo.startCursor, 'hasPreviousPage'],
    ] as const) {
      const seen: number[] = []
      let cursor: string | null = null
      for (let page = 0; page < MESSAGES; page++) {
        const { bytes, answer } = await messages(`${direction}: ${cursor === null ? 'null' : `"${cursor}"`}`)
        expect(bytes).toBeLessThanOrEqual(LIMIT)
        const found: Connection = answer.data!.space.messages
        seen.push(...found.edges.map(({ node }) => node.seq))
        cursor = cursorOf(found)
        if (!found.pageInfo[hasMore]) break
      }
      expect(seen.toSorted((one, other) => one - other)).toEqual(Array.from({ length: MESSAGES }, (_, n) => n + 1))
    }
  })

  test('is refused if the request selects the same content under several names', async () => {
    const names = Array.from({ length: 12 }, (_, n) => `a${n}: messages(last: 20) { edges { node { text } } }`)
    const { bytes, answer } = await post(`query ($spaceId: ID!) { space(id: $spaceId) { ${names.join(' ')} } }`)
    expect(bytes).toBeLessThan(2000)
    expect(answer.errors?.map(({ extensions }) => extensions.code)).toEqual(['QUERY_TOO_COMPLEX'])
    expect(answer.errors?.[0]?.message).toContain('same content more than once')
  })

  test('counts the keys of objects, lists and introspection too; aliases of over 200 characters are refused', async () => {
    const alias = (n: number) => `a${n}_${'x'.repeat(190)}`
    const many = Array.from({ length: 400 }, (_, n) => `${alias(n)}: id`).join(' ')
    const [code, keyed] = ['QUERY_TOO_COMPLEX', await post(`{ viewer { human { ${many} } } }`)]
    expect(keyed.bytes).toBeLessThan(2000)
    expect(keyed.answer.errors?.map(({ extensions }) => extensions.code)).toEqual([code])
    const few = Array.from({ length: 20 }, (_, n) => `${alias(n)}: name`).join(' ')
    const introspection = await post(`{ __schema { types { fields { ${few} } } } }`)
    expect(introspection.bytes).toBeLessThan(2000)
    expect(introspection.answer.errors?.map(({ extensions }) => extensions.code)).toEqual([code])
    const long = await post(`{ viewer { ${'y'.repeat(201)}: id } }`)
    expect(long.answer.errors?.[0]?.message).toContain('is longer than 200 characters')
    expect(long.bytes).toBeLessThan(2000)
  })

  test('is shared among sibling connections, each with one edge at least', async () => {
    const { bytes, answer } = await post(`query ($spaceId: ID!) { space(id: $spaceId) {
      first: messages(first: 30) { ${PAGE} } last: messages(last: 30) { ${PAGE} } } }`)
    expect(bytes).toBeLessThanOrEqual(LIMIT)
    const { first, last } = answer.data!.space
    expect(first!.edges.length).toBeGreaterThan(5)
    expect(last!.edges.length).toBeGreaterThan(5)
    expect(first!.pageInfo).toMatchObject({ hasNextPage: true, hasPreviousPage: false })
    expect(last!.pageInfo).toMatchObject({ hasNextPage: false, hasPreviousPage: true })
  })

  test('cuts a nested connection within the only remaining edge of its parent', async () => {
    const { bytes, answer } = await post(
      'query { spaces(first: 5) { edges { node { messages(last: 50) { edges { node { seq text } } } } } } }',
    )
    const spaces = (answer.data as unknown as { spaces: { edges: { node: { messages: Connection } }[] } }).spaces
    expect(bytes).toBeLessThanOrEqual(LIMIT)
    expect(spaces.edges).toHaveLength(1)
    expect(spaces.edges[0]!.node.messages.edges.at(-1)!.node.seq).toBe(MESSAGES)
    expect(spaces.edges[0]!.node.messages.edges.length).toBeGreaterThan(10)
  })

  test('the response of a mutation is shortened too, and the mutation runs once', async () => {
    const { answer } = await post(
      `mutation ($spaceId: ID!) { sendMessage(input: { spaceId: $spaceId, text: "once" }) { __typename
        ... on SendMessagePayload { sentMessage { seq space { messages(last: 50) { edges { node { seq text } } } } } } } }`,
    )
    const { sentMessage } = (
      answer.data as unknown as { sendMessage: { sentMessage: { seq: number; space: { messages: Connection } } } }
    ).sendMessage
    expect(sentMessage.seq).toBe(MESSAGES + 1)
    const seqs = sentMessage.space.messages.edges.map(({ node }) => node.seq)
    expect(seqs.at(-1)).toBe(MESSAGES + 1)
    expect(seqs.length).toBeLessThan(40)
    const after = await messages('last: 2')
    expect(after.answer.data!.space.messages.edges.map(({ node }) => node.text)).toEqual([TEXT, 'once'])
  })

  test('an event is shortened, and an event that repeats content is an error that does not end the subscription', async () => {
    const client = await parley.clientOf(ada)
    type Snapshot = { __typename: string; space?: { messages: Connection } }
    const snapshots: Snapshot[] = []
    client.subscribe<{ spaceMessages: Snapshot }, object>(
      `subscription { spaceMessages(spaceId: "${spaceId}") { __typename
        ... on SpaceSnapshot { space { messages(last: 50) { ${PAGE} } } } } }`,
      {},
      ({ spaceMessages }) => void snapshots.push(spaceMessages),
    )
    await until('the snapshot is delivered', async () => snapshots.length > 0)
    const page = snapshots[0]!.space!.messages
    expect(page.edges.length).toBeLessThan(40)
    expect(page.edges.length).toBeGreaterThan(10)
    expect(page.pageInfo).toMatchObject({ hasNextPage: false, hasPreviousPage: true })

    const names = Array.from({ length: 12 }, (_, n) => `a${n}: messages(last: 20) { edges { node { text } } }`)
    const results: { data?: unknown; errors?: readonly { extensions?: unknown }[] }[] = []
    const heavy = createClient({
      url: `${parley.origin.replace('http', 'ws')}/graphql`,
      webSocketImpl: WebSocket,
      connectionParams: { authorization: `Bearer ${token}` },
      retryAttempts: 0,
    })
    const query = `subscription { spaceMessages(spaceId: "${spaceId}") { __typename ... on MessagePosted { message { seq space { ${names.join(' ')} } } } } }`
    const ended: unknown[] = []
    heavy.subscribe(
      { query },
      {
        next: (result) => void results.push(result),
        error: (error) => ended.push(error),
        complete: () => ended.push(0),
      },
    )
    await until('the subscription is active', async () => results.length === 1)
    await parley.send(ada, spaceId, 'short')
    await parley.send(ada, spaceId, 'short again')
    await until('both events are delivered', async () => results.length === 3)
    expect(results.slice(1).map(({ errors }) => errors?.[0]?.extensions)).toEqual([
      { code: 'QUERY_TOO_COMPLEX' },
      { code: 'QUERY_TOO_COMPLEX' },
    ])
    expect(ended).toEqual([])
    await heavy.dispose()
  })
})

/** More leaves than a response may have: lists without pages, under many names, in few spaces. */
const MANY_MEMBERS = { spaces: 16, members: 60, names: 37 }

describe('a response of lists without pages', () => {
  let parley: TestServer

  beforeAll(async () => {
    parley = await startTestServer({ worker: false, settings: { PARLEY_RATE_REQUESTS: '0' } })
  })
  afterAll(() => parley?.close())

  test('has fewer edges if its short values are many', async () => {
    const ada = await parley.human('Ada')
    const names = Array.from({ length: MANY_MEMBERS.members }, (_, n) => `Member ${n}`)
    const members = await Promise.all(names.map((name) => parley.agent(name)))
    for (let n = 0; n < MANY_MEMBERS.spaces; n++)
      await parley.space(
        ada,
        members.map(({ id }) => id),
      )
    const aliases = Array.from({ length: MANY_MEMBERS.names }, (_, n) => `a${n}: members { id }`).join(' ')
    const { data } = await (await parley.clientOf(ada)).ask<{
      spaces: { edges: { node: Record<string, unknown[]> }[]; pageInfo: { hasNextPage: boolean } }
    }>(`{ spaces(first: ${MANY_MEMBERS.spaces}) { edges { node { ${aliases} } } pageInfo { hasNextPage } } }`)
    const { edges, pageInfo } = data!.spaces
    expect(edges.length).toBeGreaterThan(0)
    expect(edges.length).toBeLessThan(MANY_MEMBERS.spaces)
    expect(pageInfo.hasNextPage).toBe(true)
    const leaves = edges.flatMap(({ node }) => Object.values(node)).flat().length
    expect(leaves).toBeLessThanOrEqual(30_000)
  })
})
