import { describe, expect, test } from 'vitest'
import { type DecisionPlay, playDecisions, refund, refundTool } from '../support/decisions.ts'
import { type ModelAction, steps } from '../support/model-server-script.ts'
import type { LiveEvents, ParleyClient } from '../support/parley-client.ts'
import type { Person, Read } from '../support/stage.ts'
import { until } from '../support/until.ts'

const GRANT = `id state toolName usedCalls maxCalls usedAmount maxAmount amountProperty inputSchema quorum mayDecide activeSince
  expiresAt revokedAt revokedBy { id } proposedBy { id } agent { id } space { id }
  decisions { human { id } approve reason counts }`
const PROPOSE = `mutation ($input: ProposeStandingGrantInput!) {
  proposeStandingGrant(input: $input) { __typename ... on Error { message } ... on BadInputError { field }
    ... on ProposeStandingGrantPayload { standingGrant { ${GRANT} } toolCall { id status approval { state } grant { id } } } } }`
const DECIDE = `mutation ($input: DecideStandingGrantInput!) {
  decideStandingGrant(input: $input) { __typename ... on Error { message }
    ... on DecideStandingGrantPayload { standingGrant { ${GRANT} } } } }`
const REVOKE = `mutation ($input: RevokeStandingGrantInput!) {
  revokeStandingGrant(input: $input) { __typename ... on Error { message }
    ... on RevokeStandingGrantPayload { standingGrant { ${GRANT} } } } }`
const ONE = `query ($id: ID!) { node(id: $id) { ... on StandingGrant { ${GRANT} } } }`
const CALLS = `query ($id: ID!) { node(id: $id) { ... on Run { status toolCalls {
  id status input output approval { state } grant { id state } message { id space { id } } } } } }`
const LISTED = `query ($spaceId: ID!) {
  standingGrants(spaceId: $spaceId) { id } space(id: $spaceId) { standingGrants { id } } }`
const EVENTS = `subscription { viewerEvents { __typename
  ... on ViewerStandingGrantChanged { standingGrant { id state usedCalls mayDecide } } } }`

type Live = LiveEvents<Read>

const BOUND = { expiresInSeconds: 3600, approveCall: true }

/** The actions of people on standing grants, through GraphQL. */
function granting(play: DecisionPlay) {
  const by = ({ client }: { client: ParleyClient }, text: string, variables: object) =>
    play.stage.ask(client, text, variables)
  const callsOf = async (runId: string): Promise<Read[]> =>
    (await by({ client: play.stage.admin }, CALLS, { id: runId })).toolCalls
  return {
    propose: (person: Person, toolCallId: string, bounds: object) =>
      by(person, PROPOSE, { input: { ...BOUND, toolCallId, ...bounds } }),
    decide: (person: Person, id: string, approve: boolean, reason: string | null = null) =>
      by(person, DECIDE, { input: { id, approve, reason } }),
    revoke: (person: { client: ParleyClient }, id: string) => by(person, REVOKE, { input: { id } }),
    grant: (person: { client: ParleyClient }, id: string) => by(person, ONE, { id }),
    callsOf,
    /** Starts a run whose first step makes these calls, and returns its id. */
    async calls({ alice, space }: { alice: Person; space: Read }, ...first: ModelAction[]): Promise<string> {
      play.parley.models.reset()
      play.parley.models.script(steps(first, [{ text: 'I have heard.' }]))
      const { runs } = await play.stage.say(alice, space, 'Again')
      return runs[0].id
    },
    /**
     * Waits until each call of a run has a result or waits for people. Returns for each whether it was executed under a grant.
     */
    letThrough: (runId: string) =>
      until('each call has a result or is asked about', async () => {
        const calls = await callsOf(runId)
        const isSettled = ({ status }: Read) => ['DONE', 'FAILED', 'WAITING'].includes(status)
        return calls.length > 0 && calls.every(isSettled) && calls.map(({ grant }) => grant !== null)
      }),
  }
}

describe('a standing grant', () => {
  const play = playDecisions('embedded')
  const { propose, decide, revoke, grant, calls, callsOf, letThrough } = granting(play)
  const TOOL = () => refundTool(play.service, {})

  /** Creates a room with an active grant. */
  async function granted(bounds: object, approval: object = {}, more: object = {}) {
    const room = await play.room([refundTool(play.service, approval, more)], [refund(1)])
    const call = await play.deciders.asked(room.alice)
    const { standingGrant, __typename, message } = await propose(room.alice, call.id, bounds)
    expect([__typename, message]).toEqual(['ProposeStandingGrantPayload', undefined])
    return { ...room, call, id: standingGrant.id as string, standingGrant }
  }

  test('is proposed from a waiting call, approves that call too, and lets later calls through without approval until its number of calls is used up', async () => {
    const { alice, bob, eve, space, agent, call, id, standingGrant, runId } = await granted({ maxCalls: 2 })
    expect(standingGrant).toMatchObject({
      state: 'ACTIVE',
      toolName: 'refund',
      quorum: 1,
      maxCalls: 2,
      usedCalls: 0,
      mayDecide: false,
      agent: { id: agent.id },
      space: { id: space.id },
      proposedBy: { id: alice.id },
      decisions: [{ human: { id: alice.id }, approve: true, reason: null, counts: true }],
    })
    await play.parley.runWhen(runId!)
    expect(play.service.calls).toEqual([{ key: call.id, input: { amount: 1 } }])
    const again = await calls({ alice, space }, refund(2), refund(3), refund(4))
    expect(await letThrough(again)).toEqual([true, true, false])
    const [two, three, four] = await callsOf(again)
    expect(two).toMatchObject({ status: 'DONE', approval: null, grant: { id }, message: { space: { id: space.id } } })
    expect(play.service.calls.map(({ key }) => key)).toEqual([call.id, two.id, three.id])
    expect(four).toMatchObject({ status: 'WAITING', approval: { state: 'PENDING' }, grant: null })
    expect(await grant(bob, id)).toMatchObject({ state: 'USED_UP', usedCalls: 2 })
    expect((await play.deciders.pendingOf(bob)).map((one) => one.id)).toEqual([four.id])
    // The output of a hidden tool is visible only to those who see its run, as with a call that people approved.
    const seen = await play.deciders.callFor(bob, two.id)
    expect(seen).toMatchObject({ input: { amount: 2 }, output: null, approval: null })
    expect(await grant(eve, id)).toBeNull()
    expect(await revoke(bob, id)).toMatchObject({ __typename: 'ConflictError' })
    const { data } = await bob.client.ask<Read>(LISTED, { spaceId: space.id })
    expect(data).toEqual({ standingGrants: [{ id }], space: { standingGrants: [{ id }] } })
    expect((await eve.client.ask<Read>(LISTED, { spaceId: space.id })).data).toEqual({
      standingGrants: [],
      space: null,
    })
    await play.deciders.decide(alice, four.id, false)
    await play.parley.runWhen(again)
  })

  test('needs the quorum of the tool; one denial ends it; each human decides once', async () => {
    const { alice, bob, carol, runId, ...room } = await granted({ maxCalls: 5, approveCall: false }, { quorum: 2 })
    expect(room.standingGrant).toMatchObject({ state: 'PENDING', activeSince: null, quorum: 2 })
    expect(await play.deciders.callFor(alice, room.call.id)).toMatchObject({ approval: { state: 'PENDING' } })
    expect((await grant(bob, room.id)).mayDecide).toBe(true)
    expect(await decide(alice, room.id, true)).toMatchObject({ __typename: 'ConflictError' })
    expect(await decide({ ...alice, client: play.stage.admin }, room.id, true)).toMatchObject({
      __typename: 'ForbiddenError',
    })
    const other = await propose(bob, room.call.id, { maxCalls: 1, approveCall: true })
    expect(other.toolCall.approval.state).toBe('PENDING')
    const denied = await decide(carol, other.standingGrant.id, false, 'Not so many')
    expect(denied.standingGrant).toMatchObject({ state: 'DENIED', decisions: [{}, { reason: 'Not so many' }] })
    expect((await decide(bob, room.id, true)).standingGrant).toMatchObject({ state: 'ACTIVE', mayDecide: false })
    await play.deciders.decide(alice, room.call.id, true)
    await play.parley.runWhen(runId!)
    const again = await calls({ alice, space: room.space }, refund(2))
    expect(await letThrough(again)).toEqual([true])
    await play.parley.runWhen(again)
  })

  test('is bounded by a schema of the input and a sum of its amounts, added as decimals', async () => {
    const inputSchema = { properties: { amount: { enum: [0.1, 0.2, 5] } } }
    const schema = { type: 'object', properties: { amount: { type: 'number' }, note: {} }, additionalProperties: false }
    const { alice, space, id, runId } = await granted(
      { amountProperty: 'amount', maxAmount: 0.3, inputSchema },
      {},
      { inputSchema: schema },
    )
    await play.parley.runWhen(runId!)
    const call = (input: object): ModelAction => ({ toolCall: 'refund', input })
    const given = [{ amount: 0.1 }, { amount: 5 }, { amount: 0.15 }, { note: 1 }, { amount: 0.2 }, { amount: 0.1 }]
    const again = await calls({ alice, space }, ...given.map(call))
    expect(await letThrough(again)).toEqual([true, false, false, false, true, false])
    expect(await grant(alice, id)).toMatchObject({ state: 'USED_UP', usedCalls: 2, usedAmount: 0.3 })
    for (const one of await play.deciders.pendingOf(alice)) await play.deciders.decide(alice, one.id, false)
    await play.parley.runWhen(again)
  })

  test('is refused without a bound, for a tool that always requires approval, for a settled call, and for those who may not decide', async () => {
    const { alice, bob, eve, runId } = await play.room(
      [TOOL(), refundTool(play.service, { approverIds: ['@bob'] }, { name: 'wire', alwaysAsk: true })],
      [refund(1), { toolCall: 'wire', input: { amount: 1 } }],
    )
    await play.parley.runWhen(runId!, 'WAITING_TOOL')
    const pending = await play.deciders.pendingOf(bob)
    const [one, wire] = ['refund', 'wire'].map((name) => pending.find(({ toolName }: Read) => toolName === name).id)
    expect(await propose(alice, one, {})).toMatchObject({ __typename: 'BadInputError' })
    for (const inputSchema of [[], { type: 'nothing' }, { $ref: 'https://example.com/x' }])
      expect(await propose(alice, one, { inputSchema })).toMatchObject({
        __typename: 'BadInputError',
        field: 'input.inputSchema',
      })
    expect(await propose(bob, wire, { maxCalls: 1 })).toMatchObject({
      __typename: 'ConflictError',
      message: expect.stringContaining('alwaysAsk'),
    })
    expect((await play.deciders.callFor(bob, wire)).approval.state).toBe('PENDING')
    expect(await propose(alice, wire, { maxCalls: 1 })).toMatchObject({ __typename: 'ForbiddenError' })
    expect(await propose(eve, one, { maxCalls: 1 })).toMatchObject({ __typename: 'NotFoundError' })
    for (const id of [one, wire]) await play.deciders.decide(bob, id, false)
    expect(await propose(alice, one, { maxCalls: 1 })).toMatchObject({ __typename: 'ConflictError' })
    await play.parley.runWhen(runId!)
  })

  test('covers no further call once it is revoked, or its tool or policy is changed, even if the change is undone', async () => {
    const { alice, bob, space, agent, id, runId } = await granted({ maxCalls: 9 })
    await play.parley.runWhen(runId!)
    expect((await revoke(bob, id)).standingGrant).toMatchObject({ state: 'REVOKED', revokedBy: { id: bob.id } })
    const asked = await calls({ alice, space }, refund(2))
    expect(await letThrough(asked)).toEqual([false])
    const [{ id: callId }] = await play.deciders.pendingOf(alice)
    const { standingGrant } = await propose(alice, callId, { maxCalls: 9 })
    await play.parley.runWhen(asked)
    const update = (tool: object) =>
      play.stage.ask(
        play.stage.admin,
        'mutation ($input: UpdateAgentInput!) { updateAgent(input: $input) { __typename } }',
        {
          input: { id: agent.id, tools: [tool] },
        },
      )
    await update(TOOL())
    expect((await grant(alice, standingGrant.id)).state).toBe('ACTIVE')
    await update(refundTool(play.service, { quorum: 2 }))
    expect((await grant(alice, standingGrant.id)).state).toBe('TOOL_CHANGED')
    await update(TOOL())
    expect((await grant(alice, standingGrant.id)).state).toBe('TOOL_CHANGED')
    const again = await calls({ alice, space }, refund(3))
    expect(await letThrough(again)).toEqual([false])
    for (const one of await play.deciders.pendingOf(alice)) await play.deciders.decide(alice, one.id, false)
    await play.parley.runWhen(again)
  })

  test('covers a call only while enough of the people who approved the grant may decide on that call', async () => {
    const { alice, bob, space, id, runId } = await granted({ maxCalls: 9 })
    await play.parley.runWhen(runId!)
    const remove = `mutation { removeMember(input: { spaceId: "${space.id}", entityId: "${alice.id}" }) { __typename } }`
    const add = `mutation { addMember(input: { spaceId: "${space.id}", entityId: "${alice.id}" }) { __typename } }`
    await play.stage.ask(play.stage.admin, remove)
    const without = await calls({ alice: bob, space }, refund(2))
    expect(await letThrough(without)).toEqual([false])
    expect(await grant(bob, id)).toMatchObject({ state: 'ACTIVE', decisions: [{ counts: false }] })
    expect(await grant(alice, id)).toBeNull()
    for (const one of await play.deciders.pendingOf(bob)) await play.deciders.decide(bob, one.id, false)
    await play.parley.runWhen(without)
    await play.stage.ask(play.stage.admin, add)
    const withAlice = await calls({ alice: bob, space }, refund(3))
    expect(await letThrough(withAlice)).toEqual([true])
    await play.parley.runWhen(withAlice)
  })

  test('a grant for named approvers is visible to them and the members, and only the approvers decide and revoke', async () => {
    const policy = { approverIds: ['@eve', '@bob'], quorum: 2 }
    const { alice, bob, eve, space, runId } = await play.room([refundTool(play.service, policy)], [refund(1)])
    const call = await play.deciders.asked(eve)
    const { standingGrant } = await propose(eve, call.id, { maxCalls: 5 })
    const { id } = standingGrant
    expect(standingGrant).toMatchObject({ state: 'PENDING', space: null })
    expect(await decide(alice, id, true)).toMatchObject({ __typename: 'ForbiddenError' })
    expect(await revoke(alice, id)).toMatchObject({ __typename: 'ForbiddenError' })
    expect((await grant(alice, id)).mayDecide).toBe(false)
    expect((await decide(bob, id, true)).standingGrant.state).toBe('ACTIVE')
    await play.deciders.decide(bob, call.id, true)
    await play.parley.runWhen(runId!)
    const again = await calls({ alice, space }, refund(2))
    expect(await letThrough(again)).toEqual([true])
    await play.parley.runWhen(again)
    expect((await revoke({ client: play.stage.admin }, id)).standingGrant).toMatchObject({
      state: 'REVOKED',
      revokedBy: null,
    })
  })

  test('is published to those who see it: when it is proposed, decided on, used and revoked', async () => {
    const { alice, bob, eve, space, runId } = await play.room([refundTool(play.service, { quorum: 2 })], [refund(1)])
    const call = await play.deciders.asked(alice)
    const [ofBob, ofEve] = [bob, eve].map(({ client }) => client.subscribe<Read, object>(EVENTS, {})) as [Live, Live]
    await Promise.all([ofBob, ofEve].map((live) => live.first(() => true)))
    const sees = (what: object) =>
      ofBob.first(({ viewerEvents: { standingGrant = {} } }: Read) =>
        Object.entries(what).every(([key, value]) => standingGrant[key] === value),
      )
    const { standingGrant } = await propose(alice, call.id, { maxCalls: 5 })
    await sees({ id: standingGrant.id, state: 'PENDING', mayDecide: true })
    await decide(bob, standingGrant.id, true)
    await sees({ state: 'ACTIVE', usedCalls: 0 })
    await play.deciders.decide(bob, call.id, true)
    await play.parley.runWhen(runId!)
    await play.parley.runWhen(await calls({ alice, space }, refund(2)))
    await sees({ state: 'ACTIVE', usedCalls: 1 })
    await revoke(alice, standingGrant.id)
    await sees({ state: 'REVOKED' })
    expect(ofEve.seen.filter(({ viewerEvents }) => viewerEvents.standingGrant)).toEqual([])
    ofBob.stop()
    ofEve.stop()
  })

  test('lets a persistent agent act in its cycle, and an EXTERNAL call wait only for its result', async () => {
    const persistent = { mind: 'PERSISTENT' }
    const { alice, space, agent } = await play.room([TOOL()], [refund(1)], persistent)
    const call = await play.deciders.asked(alice)
    await play.stage.endedRuns(agent, 1)
    play.parley.models.reset()
    play.parley.models.script(() => [{ text: 'Noted.' }])
    await propose(alice, call.id, { maxCalls: 1 })
    await play.stage.endedRuns(agent, 2)
    play.parley.models.reset()
    play.parley.models.script(steps([refund(2)], [{ text: 'Done.' }]))
    await play.stage.say(alice, space, 'Again')
    const runs = await play.stage.endedRuns(agent, 3)
    expect(runs.at(-1).toolCalls).toMatchObject([{ status: 'DONE', output: { booked: { amount: 2 } } }])

    const external = { execution: 'EXTERNAL', url: null }
    const room = await granted({ maxCalls: 1 }, {}, external)
    await play.deciders.submit({ client: play.stage.admin }, room.call.id, { ok: 1 })
    await play.parley.runWhen(room.runId!)
    const again = await calls(room, refund(2))
    const [waiting] = await until('the call waits for its result', async () => {
      const found = await callsOf(again)
      return found[0]?.status === 'WAITING' && found
    })
    expect(waiting).toMatchObject({ approval: null, grant: { state: 'USED_UP' } })
    await play.deciders.submit({ client: play.stage.admin }, waiting.id, { ok: 2 })
    await play.parley.runWhen(again)
  })
})
