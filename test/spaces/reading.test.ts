import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { HumanViewer } from '../../src/access/viewer.ts'
import type { Agent } from '../../src/agents/agents.ts'
import type { SignalPayload } from '../../src/broker/topics.ts'
import { messagesRequest } from '../../src/graphql/connections.ts'
import { newId } from '../../src/lib/ids.ts'
import type { PageArguments } from '../../src/lib/page.ts'
import { messageOfRow } from '../../src/rules/message.ts'
import { type Domain, openDomain, RULE_DATABASES } from '../support/domain.ts'

describe.each(RULE_DATABASES)('reading on %s', (database) => {
  let domain: Domain
  let ada: HumanViewer
  let bob: HumanViewer
  let helper: Agent

  beforeAll(async () => {
    domain = await openDomain(database)
    ada = await domain.human('Ada')
    bob = await domain.human('Bob')
    helper = await domain.agent('Helper')
    await domain.space(domain.admin, [ada.id, bob.id])
  })
  afterAll(() => domain.close())

  async function spaceWith(count: number, senderId = ada.id) {
    const { id } = await domain.space(domain.admin, [ada.id, bob.id, helper.id])
    const ids: string[] = []
    for (let i = 0; i < count; i++) ids.push((await domain.message(id, senderId)).id)
    return { id, ids }
  }

  /** Returns the page as the `seq`s of its messages, and both flags. */
  async function pageOf(spaceId: string, page: PageArguments) {
    const [answer] = await domain.reading.pageMany([spaceId], messagesRequest(page))
    if (answer === undefined || 'code' in answer) return answer?.code
    return [answer.items.map(({ seq }) => seq), answer.hasPreviousPage, answer.hasNextPage]
  }

  describe('pages of messages', () => {
    let space: { id: string; ids: string[] }
    const at = (seq: number) => space.ids[seq - 1]!
    beforeAll(async () => {
      space = await spaceWith(60)
    })

    test('without a page size the last 50 messages are returned, in seq order', async () => {
      const fifty = Array.from({ length: 50 }, (_, index) => index + 11)
      expect(await pageOf(space.id, {})).toEqual([fifty, true, false])
      expect(await pageOf(space.id, { before: at(4) })).toEqual([[1, 2, 3], false, true])
    })

    test('when paging from either end, with a message id as the cursor, both flags are exact', async () => {
      expect(await pageOf(space.id, { first: 3 })).toEqual([[1, 2, 3], false, true])
      expect(await pageOf(space.id, { last: 3 })).toEqual([[58, 59, 60], true, false])
      expect(await pageOf(space.id, { first: 2, after: at(3) })).toEqual([[4, 5], true, true])
      expect(await pageOf(space.id, { first: 9, after: at(58) })).toEqual([[59, 60], true, false])
      expect(await pageOf(space.id, { last: 2, before: at(3) })).toEqual([[1, 2], false, true])
      expect(await pageOf(space.id, { last: 2, before: at(9), after: at(1) })).toEqual([[7, 8], true, true])
      expect(await pageOf(space.id, { first: 2, after: at(1), before: at(9) })).toEqual([[2, 3], true, true])
      expect(await pageOf(space.id, { first: 60 })).toEqual([space.ids.map((_, index) => index + 1), false, false])
    })

    test('an empty page has the right flags', async () => {
      expect(await pageOf(space.id, { first: 5, after: at(60) })).toEqual([[], true, false])
      expect(await pageOf(space.id, { last: 5, before: at(1) })).toEqual([[], false, true])
      expect(await pageOf(space.id, { first: 5, after: at(7), before: at(8) })).toEqual([[], true, true])
      expect(await pageOf(space.id, { first: 5, after: at(9), before: at(3) })).toEqual([[], true, true])
      const empty = await domain.space(ada)
      expect(await pageOf(empty.id, {})).toEqual([[], false, false])
      expect(await pageOf(newId('spc'), {})).toEqual([[], false, false])
    })

    test('a cursor of another space is invalid here, from any source', async () => {
      const other = await spaceWith(1)
      expect(await pageOf(space.id, { after: other.ids[0] })).toBe('BAD_INPUT')
      expect(await pageOf(space.id, { before: newId('msg') })).toBe('BAD_INPUT')
      for (const after of [newId('spc'), 'nonsense', '']) {
        expect(() => messagesRequest({ after })).toThrow(expect.objectContaining({ code: 'BAD_INPUT' }))
      }
      const pages = await domain.reading.pageMany([other.id, space.id], messagesRequest({ before: at(2), last: 1 }))
      expect(pages).toMatchObject([{ code: 'BAD_INPUT', field: 'before' }, { items: [{ id: at(1) }] }])
    })

    test('many spaces in one request each get their own page, in the requested order', async () => {
      const other = await spaceWith(2)
      const pages = await domain.reading.pageMany([other.id, space.id, other.id], messagesRequest({ last: 1 }))
      const ids = pages.map((page) => ('items' in page ? page.items[0]?.id : page.code))
      expect(ids).toEqual([other.ids[1], at(60), other.ids[1]])
    })
  })

  test('messages can be read by id, the last of each space, and with outcomes', async () => {
    const { reading, platform } = domain
    const space = await spaceWith(2)
    const none = await domain.space(ada)
    const got = await reading.getMany([space.ids[1]!, newId('msg'), space.ids[0]!, '\0'])
    expect(got.map((message) => message?.id)).toEqual([space.ids[1], undefined, space.ids[0], undefined])
    const last = await reading.lastMany([space.id, none.id])
    expect([...last].map(([id, message]) => [id, message.id])).toEqual([[space.id, space.ids[1]]])
    const outcome = { messageId: space.ids[0]!, agentId: helper.id, kind: 'NOT_ROUTED' as const }
    await platform.db.prisma.outcome.create({ data: outcome })
    expect(await reading.outcomesMany(space.ids)).toEqual(
      new Map([[space.ids[0], [expect.objectContaining({ ...outcome, reason: null, error: null, runId: null })]]]),
    )
  })

  describe('the read marker', () => {
    const unread = async (viewer: HumanViewer, spaceId: string) => {
      const count =
        (await domain.reading.unreadOfMany([{ humanId: viewer.id, spaceId }])).get(viewer.id)?.get(spaceId)?.messages ??
        0
      const first = (await domain.reading.firstUnreadMany(viewer.id, [spaceId])).get(spaceId)
      return [count, first?.seq ?? null]
    }

    test('messages of others after the read mark are unread, the viewer’s own are not', async () => {
      const space = await spaceWith(3)
      await domain.message(space.id, bob.id)
      expect(await unread(bob, space.id)).toEqual([3, 1])
      expect(await unread(ada, space.id)).toEqual([1, 4])
      const elsewhere = await domain.human('Elsewhere')
      expect(await unread(elsewhere, space.id)).toEqual([0, null])
    })

    test('the read mark moves forward and never back', async () => {
      const space = await spaceWith(3)
      const mark = (seq: number) => domain.reading.markRead(bob, { spaceId: space.id, messageId: space.ids[seq - 1]! })
      expect(await mark(2)).toMatchObject({ id: space.id })
      expect(await unread(bob, space.id)).toEqual([1, 3])
      await mark(1)
      expect(await unread(bob, space.id)).toEqual([1, 3])
      await Promise.all([mark(3), mark(1), mark(2)])
      expect(await unread(bob, space.id)).toEqual([0, null])
    })

    test('the total covers all of the viewer’s spaces', async () => {
      const carl = await domain.human('Carl')
      expect(await domain.reading.unreadTotal(carl.id)).toEqual({ messages: 0, mentions: 0 })
      for (const count of [2, 3]) {
        const space = await domain.space(domain.admin, [carl.id, ada.id])
        for (let i = 0; i < count; i++) await domain.message(space.id, ada.id)
        await domain.message(space.id, carl.id)
      }
      expect(await domain.reading.unreadTotal(carl.id)).toEqual({ messages: 5, mentions: 0 })
    })

    test('a change is published to the reader, a repeated one is not', async () => {
      const space = await spaceWith(2)
      const last = { type: 'member-left' as const, spaceId: space.id }
      const heard: SignalPayload[] = []
      const stop = await domain.platform.signals.subscribe(`entity:${bob.id}`, (payload) => void heard.push(payload))
      for (const messageId of [space.ids[1]!, space.ids[0]!, space.ids[1]!]) {
        await domain.reading.markRead(bob, { spaceId: space.id, messageId })
      }
      await domain.platform.signals.publish(`entity:${bob.id}`, last)
      await expect.poll(() => heard.at(-1)).toEqual(last)
      expect(heard).toEqual([{ type: 'read', spaceId: space.id }, last])
      stop()
    })

    test('an admin has no read mark; a hidden space or message is not found', async () => {
      const space = await spaceWith(1)
      const other = await spaceWith(1)
      const own = await domain.space(ada)
      const input = { spaceId: space.id, messageId: space.ids[0]! }
      await expect(domain.reading.markRead(domain.admin, input)).rejects.toMatchObject({ code: 'FORBIDDEN' })
      const service = await domain.service('Jira', null)
      const notFound = { code: 'NOT_FOUND' }
      await expect(domain.reading.markRead(service, input)).rejects.toMatchObject(notFound)
      const foreign = { spaceId: space.id, messageId: other.ids[0]! }
      await expect(domain.reading.markRead(bob, foreign)).rejects.toMatchObject(notFound)
      await expect(domain.reading.markRead(bob, { ...input, messageId: '\0' })).rejects.toMatchObject(notFound)
      await expect(domain.reading.markRead(bob, { ...input, spaceId: own.id })).rejects.toMatchObject(notFound)
    })
  })

  describe('the text of an unfinished message', () => {
    const streaming = async (parts: object[]) => {
      const space = await domain.space(domain.admin, [helper.id])
      return messageOfRow(await domain.message(space.id, helper.id, { status: 'STREAMING', parts }))
    }
    const grow = (messageId: string, partIndex: number, delta: string) =>
      domain.platform.log.appendDelta('space:x', { messageId, partIndex, offset: 0, delta }, () => delta)

    test('is the streamed text so far, next to the complete parts', async () => {
      const tool = { type: 'tool', toolCallId: newId('tcl') }
      const message = await streaming([{ type: 'text', text: 'Whole.' }, tool])
      await grow(message.id, 2, 'Half a sen')
      const [filled] = await domain.reading.withDraftText([message])
      expect(filled?.parts).toEqual([{ type: 'text', text: 'Whole.' }, tool, { type: 'text', text: 'Half a sen' }])
      expect(message.parts).toHaveLength(2)
    })

    test('is at its index even before the parts in between are complete', async () => {
      const message = await streaming([])
      await grow(message.id, 1, 'Second')
      const [filled] = await domain.reading.withDraftText([message])
      expect(filled?.parts).toEqual([
        { type: 'text', text: '' },
        { type: 'text', text: 'Second' },
      ])
    })

    test('is the text of the row if the log has lost it or has less of it', async () => {
      const lost = await streaming([{ type: 'text', text: 'kept' }])
      const shorter = await streaming([{ type: 'text', text: 'whole text' }])
      await grow(shorter.id, 0, 'whole')
      expect(await domain.reading.withDraftText([lost, shorter])).toEqual([lost, shorter])
    })

    test('is ignored once the message is complete', async () => {
      const space = await spaceWith(1)
      const messages = (await domain.reading.getMany(space.ids)).filter((message) => message !== null)
      await grow(space.ids[0]!, 0, 'a draft that outlived it, and is longer')
      expect(await domain.reading.withDraftText(messages)).toEqual(messages)
    })
  })
})
