import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { HumanViewer } from '../../src/access/viewer.ts'
import { spaceTopic } from '../../src/broker/topics.ts'
import { createAnnouncer } from '../../src/spaces/announcer.ts'
import { type Domain, openDomain } from '../support/domain.ts'
import { hasPostgres } from '../support/postgres.ts'
import { until } from '../support/until.ts'
import { countSent, type WireCounter } from '../support/wire-counter.ts'

describe.skipIf(!hasPostgres)('announcing', () => {
  let domain: Domain
  let announcer: ReturnType<typeof createAnnouncer>
  let ada: HumanViewer
  let wire: WireCounter

  beforeAll(async () => {
    domain = await openDomain()
    announcer = createAnnouncer(domain.platform)
    ada = await domain.human('Ada')
    wire = countSent()
  })
  afterAll(async () => {
    wire.stop()
    await announcer.close()
    await domain.close()
  })

  /** Creates a space with some messages. Returns the entries in its log since then. If `isLost`, its topic has expired. */
  async function spaceOf(count: number, { isLost = false } = {}) {
    const { log } = domain.platform
    const { id } = await domain.space(ada)
    const messages = []
    for (let seq = 1; seq <= count; seq++) messages.push(await domain.message(id, ada.id, { seq }))
    if (isLost) {
      await log.expire(spaceTopic(id), 0)
      await until('the topic has expired', async () => (await log.lastOrdinals([spaceTopic(id)]))[0] === null)
    }
    const [head] = await log.heads([spaceTopic(id)])
    const told = async () => {
      const delivery = await log.read(spaceTopic(id), head ?? '', 100)
      return delivery.type === 'publications'
        ? delivery.publications.map(({ event }) => 'messageId' in event && event.messageId)
        : []
    }
    return { messages, told }
  }

  test.each([
    ['a new space', false],
    ['a space whose topic has expired', true],
  ])('the first messages of %s are all published, even if they are announced out of order', async (_, isLost) => {
    const { messages, told } = await spaceOf(4, { isLost })
    const [first, second, third, fourth] = messages
    await Promise.all([third!, second!].map((message) => announcer.announce(message)))
    expect((await told()).slice(0, 3)).toEqual([first!, second!, third!].map(({ id }) => id))
    await Promise.all([first!, fourth!].map((message) => announcer.announce(message)))
    expect(await told()).toEqual(messages.map(({ id }) => id))
  })

  test('the first message of a space is published to its subscribers if its process dies before it announces the message', async () => {
    const { messages, told } = await spaceOf(1)
    const first = messages[0]!
    await domain.platform.db.prisma.space.update({ where: { id: first.spaceId }, data: { lastSeq: 1 } })
    const stop = announcer.watch(first.spaceId)
    await until('the message is published', async () => (await told()).includes(first.id))
    stop()
  })

  test('in a copy of a space whose topic was lost, the copied messages are not published', async () => {
    const { messages, told } = await spaceOf(3, { isLost: true })
    const [first, second, third] = messages
    const { prisma } = domain.platform.db
    const space = await prisma.space.findUniqueOrThrow({ where: { id: first!.spaceId } })
    const createdAt = new Date(space.createdAt.getTime() - 1000)
    await prisma.message.updateMany({ where: { id: { in: [first!.id, second!.id] } }, data: { createdAt } })
    await announcer.announce(third!)
    expect(await told()).toEqual([third!.id])
  })

  test('after the topic of a space was lost, messages from before are not published again', async () => {
    const { messages, told } = await spaceOf(3, { isLost: true })
    const [first, second, third] = messages
    const { prisma } = domain.platform.db
    const anHourAgo = new Date(Date.now() - 3_600_000)
    await prisma.space.update({ where: { id: first!.spaceId }, data: { createdAt: new Date(0) } })
    await prisma.message.updateMany({ where: { id: { in: [first!.id, second!.id] } }, data: { createdAt: anHourAgo } })
    await announcer.announce(third!)
    expect(await told()).toEqual([third!.id])
  })

  test('messages that arrive before earlier ones wait for them, without a lookup', async () => {
    const { messages, told } = await spaceOf(6)
    const [first, ...others] = messages
    await announcer.announce(first!)
    const before = wire.sent().statements
    await Promise.all(others.toReversed().map((message) => announcer.announce(message)))
    expect(wire.sent().statements - before).toBe(0)
    expect(await told()).toEqual(messages.map(({ id }) => id))
  })

  test('a message that was never announced is looked up, and is published before those that wait for it', async () => {
    const { messages, told } = await spaceOf(4)
    const [first, , third, fourth] = messages
    await announcer.announce(first!)
    await Promise.all([announcer.announce(fourth!), announcer.announce(third!)])
    expect(await told()).toEqual(messages.map(({ id }) => id))
  })
})
