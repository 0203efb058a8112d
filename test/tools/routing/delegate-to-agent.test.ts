import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { RULE_STACKS, startApplication, type TestApplication } from '../../support/application.ts'
import { forAgent, type ModelAction, steps } from '../../support/model-server-script.ts'
import { callsOf, endedRun, messagesOf, runsOf, sayIn, spaceToolsRoom, textsOf } from '../../support/space-tools.ts'
import { until } from '../../support/until.ts'

const delegate = (targetAgentEntityId: string | undefined): ModelAction => ({
  toolCall: 'delegateToAgent',
  input: { targetAgentEntityId },
})
describe.each(RULE_STACKS)('delegateToAgent, on the %s stack', (stack) => {
  let parley: TestApplication

  beforeAll(async () => {
    parley = await startApplication({ stack })
  })
  afterAll(() => parley?.close())
  beforeEach(() => parley.models.reset())

  const prisma = () => parley.app.platform.db.prisma

  test('the admin’s run is CANCELED and leaves no trace; the target gets the human’s message as if it were the recipient', async () => {
    const { human, agents, space } = await spaceToolsRoom(parley, { names: ['Ada', 'Bea'] })
    const [ada, bea] = agents
    parley.models.script(forAgent('Ada', steps([delegate(bea?.id)])))
    parley.models.script(forAgent('Bea', steps([sayIn(space.id, 'Here is the budget.')])))
    const { message, runs } = await parley.send(human, space.id, 'What is the budget?')
    const admin = await parley.runWhen(runs[0]?.id ?? '')
    const target = await endedRun(parley, bea?.id ?? '')
    expect(admin).toMatchObject({ status: 'CANCELED', agentId: ada?.id })
    const same = [
      'triggerType',
      'triggerName',
      'triggerSpaceId',
      'triggerMessageId',
      'triggerSenderId',
      'triggerSummary',
      'triggerPayload',
      'activeSpaceId',
      'depth',
      'rootId',
    ] as const
    for (const field of same) expect([field, target[field]]).toEqual([field, admin[field]])
    expect(target).toMatchObject({ status: 'COMPLETED', parentRunId: admin.id })
    expect((await parley.messages(space.id)).map(textsOf)).toEqual([['What is the budget?'], ['Here is the budget.']])
    expect(await messagesOf(parley, space.id, ada?.id ?? '')).toEqual([])
    const request = await parley.models.request(({ instructions }) => instructions.includes('You are Bea'))
    const prompt = request.messages.map(({ text }) => text).join('\n')
    expect(prompt).toContain('TRIGGER: a message from Husam (human)')
    expect(prompt).not.toMatch(/delegat|handed/i)
    expect(
      await prisma().outcome.findMany({ where: { messageId: message.id }, orderBy: { agentId: 'asc' } }),
    ).toMatchObject([
      { agentId: ada?.id, kind: 'NOT_ROUTED' },
      { agentId: bea?.id, kind: 'RUN', runId: target.id },
    ])
  })

  test('the target may be a persistent agent: the message goes to its inbox', async () => {
    const { human, agents, space } = await spaceToolsRoom(parley, { names: ['Ada'] })
    const mind = await parley.agent('Mia', { mind: 'PERSISTENT' })
    await parley.app.domain.members.add(human, { spaceId: space.id, entityId: mind.id })
    parley.models.script(forAgent('Ada', steps([delegate(mind.id)])))
    parley.models.script(forAgent('Mia', () => [{ text: 'I know.' }]))
    const { message, runs } = await parley.send(human, space.id, 'For Mia')
    expect(await parley.runWhen(runs[0]?.id ?? '')).toMatchObject({ status: 'CANCELED', agentId: agents[0]?.id })
    const event = await until('it arrives', () => prisma().inboxEvent.findFirst({ where: { agentId: mind.id } }))
    expect(event).toMatchObject({ type: 'SPACE_MESSAGE', messageId: message.id, rootId: message.id, depth: 0 })
  })

  describe('in the tools of an agent', () => {
    const toolsOf = async (name: string) =>
      (await parley.models.request(({ instructions }) => instructions.includes(`You are ${name}`))).toolNames

    beforeEach(() => {
      parley.models.script(() => [{ text: 'Seen.' }])
    })

    test('is offered to the admin agent of a space with more than one agent, in both toolsets', async () => {
      for (const toolset of ['SPACE_TOOLS', 'ACTIVE_SPACE'] as const) {
        parley.models.reset()
        parley.models.script(() => [{ text: 'Seen.' }])
        const { human, space } = await spaceToolsRoom(parley, { names: ['Ada', 'Bea'], input: { toolset } })
        const { runs } = await parley.send(human, space.id, 'Hello')
        await parley.runWhen(runs[0]?.id ?? '')
        expect(await toolsOf('Ada')).toContain('delegateToAgent')
      }
    })

    test('is not offered to the only agent', async () => {
      const { human, space } = await spaceToolsRoom(parley, { names: ['Ada'] })
      const { runs } = await parley.send(human, space.id, 'Hello')
      await parley.runWhen(runs[0]?.id ?? '')
      expect(await toolsOf('Ada')).not.toContain('delegateToAgent')
    })

    test('is not offered to other agents', async () => {
      const { human, agents, space } = await spaceToolsRoom(parley, { names: ['Ada', 'Bea'] })
      parley.models.script(forAgent('Ada', steps([sayIn(space.id, 'Bea?', { mention: agents[1]?.id })])))
      const { runs } = await parley.send(human, space.id, 'Hello')
      await parley.runWhen(runs[0]?.id ?? '')
      await endedRun(parley, agents[1]?.id ?? '')
      expect(await toolsOf('Bea')).not.toContain('delegateToAgent')
    })

    test('is not offered in a run that another space, or a service, has triggered', async () => {
      const { human, agents } = await spaceToolsRoom(parley, { names: ['Ada', 'Bea'] })
      const elsewhere = await parley.space(human, [agents[0]?.id ?? ''], { routing: 'ADMIN' })
      const { runs } = await parley.send(human, elsewhere.id, 'Hello')
      await parley.runWhen(runs[0]?.id ?? '')
      const called = { agentId: agents[0]?.id ?? '', serviceName: 'test', payload: {} }
      await parley.app.domain.control.triggerAgent(parley.admin, called)
      await endedRun(parley, agents[0]?.id ?? '', 1)
      for (const { toolNames } of parley.models.requests) expect(toolNames).not.toContain('delegateToAgent')
    })

    test('is not offered under another routing', async () => {
      const { human, agents, space } = await spaceToolsRoom(parley, {
        names: ['Ada', 'Bea'],
        space: { routing: 'BROADCAST' },
      })
      await parley.send(human, space.id, 'Hello')
      for (const { id } of agents) await endedRun(parley, id)
      expect(await toolsOf('Ada')).not.toContain('delegateToAgent')
    })
  })

  describe('is refused', () => {
    /** Returns the admin agent's result. Also checks that the run continued and woke nobody else. */
    async function refused(
      target: (room: Awaited<ReturnType<typeof spaceToolsRoom>>) => Promise<string> | string,
      before: ModelAction[] = [],
    ) {
      const room = await spaceToolsRoom(parley, { names: ['Ada', 'Bea'] })
      const id = await target(room)
      const words = before.map((action) =>
        'input' in action ? { ...action, input: { ...(action.input as object), spaceId: room.space.id } } : action,
      )
      parley.models.script(forAgent('Ada', steps([...words, delegate(id)], [{ text: 'Well.' }])))
      const { runs } = await parley.send(room.human, room.space.id, 'Hello')
      const run = await parley.runWhen(runs[0]?.id ?? '')
      expect(run).toMatchObject({ status: 'COMPLETED' })
      expect(await runsOf(parley, room.agents[1]?.id ?? '')).toEqual([])
      return (await callsOf(parley, run.id)).at(-1)?.output
    }

    test.each([
      ['to itself', 'SELF_MENTION', (room: Awaited<ReturnType<typeof spaceToolsRoom>>) => room.agents[0]?.id ?? ''],
      ['to a human', 'NOT_AN_AGENT', (room: Awaited<ReturnType<typeof spaceToolsRoom>>) => room.human.id],
      ['to an agent that is not a member', 'NOT_A_MEMBER', async () => (await parley.agent('Stranger')).id],
      ['to an unknown id', 'NOT_A_MEMBER', () => 'agt_nobody'],
    ])('%s', async (_, code, target) => {
      expect(await refused(target)).toMatchObject({ error: { code } })
    })

    test('is refused after a message has started in the space', async () => {
      expect(await refused((room) => room.agents[1]?.id ?? '', [sayIn('', 'One moment')])).toMatchObject({
        error: { code: 'ALREADY_SPOKEN' },
      })
    })

    test('is refused if the target has already received this message, so that no loop is possible', async () => {
      const { human, agents, space } = await spaceToolsRoom(parley, { names: ['Ada', 'Bea'] })
      const [ada, bea] = agents
      parley.models.script(forAgent('Ada', steps([delegate(bea?.id)])))
      parley.models.script(forAgent('Bea', steps([sayIn(space.id, 'Ada, it is yours', { mention: ada?.id })])))
      const { runs } = await parley.send(human, space.id, 'Hello')
      await parley.runWhen(runs[0]?.id ?? '')
      const again = await endedRun(parley, ada?.id ?? '', 1)
      expect(again).toMatchObject({ status: 'COMPLETED', triggerSenderId: bea?.id })
      expect((await callsOf(parley, again.id))[0]?.output).toMatchObject({ error: { code: 'ALREADY_TRIGGERED' } })
      expect(await runsOf(parley, bea?.id ?? '')).toHaveLength(1)
    })

    test('works together with later calls of the same step, and no part of the run is shown', async () => {
      const { human, agents, space } = await spaceToolsRoom(parley, { names: ['Ada', 'Bea'] })
      parley.models.script(forAgent('Ada', steps([delegate(agents[1]?.id), sayIn(space.id, 'Over to Bea!')])))
      parley.models.script(forAgent('Bea', () => [{ text: 'Seen.' }]))
      const { runs } = await parley.send(human, space.id, 'Hello')
      expect(await parley.runWhen(runs[0]?.id ?? '')).toMatchObject({ status: 'CANCELED' })
      expect((await callsOf(parley, runs[0]?.id ?? ''))[1]).toMatchObject({
        output: { error: { code: 'RUN_IS_OVER' } },
      })
      expect(await messagesOf(parley, space.id, agents[0]?.id ?? '')).toEqual([])
      await endedRun(parley, agents[1]?.id ?? '')
    })
  })

  test('messages of the admin agent in other spaces stay, and are complete', async () => {
    const { human, agents, space } = await spaceToolsRoom(parley, { names: ['Ada', 'Bea'] })
    const other = await parley.space(human, [agents[0]?.id ?? ''], { routing: 'ADMIN' })
    parley.models.script(forAgent('Ada', steps([sayIn(other.id, 'A question came in.'), delegate(agents[1]?.id)])))
    parley.models.script(forAgent('Bea', () => [{ text: 'Seen.' }]))
    const { runs } = await parley.send(human, space.id, 'Hello')
    expect(await parley.runWhen(runs[0]?.id ?? '')).toMatchObject({ status: 'CANCELED' })
    expect(await messagesOf(parley, other.id, agents[0]?.id ?? '')).toMatchObject([{ status: 'COMPLETE' }])
    await endedRun(parley, agents[1]?.id ?? '')
  })
})
