import { Readable } from 'node:stream'
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import type { HumanViewer, Viewer } from '../../src/access/viewer.ts'
import { createTextEmbedding, EMBEDDED_CHARACTERS, endTextEmbedding } from '../../src/flows/embed-texts.ts'
import { Prisma } from '../../src/generated/prisma/client.ts'
import { type Embedder, EmbeddingRefusedError } from '../../src/lib/embedder.ts'
import { decodePageCursor } from '../../src/lib/page.ts'
import { createSearch } from '../../src/spaces/search.ts'
import { openStores, STACKS, type Stores } from '../support/application.ts'
import {
  type EmbeddingServer,
  embedded,
  hasPgvector,
  startEmbeddingServer,
  VECTOR_STACKS,
} from '../support/embedding-server.ts'
import { hasPostgres } from '../support/postgres.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'

const SEARCH = `query ($query: String!, $order: SearchOrder! = BEST, $spaceId: ID, $after: String, $first: Int) {
  search(query: $query, order: $order, spaceId: $spaceId, after: $after, first: $first) {
    edges { node { message { text } file { name } snippet matches } } pageInfo { hasNextPage endCursor } } }`

interface Found {
  search: {
    edges: { node: { message: { text: string }; file: { name: string } | null; snippet: string; matches: unknown[] } }[]
    pageInfo: { hasNextPage: boolean; endCursor: string | null }
  }
}

async function ask(parley: TestServer, viewer: Viewer, variables: object) {
  const client = await parley.clientOf(viewer)
  return client.ask<Found>(SEARCH, variables)
}

async function find(parley: TestServer, viewer: Viewer, query: string, variables: object = {}): Promise<string[]> {
  const { data, errors } = await ask(parley, viewer, { query, ...variables })
  expect(errors).toBeUndefined()
  return data!.search.edges.map(({ node }) => node.file?.name ?? node.message.text)
}

async function sendFile(parley: TestServer, sender: HumanViewer, spaceId: string, name: string, text: string) {
  const body = Readable.from([Buffer.from(text)])
  const { id } = await parley.app.domain.files.upload(sender, { name, body, bytes: null })
  return parley.app.domain.sending.send(sender, { spaceId, text: 'See this', fileIds: [id] })
}

describe.each(VECTOR_STACKS)('search by meaning, on the %s stack', (stack) => {
  let parley: TestServer
  let model: EmbeddingServer
  let ada: HumanViewer
  let bob: HumanViewer
  let team: string
  let secret: string
  beforeAll(async () => {
    model = await startEmbeddingServer()
    parley = await startTestServer({ stack, isFresh: true, settings: model.settings() })
    ada = await parley.human('Ada')
    bob = await parley.human('Bob')
    team = (await parley.space(ada, [])).id
    await parley.app.domain.members.add(parley.admin, { spaceId: team, entityId: bob.id })
    secret = (await parley.space(ada, [], { confidential: true })).id
    for (const text of ['The automobile is red', 'A feline sleeps', 'Nothing of the kind'])
      await parley.send(ada, team, text)
    await parley.send(ada, secret, 'The vehicle of the boss')
    await embedded(parley)
  })
  beforeEach(() => {
    model.state.isDown = false
    model.state.refuses = null
  })
  afterAll(async () => {
    await parley?.close()
    await model?.close()
  })

  test('finds texts that use other words with the same meaning, only by BEST, and not for quoted words', async () => {
    expect(await find(parley, bob, 'car')).toEqual(['The automobile is red'])
    expect(await find(parley, bob, 'cat')).toEqual(['A feline sleeps'])
    expect(await find(parley, bob, 'car', { order: 'NEWEST' })).toEqual([])
    expect(await find(parley, bob, '"car"')).toEqual([])
    const { data } = await ask(parley, bob, { query: 'car' })
    expect(data!.search.edges[0]!.node).toMatchObject({ snippet: 'The automobile is red', matches: [] })
  })

  test('finds nothing in spaces that the viewer may not read', async () => {
    expect(await find(parley, ada, 'car')).toHaveLength(2)
    expect(await find(parley, bob, 'car', { spaceId: secret })).toEqual([])
    const service = { scope: 'SERVICE', id: 'acc_x', tokenId: null, expiresAt: null } as unknown as Viewer
    const none = { query: 'car', spaceId: null, senderId: null, hasFile: null, since: null, until: null }
    const page = await parley.app.domain.search.find(service, { ...none, order: 'BEST' }, { size: 10, after: null })
    expect(page.items).toEqual([])
  })

  test('ranks the text first that matches by words and by meaning', async () => {
    await parley.send(ada, team, 'vehicle of a stranger')
    await parley.send(ada, team, 'my vehicle')
    await embedded(parley)
    const texts = await find(parley, bob, 'my vehicle')
    expect(texts[0]).toBe('my vehicle')
    expect(texts).toContain('The automobile is red')
  })

  test('pages contain each hit once', async () => {
    const whole = await find(parley, ada, 'my vehicle')
    const texts: string[] = []
    for (let after: string | null = null; ; ) {
      const { data } = await ask(parley, ada, { query: 'my vehicle', first: 1, after })
      texts.push(...data!.search.edges.map(({ node }) => node.message.text))
      if (!data!.search.pageInfo.hasNextPage) break
      after = data!.search.pageInfo.endCursor
      // A newer message does not change the positions of the others.
      if (texts.length === 1) await parley.send(ada, team, 'my vehicle again')
    }
    expect(texts).toEqual(whole)
  })

  test('a cursor does not reveal when messages were posted in a space that the viewer may not read', async () => {
    const { message } = await parley.send(ada, secret, 'The vehicle of the night')
    const { data } = await ask(parley, bob, { query: 'my vehicle', first: 1 })
    const { endCursor } = data!.search.pageInfo
    expect(decodePageCursor(endCursor!)).toMatch(/msg_[^"]+"\]$/)
    expect(decodePageCursor(endCursor!)).not.toContain(message.id)
  })

  test('a worker that starts without the setting does not stop the embedding of new messages', async () => {
    await endTextEmbedding(parley.app.platform)
    await parley.send(ada, team, 'badger')
    await embedded(parley)
    expect(await find(parley, bob, 'badger unheard')).toContain('badger')
  })

  test('follows an edit and a deletion', async () => {
    const { message } = await parley.send(ada, team, 'zebra')
    await embedded(parley)
    expect(await find(parley, bob, 'automobile zebra')).toContain('zebra')
    await parley.app.domain.messageChanges.edit(ada, { messageId: message.id, text: 'feline' })
    await embedded(parley)
    expect(await find(parley, bob, 'automobile zebra')).not.toContain('feline')
    expect(await find(parley, bob, 'cat')).toContain('feline')
    await parley.app.domain.messageChanges.delete(ada, { messageId: message.id })
    expect(await find(parley, bob, 'cat')).toEqual(['A feline sleeps'])
    const { prisma } = parley.app.platform.db
    expect(await prisma.searchVector.count({ where: { messageId: message.id } })).toBe(0)
  })

  test('finds files by their names and texts', async () => {
    await sendFile(parley, ada, team, 'notes.txt', 'about giraffes')
    await until('the text of the file is known', async () => (await find(parley, bob, 'giraffes')).length > 0)
    await embedded(parley)
    expect(await find(parley, bob, 'giraffes notes unheard')).toContain('notes.txt')
  })

  test('erased people leave no vectors', async () => {
    const eve = await parley.human('Eve')
    await parley.app.domain.members.add(parley.admin, { spaceId: team, entityId: eve.id })
    const { message } = await parley.send(eve, team, 'walrus')
    await embedded(parley)
    expect(await find(parley, bob, 'walrus unheard')).toEqual(['walrus'])
    await parley.app.domain.deletion.eraseHuman(parley.admin, { id: eve.id, messages: true })
    expect(await find(parley, bob, 'walrus unheard')).toEqual([])
    const { prisma } = parley.app.platform.db
    expect(await prisma.searchVector.count({ where: { messageId: message.id } })).toBe(0)
  })

  test('sends only the beginning of a long text, and none of the others while one is refused', async () => {
    model.state.refuses = 'poison'
    await parley.send(ada, team, `poison ${'long '.repeat(5000)}`)
    await parley.send(ada, team, 'pelican')
    await parley.send(ada, team, `pelican ${'x'.repeat(20_000)}`)
    await embedded(parley)
    expect(await find(parley, bob, 'pelican unheard')).toContain('pelican')
    expect(Math.max(...model.texts.map(({ text }) => text.length))).toBe(EMBEDDED_CHARACTERS)
    const [{ refused } = { refused: 0 }] = await parley.app.platform.db.prisma.$queryRaw<{ refused: number }[]>`
      SELECT count(*)::int AS refused FROM "SearchVector" WHERE vector = '{}'`
    expect(refused).toBe(1)
  })

  test('finds only words while the provider is down, and catches up afterwards', async () => {
    const first = await ask(parley, ada, { query: 'down vehicle', first: 1 })
    expect(first.data?.search.pageInfo.hasNextPage).toBe(true)
    model.state.isDown = true
    await parley.send(ada, team, 'otter')
    expect(await find(parley, bob, 'unheard automobile')).toEqual([])
    expect(await find(parley, bob, 'otter')).toEqual(['otter'])
    await until('an attempt has failed', async () => {
      const jobs = await parley.app.platform.db.prisma.$queryRaw<{ n: number }[]>`
        SELECT count(*)::int AS n FROM job WHERE name = 'embed-texts' AND state = 'retry'`
      return jobs[0]!.n > 0
    })
    model.state.isDown = false
    await embedded(parley)
    await until('queries are embedded again', async () => (await find(parley, bob, 'otter unheard')).includes('otter'))
  })

  test('the agent’s search tool finds by meaning what its run may read', async () => {
    const agent = await parley.agent('Rex')
    for (const spaceId of [team, secret])
      await parley.app.domain.members.add(parley.admin, { spaceId, entityId: agent.id })
    const run = { agentId: agent.id, places: [team], label: [], askers: [bob.id] }
    const { hits } = await parley.app.domain.search.findForRun(run, {
      query: 'car',
      spaceId: null,
      from: null,
      limit: 10,
    })
    const texts = hits.map(({ snippet }) => snippet)
    expect(texts).toContain('The automobile is red')
    expect(texts).not.toContain('The vehicle of the boss')
  })
})

describe.each(VECTOR_STACKS)('the model of the embeddings, on the %s stack', (stack) => {
  let stores: Stores
  let model: EmbeddingServer
  beforeAll(async () => {
    model = await startEmbeddingServer()
    stores = await openStores(stack)
  })
  afterAll(async () => {
    await stores?.close()
    await model?.close()
  })

  async function started(settings: Record<string, string>): Promise<TestServer> {
    return startTestServer({ ...stores.options, stack, isFresh: true, settings: { ...stores.settings, ...settings } })
  }

  test('a refused text and a rate limit do not prevent other texts from getting their vectors', async () => {
    const parley = await started({})
    const ada = await parley.human('Lin')
    const { id } = await parley.space(ada, [])
    for (let n = 0; n < 11; n += 1) await parley.send(ada, id, `text ${n}`)
    await parley.send(ada, id, 'poison')
    let left = 0
    const embedder: Embedder = {
      model: 'limited',
      async embed(texts) {
        if (left === 0) throw new Error('too many requests')
        left -= 1
        if (texts.includes('poison')) throw new EmbeddingRefusedError('refused')
        return texts.map(() => [1, 0])
      },
    }
    const { prisma } = parley.app.platform.db
    const job = createTextEmbedding(parley.app.platform, embedder)
    const context = { signal: new AbortController().signal, attempt: 1, complete: async () => {} }
    for (let attempt = 1; attempt <= 8; attempt += 1) {
      left = 3
      await job.handle({}, context).catch(() => {})
    }
    const vectors = await prisma.searchVector.findMany({ select: { vector: true } })
    expect(vectors.map(({ vector }) => vector.length).toSorted()).toEqual([0, ...Array(11).fill(2)])
    await endTextEmbedding(parley.app.platform)
    await prisma.searchVector.deleteMany()
    await parley.close()
  })

  test('is that of the worker that started last: one with another model warns once, and embeds no more', async () => {
    const parley = await started({})
    const ada = await parley.human('Mia')
    const { id } = await parley.space(ada, [])
    await parley.send(ada, id, 'the first')
    const { platform } = parley.app
    const texts: string[] = []
    const warnings: object[] = []
    const logger = { ...platform.logger, warn: (details: object) => warnings.push(details) } as typeof platform.logger
    const worker = (name: string) =>
      createTextEmbedding(
        { ...platform, logger },
        {
          model: name,
          async embed(given) {
            // The other texts come from the previous test.
            texts.push(...given.filter((text) => text.startsWith('the ')).map((text) => `${name}: ${text}`))
            return given.map(() => [1, 0])
          },
        },
      )
    const [first, second] = [worker('first'), worker('second')]
    const context = { signal: new AbortController().signal, attempt: 1, complete: async () => {} }
    await first.handle({}, context)
    await second.handle({}, context)
    await parley.send(ada, id, 'the second')
    for (const job of [first, first, second, first]) await job.handle({}, context)
    expect(texts).toEqual(['first: the first', 'second: the first', 'second: the second'])
    expect(warnings).toEqual([{ model: 'first', other: 'second' }])
    const { prisma } = platform.db
    const models = async () =>
      (await prisma.searchVector.groupBy({ by: ['model'], _count: true })).map((one) => one.model)
    expect(await models()).toEqual(['second'])

    // Starting a worker without the setting stops all embedding. Each worker that still has the setting then resumes it.
    await endTextEmbedding(platform)
    await parley.send(ada, id, 'the third')
    for (const job of [second, second]) await job.handle({}, context)
    expect(texts.at(-1)).toBe('second: the third')
    expect(warnings.slice(1)).toEqual([{ model: 'second', other: null }])
    await endTextEmbedding(platform)
    await prisma.searchVector.deleteMany()
    await parley.close()
  })

  test('is set, changed, removed and set again: old texts are embedded once per model', async () => {
    let parley = await started({})
    const ada = await parley.human('Ada')
    const { id } = await parley.space(ada, [])
    await parley.send(ada, id, 'The automobile is red')
    const { message } = await parley.send(ada, id, 'First text')
    expect(await find(parley, ada, 'car')).toEqual([])
    expect(await parley.app.platform.db.prisma.searchVector.count()).toBe(0)
    await parley.close()

    parley = await started(model.settings())
    await embedded(parley)
    expect(await find(parley, ada, 'car')).toEqual(['The automobile is red'])
    await parley.close()

    parley = await started(model.settings('narrow'))
    await embedded(parley)
    expect(await find(parley, ada, 'car')).toEqual(['The automobile is red'])
    const { prisma } = parley.app.platform.db
    const models = async () =>
      (await prisma.searchVector.groupBy({ by: ['model'], _count: true })).map((one) => one.model)
    expect(await models()).toEqual(['embeddings:narrow'])
    await parley.close()

    parley = await started({})
    await parley.app.domain.messageChanges.edit(ada, { messageId: message.id, text: 'A feline' })
    expect(await find(parley, ada, 'car')).toEqual([])
    await parley.close()

    model.texts.length = 0
    parley = await started(model.settings('narrow'))
    await embedded(parley)
    expect(await find(parley, ada, 'cat')).toEqual(['A feline'])
    expect(model.texts.map(({ text }) => text)).toEqual(['A feline', 'cat'])
    await parley.close()
  })
})

describe.each(STACKS)('pages of a search by meaning, on the %s stack', (stack) => {
  const MODEL = 'stub'
  const none = { spaceId: null, senderId: null, hasFile: null, since: null, until: null, order: 'BEST' } as const
  let parley: TestServer
  /** Whether the provider responds. */
  let isThere = true
  const asked: string[] = []
  const meaning = {
    async vectorOf(query: string) {
      asked.push(query)
      // The vector of a text contains its distance from each query.
      return isThere
        ? { model: MODEL, dimension: 1, distanceSql: (vector: Prisma.Sql) => Prisma.sql`(${vector})[1]::float8` }
        : null
    },
  }
  beforeAll(async () => {
    parley = await startTestServer({ stack, worker: false, isFresh: true })
  })
  beforeEach(() => {
    isThere = true
    asked.length = 0
  })
  afterAll(() => parley?.close())

  const search = () => createSearch(parley.app.platform, { meaning })
  const textsOf = ({ items }: { items: readonly { snippet: string }[] }) => items.map(({ snippet }) => snippet)
  const withVector = async ({ message }: { message: { id: string } }, distance: number) => {
    const data = { messageId: message.id, fileId: '', vector: [distance], model: MODEL }
    await parley.app.platform.db.prisma.searchVector.create({ data })
  }

  test('continue with the vector with which they began, and refuse to continue without it', async () => {
    const ada = await parley.human('Ada')
    const { id } = await parley.space(ada, [])
    for (const [n, text] of ['kite one', 'two', 'three', 'kite four'].entries())
      await withVector(await parley.send(ada, id, text), n / 10)
    const filter = { ...none, query: 'kite' }
    const whole = textsOf(await search().find(ada, filter, { size: 10, after: null }))
    expect(whole.toSorted()).toEqual(['kite four', 'kite one', 'three', 'two'])
    const texts: string[] = []
    for (let after: string | null = null; ; ) {
      const page = await search().find(ada, filter, { size: 1, after })
      texts.push(...textsOf(page))
      after = page.items.at(-1)?.cursor ?? null
      if (!page.hasNextPage) break
      isThere = false
      await expect(search().find(ada, filter, { size: 1, after })).rejects.toMatchObject({ field: 'after' })
      isThere = true
    }
    expect(texts).toEqual(whole)
  })

  test('that began by words continue by words, and ask for no vector', async () => {
    const ada = await parley.human('Ada')
    const { id } = await parley.space(ada, [])
    for (const text of ['heron one', 'heron two', 'near']) await withVector(await parley.send(ada, id, text), 0)
    const filter = { ...none, query: 'heron', spaceId: id }
    isThere = false
    const first = await search().find(ada, filter, { size: 1, after: null })
    expect([textsOf(first), first.hasNextPage]).toEqual([['heron two'], true])
    isThere = true
    const second = await search().find(ada, filter, { size: 10, after: first.items[0]!.cursor })
    expect(textsOf(second)).toEqual(['heron one'])
    expect(asked).toEqual(['heron'])
  })

  test.runIf(stack === 'embedded')(
    'compare the newest texts of the spaces only, whichever of them a filter selects',
    async () => {
      const [ada, bob] = [await parley.human('Ada'), await parley.human('Bob')]
      const { id: spaceId } = await parley.space(ada, [])
      await parley.app.domain.members.add(parley.admin, { spaceId, entityId: bob.id })
      const old = await parley.send(bob, spaceId, 'old')
      await withVector(old, 0)
      const { prisma } = parley.app.platform.db
      const more = (from: number, to: number) => prisma.$executeRaw`
      INSERT INTO "Message" (id, "spaceId", seq, "senderId", status, parts, "rootId", depth)
      SELECT left('msg_f' || md5(n::text), 36), ${spaceId}, n, ${ada.id}, 'COMPLETE',
        '[{"type":"text","text":"filler"}]', ${old.message.id}, 0 FROM generate_series(${from}::int, ${to}::int) n`
      const found = async () =>
        textsOf(await search().find(ada, { ...none, query: 'elder', senderId: bob.id }, { size: 10, after: null }))
      await more(2, 4000)
      expect(await found()).toEqual(['old'])
      await more(4001, 4001)
      expect(await found()).toEqual([])
    },
  )
})

describe.skipIf(hasPgvector || !hasPostgres)('a PostgreSQL server without pgvector', () => {
  test('finds only words, and the server starts', async () => {
    const model = await startEmbeddingServer()
    const parley = await startTestServer({ stack: 'postgres', isFresh: true, settings: model.settings() })
    const ada = await parley.human('Ada')
    const { id } = await parley.space(ada, [])
    await parley.send(ada, id, 'The automobile is red')
    expect(await find(parley, ada, 'automobile')).toHaveLength(1)
    expect(await find(parley, ada, 'car')).toEqual([])
    expect(model.texts).toEqual([])
    await parley.close()
    await model.close()
  })
})

describe.skipIf(!hasPostgres)('a comparison that takes too long, on PostgreSQL', () => {
  test('returns only the hits by words', async () => {
    const parley = await startTestServer({ stack: 'postgres' })
    const ada = await parley.human('Ada')
    const { id } = await parley.space(ada, [])
    const { message } = await parley.send(ada, id, 'The automobile is red')
    const { prisma } = parley.app.platform.db
    await prisma.searchVector.create({ data: { messageId: message.id, fileId: '', vector: [1, 0], model: 'slow' } })
    const slow = { model: 'slow', dimension: 2, distanceSql: () => Prisma.sql`(SELECT 0::float8 FROM pg_sleep(60))` }
    const meaning = { vectorOf: async () => slow }
    const search = createSearch(parley.app.platform, { meaning })
    const none = { spaceId: null, senderId: null, hasFile: null, since: null, until: null }
    const page = { size: 10, after: null }
    const { items } = await search.find(ada, { ...none, query: 'automobile', order: 'BEST' }, page)
    expect(items.map(({ snippet }) => snippet)).toEqual(['The automobile is red'])
    // Further pages do not try to search by meaning again.
    await parley.send(ada, id, 'An automobile')
    const first = await search.find(ada, { ...none, query: 'automobile', order: 'BEST' }, { size: 1, after: null })
    const after = first.items[0]!.cursor
    const asks = vi.spyOn(meaning, 'vectorOf')
    const second = await search.find(ada, { ...none, query: 'automobile', order: 'BEST' }, { size: 1, after })
    expect([...first.items, ...second.items].map(({ snippet }) => snippet).toSorted()).toEqual([
      'An automobile',
      'The automobile is red',
    ])
    expect(asks).not.toHaveBeenCalled()
    await parley.close()
  }, 30_000)
})
