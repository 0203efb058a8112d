import { describe, expect, test } from 'vitest'
import type { CreateAgentInput } from '../../src/agents/agent-input.ts'
import type { CycleSettingsInput } from '../../src/agents/cycle-settings.ts'
import { createDeferred } from '../../src/lib/async.ts'
import { estimateTokens } from '../../src/lib/token-estimate.ts'
import { RULE_STACKS, type TestApplication } from '../support/application.ts'
import { playMinds } from '../support/minds.ts'
import type { ModelAction, ModelRequest } from '../support/model-server-script.ts'
import { imbalanceOf, inboxIn, interjectionIn, skip, type Thinking } from '../support/thinking.ts'

/** Requirement 004, "prepareStep — Dynamic Per-Step Configuration". */
describe.each(RULE_STACKS)('between the steps of a cycle, on the %s stack', (stack) => {
  let parley: TestApplication
  let thinking: Thinking
  playMinds(stack, (opened) => {
    ;({ parley, thinking } = opened)
  })

  const LOOK: ModelAction = { toolCall: 'get_my_runs', input: {} }

  /** Starts a cycle of three steps, which is paused in the first until `go`. Its requests contain "Begin". */
  async function heldCycle(cycle: CycleSettingsInput, input: Partial<CreateAgentInput> = {}) {
    const human = await parley.human('Husam')
    const agent = await thinking.bot('Ada', cycle, input)
    const space = await parley.space(human, [agent.id], { name: 'Family' })
    const gate = createDeferred()
    let step = 0
    parley.models.script((request) => {
      if (!inboxIn(request).includes('"Begin"')) return [{ text: 'Read.' }]
      step += 1
      if (step === 1) return [{ gate: gate.promise }, LOOK]
      return step === 2 ? [LOOK] : [{ text: 'Done.' }]
    })
    await parley.send(human, space.id, 'Begin')
    await parley.models.request((request) => inboxIn(request).includes('"Begin"'))
    const requests = () =>
      parley.models.requests.filter((request) => inboxIn(request).includes('"Begin"')) as ModelRequest[]
    return { human, agent, space, go: gate.resolve, requests }
  }

  const call = (agentId: string, payload: object, urgent = false) =>
    parley.app.domain.control.triggerAgent(parley.admin, { agentId, serviceName: 'pager', payload, urgent })

  test('strategy 1, no awareness: new events wait for the next cycle unseen', async () => {
    const { human, agent, space, go, requests } = await heldCycle({ inboxPreview: false, urgentInjection: false })
    await parley.send(human, space.id, 'Actually cancel that')
    await call(agent.id, { down: true }, true)
    go()
    await thinking.rest(agent)
    expect(requests().map(interjectionIn)).toEqual([null, null, null])
    expect((await thinking.runsOf(agent)).map(({ triggerSummary }) => triggerSummary)).toEqual([
      '1 inbox event',
      '2 inbox events',
    ])
  })

  test('strategy 2, preview: sender, space and the first 50 characters, fewer than 50 tokens for two events, for that step only', async () => {
    const { human, agent, space, go, requests } = await heldCycle({ urgentInjection: false })
    const long = `Actually cancel that, I changed my mind about everything${' and more'.repeat(20)}`
    await parley.send(human, space.id, long)
    await parley.send(human, space.id, 'The deadline moved to Friday')
    go()
    await thinking.rest(agent)
    const [first, second, third] = requests() as [ModelRequest, ModelRequest, ModelRequest]
    const preview = [
      '[INBOX PREVIEW — 2 waiting]',
      `  [Family] Husam: "${long.slice(0, 50)}..."`,
      '  [Family] Husam: "The deadline moved to Friday..."',
    ].join('\n')
    expect(interjectionIn(first)).toBeNull()
    expect(interjectionIn(second)).toBe(preview)
    expect(interjectionIn(third)).toBe(preview)
    expect(estimateTokens(preview)).toBeLessThan(50)
    // The SDK keeps messages for later steps, so check that the earlier preview is gone.
    expect(third.messages.filter(({ text }) => text.startsWith('[INBOX PREVIEW'))).toHaveLength(1)
    const [cycle] = await thinking.cyclesOf(agent)
    expect(JSON.stringify(cycle?.messages)).not.toContain('INBOX PREVIEW')
    expect((await thinking.runsOf(agent)).at(-1)?.triggerSummary).toBe('2 inbox events')
  })

  test('a preview has at most 10 lines', async () => {
    const { human, agent, space, go, requests } = await heldCycle({})
    for (let n = 1; n <= 12; n++) await parley.send(human, space.id, `Message ${n}`)
    go()
    await thinking.rest(agent)
    const lines = interjectionIn(requests()[1] as ModelRequest)?.split('\n') ?? []
    expect(lines[0]).toBe('[INBOX PREVIEW — 12 waiting]')
    expect(lines).toHaveLength(11)
    expect(lines[10]).toContain('Message 10...')
  })

  test('strategy 3, full injection: urgent events in full, claimed from the inbox, kept at their position', async () => {
    const { agent, go, requests } = await heldCycle({ inboxPreview: false })
    await call(agent.id, { server: 'db-1', state: 'down' }, true)
    await call(agent.id, { server: 'db-2', state: 'slow' })
    go()
    await thinking.rest(agent)
    const [, second, third] = requests() as [ModelRequest, ModelRequest, ModelRequest]
    const urgent = '[URGENT]\n- [SERVICE pager] {"state":"down","server":"db-1"}'
    expect(interjectionIn(second)).toBe(urgent)
    expect(interjectionIn(third)).toBeNull()
    expect(third.messages.map(({ role }) => role).slice(1)).toEqual([
      'user',
      'assistant',
      'tool',
      'user',
      'assistant',
      'tool',
    ])
    const [cycle, next] = await thinking.cyclesOf(agent)
    const messages = cycle?.messages as { role: string; content: unknown }[]
    expect(messages.map(({ role }) => role)).toEqual([
      'user',
      'assistant',
      'tool',
      'user',
      'assistant',
      'tool',
      'assistant',
    ])
    expect(messages[3]?.content).toBe(urgent)
    expect(imbalanceOf(messages)).toBeNull()
    expect(JSON.stringify(next?.messages)).toContain('db-2')
    expect(JSON.stringify(next?.messages)).not.toContain('db-1')
  })

  test('strategies combined: urgent events first, then the preview of the rest', async () => {
    const { human, agent, space, go, requests } = await heldCycle({})
    await parley.send(human, space.id, 'By the way')
    await call(agent.id, { down: true }, true)
    go()
    await thinking.rest(agent)
    const [, second, third] = requests() as [ModelRequest, ModelRequest, ModelRequest]
    expect(interjectionIn(second)).toBe('[URGENT]\n- [SERVICE pager] {"down":true}')
    expect(interjectionIn(third)).toBe('[INBOX PREVIEW — 1 waiting]\n  [Family] Husam: "By the way..."')
  })

  test('messages of `urgentFrom`, a human or a space, count as urgent', async () => {
    const boss = await parley.human('Boss')
    const { agent, space, go, requests } = await heldCycle({ urgentFrom: [boss.id] })
    await parley.app.domain.members.add(parley.admin, { spaceId: space.id, entityId: boss.id })
    await parley.send(boss, space.id, 'Stop that')
    go()
    await thinking.rest(agent)
    expect(interjectionIn(requests()[1] as ModelRequest)).toBe(
      `[URGENT]\n- [Family (id: ${space.id})] Boss (human): "Stop that"`,
    )
    expect(await thinking.runsOf(agent)).toHaveLength(1)
  })

  test("a cycle that claims a deeper urgent event gets its depth: the cycle's messages are one hop further", async () => {
    const { agent, go } = await heldCycle({})
    const run = await thinking.cycleUnderWay(agent)
    const { prisma } = parley.app.platform.db
    const delivered = {
      type: 'SERVICE' as const,
      payload: { name: 'deep', payload: {} },
      dedupKey: 'deep',
      rootId: 'trg_deep',
      depth: 4,
    }
    await prisma.inboxEvent.create({
      data: { ...delivered, id: `inb_${'f'.repeat(32)}`, agentId: agent.id, urgent: true },
    })
    go()
    await thinking.rest(agent)
    expect(await parley.run(run.id)).toMatchObject({ rootId: 'trg_deep', depth: 4 })
  })

  test('004 "Tool Phase Gates": observe, think, respond, each with its tools, tool choice and model', async () => {
    const human = await parley.human('Husam')
    const agent = await thinking.bot(
      'Ada',
      {},
      {
        phases: [
          { fromStep: 0, activeTools: ['enter_space', 'read_messages', 'get_my_runs'], toolChoice: 'REQUIRED' },
          { fromStep: 1, toolChoice: 'AUTO', model: 'openai.chat:thinker' },
          {
            fromStep: 2,
            activeTools: ['send_message', 'enter_space', 'set_memories', 'set_goals'],
            toolChoice: 'AUTO',
          },
        ],
      },
    )
    const space = await parley.space(human, [agent.id])
    parley.models.script((request) => (request.step < 2 ? [LOOK] : [{ text: 'Done.' }]))
    await parley.send(human, space.id, 'Begin')
    await thinking.rest(agent)
    const [observe, think, respond] = parley.models.requests as [ModelRequest, ModelRequest, ModelRequest]
    expect(observe.toolNames.toSorted()).toEqual(['enter_space', 'get_my_runs', 'read_messages', 'skip'])
    expect(observe.body.tool_choice).toBe('required')
    expect(observe.model).toBe('test')
    expect(think.toolNames).toContain('skip')
    expect(think.toolNames).toContain('send_message')
    expect(think.model).toBe('thinker')
    expect(respond.toolNames.toSorted()).toEqual(['enter_space', 'send_message', 'set_goals', 'set_memories', 'skip'])
  })

  describe('004 "Stopping Conditions"', () => {
    async function thinkUntilStopped(
      cycle: CycleSettingsInput,
      input: Partial<CreateAgentInput>,
      actions: (n: number) => ModelAction[],
      events = 1,
    ) {
      const human = await parley.human('Husam')
      const agent = await thinking.bot('Ada', cycle, input)
      const space = await parley.space(human, [agent.id])
      const gate = createDeferred()
      let n = 0
      parley.models.script((request) => {
        if (inboxIn(request).includes('"Warm up"')) return [{ gate: gate.promise }, { text: 'Warm.' }]
        n += 1
        return n === 1 ? [{ toolCall: 'enter_space', input: { spaceId: space.id } }] : actions(n)
      })
      await parley.send(human, space.id, 'Warm up')
      await parley.models.request((request) => inboxIn(request).includes('"Warm up"'))
      for (let event = 1; event <= events; event++) await parley.send(human, space.id, `Question ${event}`)
      gate.resolve()
      await thinking.rest(agent)
      const run = (await thinking.runsOf(agent)).at(-1)
      expect(run).toMatchObject({ status: 'COMPLETED' })
      const cycle2 = (await thinking.cyclesOf(agent)).at(-1)
      expect(imbalanceOf(cycle2?.messages as unknown[])).toBeNull()
      return { run, said: (await parley.messages(space.id)).filter(({ senderId }) => senderId === agent.id).length }
    }

    test('20 steps by default', async () => {
      const { run } = await thinkUntilStopped({}, {}, () => [LOOK])
      expect(run?.stepCount).toBe(20)
    })

    test('the token budget: outputs, and the inputs beyond the first', async () => {
      const usage = (inputTokens: number, outputTokens: number): ModelAction => ({
        usage: { inputTokens, outputTokens },
      })
      const { run } = await thinkUntilStopped({}, { tokenBudget: 1000 }, (n) => [LOOK, usage(30_000 + 100 * n, 300)])
      // Without reported usage, the first step is estimated. Another 30,100 tokens above the estimate exceed the budget at
      // once.
      expect(run?.stepCount).toBe(2)
    })

    test('a budget that is used exactly is not exceeded', async () => {
      const human = await parley.human('Husam')
      const agent = await thinking.bot('Ada', {}, { tokenBudget: 600 })
      const space = await parley.space(human, [agent.id])
      parley.models.script(() => [LOOK, { usage: { inputTokens: 1000, outputTokens: 300 } }])
      await parley.send(human, space.id, 'Begin')
      await thinking.rest(agent)
      expect(await thinking.runsOf(agent)).toMatchObject([{ status: 'COMPLETED', stepCount: 3 }])
    })

    test('a budget of 50,000 tokens by default', async () => {
      const { id } = await thinking.bot('Ada')
      expect((await parley.app.domain.agents.getMany([id]))[0]?.tokenBudget).toBe(50_000)
    })

    test('task completion, if enabled: as many messages as the inbox held space messages', async () => {
      const say = (n: number): ModelAction[] => [{ toolCall: 'send_message', input: { text: `Answer ${n}` } }]
      const { run, said } = await thinkUntilStopped({ stopWhenAllAnswered: true }, {}, say, 3)
      expect(said).toBe(3)
      expect(run).toMatchObject({ stepCount: 4, stopReason: 'ALL_ANSWERED' })
    })

    test('natural completion: text without tool calls', async () => {
      const { run } = await thinkUntilStopped({}, {}, () => [{ text: 'That is all.' }])
      expect(run).toMatchObject({ stepCount: 2, summary: 'That is all.' })
    })

    test('none of them prevents the agent from skipping', async () => {
      const human = await parley.human('Husam')
      const agent = await thinking.bot('Ada', { stopWhenAllAnswered: true }, { maxSteps: 1, tokenBudget: 1 })
      const space = await parley.space(human, [agent.id])
      parley.models.script(() => skip('Not for me.'))
      await parley.send(human, space.id, 'Hello')
      await thinking.rest(agent)
      expect(await thinking.runsOf(agent)).toEqual([])
    })
  })
})
