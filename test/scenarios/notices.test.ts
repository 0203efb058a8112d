import { describe, expect, test } from 'vitest'
import { RULE_STACKS } from '../support/application.ts'
import { decidersOn, openRoom, refund, refundTool } from '../support/decisions.ts'
import { playNotices } from '../support/notices.ts'
import type { Read } from '../support/stage.ts'
import { until } from '../support/until.ts'

const SETTINGS = '{ viewer { notificationSettings { push mail notifyAfterMinutes } pushPublicKey } }'
const LEVELS = '{ spaces { edges { node { id notifyLevel } } } }'
const SECRET = 'The merger is called Falcon'

describe.each(RULE_STACKS)('notices, on the %s stack', (stack) => {
  const play = playNotices(stack)
  const say = (...given: Parameters<typeof play.stage.say>) => play.stage.say(...given)
  const people = (...names: string[]) => Promise.all(names.map((name) => play.stage.person(name)))
  const levelIn = async (by: { client: Read }, space: Read) => {
    const { edges } = await play.stage.ask(by.client, LEVELS)
    return edges.find(({ node }: Read) => node.id === space.id).node.notifyLevel
  }
  /** Resolves once every job that could send something has been performed. */
  const settled = () =>
    until('no job is waiting', async () => {
      const [row] = await play.parley.app.platform.db.prisma.$queryRaw<{ count: number }[]>`
        SELECT count(*)::int AS count FROM job WHERE name IN ('notify', 'send-push') AND state < 'completed'`
      return row?.count === 0
    })

  test('a human has defaults, which they can change within limits; a viewer that is not a human has none', async () => {
    const [alice] = await people('Alice')
    const space = await play.stage.space('Room', [alice!], { routing: 'BROADCAST' })
    const { data } = await alice!.client.ask<Read>(SETTINGS)
    expect(data.viewer.notificationSettings).toEqual({ push: true, mail: false, notifyAfterMinutes: 15 })
    expect(Buffer.from(data.viewer.pushPublicKey, 'base64url')).toHaveLength(65)
    expect(await play.set(alice!, { push: false, notifyAfterMinutes: 0 })).toMatchObject({
      notificationSettings: { push: false, notifyAfterMinutes: 0 },
    })
    expect(await play.set(alice!, { push: null, mail: true, notifyAfterMinutes: 10_080 })).toMatchObject({
      notificationSettings: { push: false, mail: true, notifyAfterMinutes: 10_080 },
    })
    for (const notifyAfterMinutes of [-1, 10_081, 2_147_483_647])
      expect(await play.set(alice!, { notifyAfterMinutes })).toMatchObject({
        __typename: 'BadInputError',
        field: 'input.notifyAfterMinutes',
      })
    expect(await levelIn(alice!, space)).toBe('MENTIONS')
    expect(await play.level(alice!, space, 'NOTHING')).toMatchObject({ space: { notifyLevel: 'NOTHING' } })
    expect(await levelIn(alice!, space)).toBe('NOTHING')

    const operator = { client: play.stage.admin }
    const asOperator = await operator.client.ask<Read>(SETTINGS)
    expect(asOperator.data.viewer.notificationSettings).toBe(null)
    expect(await levelIn(operator, space)).toBe('ALL')
    const forbidden = { __typename: 'ForbiddenError' }
    expect(await play.set(operator, { push: true })).toMatchObject(forbidden)
    expect(await play.level(operator, space, 'ALL')).toMatchObject(forbidden)
    expect(await play.add(operator, play.push.browser().input)).toMatchObject(forbidden)
    expect(await play.remove(operator, 'https://push.example.com/')).toMatchObject(forbidden)
  })

  test('nobody can set the level for a space that they cannot see', async () => {
    const [alice, eve] = await people('Alice', 'Eve')
    const space = await play.stage.space('Room', [alice!], { routing: 'BROADCAST' })
    for (const id of [space.id, `spc_${'0'.repeat(32)}`, 'spc_', '\0'])
      expect(await play.level(eve!, { id, name: '' }, 'ALL')).toMatchObject({ __typename: 'NotFoundError' })
    expect(await levelIn(alice!, space)).toBe('MENTIONS')
  })

  test('a mention reaches the open page and each browser once, with only ids and a neutral line', async () => {
    const [alice, bob, carol] = await people('Alice', 'Bob', 'Carol')
    const space = await play.stage.space('Takeover of Acme', [alice!, bob!, carol!], {
      routing: 'BROADCAST',
      confidential: true,
    })
    const [phone, laptop, others] = [await play.browser(bob!), await play.browser(bob!), await play.browser(carol!)]
    const page = await play.page(bob!)
    const { sentMessage } = await say(alice!, space, SECRET, { mentionedIds: [bob!.id] })
    const ids = { spaceId: space.id, messageId: sentMessage.id, toolCallId: null, runId: null }
    await until('both browsers have a push', () => phone.pushes().length + laptop.pushes().length === 2)
    await until('the page has a notice', () => page.notices().length === 1)
    await settled()
    const pushed = {
      kind: 'MENTION',
      ...ids,
      text: 'Somebody mentioned you.',
      path: `/spaces/${space.id}#${sentMessage.id}`,
      topic: space.id,
    }
    expect(phone.pushes()).toEqual([pushed])
    expect(laptop.pushes()).toEqual([pushed])
    expect(page.notices()).toEqual([{ kind: 'MENTION', ...ids }])
    expect(others.pushes()).toEqual([])
    const [{ headers, body }] = play.push.received.slice(-1) as [Read]
    expect(headers).toMatchObject({ urgency: 'high', ttl: '86400', 'content-encoding': 'aes128gcm' })
    expect(headers['topic']).toMatch(/^[\w-]{32}$/)
    expect(headers['authorization']).toMatch(/^vapid t=[\w-]+\.[\w-]+\.[\w-]+, k=[\w-]+$/)
    const all = JSON.stringify([pushed, headers, body.toString('latin1')])
    for (const canary of ['Falcon', 'Acme', 'Alice', 'Bob']) expect(all).not.toContain(canary)
  })

  test('the level selects the messages that notify a member: ALL each one, NOTHING none', async () => {
    const [alice, bob, carol, dave] = await people('Alice', 'Bob', 'Carol', 'Dave')
    const space = await play.stage.space('Room', [alice!, bob!, carol!, dave!], { routing: 'BROADCAST' })
    // The server has cached the members of the space before their levels change.
    await say(alice!, space, 'Before')
    await play.level(bob!, space, 'ALL')
    await play.level(carol!, space, 'NOTHING')
    const browsers = [await play.browser(bob!), await play.browser(carol!), await play.browser(dave!)]
    const plain = await say(alice!, space, 'Hello')
    const named = await say(alice!, space, 'You three', { mentionedIds: [bob!.id, carol!.id, dave!.id] })
    await say(bob!, space, 'Myself')
    await until('Bob and Dave have their pushes', () => browsers[0]!.pushes().length === 2)
    await until('Dave has a push', () => browsers[2]!.pushes().length === 1)
    await settled()
    const got = browsers.map((browser) =>
      browser
        .pushes()
        .map(({ kind, messageId }: Read) => [kind, messageId])
        .toSorted(),
    )
    const mention = ['MENTION', named.sentMessage.id]
    expect(got).toEqual([[mention, ['MESSAGE', plain.sentMessage.id]], [], [mention]])
  })

  test('an agent’s message notifies a member with the level ALL once it is complete', async () => {
    const [alice] = await people('Alice')
    const ada = await play.stage.bot('Ada')
    const space = await play.stage.space('Room', [alice!, ada])
    await play.level(alice!, space, 'ALL')
    const page = await play.page(alice!)
    play.parley.models.reset()
    play.parley.models.script(({ step }) =>
      step === 0 ? [{ toolCall: 'sendSpaceMessage', input: { spaceId: space.id, text: 'Done' } }] : [{ text: 'Sent.' }],
    )
    await say(alice!, space, 'Please')
    await until('the page has a notice', () => page.notices().length === 1)
    const posted = (await play.stage.messagesIn(space)).find(({ sender }) => sender.id === ada.id)
    expect(page.notices()).toEqual([
      { kind: 'MESSAGE', spaceId: space.id, messageId: posted.id, toolCallId: null, runId: null },
    ])
  })

  test('a pending decision reaches those who may decide, even with NOTHING; a named approver elsewhere is not shown the space', async () => {
    const deciders = decidersOn(play.stage)
    const service = { url: 'http://127.0.0.1:9/' }
    const [zoe] = await people('Zoe')
    const phone = await play.browser(zoe!)
    const tool = refundTool(service, { approverIds: [zoe!.id, '@bob'], quorum: 1 })
    const room = await openRoom(play, [tool], [refund(20)])
    const pageOfBob = await play.page(room.bob)
    await until('Zoe has a push', () => phone.pushes().length === 1)
    const call = await deciders.asked(room.bob)
    expect(phone.pushes()).toEqual([
      {
        kind: 'DECISION_WAITING',
        spaceId: null,
        messageId: null,
        toolCallId: call.id,
        runId: room.runId,
        text: 'A tool call waits for your decision.',
        path: '/waiting',
        topic: call.id,
      },
    ])
    await deciders.decide(room.bob, call.id, false)
    await settled()
    expect(phone.pushes()).toHaveLength(1)
    expect(pageOfBob.notices().every(({ kind }) => kind === 'DECISION_WAITING')).toBe(true)

    const everybody = await openRoom(play, [refundTool(service, {})], [{ text: 'Not yet.' }])
    await play.parley.runWhen(everybody.runId!)
    await play.level(everybody.carol, everybody.space, 'NOTHING')
    const page = await play.page(everybody.carol)
    play.parley.models.reset()
    play.parley.models.script(({ step }) => (step === 0 ? [refund(30)] : [{ text: 'I have heard.' }]))
    await say(everybody.alice, everybody.space, 'Once more')
    await until('Carol has a notice', () => page.notices().length === 1)
    const { id: toolCallId } = await deciders.asked(everybody.carol)
    expect(page.notices()).toMatchObject([{ kind: 'DECISION_WAITING', spaceId: everybody.space.id, toolCallId }])
    await deciders.decide(everybody.alice, toolCallId, false)
  })

  test('a failed run notifies the person for whom it worked, and nobody else', async () => {
    const [alice, bob] = await people('Alice', 'Bob')
    const ada = await play.stage.bot('Ada')
    const space = await play.stage.space('Room', [alice!, bob!, ada])
    const [mine, others] = [await play.page(alice!), await play.page(bob!)]
    play.parley.models.reset()
    play.parley.models.script(() => [{ error: 'The key is wrong.', status: 401 }])
    const { runs, sentMessage } = await say(alice!, space, 'Fail')
    await until('Alice has a notice', () => mine.notices().length === 1)
    await settled()
    expect(mine.notices()).toEqual([
      { kind: 'RUN_FAILED', spaceId: space.id, messageId: sentMessage.id, toolCallId: null, runId: runs[0].id },
    ])
    expect(others.notices()).toEqual([])
  })
})
