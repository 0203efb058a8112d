import { describe, expect, test } from 'vitest'
import { RULE_STACKS } from '../support/application.ts'
import { playNotices } from '../support/notices.ts'
import type { Named, Person, Read } from '../support/stage.ts'
import { until } from '../support/until.ts'

describe.each(RULE_STACKS)('push messages as a way in, on the %s stack', (stack) => {
  const play = playNotices(stack)
  const prisma = () => play.parley.app.platform.db.prisma
  const subscriptionsOf = ({ id }: Named) => prisma().pushSubscription.count({ where: { humanId: id } })

  /** Creates two people in a space. */
  async function couple(): Promise<[Person, Person, (text: string) => Promise<Read>]> {
    const [alice, bob] = [await play.stage.person('Alice'), await play.stage.person('Bob')]
    const space = await play.stage.space('Room', [alice, bob], { routing: 'BROADCAST' })
    return [alice, bob, (text) => play.stage.say(alice, space, text, { mentionedIds: [bob.id] })]
  }
  const settled = () =>
    until('no push is waiting', async () => {
      const [row] = await prisma().$queryRaw<{ count: number }[]>`
        SELECT count(*)::int AS count FROM job WHERE name IN ('notify', 'send-push') AND state < 'completed' AND start_after <= now()`
      return row?.count === 0
    })

  test('an endpoint inside the network is refused, and a name that resolves to one is never connected to', async () => {
    const [, bob, mention] = await couple()
    const { input } = play.push.browser()
    for (const endpoint of ['http://push.example.com/', 'https://127.0.0.1/', 'https://localhost/', 'https://[::1]/'])
      expect(await play.add(bob, { ...input, endpoint })).toMatchObject({
        __typename: 'BadInputError',
        field: 'input.endpoint',
      })
    const inside = input.endpoint.replace('push.example.com', 'inside.example.com')
    expect(await play.add(bob, { ...input, endpoint: inside })).toMatchObject({
      __typename: 'AddPushSubscriptionPayload',
    })
    const before = play.push.received.length
    await mention('Hello')
    await until('the subscription is removed', async () => (await subscriptionsOf(bob)) === 0)
    expect(play.push.received.length).toBe(before)
  })

  test('redirects are not followed; unknown subscriptions are removed, and refused messages are retried later', async () => {
    const [, bob, mention] = await couple()
    const [moved, gone, busy] = [await play.browser(bob), await play.browser(bob), await play.browser(bob)]
    const at = ({ input }: typeof moved) => new URL(input.endpoint).pathname
    play.push.statuses.set(at(moved), 302).set(at(gone), 410).set(at(busy), 503)
    await mention('Hello')
    await until('all were sent one', () => [moved, gone, busy].every((browser) => browser.pushes().length === 1))
    play.push.statuses.delete(at(busy))
    await until('the busy service got it again', () => busy.pushes().length === 2)
    await settled()
    expect([moved, gone, busy].map((browser) => browser.pushes().length)).toEqual([1, 1, 2])
    expect(play.push.received.some(({ path }) => path === '/redirected')).toBe(false)
    expect(await subscriptionsOf(bob)).toBe(2)
  })

  test('one person has at most 20 subscriptions, and removes only their own', async () => {
    const [alice, bob] = await couple()
    const own = await play.browser(bob)
    expect(await play.add(bob, own.input)).toMatchObject({ __typename: 'AddPushSubscriptionPayload' })
    const added = await Promise.all(Array.from({ length: 30 }, () => play.add(bob, play.push.browser().input)))
    expect(added.filter(({ __typename }) => __typename === 'LimitExceededError')).toHaveLength(11)
    expect(await subscriptionsOf(bob)).toBe(20)
    for (const endpoint of [own.input.endpoint, 'https://push.example.com/none', '\0', ''])
      expect(await play.remove(alice, endpoint)).toMatchObject({ __typename: 'NotFoundError' })
    // Without the keys, another person cannot take over an endpoint by its URL.
    const { input } = play.push.browser()
    await play.add(alice, { ...input, endpoint: own.input.endpoint })
    expect(await subscriptionsOf(bob)).toBe(20)
    await play.add(alice, own.input)
    expect([await subscriptionsOf(alice), await subscriptionsOf(bob)]).toEqual([1, 19])
    expect(await play.remove(alice, own.input.endpoint)).toMatchObject({ removedEndpoint: own.input.endpoint })
  })

  test('a person who has left, has read the message, or has signed out gets no push message', async () => {
    const [alice, bob] = await couple()
    const rooms = [1, 2].map(() => play.stage.space('Room', [alice, bob], { routing: 'BROADCAST' }))
    const [left, read] = await Promise.all(rooms)
    const phone = await play.browser(bob)
    await play.parley.app.stopWorker(0)
    await play.stage.say(alice, left!, 'Secret', { mentionedIds: [bob.id] })
    const { sentMessage } = await play.stage.say(alice, read!, 'Known', { mentionedIds: [bob.id] })
    const leave = `mutation { removeMember(input: { spaceId: "${left!.id}", entityId: "${bob.id}" }) { __typename } }`
    await play.stage.ask(bob.client, leave)
    const markRead = `mutation { markRead(input: { spaceId: "${read!.id}", messageId: "${sentMessage.id}" }) { __typename } }`
    await play.stage.ask(bob.client, markRead)
    await play.parley.app.startWorker()
    await settled()
    expect(phone.pushes()).toEqual([])
    const { tokenId } = await prisma().pushSubscription.findFirstOrThrow({ where: { humanId: bob.id } })
    await play.parley.app.domain.tokens.revoke(play.parley.admin, { id: tokenId ?? '' })
    expect(await subscriptionsOf(bob)).toBe(0)
  })

  test('a flood of mentions sends at most 30 push messages a minute', async () => {
    const [, bob, mention] = await couple()
    const phone = await play.browser(bob)
    for (let n = 0; n < 40; n += 1) await mention(`Bob ${n}`)
    await settled()
    expect(phone.pushes()).toHaveLength(30)
  }, 60_000)
})
