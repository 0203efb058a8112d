import { describe, expect, test } from 'vitest'
import { RULE_STACKS } from '../support/application.ts'
import { playDecisions, refund, refundTool } from '../support/decisions.ts'
import { startMcpServer } from '../support/mcp-server.ts'
import type { Named, Person, Read } from '../support/stage.ts'

const DAYS_MS = 20 * 86_400_000

/** From the issue "Decisions that people share": changes between the request and the execution. */
describe.each(RULE_STACKS)('changes while people decide, on the %s stack', (stack) => {
  const play = playDecisions(stack)
  const { room, lastResults } = play

  const change = async (mutation: string, input: object, person?: Person) => {
    const type = mutation[0]?.toUpperCase() + mutation.slice(1)
    const operation = `mutation ($input: ${type}Input!) { ${mutation}(input: $input) { __typename } }`
    const { __typename } = await play.stage.ask(person?.client ?? play.stage.admin, operation, { input })
    expect(__typename).toBe(`${type}Payload`)
  }
  const remove = (person: Named, space: Named) => change('removeMember', { spaceId: space.id, entityId: person.id })
  const add = (person: Named, space: Named) => change('addMember', { spaceId: space.id, entityId: person.id })
  const stateOf = async (call: Read) =>
    (await play.deciders.callFor({ client: play.stage.admin }, call.id)).approval.state

  test('a tool that is now executed differently, or no longer exists, is not called, and the model gets an error', async () => {
    const tools = [refundTool(play.service, {}), { ...refundTool(play.service, {}), name: 'give' }]
    const first = [refund(1), { toolCall: 'give', input: { amount: 2 } }]
    const { alice, agent, runId } = await room(tools, first)
    await play.parley.runWhen(runId!, 'WAITING_TOOL')
    const { url: _, ...here } = refundTool(play.service, {})
    await change('updateAgent', { id: agent.id, tools: [{ ...here, execution: 'INTERNAL' }] })
    for (const { id } of await play.deciders.pendingOf(alice)) await play.deciders.decide(alice, id, true)
    expect(await play.parley.runWhen(runId!)).toMatchObject({ status: 'COMPLETED' })
    expect((await lastResults()).map(({ error }) => error.code)).toEqual(['TOOL_CHANGED', 'NO_SUCH_TOOL'])
    expect(play.service.calls).toEqual([])
  })

  test.each<[string, (url: string) => object]>([
    ['address', (url) => ({ url: `${url}elsewhere` })],
    ['schema', () => ({ inputSchema: { type: 'object', properties: { amount: { type: 'number' } } } })],
    ['description', () => ({ description: 'Gives money away.' })],
  ])('a tool with another %s than in the request for approval is not called', async (_, another) => {
    const tool = refundTool(play.service, {})
    const { alice, agent, runId } = await room([tool], [refund(1)])
    const call = await play.deciders.asked(alice)
    await change('updateAgent', { id: agent.id, tools: [{ ...tool, ...another(play.service.url) }] })
    await play.deciders.decide(alice, call.id, true)
    await play.parley.runWhen(runId!)
    expect(await lastResults()).toMatchObject([{ error: { code: 'TOOL_CHANGED' } }])
    expect(play.service.calls).toEqual([])
  })

  test('a tool with only new headers, time limit or policy is called: the request for approval did not show these', async () => {
    const tool = refundTool(play.service, {})
    const { alice, agent, runId } = await room([tool], [refund(1)])
    const call = await play.deciders.asked(alice)
    const changed = { ...tool, headers: { 'x-key': 'rotated' }, timeoutMs: 9_000, approval: { quorum: 3 } }
    await change('updateAgent', { id: agent.id, tools: [changed] })
    expect((await play.deciders.decide(alice, call.id, true)).toolCall.approval).toMatchObject({
      state: 'APPROVED',
      quorum: 1,
    })
    await play.parley.runWhen(runId!)
    expect(play.service.calls).toEqual([{ key: call.id, input: { amount: 1 } }])
  })

  test('a call from before approvals recorded the tool version is executed unchanged', async () => {
    const { alice, runId } = await room([refundTool(play.service, {})], [refund(1)])
    const call = await play.deciders.asked(alice)
    await play.parley.app.platform.db.prisma.$executeRaw`
      UPDATE "ToolCall" SET approval = approval - 'toolDigest' WHERE id = ${call.id}`
    await play.deciders.decide(alice, call.id, true)
    await play.parley.runWhen(runId!)
    expect(play.service.calls).toEqual([{ key: call.id, input: { amount: 1 } }])
  })

  test('a moved MCP server, or a tool with another definition, is not called', async () => {
    const pay = { name: 'pay', description: 'Pays.', inputSchema: { type: 'object' } }
    const mcp = await startMcpServer([{ ...pay, answer: () => ({ structuredContent: { paid: true } }) }])
    const mcpServers = [{ name: 'bank', url: mcp.url, approval: {} }]
    const first = [1, 2].map((to) => ({ toolCall: 'bank__pay', input: { to } }))
    const { alice, agent, runId } = await room([], first, { mcpServers })
    await play.parley.runWhen(runId!, 'WAITING_TOOL')
    const [one, other] = await play.deciders.pendingOf(alice)
    await change('updateAgent', { id: agent.id, mcpServers: [{ ...mcpServers[0], url: `${mcp.url}?moved` }] })
    await play.deciders.decide(alice, one.id, true)
    await play.deciders.callWhen(one.id, ({ status }) => status === 'FAILED')
    // The server is at its first address again, in a new session with the current list. An admin has confirmed the tool.
    mcp.tools[0]!.description = 'Pays twice.'
    const confirmed = { name: 'bank', url: mcp.url, approval: {}, headers: { 'x-again': '1' } }
    await change('updateAgent', { id: agent.id, mcpServers: [] })
    await change('updateAgent', { id: agent.id, mcpServers: [confirmed] })
    await play.deciders.decide(alice, other.id, true)
    await play.parley.runWhen(runId!)
    expect(await lastResults()).toMatchObject([
      { error: { code: 'TOOL_CHANGED' } },
      { error: { code: 'TOOL_CHANGED' } },
    ])
    await mcp.close()
  })

  test('an MCP server that is down is reported as unreachable, and one that has returned is called at once', async () => {
    const pay = { name: 'pay', description: 'Pays.', inputSchema: { type: 'object' } }
    const mcp = await startMcpServer([{ ...pay, answer: () => ({ structuredContent: { paid: true } }) }])
    const mcpServers = [{ name: 'bank', url: mcp.url, approval: {} }]
    const first = [1, 2].map((to) => ({ toolCall: 'bank__pay', input: { to } }))
    const { alice, agent, runId } = await room([], first, { mcpServers })
    await play.parley.runWhen(runId!, 'WAITING_TOOL')
    // With other headers, Parley opens a new session without cached state, whose first request fails.
    const headers = { authorization: 'Bearer rotated' }
    await change('updateAgent', { id: agent.id, mcpServers: [{ ...mcpServers[0], headers }] })
    mcp.mode = 'refuse'
    const [one, other] = await play.deciders.pendingOf(alice)
    await play.deciders.decide(alice, one.id, true)
    const failed = await play.deciders.callWhen(one.id, ({ status }) => status === 'FAILED')
    expect(failed.output.error).toMatchObject({ code: 'UNREACHABLE', message: expect.stringContaining('503') })
    mcp.mode = 'well'
    await play.deciders.decide(alice, other.id, true)
    await play.parley.runWhen(runId!)
    expect(await lastResults()).toMatchObject([{ error: { code: 'UNREACHABLE' } }, { paid: true }])
    await mcp.close()
  })

  test('an approver who returns counts again: a call with enough approvals by then is approved at once', async () => {
    const { alice, bob, space, runId } = await room([refundTool(play.service, { quorum: 2 })], [refund(3)])
    const call = await play.deciders.asked(alice)
    await play.deciders.decide(alice, call.id, true)
    await remove(alice, space)
    const half = await play.deciders.decide(bob, call.id, true)
    expect(half.toolCall.approval.state).toBe('PENDING')
    expect(half.toolCall.approval.decisions.map(({ counts }: Read) => counts)).toEqual([false, true])
    await add(alice, space)
    expect(await stateOf(call)).toBe('APPROVED')
    await play.parley.runWhen(runId!)
    expect(play.service.calls).toEqual([{ key: call.id, input: { amount: 3 } }])
  })

  test('an erased approver no longer counts: with too few left, the call is escalated at once, or EXPIRED', async () => {
    const approval = { quorum: 2, approverIds: ['@eve', '@carol'], expiresInSeconds: 600 }
    const others = { escalateAfterSeconds: 500, escalateToIds: ['@alice', '@bob'] }
    const tools = [
      refundTool(play.service, approval),
      { ...refundTool(play.service, { ...approval, ...others }), name: 'give' },
    ]
    const first = [refund(1), { toolCall: 'give', input: { amount: 2 } }]
    const { alice, bob, eve, runId } = await room(tools, first)
    await play.parley.runWhen(runId!, 'WAITING_TOOL')
    const [plain, shared] = await play.deciders.pendingOf(eve)
    for (const { id } of [plain, shared]) await play.deciders.decide(eve, id, true)
    await change('eraseHuman', { id: eve.id, messages: false })
    expect(await stateOf(plain)).toBe('EXPIRED')
    const escalated = await play.deciders.callFor(alice, shared.id)
    expect(escalated.approval).toMatchObject({ state: 'PENDING', mayDecide: true })
    expect(escalated.approval.decisions).toMatchObject([{ human: { name: 'Erased' }, counts: false }])
    await play.deciders.decide(alice, shared.id, true)
    expect(await stateOf(shared)).toBe('PENDING')
    await play.deciders.decide(bob, shared.id, true)
    await play.parley.runWhen(runId!)
    expect(play.service.calls.map(({ key }) => key)).toEqual([shared.id])
  })

  test('days of waiting do not count towards PARLEY_MAX_RUN_SECONDS, neither for a decision nor for the result after it', async () => {
    const approval = { expiresInSeconds: 2_592_000 }
    const ask = {
      name: 'ask',
      description: 'Asks.',
      inputSchema: { type: 'object' },
      execution: 'SPACE',
      approval,
      timeoutMs: 2_000_000_000,
    }
    const { alice, runId } = await room([ask], [{ toolCall: 'ask', input: {} }])
    const call = await play.deciders.asked(alice)
    const { prisma } = play.parley.app.platform.db
    // Moves all times of the run into the past by days.
    const daysGoBy = async () => {
      const { startedAt, deadlineAt } = await play.parley.runWhen(runId!, 'WAITING_TOOL')
      const earlier = (time: Date | null) => time && new Date(time.getTime() - DAYS_MS)
      const data = { startedAt: earlier(startedAt), deadlineAt: earlier(deadlineAt) }
      await prisma.run.update({ where: { id: runId! }, data })
    }
    await daysGoBy()
    await play.deciders.decide(alice, call.id, true)
    await daysGoBy()
    await play.deciders.submit(alice, call.id, true)
    expect(await play.parley.runWhen(runId!)).toMatchObject({ status: 'COMPLETED', stopReason: 'FINISHED' })
    expect(await lastResults()).toEqual([true])
  })
})
