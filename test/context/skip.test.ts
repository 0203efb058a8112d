import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { createDeferred } from '../../src/lib/async.ts'
import { RULE_STACKS, type TestApplication } from '../support/application.ts'
import { type McpServer, startMcpServer } from '../support/mcp-server.ts'
import { playMinds } from '../support/minds.ts'
import { forAgent, type ModelAction, type ModelRequest, steps } from '../support/model-server-script.ts'
import { answer, inboxIn, skip, spaceIn, type Thinking } from '../support/thinking.ts'
import { until } from '../support/until.ts'

/** Requirement 004, "Skip Cycle — `skip` Tool". */
describe.each(RULE_STACKS)('skip, on the %s stack', (stack) => {
  let parley: TestApplication
  let thinking: Thinking
  playMinds(stack, (opened) => {
    ;({ parley, thinking } = opened)
  })

  const db = () => parley.app.platform.db.prisma

  const room = () => parley.room('Ada', { mind: 'PERSISTENT' }, { name: 'Engineering' })

  /** Returns all rows of an agent's runs. */
  async function tracesOf(agentId: string) {
    const runs = await db().run.findMany({ where: { agentId } })
    const calls = await db().toolCall.findMany({ where: { agentId } })
    const steps = await db().$queryRaw<unknown[]>`
      SELECT 1 FROM "Step" s WHERE NOT EXISTS (SELECT 1 FROM "Run" r WHERE r.id = s."runId")`
    const cycles = await thinking.cyclesOf({ id: agentId })
    return { runs: runs.length, calls: calls.length, cycles: cycles.length, orphans: steps.length }
  }

  test('004 "The `skip` Prebuilt Tool": offered to a persistent mind everywhere, with the seed\'s words on when to use it', async () => {
    const { human, agent, space } = await room()
    parley.models.script(() => skip('Nothing for me.'))
    await parley.send(human, space.id, 'Hello')
    await thinking.rest(agent)
    const [request] = parley.models.requests as [ModelRequest]
    const tool = request.body.tools.find((entry: { function: { name: string } }) => entry.function.name === 'skip')
    expect(tool.function.description).toContain('another agent or a human will handle it')
    expect(tool.function.parameters.properties.reason.type).toBe('string')
    expect(tool.function.parameters.required ?? []).toEqual([])
    expect(request.instructions).toContain(
      'In multi-entity spaces, you will receive many messages that are not directed at you\nand are better handled by another agent or human in the space.',
    )
    expect(request.instructions).toContain('Call the skip() tool immediately. Do NOT send any messages first.')
  })

  test('004 "Why Full Rollback?": no messages, no run record, no cycle counted, no summary; the next cycle is as if it had not run', async () => {
    const { human, agent, space } = await room()
    parley.models.script(answer('Hello Husam.', [{ text: 'I greeted Husam.' }]))
    await parley.send(human, space.id, 'Hello Ada')
    await thinking.rest(agent)
    const before = await tracesOf(agent.id)
    parley.models.script((request) => (inboxIn(request).includes('lunch') ? skip('Not about work.') : undefined))
    const { message } = await parley.send(human, space.id, 'Who is coming to lunch?')
    await thinking.rest(agent)
    expect(await tracesOf(agent.id)).toEqual(before)
    expect(await thinking.cycleCountOf(agent)).toBe(1)
    expect(await thinking.outcomeOf(message, agent)).toMatchObject({
      kind: 'SKIPPED',
      reason: 'Not about work.',
      runId: null,
    })
    expect((await thinking.inboxOf(agent)).map(({ doneAt }) => doneAt !== null)).toEqual([true, true])
    await parley.send(human, space.id, 'Ada, one more thing')
    await thinking.rest(agent)
    const next = parley.models.requests.find((request) => inboxIn(request).includes('one more')) as ModelRequest
    expect(JSON.stringify(next.messages)).toContain('I greeted Husam.')
    expect(JSON.stringify(next.messages)).not.toContain('lunch?')
  })

  test('its run publishes its start, and ends with RunCanceled; operators find the reason in the log', async () => {
    const { human, agent, space } = await room()
    const gate = createDeferred()
    parley.models.script(() => [{ gate: gate.promise }, ...skip('Not for me.')])
    const logged = vi.spyOn(parley.app.platform.logger, 'info')
    await parley.send(human, space.id, 'Hello')
    const run = await thinking.cycleUnderWay(agent)
    gate.resolve()
    await thinking.rest(agent)
    const events = await until('its end is published', async () => {
      const told = await parley.eventsOf(run.id)
      return told.includes('RunCanceled') ? told : null
    })
    expect(events[0]).toBe('RunStarted')
    expect(events.filter((type) => /^Run(Completed|Failed|Canceled)$/.test(type))).toEqual(['RunCanceled'])
    expect(events.at(-1)).toBe('RunCanceled')
    expect(await db().run.findUnique({ where: { id: run.id } })).toBeNull()
    const line = { runId: run.id, agentId: agent.id, reason: 'Not for me.' }
    await until('its reason is logged', () => logged.mock.calls.length > 0)
    expect(logged.mock.calls).toEqual([[line, 'skipped a think cycle']])
    logged.mockRestore()
  })

  test('004 "Detection and Rollback" is structural: text about skipping does not skip', async () => {
    const { human, agent, space } = await room()
    parley.models.script(() => [{ text: '[SKIP] not for me, I call skip()' }])
    const { message } = await parley.send(human, space.id, 'Hello')
    await thinking.rest(agent)
    expect(await thinking.cyclesOf(agent)).toHaveLength(1)
    expect(await thinking.outcomeOf(message, agent)).toMatchObject({ kind: 'INBOX' })
  })

  test('a skip at a later step, before any message, rolls back the whole cycle', async () => {
    const { human, agent, space } = await room()
    parley.models.script((request) =>
      steps(
        [{ toolCall: 'enter_space', input: { spaceId: spaceIn(request) } }],
        [{ toolCall: 'read_messages', input: {} }],
        skip('I see.'),
      )(request),
    )
    const { message } = await parley.send(human, space.id, 'Hello')
    await thinking.rest(agent)
    expect(parley.models.requests).toHaveLength(3)
    expect(await tracesOf(agent.id)).toEqual({ runs: 0, calls: 0, cycles: 0, orphans: 0 })
    expect(await thinking.outcomeOf(message, agent)).toMatchObject({ kind: 'SKIPPED', reason: 'I see.' })
  })

  test('after a message it ends the cycle normally', async () => {
    const { human, agent, space } = await room()
    parley.models.script(answer('Hello Husam.', skip('That is all.')))
    const { message } = await parley.send(human, space.id, 'Hello')
    await thinking.rest(agent)
    const [run] = await thinking.runsOf(agent)
    expect(run).toMatchObject({ status: 'COMPLETED', summary: 'That is all.' })
    expect(await thinking.cyclesOf(agent)).toMatchObject([{ index: 0, summary: 'That is all.' }])
    expect(await thinking.outcomeOf(message, agent)).toMatchObject({ kind: 'INBOX', runId: run?.id })
  })

  describe('after a change outside the cycle', () => {
    let server: McpServer
    beforeAll(async () => {
      server = await startMcpServer([{ name: 'pay', answer: () => ({ content: [{ type: 'text', text: 'Paid.' }] }) }])
    })
    afterAll(() => server?.close())

    const known = { goal: '' }
    const NOTE = { key: 'ticket', value: '7' }
    const PLAN = { name: 'Look', instruction: 'Look again.', cron: '0 0 1 1 *' }

    test.each<[toolName: string, output: string, inputOf: () => object]>([
      ['make_ticket', 'status 404', () => ({})],
      ['bank__pay', 'Paid.', () => ({})],
      ['set_memories', '"success":true', () => ({ memories: [NOTE] })],
      ['set_goals', '"success":true', () => ({ goals: [{ description: 'Close it.' }] })],
      ['set_plans', '"success":true', () => ({ plans: [PLAN] })],
      ['delete_memories', '"notFound":[]', () => ({ keys: [NOTE.key] })],
      ['delete_goals', '"notFound":[]', () => ({ ids: [known.goal] })],
      ['delete_plans', '"notFound":[]', () => ({ names: [PLAN.name] })],
    ])('after %s, a skip ends the cycle normally, and the change is kept', async (toolName, output, inputOf) => {
      const url = `${parley.models.baseUrl}/ticket`
      const ticket = { name: 'make_ticket', description: 'Makes a ticket.', inputSchema: { type: 'object' }, url }
      const tools = [{ ...ticket, execution: 'HTTP' as const }]
      const mcpServers = [{ name: 'bank', url: server.url }]
      const { human, agent, space } = await parley.room('Ada', { mind: 'PERSISTENT', tools, mcpServers })
      const { memories, goals, plans } = parley.app.domain
      if (toolName.startsWith('delete')) {
        await Promise.all([memories.set(agent.id, [NOTE]), plans.setOwn(agent.id, [PLAN])])
        known.goal = (await goals.set(agent.id, [{ description: 'Close it.' }]))[0]?.id ?? ''
      }
      parley.models.script(steps([{ toolCall: toolName, input: inputOf() }], skip('Done already.')))
      const { message } = await parley.send(human, space.id, 'Hello')
      await thinking.rest(agent)
      expect(await thinking.runsOf(agent)).toMatchObject([{ status: 'COMPLETED', summary: 'Done already.' }])
      const call = await db().toolCall.findFirst({ where: { agentId: agent.id, toolName } })
      expect(JSON.stringify(call?.output)).toContain(output)
      expect(JSON.stringify((await thinking.cyclesOf(agent)).map(({ messages }) => messages))).toContain(toolName)
      expect(await thinking.outcomeOf(message, agent)).toMatchObject({ kind: 'INBOX' })
    })
  })

  test('calls after it in the same step are not executed', async () => {
    const { human, agent, space } = await room()
    parley.models.script((request) =>
      steps(
        [{ toolCall: 'enter_space', input: { spaceId: spaceIn(request) } }],
        [
          ...skip('Not for me.'),
          { toolCall: 'send_message', input: { text: 'But still!' } },
          { toolCall: 'set_memories', input: { memories: [{ key: 'mood', value: 'stubborn' }] } },
        ],
      )(request),
    )
    await parley.send(human, space.id, 'Hello')
    await thinking.rest(agent)
    expect(await parley.messages(space.id)).toHaveLength(1)
    expect(await tracesOf(agent.id)).toEqual({ runs: 0, calls: 0, cycles: 0, orphans: 0 })
    expect(await parley.app.platform.db.prisma.memory.count({ where: { agentId: agent.id } })).toBe(0)
  })

  test('all messages of a skipped cycle have the outcome', async () => {
    const { human, agent, space } = await room()
    const gate = createDeferred()
    parley.models.script((request) =>
      inboxIn(request).includes('"One"') ? [{ gate: gate.promise }, { text: 'Read.' }] : skip('Neither.'),
    )
    await parley.send(human, space.id, 'One')
    await parley.models.request((request) => inboxIn(request).includes('"One"'))
    const two = await parley.send(human, space.id, 'Two')
    const three = await parley.send(human, space.id, 'Three')
    gate.resolve()
    await thinking.rest(agent)
    for (const { message } of [two, three]) {
      expect(await thinking.outcomeOf(message, agent)).toMatchObject({
        kind: 'SKIPPED',
        reason: 'Neither.',
        runId: null,
      })
    }
    expect(await thinking.runsOf(agent)).toHaveLength(1)
  })

  test('an event that arrived during the skip gets a cycle of its own', async () => {
    const { human, agent, space } = await room()
    const gate = createDeferred()
    parley.models.script((request) =>
      inboxIn(request).includes('"One"') ? [{ gate: gate.promise }, ...skip('No.')] : [{ text: 'Read.' }],
    )
    await parley.send(human, space.id, 'One')
    await parley.models.request((request) => inboxIn(request).includes('"One"'))
    await parley.send(human, space.id, 'Two')
    gate.resolve()
    await thinking.rest(agent)
    expect(await thinking.cyclesOf(agent)).toMatchObject([{ index: 0, summary: 'Read.' }])
  })

  test('under MENTION_CHAIN routing a skip pops the reply stack: the waiting agent is called back', async () => {
    const human = await parley.human('Husam')
    const [ada, bob] = [await thinking.bot('Ada'), await thinking.bot('Bob')]
    const space = await parley.space(human, [ada.id, bob.id], { routing: 'MENTION_CHAIN' })
    const said: ModelAction[] = [{ toolCall: 'send_message', input: { text: 'Bob, what do you think?' } }]
    const mention: ModelAction = {
      toolCall: 'mentionAgent',
      input: { targetAgentEntityId: bob.id, reason: 'An opinion', expectReply: true },
    }
    parley.models.script(
      forAgent('Ada', (request) =>
        inboxIn(request).includes('Begin')
          ? steps([{ toolCall: 'enter_space', input: { spaceId: space.id } }], said, [mention])(request)
          : [{ text: 'Bob had nothing to say.' }],
      ),
    )
    parley.models.script(forAgent('Bob', () => skip('No opinion.')))
    await parley.send(human, space.id, 'Begin')
    await thinking.rest(ada, bob)
    expect(await thinking.runsOf(bob)).toEqual([])
    expect(await thinking.cyclesOf(ada)).toMatchObject([{ index: 0 }, { index: 1, summary: 'Bob had nothing to say.' }])
    const [chain] = await db().chain.findMany({ where: { spaceId: space.id } })
    expect(chain).toMatchObject({ replyStack: [], holderId: null })
  })
})
