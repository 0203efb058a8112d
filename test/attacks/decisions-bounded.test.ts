import { describe, expect, test } from 'vitest'
import { RULE_STACKS } from '../support/application.ts'
import { playDecisions, refund, refundTool } from '../support/decisions.ts'
import type { Person, Read } from '../support/stage.ts'

const AUDIT = `query ($id: ID!) { auditLog(targetId: $id, action: "claimToolCall", first: 100) { edges { node { id } } } }`

describe.each(RULE_STACKS)('the limits of one call, on the %s stack', (stack) => {
  const play = playDecisions(stack, { PARLEY_RATE_MESSAGES: '300' })
  const { room } = play

  /** Alternates between two inputs until the server refuses an edit. */
  async function editUntilRefused(
    people: Person[],
    callId: string,
    digest: string,
  ): Promise<{ edits: number; end: Read }> {
    let inputDigest = digest
    for (let edits = 0; ; edits += 1) {
      const input = { amount: 2 + (edits % 2) }
      const result = await play.deciders.decide(people[edits % 2]!, callId, true, { input, inputDigest })
      if (result.__typename !== 'DecideToolCallPayload') return { edits, end: result }
      inputDigest = result.toolCall.approval.inputDigest
    }
  }

  test('its input can be edited 20 times; after that it can still be approved or denied', async () => {
    const { alice, bob, carol, runId } = await room([refundTool(play.service, { quorum: 2 })], [refund(1)])
    const call = await play.deciders.asked(alice)
    const { edits, end } = await editUntilRefused([alice, bob], call.id, call.approval.inputDigest)
    expect([edits, end.__typename]).toEqual([20, 'LimitExceededError'])
    expect(end.message).toContain('20 times')
    const { approval, input } = await play.deciders.callFor(alice, call.id)
    expect(approval.decisions.length).toBeLessThanOrEqual(20)
    const agreed = await play.deciders.decide(carol, call.id, true, { inputDigest: approval.inputDigest })
    expect(agreed.toolCall.approval.state).toBe('APPROVED')
    await play.parley.runWhen(runId!)
    expect(play.service.calls).toEqual([{ key: call.id, input }])
  })

  test('a call accepts 100 decisions and shows the last ones; a denial is always accepted', async () => {
    const { alice, bob, carol, runId } = await room([refundTool(play.service, { quorum: 3 })], [refund(1)])
    const call = await play.deciders.asked(alice)
    const { prisma } = play.parley.app.platform.db
    // Five people take turns, each with an input that was edited since the last approval.
    const lapsed = Array.from({ length: 120 }, (_, n) => ({
      toolCallId: call.id,
      humanId: bob.id,
      inputDigest: `before ${n}`,
      approve: true,
      counted: false,
      reason: `${n}`,
      at: new Date(Date.now() - 1_000_000 + n * 1000),
    }))
    await prisma.decision.createMany({ data: lapsed })
    const { approval } = await play.deciders.callFor(alice, call.id)
    expect(approval.decisions.map(({ reason }: Read) => reason)).toEqual(lapsed.slice(20).map(({ reason }) => reason))
    expect(await play.deciders.decide(carol, call.id, true)).toMatchObject({ __typename: 'LimitExceededError' })
    expect(await play.deciders.decide(carol, call.id, false)).toMatchObject({ __typename: 'DecideToolCallPayload' })
    await play.parley.runWhen(runId!)
  })

  test('refused attempts are limited, and recorded at most 60 times a minute', async () => {
    const { alice, bob, runId } = await room([refundTool(play.service, { approverIds: ['@alice'] })], [refund(1)])
    const call = await play.deciders.asked(alice)
    const tried = await Promise.all(Array.from({ length: 80 }, () => play.deciders.decide(bob, call.id, true)))
    expect(new Set(tried.map(({ __typename }) => __typename))).toEqual(new Set(['ForbiddenError']))
    const where = { actorId: bob.id, action: 'decideToolCall', refused: true }
    expect(await play.parley.app.platform.db.prisma.auditEntry.count({ where })).toBe(60)
    await play.deciders.decide(alice, call.id, false)
    await play.parley.runWhen(runId!)
  })

  test('it can be claimed and released 100 times, which leaves one waiting notice and a bounded audit log', async () => {
    const notifyUrl = 'http://127.0.0.1:9/gone'
    const { alice, bob, runId } = await room([refundTool(play.service, {})], [refund(1)], { notifyUrl })
    const call = await play.deciders.asked(alice)
    const { prisma } = play.parley.app.platform.db
    const results = new Set<string>()
    const claimAndRelease = async (person: Person, times: number) => {
      for (let n = 0; n < times; n += 1)
        results.add((await play.deciders.claim(person, call.id, n % 2 === 1)).__typename)
    }
    await claimAndRelease(alice, 40)
    expect(results).toEqual(new Set(['ClaimToolCallPayload', 'RateLimitedError']))
    const notices = await prisma.$queryRaw<{ body: string }[]>`
      SELECT data->>'body' AS body FROM pgboss.job WHERE name = 'send-notice' AND singleton_key = ${call.id}`
    const claims = notices.filter(({ body }) => JSON.parse(body).type === 'tool_call.claimed')
    expect(claims.length).toBeLessThanOrEqual(2)
    await prisma.toolCall.update({ where: { id: call.id }, data: { claimChanges: 100, claimedById: null } })
    expect(await play.deciders.claim(bob, call.id)).toMatchObject({ __typename: 'LimitExceededError' })
    const { edges } = await play.stage.ask(play.stage.admin, AUDIT, { id: call.id })
    expect(edges.length).toBeLessThanOrEqual(30)
    // She has exceeded her rate limit, but can still deny.
    expect(await play.deciders.decide(alice, call.id, true)).toMatchObject({ __typename: 'RateLimitedError' })
    expect(await play.deciders.decide(alice, call.id, false)).toMatchObject({ __typename: 'DecideToolCallPayload' })
    await play.parley.runWhen(runId!)
  })
})
