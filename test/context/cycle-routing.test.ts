import { describe, expect, test } from 'vitest'
import { createDeferred } from '../../src/lib/async.ts'
import { RULE_STACKS, type TestApplication } from '../support/application.ts'
import { playMinds } from '../support/minds.ts'
import { forAgent, type ModelRequest, steps } from '../support/model-server-script.ts'
import { answer, inboxIn, interjectionIn, type Thinking } from '../support/thinking.ts'
import { enter, say } from '../support/turns.ts'

describe.each(RULE_STACKS)('persistent agents in every routing, on the %s stack', (stack) => {
  let parley: TestApplication
  let thinking: Thinking
  playMinds(stack, (opened) => {
    ;({ parley, thinking } = opened)
  })

  const held = (gate: Promise<unknown>) => (request: ModelRequest) =>
    inboxIn(request).includes('"One"') ? [{ gate }, { text: 'Read.' }] : [{ text: 'Read.' }]

  test('BROADCAST: events of several spaces share a cycle, which has no trigger', async () => {
    const human = await parley.human('Husam')
    const agent = await thinking.bot('Ada')
    const [first, second] = [await parley.space(human, [agent.id]), await parley.space(human, [agent.id])]
    const gate = createDeferred()
    parley.models.script(held(gate.promise))
    await parley.send(human, first.id, 'One')
    await thinking.cycleUnderWay(agent)
    await parley.send(human, first.id, 'Two')
    await parley.send(human, second.id, 'Three')
    gate.resolve()
    await thinking.rest(agent)
    expect((await thinking.runsOf(agent))[1]).toMatchObject({
      triggerSummary: '2 inbox events',
      triggerSpaceId: null,
      triggerMessageId: null,
      triggerSenderId: human.id,
    })
  })

  test('BROADCAST: a message has the event that it answers as its origin: none in the event’s own space, else the common fields', async () => {
    const human = await parley.human('Husam')
    const agent = await thinking.bot('Ada')
    const [first, second] = [await parley.space(human, [agent.id]), await parley.space(human, [agent.id])]
    const other = await parley.space(human, [agent.id])
    const gate = createDeferred()
    parley.models.script((request) =>
      inboxIn(request).includes('"One"')
        ? [{ gate: gate.promise }, { text: 'Read.' }]
        : steps(
            [enter(first), say('Here.')],
            [enter(second), say('There.')],
            [enter(other), say('Elsewhere.')],
          )(request),
    )
    await parley.send(human, first.id, 'One')
    await thinking.cycleUnderWay(agent)
    await parley.send(human, first.id, 'Two')
    await parley.send(human, second.id, 'Three')
    gate.resolve()
    await thinking.rest(agent)
    const lastIn = async ({ id }: { id: string }) =>
      (await parley.messages(id)).findLast(({ senderId }) => senderId === agent.id)
    expect([(await lastIn(first))?.origin, (await lastIn(second))?.origin]).toEqual([null, null])
    expect((await lastIn(other))?.origin).toMatchObject({
      triggerType: 'SPACE_MESSAGE',
      triggerSpaceId: null,
      triggerMessage: null,
    })
  })

  test('BROADCAST: a message has the kind of its event: a service by name, a result, and none for several kinds', async () => {
    const human = await parley.human('Husam')
    const ask = { name: 'ask', description: 'Asks.', inputSchema: { type: 'object' }, execution: 'EXTERNAL' as const }
    const agent = await thinking.bot('Ada', {}, { tools: [ask] })
    const [home, other] = [await parley.space(human, [agent.id]), await parley.space(human, [agent.id])]
    const gate = createDeferred()
    parley.models.script((request) =>
      inboxIn(request).includes('"One"')
        ? steps([{ toolCall: 'ask', input: {} }], [{ gate: gate.promise }, { text: 'Asked.' }])(request)
        : steps([enter(other), say('Elsewhere.')])(request),
    )
    const { control } = parley.app.domain
    const callFromJira = () =>
      control.triggerAgent(parley.admin, { agentId: agent.id, serviceName: 'jira', payload: {} })
    await parley.send(human, home.id, 'One')
    await parley.models.request(({ step }) => step === 1)
    await parley.send(human, home.id, 'Two')
    await callFromJira()
    gate.resolve()
    await thinking.rest(agent)
    await callFromJira()
    await thinking.rest(agent)
    const [call] = await control.pendingToolCalls(parley.admin)
    await control.submitToolResult(parley.admin, { toolCallId: call?.id ?? '', result: 7 })
    await thinking.rest(agent)
    const nothing = { triggerSpaceId: null, triggerSpaceName: null, triggerSenderName: null, triggerMessage: null }
    expect((await parley.messages(other.id)).map(({ origin }) => origin)).toEqual([
      { triggerType: 'INBOX', triggerName: null, ...nothing },
      { triggerType: 'SERVICE', triggerName: 'jira', ...nothing },
      { triggerType: 'INBOX', triggerName: null, ...nothing },
    ])
  })

  test.each(['ADMIN', 'MENTION_CHAIN'] as const)(
    '%s: an event has its own cycle, with its trigger',
    async (routing) => {
      const human = await parley.human('Husam')
      const agent = await thinking.bot('Solo')
      const space = await parley.space(human, [agent.id], { routing })
      const gate = createDeferred()
      parley.models.script(held(gate.promise))
      await parley.send(human, space.id, 'One')
      const first = await thinking.cycleUnderWay(agent)
      const sent = [await parley.send(human, space.id, 'Two'), await parley.send(human, space.id, 'Three')]
      gate.resolve()
      await thinking.rest(agent)
      const runs = await thinking.runsOf(agent)
      expect(runs.map(({ triggerSummary }) => triggerSummary)).toEqual(Array.from({ length: 3 }, () => '1 inbox event'))
      expect(runs[0]).toMatchObject({ id: first.id, triggerSpaceId: space.id, triggerSenderId: human.id })
      expect(runs.slice(1).map(({ triggerMessageId }) => triggerMessageId)).toEqual(
        sent.map(({ message }) => message.id),
      )
      expect(runs.every(({ chainId }) => (chainId !== null) === (routing === 'MENTION_CHAIN'))).toBe(true)
    },
  )

  test('BROADCAST: a tool that another agent shows arrives with its name and result; a waiting one after it was answered', async () => {
    const human = await parley.human('Husam')
    const tool = (name: string, execution: 'INTERNAL' | 'SPACE') => ({
      name,
      description: 'Shows.',
      inputSchema: { type: 'object' },
      visible: true,
      execution,
    })
    const painter = await parley.agent('Painter', { tools: [tool('chart', 'INTERNAL'), tool('approve', 'SPACE')] })
    const ada = await thinking.bot('Ada')
    const space = await parley.space(human, [painter.id, ada.id], { name: 'Family' })
    parley.models.script(() => [{ text: 'Read.' }])
    parley.models.script(
      forAgent(
        'Painter',
        steps([{ toolCall: 'chart', input: { bars: [1, 2] } }], [{ toolCall: 'approve', input: {} }]),
      ),
    )
    const { runs } = await parley.send(human, space.id, 'Draw it, and ask me')
    await parley.runWhen(runs[0]?.id ?? '', 'WAITING_TOOL')
    const [call] = await parley.app.domain.control.pendingToolCalls(human)
    await parley.app.domain.control.submitToolResult(human, { toolCallId: call?.id ?? '', result: { approved: true } })
    await parley.runWhen(runs[0]?.id ?? '')
    await thinking.rest(ada)
    const contents = (await thinking.inboxOf(ada)).map(({ payload }) => (payload as { content: string }).content)
    expect(contents).toEqual([
      'Draw it, and ask me',
      '[chart: done → {"bars":[1,2]}]',
      '[approve: done → {"approved":true}]',
    ])
  })

  test('an event with its own cycle ends the batch before it', async () => {
    const human = await parley.human('Husam')
    const agent = await thinking.bot('Ada')
    const open = await parley.space(human, [agent.id])
    const admin = await parley.space(human, [agent.id], { routing: 'ADMIN' })
    const gate = createDeferred()
    parley.models.script(held(gate.promise))
    await parley.send(human, open.id, 'One')
    await thinking.cycleUnderWay(agent)
    for (const space of [open, open, admin, open]) await parley.send(human, space.id, 'More')
    gate.resolve()
    await thinking.rest(agent)
    const runs = await thinking.runsOf(agent)
    expect(runs.map(({ triggerSummary, triggerSpaceId }) => [triggerSummary, triggerSpaceId])).toEqual([
      ['1 inbox event', open.id],
      ['2 inbox events', open.id],
      ['1 inbox event', admin.id],
      ['1 inbox event', open.id],
    ])
  })

  test('a cycle for one event claims no urgent events, and only lists them as waiting', async () => {
    const human = await parley.human('Husam')
    const agent = await thinking.bot('Ada')
    const space = await parley.space(human, [agent.id], { routing: 'ADMIN' })
    const gate = createDeferred()
    parley.models.script((request) =>
      inboxIn(request).includes('"One"') && request.step === 0
        ? [{ gate: gate.promise }, { toolCall: 'get_my_runs', input: {} }]
        : [{ text: 'Read.' }],
    )
    await parley.send(human, space.id, 'One')
    await thinking.cycleUnderWay(agent)
    const event = { agentId: agent.id, serviceName: 'pager', payload: { down: true }, urgent: true }
    await parley.app.domain.control.triggerAgent(parley.admin, event)
    gate.resolve()
    await thinking.rest(agent)
    expect(interjectionIn(parley.models.requests[1] as ModelRequest)).toMatch(/^\[INBOX PREVIEW — 1 waiting\]/)
    expect(await thinking.runsOf(agent)).toHaveLength(2)
  })

  test('ADMIN: a persistent admin agent delegates its trigger silently; a persistent agent gets it in its inbox', async () => {
    const human = await parley.human('Husam')
    const [boss, worker] = [await thinking.bot('Boss'), await thinking.bot('Worker')]
    const space = await parley.space(human, [boss.id, worker.id], { routing: 'ADMIN', adminAgentId: boss.id })
    parley.models.script(
      forAgent('Boss', (request) => {
        const tool = request.toolNames.find((name) => name === 'delegateToAgent') ?? ''
        const schema = request.body.tools.find((entry: { function: { name: string } }) => entry.function.name === tool)
        const target = Object.keys(schema.function.parameters.properties).find((name) => /agent/i.test(name)) ?? ''
        return [{ toolCall: tool, input: { [target]: worker.id, reason: 'Worker knows.' } }]
      }),
    )
    parley.models.script(forAgent('Worker', answer('I do it.')))
    const { message } = await parley.send(human, space.id, 'Please fix the build')
    await thinking.rest(boss)
    await thinking.rest(worker)
    const said = (await parley.messages(space.id)).map(({ senderId, parts }) => [senderId, parts])
    expect(said.slice(1)).toEqual([[worker.id, [{ type: 'text', text: 'I do it.' }]]])
    expect(await thinking.runsOf(boss)).toMatchObject([{ status: 'CANCELED', triggerMessageId: message.id }])
    expect(await thinking.runsOf(worker)).toMatchObject([{ status: 'COMPLETED', triggerMessageId: message.id }])
    const [cycle] = await thinking.cyclesOf(boss)
    expect(JSON.stringify(cycle?.messages)).not.toContain('was stopped')
    expect(cycle?.summary).toContain('delegateToAgent')
  })
})
