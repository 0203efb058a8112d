import { Readable } from 'node:stream'
import fc from 'fast-check'
import sharp from 'sharp'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { HumanViewer } from '../../src/access/viewer.ts'
import { decodePageCursor } from '../../src/lib/page.ts'
import type { SearchHit, SearchOrder } from '../../src/spaces/search.ts'
import { RULE_STACKS, startApplication, type TestApplication } from '../support/application.ts'
import { runsOf } from '../support/effort.ts'
import { type EmbeddingServer, embedded, startEmbeddingServer, VECTOR_STACKS } from '../support/embedding-server.ts'
import { until } from '../support/until.ts'

/** One action in the rooms. Its numbers are taken modulo the number of people, spaces and messages. */
interface Happening {
  does: 'say' | 'reply' | 'sendFile' | 'edit' | 'delete' | 'leave' | 'join' | 'close' | 'erase'
  person: number
  space: number
  message: number
}

const PEOPLE = 4
const SPACES = 10
const happening: fc.Arbitrary<Happening> = fc.record({
  does: fc.oneof(
    { weight: 6, arbitrary: fc.constant('say' as const) },
    {
      weight: 2,
      arbitrary: fc.constantFrom('reply' as const, 'sendFile' as const, 'edit' as const, 'delete' as const),
    },
    { weight: 2, arbitrary: fc.constantFrom('leave' as const, 'join' as const, 'close' as const) },
    { weight: 1, arbitrary: fc.constant('erase' as const) },
  ),
  person: fc.nat(PEOPLE - 1),
  space: fc.nat(SPACES - 1),
  message: fc.nat(1000),
})

/** A word that occurs once in all texts. */
interface Said {
  messageId: string
  senderId: string
  spaceId: string
  word: string
}

/** A picture that has been sent. */
interface Sent {
  fileId: string
  messageId: string
}

/** Every text and every file also contains this word. */
const COMMON = 'heron'

/** A stack that supports vectors, on which search by meaning can run. */
const WAYS = [
  ...RULE_STACKS.map((stack) => ({ stack, by: 'words' })),
  ...VECTOR_STACKS.slice(-1).map((stack) => ({ stack, by: 'meaning' })),
]

describe.each(WAYS)('search by $by in random spaces, on the $stack stack', ({ stack, by }) => {
  let parley: TestApplication
  let model: EmbeddingServer
  let words = 0
  let picture: Buffer
  beforeAll(async () => {
    const create = { width: 8, height: 8, channels: 3, background: '#396' } as const
    picture = await sharp({ create }).png().toBuffer()
    model = await startEmbeddingServer()
    const settings = by === 'meaning' ? model.settings() : {}
    parley = await startApplication({ stack, isFresh: true, settings })
  })
  afterAll(async () => {
    await parley?.close()
    await model?.close()
  })

  function newWord(): string {
    words += 1
    return `wq${words}xz`
  }

  async function pagesOf(viewer: HumanViewer, query: string, order: SearchOrder, spaceId: string | null) {
    const filter = { query, spaceId, senderId: null, hasFile: null, since: null, until: null, order }
    const hits: SearchHit[] = []
    for (let after: string | null = null; ; after = hits.at(-1)?.cursor ?? null) {
      const page = await parley.app.domain.search.find(viewer, filter, { size: 3, after })
      hits.push(...page.items)
      if (!page.hasNextPage) return hits
    }
  }

  async function play(happenings: Happening[]): Promise<void> {
    const { domain } = parley.app
    const people = await Promise.all(Array.from({ length: PEOPLE }, (_, index) => parley.human(`Person ${index}`)))
    const [host, ...others] = people as [HumanViewer, ...HumanViewer[]]
    const spaces: string[] = []
    const members = new Map<string, Set<string>>()
    async function join(spaceId: string, { id: entityId }: HumanViewer): Promise<void> {
      if (members.get(spaceId)!.has(entityId)) return
      await domain.members.add(parley.admin, { spaceId, entityId })
      members.get(spaceId)!.add(entityId)
    }
    for (let index = 0; index < SPACES; index += 1) {
      const { id } = await parley.space(host, [], { name: `Room ${index}` })
      spaces.push(id)
      members.set(id, new Set([host.id]))
      // At first, each of the other people is in every second space.
      const joining = others.filter((_, other) => (index + other) % 2 === 0)
      await Promise.all(joining.map((person) => join(id, person)))
    }

    const pictures: Sent[] = []
    let said: Said[] = []
    const gone: string[] = []
    const erased = new Set<string>()
    const forget = (is: (each: Said) => boolean) => {
      gone.push(...said.filter(is).map(({ word }) => word))
      said = said.filter((each) => !is(each))
    }

    interface Chosen {
      person: HumanViewer
      spaceId: string
      isMember: boolean
      old: Said | undefined
    }
    const isHost = (person: HumanViewer) => person === host

    async function leave({ person, spaceId, isMember }: Chosen): Promise<void> {
      if (!isMember || isHost(person)) return
      await domain.members.remove(person, { spaceId, entityId: person.id })
      members.get(spaceId)!.delete(person.id)
    }

    async function erase({ person }: Chosen): Promise<void> {
      if (isHost(person)) return
      await domain.deletion.eraseHuman(parley.admin, { id: person.id, messages: true })
      erased.add(person.id)
      for (const each of members.values()) each.delete(person.id)
      forget(({ senderId }) => senderId === person.id)
    }

    async function remove({ old }: Chosen): Promise<void> {
      if (old === undefined) return
      await domain.messageChanges.delete(parley.admin, { messageId: old.messageId })
      forget(({ messageId }) => messageId === old.messageId)
    }

    async function edit({ old }: Chosen): Promise<void> {
      const sender = people.find(({ id }) => id === old?.senderId)
      if (old === undefined || sender === undefined || !members.get(old.spaceId)!.has(sender.id)) return
      const word = newWord()
      const text = said.find((each) => each.messageId === old.messageId && !each.word.startsWith('wqf'))!
      await domain.messageChanges.edit(sender, { messageId: old.messageId, text: `${COMMON} ${word}` })
      gone.push(text.word)
      text.word = word
    }

    async function upload(person: HumanViewer, name: string, content: string | Buffer): Promise<string> {
      const body = Readable.from([Buffer.from(content)])
      return (await domain.files.upload(person, { name, body, bytes: null })).id
    }

    /** A text with the word, and a picture whose name contains it, which search by meaning would also find. */
    async function filesWith(person: HumanViewer, word: string): Promise<string[]> {
      const text = await upload(person, `${word}.txt`, `${COMMON} ${word}`)
      return by === 'words' ? [text, await upload(person, 'picture.png', picture)] : [text]
    }

    async function say({ person, spaceId, isMember }: Chosen, fileWord?: string, replyToId?: string): Promise<void> {
      if (!isMember) return
      const word = newWord()
      const fileIds = fileWord === undefined ? [] : await filesWith(person, fileWord)
      const input = { spaceId, text: `${COMMON} ${word}`, fileIds, replyToId: replyToId ?? null }
      const { message } = await domain.sending.send(person, input)
      if (fileIds[1] !== undefined) pictures.push({ fileId: fileIds[1], messageId: message.id })
      const it = { messageId: message.id, senderId: person.id, spaceId }
      for (const each of fileWord === undefined ? [word] : [word, fileWord]) said.push({ ...it, word: each })
    }

    const actions: Record<Happening['does'], (chosen: Chosen) => Promise<unknown>> = {
      say,
      reply: (chosen) =>
        say(chosen, undefined, chosen.old?.spaceId === chosen.spaceId ? chosen.old.messageId : undefined),
      sendFile: (chosen) => say(chosen, newWord().replace('wq', 'wqf')),
      edit,
      delete: remove,
      leave,
      join: ({ spaceId, person }) => join(spaceId, person),
      close: ({ spaceId }) => domain.spaces.update(parley.admin, { id: spaceId, confidential: true }),
      erase,
    }

    async function take({ does, person: who, space, message }: Happening): Promise<void> {
      const person = people[who]!
      const spaceId = spaces[space]!
      if (erased.has(person.id)) return
      const isMember = members.get(spaceId)!.has(person.id)
      await actions[does]({ person, spaceId, isMember, old: said[message % Math.max(said.length, 1)] })
    }
    for (const each of happenings) await take(each)

    for (const person of people.filter(({ id }) => !erased.has(id))) {
      const mayRead = said.filter(({ spaceId }) => members.get(spaceId)!.has(person.id))
      await expectFound(person, spaces, mayRead)
      for (const sent of pictures)
        await expectLoaded(person, sent, new Set(mayRead.map(({ messageId }) => messageId)).has(sent.messageId))
      // Words in other people's rooms, earlier words and deleted words find nothing, and neither do parts of them.
      const hidden = [...gone, ...said.filter((each) => !mayRead.includes(each)).map(({ word }) => word)]
      // Hidden words are similar in meaning to all texts, so a search for them finds exactly the texts that the person may
      // read.
      const close = by === 'meaning' ? mayRead.map(({ word }) => word).toSorted() : []
      for (const word of hidden) {
        expect(wordsIn(await pagesOf(person, word, 'BEST', null))).toEqual(close)
        expect(await pagesOf(person, word.slice(1, -1), 'NEWEST', null)).toEqual([])
      }
    }
  }

  const wordsIn = (hits: SearchHit[]) => hits.map(({ snippet }) => /wqf?\d+xz/.exec(snippet)?.[0] ?? snippet).toSorted()

  /**
   * The person can load the picture and its thumbnail, with a token and with a signed URL, if and only if the person may read
   * the message.
   */
  async function expectLoaded(person: HumanViewer, { fileId }: Sent, mayRead: boolean): Promise<void> {
    const { files } = parley.app.domain
    for (const variant of ['original', 'thumbnail'] as const) {
      const { searchParams } = new URL(files.addressOf(person, fileId, variant), 'http://localhost')
      const viewer = await files.viewerOfAddress(fileId, searchParams)
      for (const reader of [person, viewer!]) {
        const opened = await files.open(reader, fileId, variant).catch(({ code }) => code)
        expect(opened).toEqual(mayRead ? expect.objectContaining({ name: 'picture.png' }) : 'NOT_FOUND')
      }
    }
  }

  /** The positions of pages depend only on what the person may read. */
  function expectOwnCursors(hits: SearchHit[]): void {
    const ids = new Set(hits.map(({ message }) => message.id))
    for (const { cursor } of hits)
      for (const id of decodePageCursor(cursor).match(/msg_\w+/g) ?? []) expect(ids).toContain(id)
  }

  /** The person finds these texts and nothing else, in all spaces together and in each of them. */
  async function expectFound(person: HumanViewer, spaces: readonly string[], mayRead: readonly Said[]): Promise<void> {
    for (const order of ['BEST', 'NEWEST'] as const) {
      await until('the texts of files are indexed', async () => {
        const hits = await pagesOf(person, COMMON, order, null)
        return hits.length >= mayRead.length
      })
      // Embeddings that arrive between two pages change the ranks of hits.
      if (by === 'meaning') await embedded(parley)
      for (const spaceId of [null, ...spaces]) {
        const expected = mayRead.filter((each) => spaceId === null || each.spaceId === spaceId).map(({ word }) => word)
        const hits = await pagesOf(person, COMMON, order, spaceId)
        expect(wordsIn(hits)).toEqual(expected.toSorted())
        expectOwnCursors(hits)
      }
    }
  }

  test(
    'each user finds everything that they may read, page by page, and nothing else',
    async () => {
      const property = fc.asyncProperty(fc.array(happening, { minLength: 20, maxLength: 60 }), play)
      // In the long form, this runs in 10,000 spaces on three stacks.
      await fc.assert(property, { numRuns: runsOf({ usual: 3, nightly: 334 }), endOnFailure: true })
    },
    runsOf({ usual: 120_000, nightly: 3 * 3_600_000 }),
  )
})
