import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { importSpace } from '../../src/operation/import.ts'
import { exportSpace } from '../../src/operation/moving.ts'
import { createRetention } from '../../src/operation/retention.ts'
import { RULE_STACKS } from '../support/application.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { type Named, openStage, type Person, type Read, type Stage } from '../support/stage.ts'
import { until } from '../support/until.ts'

const DAY_MS = 86_400_000
const THREADS = `query ($id: ID!) {
  space(id: $id) { unreadCount messages { edges { node {
    id text replyTo { id } threadRoot { id } thread { replyCount unreadCount messages { edges { node { text } } } } } } } } }`
const MARK = `mutation ($input: MarkReadInput!) { markRead(input: $input) { __typename } }`
const WAKES = 'query ($spaceId: ID!, $replyToId: ID) { wakes(spaceId: $spaceId, replyToId: $replyToId) { name } }'
const DELETE = 'mutation ($id: ID!) { deleteSpace(input: { id: $id }) { __typename } }'
const ERASE = 'mutation ($id: ID!) { eraseHuman(input: { id: $id, messages: true }) { __typename } }'

describe.each(RULE_STACKS)('threads on the %s stack', (stack) => {
  let parley: TestServer
  let stage: Stage

  beforeAll(async () => {
    parley = await startTestServer({ stack })
    stage = await openStage(parley)
  })
  afterAll(() => parley?.close())

  const say = async (person: Person, space: Named, text: string, more: object = {}) =>
    (await stage.say(person, space, text, more)).sentMessage.id as string
  const spaceOf = async (at: Stage, { client }: Pick<Person, 'client'>, { id }: Named) => {
    const { unreadCount, messages } = await at.ask(client, THREADS, { id })
    return { unreadCount, messages: messages.edges.map(({ node }: Read) => node) }
  }
  const rowsOf = async (space: Named) => {
    const where = { spaceId: space.id }
    const { prisma } = parley.app.platform.db
    return [await prisma.threadReader.count({ where }), await prisma.threadTurn.count({ where })]
  }

  test('move with their space, with read marks and turns', async () => {
    const to = await startTestServer({ stack: 'embedded' })
    const there = await openStage(to)
    const [ann, bob] = [await stage.person('Ann'), await stage.person('Bob')]
    const [ada, bea] = [await stage.bot('Ada'), await stage.bot('Bea')]
    const space = await stage.space('Room', [ann, bob, ada, bea], { routing: 'MENTION_CHAIN' })
    const root = await say(ann, space, 'root')
    const one = await say(bob, space, 'one', { replyToId: root })
    await say(bob, space, 'two', { replyToId: one })
    await stage.ask(ann.client, MARK, { input: { spaceId: space.id, messageId: one } })
    await Promise.all([stage.endedRuns(ada, 2), stage.endedRuns(bea, 1)])
    await importSpace(to.app.platform, exportSpace(parley.app.platform, space.id))
    const client = await to.clientOf({ scope: 'HUMAN', id: ann.id, tokenId: null, expiresAt: null })
    const after = await spaceOf(there, { client }, space)
    expect(after).toEqual(await spaceOf(stage, ann, space))
    expect(after.messages[0].thread).toMatchObject({ replyCount: 2, unreadCount: 1 })
    expect(await there.ask(client, WAKES, { spaceId: space.id, replyToId: one })).toEqual([{ name: 'Ada' }])
    expect(await there.ask(client, WAKES, { spaceId: space.id })).toEqual([{ name: 'Bea' }])
    await to.close()
  })

  test('continue after retention has deleted their first message', async () => {
    const [ann, bob] = [await stage.person('Ann'), await stage.person('Bob')]
    const space = await stage.space('Room', [ann, bob], { routing: 'BROADCAST' })
    const { platform } = parley.app
    const createdAt = new Date(Date.now() - 3 * DAY_MS)
    const root = `msg_${createdAt.getTime().toString(16).padStart(12, '0')}${'0'.repeat(20)}`
    const id = await say(ann, space, 'root')
    await platform.db.prisma.message.update({ where: { id }, data: { id: root, createdAt } })
    const one = await say(bob, space, 'one', { replyToId: root })
    expect(await rowsOf(space)).toEqual([2, 0])
    const retention = { messagesDays: 2, runsDays: null, auditDays: null }
    await createRetention({ ...platform, config: { ...platform.config, retention } }).sweep()
    await say(ann, space, 'two', { replyToId: one })
    const { messages } = await spaceOf(stage, bob, space)
    expect(messages.map(({ text, replyTo, threadRoot }: Read) => [text, replyTo?.id ?? null, threadRoot])).toEqual([
      ['one', null, null],
      ['two', one, null],
    ])
    const { threadRootId } = await platform.db.prisma.message.findFirstOrThrow({ where: { replyToId: one } })
    expect(threadRootId).toBe(root)
    // Replies still count as unread for people who take part in the thread.
    expect(await rowsOf(space)).toEqual([2, 0])
    expect((await spaceOf(stage, bob, space)).unreadCount).toBe(1)
    // When a thread has no more messages, nothing is left of it.
    const { prisma } = platform.db
    const old = (at: number) => `msg_${(createdAt.getTime() + at).toString(16).padStart(12, '0')}${'0'.repeat(20)}`
    const replies = await prisma.message.findMany({ where: { threadRootId: root }, orderBy: { seq: 'asc' } })
    for (const [at, reply] of replies.entries())
      await prisma.message.update({ where: { id: reply.id }, data: { id: old(at + 1), createdAt } })
    await createRetention({ ...platform, config: { ...platform.config, retention } }).sweep()
    expect(await prisma.message.count({ where: { spaceId: space.id } })).toBe(0)
    expect(await rowsOf(space)).toEqual([0, 0])
  })

  test('keep nothing of an erased reader or a deleted space, and involve members only', async () => {
    const [ann, bob, cleo] = [await stage.person('Ann'), await stage.person('Bob'), await stage.person('Cleo')]
    const space = await stage.space('Room', [ann, bob, cleo], { routing: 'BROADCAST' })
    const root = await say(ann, space, 'root')
    await say(bob, space, 'one', { replyToId: root, mentionedIds: [cleo.id] })
    expect(await rowsOf(space)).toEqual([3, 0])
    await stage.ask(stage.admin, ERASE, { id: ann.id })
    await say(bob, space, 'two', { replyToId: root })
    expect(await rowsOf(space)).toEqual([2, 0])
    const { messages } = await spaceOf(stage, bob, space)
    expect(messages[0]).toMatchObject({ text: '', thread: { replyCount: 2 } })
    await stage.ask(stage.admin, DELETE, { id: space.id })
    await until('the rows are gone', async () => (await rowsOf(space)).every((count) => count === 0))
  })
})
