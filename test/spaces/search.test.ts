import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { HumanViewer, Viewer } from '../../src/access/viewer.ts'
import { STACKS } from '../support/application.ts'
import { startTestServer, type TestServer } from '../support/served.ts'

const SEARCH = `query ($query: String!, $spaceId: ID, $senderId: ID, $hasFile: Boolean, $since: DateTime, $until: DateTime,
  $order: SearchOrder! = BEST, $after: String, $first: Int) {
  search(query: $query, spaceId: $spaceId, senderId: $senderId, hasFile: $hasFile, since: $since, until: $until, order: $order, after: $after, first: $first) {
    edges { cursor node { message { id text space { id } } file { id } snippet matches } }
    pageInfo { hasNextPage hasPreviousPage startCursor endCursor } } }`

interface Found {
  edges: {
    cursor: string
    node: { message: { id: string; text: string }; snippet: string; matches: [number, number][] }
  }[]
  pageInfo: { hasNextPage: boolean; hasPreviousPage: boolean; endCursor: string | null }
}

describe.each(STACKS)('search, on the %s stack', (stack) => {
  let parley: TestServer
  let ada: HumanViewer
  let bob: HumanViewer
  let team: string
  let secret: string
  beforeAll(async () => {
    parley = await startTestServer({ stack, worker: false, isFresh: true })
    ada = await parley.human('Ada')
    bob = await parley.human('Bob')
    team = await spaceWith(bob)
    secret = (await parley.space(ada, [], { confidential: true })).id
    for (const text of [
      'The pipeline failed again',
      'Élan vital in the Øresund straße',
      '私は東京に住んでいます',
      'See src/lib/page.ts for 100% of it',
      'Привет, мир',
      'ภาษาไทยง่าย',
    ])
      await parley.send(ada, team, text)
    await parley.send(bob, team, 'another pipeline, of bob')
    await parley.send(ada, secret, 'canary pipeline')
  })
  afterAll(() => parley?.close())

  /** Creates a space of Ada's, to which an admin adds somebody whom she does not know. */
  async function spaceWith({ id: entityId }: HumanViewer): Promise<string> {
    const { id } = await parley.space(ada, [])
    await parley.app.domain.members.add(parley.admin, { spaceId: id, entityId })
    return id
  }

  async function asked(viewer: Viewer, variables: object) {
    return (await parley.clientOf(viewer)).ask<{ search: Found }>(SEARCH, variables)
  }

  async function found(viewer: Viewer, query: string, variables: object = {}): Promise<string[]> {
    const { data, errors } = await asked(viewer, { query, ...variables })
    expect(errors).toBeUndefined()
    return data!.search.edges.map(({ node }) => node.message.text)
  }

  test.each([
    ['PIPELINE', 2],
    ['pipel', 2],
    ['ipelin', 2],
    ['pipeline failed', 1],
    ['"pipeline failed"', 1],
    ['"failed pipeline"', 0],
    ['elan', 1],
    ['élan oresund strasse', 1],
    ['東京', 1],
    ['京都', 0],
    ['page.ts', 1],
    ['100%', 1],
    ['ПРИВЕТ', 1],
    ['ไทย', 1],
    ['nowhere', 0],
    ['?!', 0],
    ['\0', 0],
    ['', 0],
  ])('a member who searches for %j finds every message that contains it', async (query, count) => {
    expect(await found(bob, query)).toHaveLength(count)
  })

  test('nobody finds what they may not read, whether by its space, its sender or a part', async () => {
    for (const query of ['canary', 'anar', 'canary pipeline']) {
      expect(await found(bob, query)).toEqual([])
      expect(await found(bob, query, { spaceId: secret })).toEqual([])
      expect(await found(ada, query)).toHaveLength(1)
      expect(await found(parley.admin, query)).toHaveLength(1)
    }
  })

  test('a member who has left finds nothing of the space, and its cursors lead nowhere', async () => {
    const eve = await parley.human('Eve')
    const id = await spaceWith(eve)
    for (const text of ['leaving one', 'leaving two']) await parley.send(ada, id, text)
    const first = await asked(eve, { query: 'leaving', first: 1 })
    expect(first.data?.search.pageInfo).toMatchObject({ hasNextPage: true, hasPreviousPage: false })
    await parley.app.domain.members.remove(ada, { spaceId: id, entityId: eve.id })
    expect(await found(eve, 'leaving')).toEqual([])
    expect(await found(eve, 'leaving', { first: 1, after: first.data?.search.pageInfo.endCursor })).toEqual([])
  })

  test('filters narrow a search', async () => {
    expect(await found(ada, 'pipeline')).toHaveLength(3)
    expect(await found(ada, 'pipeline', { spaceId: team })).toHaveLength(2)
    expect(await found(ada, 'pipeline', { senderId: bob.id })).toEqual(['another pipeline, of bob'])
    expect(await found(ada, 'pipeline', { senderId: 'nobody' })).toEqual([])
    expect(await found(ada, 'pipeline', { hasFile: true })).toEqual([])
    expect(await found(ada, 'pipeline', { hasFile: false })).toHaveLength(3)
    expect(await found(ada, 'pipeline', { since: '2100-01-01T00:00:00Z' })).toEqual([])
    expect(await found(ada, 'pipeline', { until: '2000-01-01T00:00:00Z' })).toEqual([])
  })

  test.each(['BEST', 'NEWEST'])('pages of %s hits contain each hit once, and end exactly', async (order) => {
    const texts: string[] = []
    let after: string | null = null
    for (let page = 0; page < 3; page++) {
      const { data } = await asked(ada, { query: 'pipeline', order, first: 1, after })
      const { edges, pageInfo } = data!.search
      texts.push(...edges.map(({ node }) => node.message.text))
      expect(pageInfo).toMatchObject({ hasNextPage: page < 2, hasPreviousPage: page > 0 })
      after = pageInfo.endCursor
    }
    expect(new Set(texts).size).toBe(3)
    if (order === 'NEWEST') expect(texts[0]).toBe('canary pipeline')
    const { errors } = await asked(ada, { query: 'other words', order, first: 1, after })
    expect(errors?.[0]?.extensions?.['code']).toBe('BAD_USER_INPUT')
  })

  test('a snippet marks what matches', async () => {
    const { data } = await asked(bob, { query: 'elan' })
    const { snippet, matches } = data!.search.edges[0]!.node
    expect(matches.map(([from, to]) => snippet.slice(from, to))).toEqual(['Élan'])
  })

  test.each([
    { query: 'x'.repeat(10_000) },
    { query: 'x', first: 0 },
    { query: 'x', first: 101 },
    { query: 'x', after: 'abc' },
  ])('bad input is refused', async (variables) => {
    const { errors } = await asked(ada, variables)
    expect(errors?.[0]?.extensions?.['code']).toBe('BAD_USER_INPUT')
  })

  test('the text of an erased human is no longer found', async () => {
    const gone = await parley.human('Gone')
    const id = await spaceWith(gone)
    await parley.send(gone, id, 'vanishing words')
    expect(await found(ada, 'vanishing')).toHaveLength(1)
    await parley.app.domain.deletion.eraseHuman(parley.admin, { id: gone.id, messages: true })
    expect(await found(ada, 'vanishing')).toEqual([])
  })
})
