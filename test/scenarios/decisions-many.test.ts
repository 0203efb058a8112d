import { describe, expect, test } from 'vitest'
import { playDecisions, refund, refundTool } from '../support/decisions.ts'
import type { Person, Read } from '../support/stage.ts'

const DECIDE_ALL = `mutation ($input: DecideToolCallsInput!) {
  decideToolCalls(input: $input) { __typename ... on Error { message }
    ... on DecideToolCallsPayload { results { __typename ... on Error { message }
      ... on DecideToolCallPayload { toolCall { id approval { state decisions { human { id } reason } } } } } } } }`
const AUDIT = `query ($actorId: ID) { auditLog(actorId: $actorId, last: 20) { edges { node { action targetId refused detail } } } }`
const POLICIES = 'query ($id: ID!) { agent(id: $id) { internals { tools { approval { expiresInSeconds } } } } }'
const HOUR_MS = 3_600_000

describe('several decisions at once', () => {
  const play = playDecisions('embedded')
  const decideAll = ({ client }: Person, toolCallIds: string[], approve = true, reason: string | null = null) =>
    play.stage.ask(client, DECIDE_ALL, { input: { toolCallIds, approve, reason } })

  test('each call is decided as by decideToolCall, in order, with its own failure and audit entry', async () => {
    const { alice, bob, runId } = await play.room(
      [refundTool(play.service, {}), refundTool(play.service, { approverIds: ['@bob'] }, { name: 'repay' })],
      [refund(1), { toolCall: 'repay', input: { amount: 2 } }, refund(3)],
    )
    await play.parley.runWhen(runId!, 'WAITING_TOOL')
    const calls = await play.deciders.pendingOf(bob)
    const [one, bobs, three] = [1, 2, 3].map((amount) => calls.find(({ input }: Read) => input.amount === amount).id)
    const { results } = await decideAll(alice, [three, 'tcl_0', bobs, one, one], true, 'fine')
    expect(results.map(({ __typename }: Read) => __typename)).toEqual([
      'DecideToolCallPayload',
      'NotFoundError',
      'ForbiddenError',
      'DecideToolCallPayload',
      'ConflictError',
    ])
    expect(results[0].toolCall).toMatchObject({
      id: three,
      approval: { state: 'APPROVED', decisions: [{ human: { id: alice.id }, reason: 'fine' }] },
    })
    expect((await decideAll(bob, [bobs], false)).results[0].toolCall.approval.state).toBe('DENIED')
    await play.parley.runWhen(runId!)
    expect(play.service.calls.map(({ input }) => input.amount).toSorted()).toEqual([1, 3])
    const { edges } = await play.stage.ask(play.stage.admin, AUDIT, { actorId: alice.id })
    const entries = edges.map(({ node }: Read) => node).filter(({ action }: Read) => action.startsWith('decide'))
    expect(entries.map(({ action, targetId, refused }: Read) => [action, targetId, refused])).toEqual([
      ['decideToolCall', one, false],
      ['decideToolCall', bobs, true],
      ['decideToolCall', three, false],
    ])
    expect(JSON.stringify(entries)).not.toContain('fine')
  })

  test('1 to 100 calls are accepted', async () => {
    const alice = await play.stage.person('Alice')
    const refused = { __typename: 'BadInputError', message: 'Name 1 to 100 tool calls.' }
    expect(await decideAll(alice, [])).toEqual(refused)
    expect(
      await decideAll(
        alice,
        Array.from({ length: 101 }, (_, n) => `tcl_${n}`),
      ),
    ).toEqual(refused)
    const { results } = await decideAll(
      alice,
      Array.from({ length: 100 }, (_, n) => `tcl_${n}`),
    )
    expect(results).toHaveLength(100)
  })

  test('an approval waits for a day by default, outside the run’s time limit; older stored policies wait like other tools', async () => {
    const tools = [refundTool(play.service, {}), refundTool(play.service, { expiresInSeconds: 60 }, { name: 'repay' })]
    const { alice, agent, runId } = await play.room(tools, [refund(1)])
    const run = await play.parley.runWhen(runId!, 'WAITING_TOOL')
    expect(run.deadlineAt).toBeNull()
    const call = await play.deciders.asked(alice)
    const leftMs = Date.parse(call.approval.expiresAt) - Date.now()
    expect(leftMs).toBeGreaterThan(23 * HOUR_MS)
    expect(leftMs).toBeLessThanOrEqual(24 * HOUR_MS)
    const waits = async () => {
      const { internals } = await play.stage.ask(play.stage.admin, POLICIES, { id: agent.id })
      return internals.tools.map(({ approval }: Read) => approval.expiresInSeconds)
    }
    expect(await waits()).toEqual([86_400, 60])
    await play.parley.app.platform.db.prisma.$executeRaw`
      UPDATE "AgentTool" SET approval = approval - 'patient' WHERE "agentId" = ${agent.id}`
    expect(await waits()).toEqual([600, 60])
    await play.deciders.decide(alice, call.id, false)
    await play.parley.runWhen(runId!)
  })
})
