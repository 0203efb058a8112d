import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { HumanViewer } from '../../src/access/viewer.ts'
import type { Agent } from '../../src/agents/agents.ts'
import type { SignalPayload } from '../../src/broker/topics.ts'
import { newId } from '../../src/lib/ids.ts'
import { type Domain, openDomain } from '../support/domain.ts'
import { hasPostgres } from '../support/postgres.ts'

describe.skipIf(!hasPostgres)('members', () => {
  let domain: Domain
  let ada: HumanViewer
  let bob: HumanViewer
  let stranger: HumanViewer
  let helper: Agent

  beforeAll(async () => {
    domain = await openDomain()
    ada = await domain.human('Ada')
    bob = await domain.human('Bob')
    stranger = await domain.human('Stranger')
    helper = await domain.agent('Helper')
    await domain.space(domain.admin, [ada.id, bob.id])
  })
  afterAll(() => domain.close())

  const idsIn = async (spaceId: string) =>
    ((await domain.members.listMany([spaceId])).get(spaceId) ?? []).map(({ id }) => id)

  test('a human adds any agent, and humans of a shared space', async () => {
    const { id: spaceId } = await domain.space(ada)
    await domain.members.add(ada, { spaceId, entityId: helper.id })
    await domain.members.add(ada, { spaceId, entityId: bob.id })
    expect(await idsIn(spaceId)).toEqual([ada.id, helper.id, bob.id])
  })

  test('only an admin can add a stranger; a former member can be added again', async () => {
    const { id: spaceId } = await domain.space(ada)
    const input = { spaceId, entityId: stranger.id }
    await expect(domain.members.add(ada, input)).rejects.toMatchObject({ code: 'NOT_FOUND' })
    await domain.members.add(domain.admin, input)
    const elsewhere = await domain.space(ada)
    await domain.members.add(ada, { spaceId: elsewhere.id, entityId: stranger.id })
    for (const { id } of [elsewhere, { id: spaceId }])
      await domain.members.remove(ada, { spaceId: id, entityId: stranger.id })
    await domain.members.add(ada, input)
    expect(await idsIn(spaceId)).toContain(stranger.id)
  })

  test('a hidden space, a non-member and an unknown id get the same error', async () => {
    const { id: spaceId } = await domain.space(ada)
    const service = await domain.service('Jira', null)
    const notFound = { code: 'NOT_FOUND' }
    await expect(domain.members.add(bob, { spaceId, entityId: bob.id })).rejects.toMatchObject(notFound)
    await expect(domain.members.add(service, { spaceId, entityId: helper.id })).rejects.toMatchObject(notFound)
    await expect(domain.members.add(ada, { spaceId: newId('spc'), entityId: bob.id })).rejects.toMatchObject(notFound)
    await expect(domain.members.remove(bob, { spaceId, entityId: ada.id })).rejects.toMatchObject(notFound)
    await expect(domain.members.remove(ada, { spaceId, entityId: bob.id })).rejects.toMatchObject(notFound)
    await expect(domain.members.add(domain.admin, { spaceId, entityId: newId('hum') })).rejects.toMatchObject(notFound)
  })

  test('a member cannot be added again, even with many concurrent requests', async () => {
    const { id: spaceId } = await domain.space(ada)
    const adding = Array.from({ length: 8 }, () => domain.members.add(ada, { spaceId, entityId: bob.id }))
    const outcomes = await Promise.allSettled(adding)
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
    const refusals = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason.code] : []))
    expect(new Set(refusals)).toEqual(new Set(['CONFLICT']))
  })

  test('the 501st member is refused, even with several concurrent requests', async () => {
    const { prisma } = domain.platform.db
    const { id: spaceId } = await domain.space(ada)
    const humans = Array.from({ length: 498 }, () => ({ id: newId('hum'), kind: 'HUMAN' as const, name: 'x' }))
    await prisma.entity.createMany({ data: humans })
    await prisma.membership.createMany({ data: humans.map(({ id }) => ({ spaceId, entityId: id })) })
    const adding = [helper.id, bob.id, stranger.id].map((entityId) =>
      domain.members.add(domain.admin, { spaceId, entityId }),
    )
    const outcomes = await Promise.allSettled(adding)
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
    expect(outcomes.find((outcome) => outcome.status === 'rejected')?.reason).toMatchObject({ code: 'LIMIT_EXCEEDED' })
    expect(await idsIn(spaceId)).toHaveLength(500)
  })

  test('removing oneself means leaving, and the space becomes invisible to the former member', async () => {
    const { id: spaceId } = await domain.space(ada, [bob.id])
    const left = await domain.members.remove(bob, { spaceId, entityId: bob.id })
    expect(left).toEqual({ spaceId, entityId: bob.id, space: null })
    expect(await domain.visibility.spaces(bob, [spaceId])).toEqual(new Set())
    const removed = await domain.members.remove(domain.admin, { spaceId, entityId: ada.id })
    expect(removed.space).toMatchObject({ id: spaceId })
    expect(await idsIn(spaceId)).toEqual([])
  })

  test('members are in the order in which they joined, independent of clocks', async () => {
    const { id: spaceId } = await domain.space(ada)
    const now = Date.now()
    domain.clock.set(now - 60_000)
    await domain.members.add(ada, { spaceId, entityId: helper.id })
    domain.clock.set(now)
    await domain.members.add(ada, { spaceId, entityId: bob.id })
    expect(await idsIn(spaceId)).toEqual([ada.id, helper.id, bob.id])
  })

  test('messages from before a member joined are not unread, even after a return', async () => {
    const { id: spaceId } = await domain.space(ada)
    await domain.message(spaceId, ada.id)
    await domain.members.add(ada, { spaceId, entityId: bob.id })
    const unread = async () =>
      (await domain.reading.unreadOfMany([{ humanId: bob.id, spaceId }])).get(bob.id)?.get(spaceId)?.messages ?? 0
    expect(await unread()).toBe(0)
    await domain.message(spaceId, ada.id)
    expect(await unread()).toBe(1)
    await domain.members.remove(bob, { spaceId, entityId: bob.id })
    await domain.message(spaceId, ada.id)
    await domain.members.add(ada, { spaceId, entityId: bob.id })
    expect(await unread()).toBe(0)
  })

  test('joining and leaving is published to the space, its followers and the member', async () => {
    const { log, signals } = domain.platform
    const { id: spaceId } = await domain.space(ada)
    const heard: [string, SignalPayload][] = []
    const channels = [`space:${spaceId}`, `entity:${bob.id}`]
    for (const channel of channels) await signals.subscribe(channel, (payload) => void heard.push([channel, payload]))
    const [head] = await log.heads([`space:${spaceId}`])
    await domain.members.add(ada, { spaceId, entityId: bob.id })
    await domain.members.remove(ada, { spaceId, entityId: bob.id })
    const delivery = await log.read(`space:${spaceId}`, head!, 10)
    expect(delivery.type === 'publications' && delivery.publications.map(({ event }) => event)).toEqual([
      { type: 'MemberJoined', entityId: bob.id },
      { type: 'MemberLeft', entityId: bob.id },
    ])
    await expect.poll(() => heard).toHaveLength(4)
    expect(heard).toEqual(
      expect.arrayContaining([
        [channels[0], { type: 'member-joined', entityId: bob.id }],
        [channels[1], { type: 'member-joined', spaceId }],
        [channels[0], { type: 'member-left', entityId: bob.id }],
        [channels[1], { type: 'member-left', spaceId }],
      ]),
    )
  })
})
