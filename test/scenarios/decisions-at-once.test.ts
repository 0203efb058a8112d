import { describe, expect, test } from 'vitest'
import type { Viewer } from '../../src/access/viewer.ts'
import { RULE_STACKS } from '../support/application.ts'
import { playDecisions, refund, refundTool, timeIsUp } from '../support/decisions.ts'
import type { Person, Read } from '../support/stage.ts'

const TYPED = [
  'DecideToolCallPayload',
  'ConflictError',
  'ForbiddenError',
  'NotFoundError',
  'RemoveMemberPayload',
  undefined,
]

/** "Bad input" of the issue "Decisions that people share": concurrent actions have one outcome. */
describe.each(RULE_STACKS)('decisions that race with other changes, on the %s stack', (stack) => {
  const play = playDecisions(stack)

  type People = { alice: Person; bob: Person; carol: Person; eve: Person; agent: Read; space: Read }
  const decide = (person: Person, call: Read, approve: boolean, more?: object) =>
    play.deciders.decide(person, call.id, approve, more)
  const edit = (person: Person, call: Read, amount: number) => decide(person, call, true, { input: { amount } })
  const remove = ({ alice, space }: People, { id }: { id: string }) =>
    play.stage.ask(
      alice.client,
      `mutation { removeMember(input: { spaceId: "${space.id}", entityId: "${id}" }) { __typename } }`,
    )

  /** The concurrent actions of two people, and the states that the call can have afterwards. */
  const PAIRS: Record<string, { acts(people: People, call: Read): Promise<Read>[]; may: string[] }> = {
    'an approval and a denial': {
      acts: ({ alice, bob }, call) => [decide(alice, call, true), decide(bob, call, false)],
      may: ['APPROVED', 'DENIED'],
    },
    'the same human twice': {
      acts: ({ alice }, call) => [decide(alice, call, true), decide(alice, call, true), decide(alice, call, false)],
      may: ['APPROVED', 'DENIED'],
    },
    'two edits': {
      acts: ({ alice, bob }, call) => [edit(alice, call, 50), edit(bob, call, 60)],
      may: ['APPROVED'],
    },
    'an edit and an approval of what was written': {
      acts: ({ alice, bob }, call) => [edit(alice, call, 50), decide(bob, call, true)],
      may: ['APPROVED'],
    },
    'an approval and the end of its time': {
      acts: ({ alice }, call) => [timeIsUp(play.parley, call.id, 'expiresAt'), decide(alice, call, true)],
      may: ['APPROVED', 'EXPIRED'],
    },
    'an approval and the end of its human in the space': {
      acts: (people, call) => [
        remove(people, people.carol),
        decide(people.carol, call, true),
        decide(people.bob, call, false),
      ],
      may: ['APPROVED', 'DENIED'],
    },
  }

  test('two concurrent responses have one outcome: each is typed, and an approved call is executed once with the displayed input', async () => {
    const names = Object.keys(PAIRS)
    const people = await play.room(
      [refundTool(play.service, {})],
      names.map((_, index) => refund(index)),
    )
    await play.parley.runWhen(people.runId!, 'WAITING_TOOL')
    const calls: Read[] = await play.deciders.pendingOf(people.alice)
    expect(calls).toHaveLength(names.length)
    for (const [index, name] of names.entries()) {
      const [call, { acts, may }] = [calls[index], PAIRS[name]!]
      const answers = (await Promise.all(acts(people, call))).map((answer) => answer?.__typename)
      expect([name, TYPED]).toEqual([name, expect.arrayContaining(answers)])
      const won = answers.filter((answer) => answer === 'DecideToolCallPayload')
      const { approval } = await play.deciders.callWhen(call.id, ({ approval }) => approval.state !== 'PENDING')
      expect([name, may]).toEqual([name, expect.arrayContaining([approval.state])])
      expect([name, won.length <= 1]).toEqual([name, true])
    }
    await play.parley.runWhen(people.runId!)
    const done = await Promise.all(calls.map(({ id }) => play.deciders.callFor({ client: play.stage.admin }, id)))
    const approved = done.filter(({ approval }) => approval.state === 'APPROVED')
    expect(play.service.calls.toSorted((a, b) => (a.key < b.key ? -1 : 1))).toEqual(
      approved.map(({ id, input }) => ({ key: id, input })).toSorted((a, b) => (a.key < b.key ? -1 : 1)),
    )
    for (const { approval } of approved) expect(approval.decisions.filter(({ counts }: Read) => counts)).toHaveLength(1)
  })

  test('an approval races with a stop: the call is executed or CANCELED, and the loser gets a conflict', async () => {
    const { alice, bob, runId } = await play.room([refundTool(play.service, {})], [refund(1)])
    const call = await play.deciders.asked(alice)
    await play.parley.runWhen(runId!, 'WAITING_TOOL')
    const stop = `mutation { stopRun(input: { runId: "${runId}" }) { __typename } }`
    const [decided] = await Promise.all([decide(alice, call, true), play.stage.ask(bob.client, stop)])
    await play.parley.runWhen(runId!)
    const { status, approval } = await play.deciders.callWhen(call.id, (one) => one.settledAt !== null)
    if (decided.__typename === 'DecideToolCallPayload') expect(approval.state).toBe('APPROVED')
    else expect([decided.__typename, approval.state, status]).toEqual(['ConflictError', 'CANCELED', 'CANCELED'])
    expect(play.service.calls.length).toBeLessThanOrEqual(approval.state === 'APPROVED' ? 1 : 0)
    expect(await decide(bob, call, true)).toMatchObject({ __typename: 'ConflictError' })
  })

  test('people without the right to decide: strangers, removed members and services get NotFound, others Forbidden', async () => {
    const approval = { approverIds: ['@alice', '@bob'], quorum: 2 }
    const people = await play.room(
      [refundTool(play.service, approval), { ...refundTool(play.service, {}), name: 'give' }],
      [refund(1), { toolCall: 'give', input: { amount: 2 } }],
    )
    const { alice, bob, carol, eve, agent, runId } = people
    await play.parley.runWhen(runId!, 'WAITING_TOOL')
    const [named, shared] = await play.deciders.pendingOf(alice)
    const crm: Viewer = {
      scope: 'SERVICE',
      id: 'x',
      name: 'crm',
      agentIds: [agent.id],
      tokenId: null,
      expiresAt: null,
    }
    const service = { client: await play.parley.clientOf(crm) }
    const told = async (person: { client: Person['client'] }, call: Read) =>
      (await play.deciders.decide(person, call.id, true)).__typename
    expect(await told(carol, named)).toBe('ForbiddenError')
    expect(await told({ client: play.stage.admin }, named)).toBe('ForbiddenError')
    expect(await told(eve, shared)).toBe('NotFoundError')
    expect(await told(service, shared)).toBe('NotFoundError')
    await remove(people, carol)
    expect(await told(carol, shared)).toBe('NotFoundError')
    // A named approver does not have to be a member.
    await remove(people, bob)
    expect(await told(bob, named)).toBe('DecideToolCallPayload')
    expect(await told(alice, named)).toBe('DecideToolCallPayload')
    expect(await told(alice, shared)).toBe('DecideToolCallPayload')
    await play.parley.runWhen(runId!)
    expect(play.service.calls).toHaveLength(2)
  })
})
