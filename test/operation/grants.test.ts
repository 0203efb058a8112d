import { describe, expect, test } from 'vitest'
import { importSpace } from '../../src/operation/import.ts'
import { exportSpace } from '../../src/operation/moving.ts'
import { createRetention } from '../../src/operation/retention.ts'
import { playDecisions, refund, refundTool } from '../support/decisions.ts'
import { startTestServer } from '../support/served.ts'
import type { Person, Read } from '../support/stage.ts'

const PROPOSE = `mutation ($toolCallId: ID!, $expiresInSeconds: Int!) {
  proposeStandingGrant(input: { toolCallId: $toolCallId, maxCalls: 5, expiresInSeconds: $expiresInSeconds }) {
    ... on ProposeStandingGrantPayload { standingGrant { id } } ... on Error { message } } }`
const DENY = `mutation ($id: ID!) { decideStandingGrant(input: { id: $id, approve: false, reason: "The moon is full" }) { __typename } }`
const ONE = `query ($id: ID!) { node(id: $id) { ... on StandingGrant {
  state toolName maxCalls revokedBy { id } proposedBy { id name } agent { id } space { id } decisions { human { name } approve reason counts } } } }`
const CALL = 'query ($id: ID!) { node(id: $id) { ... on ToolCall { status grant { id } } } }'
const DAY_MS = 86_400_000

describe('the standing grants', () => {
  const play = playDecisions('embedded')
  const one = (id: string, { client } = { client: play.stage.admin }): Promise<Read> =>
    play.stage.ask(client, ONE, { id })

  /** Creates a room with an active grant, and a call that was executed under it. */
  async function granted(approval: object = {}, expiresInSeconds = 3600) {
    const room = await play.room([refundTool(play.service, approval)], [refund(1)])
    const call = await play.deciders.asked(room.alice)
    const propose = ({ client }: Person, toolCallId: string): Promise<Read> =>
      play.stage.ask(client, PROPOSE, { toolCallId, expiresInSeconds })
    const { standingGrant } = await propose(room.alice, call.id)
    return { ...room, callId: call.id as string, grantId: standingGrant.id as string, propose }
  }

  async function used({ alice, space, runId }: Awaited<ReturnType<typeof granted>>): Promise<string> {
    await play.parley.runWhen(runId!)
    const { runs } = await play.stage.say(alice, space, 'Again')
    await play.parley.runWhen(runs[0].id)
    const [call] = await play.parley.app.platform.db.prisma.toolCall.findMany({ where: { runId: runs[0].id } })
    return call?.id ?? ''
  }

  test('grants of a space are exported with it, and are inactive after an import; calls still refer to them', async () => {
    const room = await granted()
    const callId = await used(room)
    const before = await one(room.grantId)
    expect(before.state).toBe('ACTIVE')
    const there = await startTestServer({ stack: 'embedded', worker: false })
    const admin = await there.clientOf(there.admin)
    await importSpace(there.app.platform, exportSpace(play.parley.app.platform, room.space.id))
    expect(await one(room.grantId, { client: admin })).toEqual({ ...before, state: 'REVOKED', revokedBy: null })
    const call = await play.stage.ask(admin, CALL, { id: callId })
    expect(call).toEqual({ status: 'DONE', grant: { id: room.grantId } })
    await there.close()
    await play.stage.ask(play.stage.admin, `mutation { deleteSpace(input: { id: "${room.space.id}" }) { __typename } }`)
    expect(await one(room.grantId)).toBeNull()
  })

  test('grants of an agent end with it', async () => {
    const { agent, grantId, runId } = await granted()
    await play.parley.runWhen(runId!)
    await play.stage.ask(play.stage.admin, `mutation { deleteAgent(input: { id: "${agent.id}" }) { __typename } }`)
    expect(await one(grantId)).toMatchObject({ state: 'TOOL_CHANGED', agent: { id: agent.id } })
  })

  test('the decisions of an erased human no longer count, and their reasons are removed with the messages', async () => {
    const { alice, bob, grantId, callId, runId, propose } = await granted({ quorum: 2 })
    await play.stage.ask(bob.client, DENY, { id: grantId })
    const other = (await propose(bob, callId)).standingGrant.id
    const decisions = async () => (await one(grantId, alice)).decisions
    expect(await decisions()).toMatchObject([{}, { human: { name: 'Bob' }, reason: 'The moon is full' }])
    const erase = `mutation { eraseHuman(input: { id: "${bob.id}", messages: true }) { __typename } }`
    await play.stage.ask(play.stage.admin, erase)
    expect(await decisions()).toMatchObject([{}, { human: { name: 'Erased' }, reason: null, counts: false }])
    expect(await one(other, alice)).toMatchObject({ state: 'PENDING', proposedBy: { name: 'Erased' } })
    await play.deciders.decide(alice, callId, false)
    await play.parley.runWhen(runId!)
  })

  test('grants are deleted some time after they have expired, once no call refers to them', async () => {
    const { platform } = play.parley.app
    const sweepIn = (days: number) => {
      const retention = { messagesDays: null, runsDays: 30, auditDays: null }
      const clock = { ...platform.clock, now: () => Date.now() + days * DAY_MS }
      return createRetention({ ...platform, clock, config: { ...platform.config, retention } }).sweep()
    }
    const [named, unused] = [await granted(), await granted()]
    await used(named)
    await play.parley.runWhen(unused.runId!)
    await sweepIn(29)
    expect((await one(unused.grantId)).state).toBe('ACTIVE')
    await sweepIn(31)
    expect(await one(unused.grantId)).toBeNull()
    // The message that shows the call keeps the call and its grant.
    expect((await one(named.grantId)).state).toBe('ACTIVE')
  })
})
