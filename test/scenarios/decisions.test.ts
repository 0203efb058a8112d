import { describe, expect, test } from 'vitest'
import { RULE_STACKS } from '../support/application.ts'
import { playDecisions, refund, refundTool, timeIsUp } from '../support/decisions.ts'
import type { Read } from '../support/stage.ts'
import { until } from '../support/until.ts'

const ids = (list: Read[]) => list.map(({ id }) => id).toSorted()

/** From the issue "Decisions that people share". */
describe.each(RULE_STACKS)('shared decisions, on the %s stack', (stack) => {
  const play = playDecisions(stack)
  const { room, lastResults } = play

  test('an invisible HTTP tool is shown, waits for a member, and is executed once after the approval', async () => {
    const { alice, eve, space, runId } = await room([refundTool(play.service, {})], [refund(20)])
    const call = await play.deciders.asked(alice)
    expect(call).toMatchObject({
      toolName: 'refund',
      status: 'WAITING',
      waitsFor: 'DECISION',
      input: { amount: 20 },
      message: { status: 'REQUIRES_ACTION' },
      approval: { state: 'PENDING', quorum: 1, mayDecide: true, decisions: [] },
    })
    expect(call.inputSchema).toMatchObject({ required: ['amount'] })
    await play.parley.runWhen(runId!, 'WAITING_TOOL')
    expect(play.service.calls).toEqual([])
    expect(await play.deciders.callFor(eve, call.id)).toBe(null)
    const decided = await play.deciders.decide(alice, call.id, true, {
      reason: 'fair',
      inputDigest: call.approval.inputDigest,
    })
    expect(decided.toolCall.approval).toMatchObject({
      state: 'APPROVED',
      mayDecide: false,
      approvers: [],
      decisions: [{ human: { id: alice.id }, approve: true, reason: 'fair', counts: true }],
    })
    expect(await play.parley.runWhen(runId!)).toMatchObject({ status: 'COMPLETED' })
    expect(play.service.calls).toEqual([{ key: call.id, input: { amount: 20 } }])
    expect(await lastResults()).toEqual([{ booked: { amount: 20 } }])
    const done = await play.deciders.callFor({ client: play.stage.admin }, call.id)
    expect(done).toMatchObject({ status: 'DONE', output: { booked: { amount: 20 } }, waitsFor: null })
    expect(done.settledAt).not.toBe(null)
    expect(await play.deciders.callFor(alice, call.id)).toMatchObject({
      status: 'DONE',
      input: { amount: 20 },
      output: null,
    })
    expect((await play.stage.messagesIn(space)).map(({ status }) => status)).toEqual(['COMPLETE', 'COMPLETE'])
    expect(await play.deciders.decide(alice, call.id, false)).toMatchObject({ __typename: 'ConflictError' })
  })

  test('null for an optional field decides about the current input', async () => {
    const calls = [refund(20), refund(30)]
    const { alice, runId } = await room([refundTool(play.service, {})], calls)
    await play.parley.runWhen(runId!, 'WAITING_TOOL')
    const [one, other] = await play.deciders.pendingOf(alice)
    const nothing = { reason: null, input: null, inputDigest: null }
    expect((await play.deciders.decide(alice, one.id, true, nothing)).toolCall.approval.state).toBe('APPROVED')
    expect((await play.deciders.decide(alice, other.id, false, nothing)).toolCall.approval.state).toBe('DENIED')
    await play.parley.runWhen(runId!)
    expect(play.service.calls).toEqual([{ key: one.id, input: { amount: 20 } }])
  })

  test('a denial is a result for the model, with the reason and the person; the tool is not called', async () => {
    const { bob, runId } = await room([refundTool(play.service, { quorum: 2 })], [refund(20)])
    const call = await play.deciders.asked(bob)
    const denied = await play.deciders.decide(bob, call.id, false, { reason: 'too much' })
    expect(denied.toolCall).toMatchObject({ status: 'FAILED', approval: { state: 'DENIED' } })
    await play.parley.runWhen(runId!)
    const [result] = await lastResults()
    expect(result.error).toMatchObject({
      code: 'DENIED',
      message: expect.stringMatching(/Denied by "Bob": "too much"/),
    })
    expect(play.service.calls).toEqual([])
  })

  test('a denial counts even if others have edited the input since', async () => {
    const { alice, bob, runId } = await room([refundTool(play.service, { quorum: 2 })], [refund(20), refund(30)])
    await play.parley.runWhen(runId!, 'WAITING_TOOL')
    const [one, other] = await play.deciders.pendingOf(bob)
    for (const { id } of [one, other]) await play.deciders.decide(alice, id, true, { input: { amount: 10 } })
    expect((await play.deciders.decide(bob, one.id, false)).toolCall.approval.state).toBe('DENIED')
    const { inputDigest } = other.approval
    expect((await play.deciders.decide(bob, other.id, false, { inputDigest })).toolCall.approval.state).toBe('DENIED')
    await play.parley.runWhen(runId!)
    expect(play.service.calls).toEqual([])
  })

  test('two of three must agree; an edit discards earlier approvals, and the displayed input is the executed one', async () => {
    const { alice, bob, carol, runId } = await room([refundTool(play.service, { quorum: 2 })], [refund(20)])
    const call = await play.deciders.asked(alice)
    await play.deciders.decide(alice, call.id, true)
    expect((await play.deciders.callFor(alice, call.id)).approval).toMatchObject({ state: 'PENDING', mayDecide: false })
    expect(await play.deciders.pendingOf(alice)).toEqual([])
    expect(await play.deciders.decide(alice, call.id, false)).toMatchObject({ __typename: 'ConflictError' })
    const bad = await play.deciders.decide(bob, call.id, true, { input: { amount: 'ten' } })
    expect(bad).toMatchObject({ __typename: 'BadInputError', field: 'input.input' })
    const edited = await play.deciders.decide(bob, call.id, true, { input: { amount: 10 } })
    expect(edited.toolCall).toMatchObject({ input: { amount: 10 }, approval: { state: 'PENDING' } })
    expect(edited.toolCall.approval.decisions.map(({ counts }: Read) => counts)).toEqual([false, true])
    expect(edited.toolCall.approval.inputDigest).not.toBe(call.approval.inputDigest)
    expect(await play.deciders.decide(carol, call.id, true)).toMatchObject({ __typename: 'ConflictError' })
    const stale = await play.deciders.decide(carol, call.id, true, { inputDigest: call.approval.inputDigest })
    expect(stale).toMatchObject({ __typename: 'ConflictError' })
    const { inputDigest } = edited.toolCall.approval
    const agreed = await play.deciders.decide(alice, call.id, true, { inputDigest })
    expect(agreed.toolCall.approval).toMatchObject({ state: 'APPROVED' })
    await play.parley.runWhen(runId!)
    expect(play.service.calls).toEqual([{ key: call.id, input: { amount: 10 } }])
    const { instructions: before } = await play.parley.models.request(({ step }) => step === 0)
    expect(before).toContain('- People must approve calls to refund (2 must agree): ')
    const { instructions } = await play.parley.models.request(({ step }) => step === 1)
    expect(instructions).toContain(
      `- refund (id: ${call.id}): approved by "Bob", "Alice", with another input than yours: {"amount":10}`,
    )
  })

  test('a named approver decides, even from outside the space, and sees the call, its input and its run, and nothing else', async () => {
    const { alice, eve, space, runId } = await room([refundTool(play.service, { approverIds: ['@eve'] })], [refund(20)])
    const call = await play.deciders.asked(eve)
    expect(call).toMatchObject({
      input: { amount: 20 },
      message: null,
      run: { id: runId, toolCalls: [{ id: call.id }] },
    })
    expect(ids(call.approval.approvers)).toEqual([eve.id])
    expect(await play.deciders.pendingOf(alice)).toEqual([])
    expect((await play.deciders.callFor(alice, call.id)).approval).toMatchObject({ mayDecide: false })
    expect(await play.deciders.decide(alice, call.id, true)).toMatchObject({ __typename: 'ForbiddenError' })
    const admin = { client: play.stage.admin }
    expect(await play.deciders.decide(admin, call.id, true)).toMatchObject({ __typename: 'ForbiddenError' })
    expect(await play.deciders.claim(admin, call.id)).toMatchObject({ __typename: 'ForbiddenError' })
    expect(await play.deciders.decide(eve, 'tcl_nobody', true)).toMatchObject({ __typename: 'NotFoundError' })
    expect(await play.stage.ask(eve.client, `{ space(id: "${space.id}") { id } }`)).toBe(null)
    await play.deciders.decide(eve, call.id, true)
    await play.parley.runWhen(runId!)
    const seen = await play.deciders.callFor(eve, call.id)
    expect(seen).toMatchObject({ status: 'DONE', input: { amount: 20 }, output: null })
    expect(play.service.calls).toHaveLength(1)
  })

  test('a claim shows who handles the call: others may still decide, and a second claim is refused', async () => {
    const { alice, bob, runId } = await room([refundTool(play.service, {})], [refund(20)])
    const call = await play.deciders.asked(alice)
    expect((await play.deciders.claim(alice, call.id)).toolCall.claimedBy).toMatchObject({ id: alice.id })
    expect(await play.deciders.claim(bob, call.id)).toMatchObject({ __typename: 'ConflictError' })
    expect(await play.deciders.claim(bob, call.id, true)).toMatchObject({ __typename: 'ConflictError' })
    expect((await play.deciders.claim(alice, call.id)).toolCall.claimedBy).toMatchObject({ id: alice.id })
    expect((await play.deciders.claim(alice, call.id, true)).toolCall.claimedBy).toBe(null)
    await play.deciders.claim(bob, call.id)
    await play.deciders.decide(alice, call.id, false)
    await play.parley.runWhen(runId!)
    expect(await play.deciders.claim(bob, call.id)).toMatchObject({ __typename: 'ConflictError' })
    expect((await play.deciders.callFor(bob, call.id)).claimedBy).toBe(null)
  })

  test('approved SPACE and EXTERNAL tools wait for their result; an INTERNAL tool returns its input', async () => {
    const schema = { type: 'object' }
    const tools = [
      {
        name: 'ask',
        description: 'Asks.',
        inputSchema: schema,
        execution: 'SPACE',
        approval: {},
        resultSchema: { type: 'boolean' },
      },
      { name: 'look_up', description: 'Looks.', inputSchema: schema, execution: 'EXTERNAL', approval: {} },
      { name: 'chart', description: 'Draws.', inputSchema: schema, execution: 'INTERNAL', approval: {}, visible: true },
    ]
    const first = ['ask', 'look_up', 'chart'].map((toolCall) => ({ toolCall, input: { of: toolCall } }))
    const { alice, agent, runId } = await room(tools, first)
    await play.parley.runWhen(runId!, 'WAITING_TOOL')
    const calls: Read[] = await until('three wait', async () => {
      const pending = await play.deciders.pendingOf(alice)
      return pending.length === 3 && pending
    })
    expect(await play.deciders.submit(alice, calls[0].id, true)).toMatchObject({ __typename: 'ConflictError' })
    for (const { id } of calls) await play.deciders.decide(alice, id, true)
    const [ask, lookUp, chart] = calls
    await play.deciders.callWhen(chart.id, ({ status }) => status === 'DONE')
    expect((await play.deciders.pendingOf(alice)).map(({ id, waitsFor }) => [id, waitsFor])).toEqual([
      [ask.id, 'RESULT'],
    ])
    expect((await play.deciders.callFor(alice, ask.id)).resultSchema).toEqual({ type: 'boolean' })
    const bad = await play.deciders.submit(alice, ask.id, 'yes')
    expect(bad).toMatchObject({ __typename: 'BadInputError', field: 'input.result' })
    const answered = await play.deciders.submit(alice, ask.id, true)
    expect(answered.toolCall).toMatchObject({ status: 'DONE', answeredBy: { id: alice.id }, answeredByService: null })
    const crm = await play.parley.clientOf({
      scope: 'SERVICE',
      id: 'x',
      name: 'crm',
      agentIds: [agent.id],
      tokenId: null,
      expiresAt: null,
    })
    const found = await play.deciders.submit({ client: crm }, lookUp.id, { found: 1 })
    expect(found.toolCall).toMatchObject({ answeredBy: null, answeredByService: 'crm' })
    expect(await play.parley.runWhen(runId!)).toMatchObject({ status: 'COMPLETED' })
    expect(await lastResults()).toEqual([true, { found: 1 }, { of: 'chart' }])
  })

  test('a stop ends the request: the call is CANCELED, and a decision is a conflict', async () => {
    const { alice, runId } = await room([refundTool(play.service, {})], [refund(20)])
    const call = await play.deciders.asked(alice)
    await play.parley.runWhen(runId!, 'WAITING_TOOL')
    await play.stage.ask(alice.client, `mutation { stopRun(input: { runId: "${runId}" }) { __typename } }`)
    expect(await play.deciders.callFor(alice, call.id)).toMatchObject({
      status: 'CANCELED',
      approval: { state: 'CANCELED' },
    })
    expect(await play.deciders.decide(alice, call.id, true)).toMatchObject({ __typename: 'ConflictError' })
    expect(await play.deciders.claim(alice, call.id)).toMatchObject({ __typename: 'ConflictError' })
    expect(play.service.calls).toEqual([])
  })

  test('an undecided call expires by the database clock, and is not executed', async () => {
    const { alice, runId } = await room([refundTool(play.service, { quorum: 2, expiresInSeconds: 500 })], [refund(20)])
    const call = await play.deciders.asked(alice)
    await play.deciders.decide(alice, call.id, true)
    await timeIsUp(play.parley, call.id, 'expiresAt')
    expect(await play.parley.runWhen(runId!)).toMatchObject({ status: 'COMPLETED' })
    expect(await play.deciders.callFor(alice, call.id)).toMatchObject({
      status: 'TIMED_OUT',
      approval: { state: 'EXPIRED' },
    })
    const [result] = await lastResults()
    expect(result.error).toMatchObject({
      code: 'EXPIRED',
      message: expect.stringContaining('Only "Alice" approved the call, and 2 approvals were needed'),
    })
    expect(await play.deciders.decide(alice, call.id, true)).toMatchObject({ __typename: 'ConflictError' })
    expect(play.service.calls).toEqual([])
  })

  test('an overdue call is escalated to others, who get it live and decide towards the same quorum', async () => {
    const approval = {
      quorum: 2,
      approverIds: ['@alice', '@bob'],
      expiresInSeconds: 600,
      escalateAfterSeconds: 500,
      escalateToIds: ['@eve'],
    }
    const { alice, eve, runId } = await room([refundTool(play.service, approval)], [refund(20)])
    const events = eve.client.subscribe<{ viewerEvents: Read }, object>(
      'subscription { viewerEvents { __typename ... on ViewerToolCallWaiting { toolCall { id input } } } }',
      {},
    )
    await events.first(({ viewerEvents }) => viewerEvents.__typename === 'ViewerSnapshot')
    const call = await play.deciders.asked(alice)
    await play.deciders.decide(alice, call.id, true)
    expect(await play.deciders.callFor(eve, call.id)).toBe(null)
    await timeIsUp(play.parley, call.id, 'escalatesAt')
    const told = await events.first(({ viewerEvents }) => viewerEvents.__typename === 'ViewerToolCallWaiting')
    expect(told.viewerEvents.toolCall).toEqual({ id: call.id, input: { amount: 20 } })
    const waiting = await play.deciders.asked(eve)
    expect(waiting.approval.escalatedAt).not.toBe(null)
    await play.deciders.decide(eve, call.id, true)
    await play.parley.runWhen(runId!)
    expect(play.service.calls).toHaveLength(1)
    events.stop()
  })

  test('with too few approvers left, the call is escalated at once, or else EXPIRED', async () => {
    const { alice, bob, carol, eve, space, runId } = await room([refundTool(play.service, { quorum: 3 })], [refund(20)])
    const call = await play.deciders.asked(alice)
    await play.deciders.decide(bob, call.id, true)
    await play.stage.ask(
      alice.client,
      `mutation { removeMember(input: { spaceId: "${space.id}", entityId: "${bob.id}" }) { __typename } }`,
    )
    expect(await play.deciders.callFor(alice, call.id)).toMatchObject({
      status: 'TIMED_OUT',
      approval: { state: 'EXPIRED' },
    })
    await play.parley.runWhen(runId!)
    expect((await lastResults())[0].error.message).toMatch(/^3 must agree, and only 2 may decide/)

    const approval = { quorum: 4, escalateToIds: ['@eve'], expiresInSeconds: 600, escalateAfterSeconds: 500 }
    const second = await room([refundTool(play.service, approval)], [refund(30)])
    expect((await play.deciders.asked(second.eve)).approval.escalatedAt).not.toBe(null)
    expect([carol.id, eve.id]).not.toContain(second.eve.id)
  })
})
