import { describe, expect, test } from 'vitest'
import { createDeferred } from '../../src/lib/async.ts'
import { estimateTokens } from '../../src/lib/token-estimate.ts'
import { RULE_STACKS, type TestApplication } from '../support/application.ts'
import { playMinds } from '../support/minds.ts'
import { type ModelAction, type ModelRequest, steps } from '../support/model-server-script.ts'
import { imbalanceOf, inboxIn, type Thinking } from '../support/thinking.ts'
import { enter, say } from '../support/turns.ts'

const LONG = 'It was a long story with many words in it. '.repeat(30)

/** Requirement 004, "After the Cycle": append, track usage, compact, persist. */
describe.each(RULE_STACKS)('a consciousness, on the %s stack', (stack) => {
  let parley: TestApplication
  let thinking: Thinking
  playMinds(stack, (opened) => {
    ;({ parley, thinking } = opened)
  })

  const inboxesOf = ({ messages }: ModelRequest) => messages.filter(({ text }) => text.startsWith('INBOX')).length

  test('a consciousness beyond its budget is sent as summaries and its last cycles, never above the budget', async () => {
    const human = await parley.human('Husam')
    const agent = await thinking.bot('Ada', { maxConsciousnessTokens: 3000, minRecentCycles: 2 })
    const space = await parley.space(human, [agent.id])
    parley.models.script((request) => [{ text: `I heard story ${/"Story (\d+):/.exec(inboxIn(request))?.[1]}.` }])
    for (let n = 1; n <= 10; n++) {
      await parley.send(human, space.id, `Story ${n}: ${LONG}`)
      await thinking.rest(agent)
    }
    const openings = parley.models.requests.filter(({ step }) => step === 0)
    for (const { messages, instructions } of openings) {
      const sent = messages.filter(({ role }) => role !== 'system').map(({ text, toolCalls }) => [text, toolCalls])
      expect(estimateTokens(instructions) + estimateTokens(sent)).toBeLessThanOrEqual(3000 * 1.1)
    }
    const last = openings.at(-1) as ModelRequest
    const [, summaries] = last.messages
    expect(summaries?.text).toContain('EARLIER CYCLES')
    expect(summaries?.text).toMatch(/- 1 \(.*\): I heard story 1\./)
    expect(inboxesOf(last)).toBeGreaterThanOrEqual(3)
    expect(inboxesOf(last)).toBeLessThan(10)
    const [whole] = await parley.app.domain.consciousness.getMany([agent.id])
    expect(whole?.cycleCount).toBe(10)
    expect(JSON.stringify(whole?.messages)).toContain(`Story 1: ${LONG.slice(0, 40)}`)
    expect(imbalanceOf(whole?.messages ?? [])).toBeNull()
  })

  test('keeps its latest cycles in full next to memories that fill the budget, unless these cycles alone exceed it', async () => {
    const human = await parley.human('Husam')
    const agent = await thinking.bot('Ada', { maxConsciousnessTokens: 8000, minRecentCycles: 3 })
    const space = await parley.space(human, [agent.id])
    const memories = Array.from({ length: 20 }, (_, n) => ({ key: `key ${n}`, value: `${n} words `.repeat(400) }))
    await parley.app.domain.memories.set(agent.id, memories)
    parley.models.script((request) => steps([enter(space)], [{ text: `Heard ${inboxIn(request).length}.` }])(request))
    const hear = async (text: string) => {
      await parley.send(human, space.id, text)
      await thinking.rest(agent)
    }
    for (let n = 1; n <= 5; n++) await hear(`Story ${n}`)
    const last = parley.models.requests.at(-2) as ModelRequest
    expect(estimateTokens(last.instructions)).toBeGreaterThan(8000)
    const inboxes = last.messages.filter(({ text }) => text.startsWith('INBOX')).map(({ text }) => text)
    expect(inboxes.map((text) => /Story \d/.exec(text)?.[0])).toEqual(['Story 2', 'Story 3', 'Story 4', 'Story 5'])
    const calls = last.messages.flatMap(({ toolCalls }) => toolCalls.map(({ id }) => id))
    expect(last.messages.flatMap(({ toolCallId }) => toolCallId ?? [])).toEqual(calls)
    for (let n = 6; n <= 7; n++) await hear(`Story ${n}: ${LONG.repeat(10)}`)
    await hear('Story 8')
    expect(inboxesOf(parley.models.requests.at(-1) as ModelRequest)).toBe(2)
  })

  test('a cycle that is larger than the whole budget leaves the inbox, and the agent continues', async () => {
    const human = await parley.human('Husam')
    const agent = await thinking.bot('Ada', { maxConsciousnessTokens: 1, minRecentCycles: 10 })
    const space = await parley.space(human, [agent.id])
    parley.models.script(() => [{ text: 'Read.' }])
    for (const text of ['One', 'Two', 'Three']) {
      await parley.send(human, space.id, text)
      await thinking.rest(agent)
    }
    expect(parley.models.requests.map(({ messages }) => messages.map(({ role }) => role))).toEqual(
      Array.from({ length: 3 }, () => ['system', 'user']),
    )
    expect(await thinking.cycleCountOf(agent)).toBe(3)
  })

  test('works with another model, without the reasoning of the first one', async () => {
    const human = await parley.human('Husam')
    const agent = await thinking.bot('Ada', {}, { model: 'openai:reasoner' })
    const space = await parley.space(human, [agent.id])
    parley.models.script(() => [{ reasoning: 'Secretly I think so.' }, { text: 'I said 42.' }])
    await parley.send(human, space.id, 'A number?')
    await thinking.rest(agent)
    expect(JSON.stringify((await thinking.cyclesOf(agent))[0]?.messages)).not.toContain('Secretly')
    await parley.app.domain.agents.update(parley.admin, { id: agent.id, model: 'openai.chat:plain' })
    await parley.send(human, space.id, 'Again?')
    await thinking.rest(agent)
    const last = parley.models.requests.at(-1) as ModelRequest
    expect(last.endpoint).toBe('chat')
    expect(last.messages.map(({ role, text }) => [role, text]).slice(2, 3)).toEqual([['assistant', 'I said 42.']])
  })

  test('content that a provider refuses does not block the agent permanently', async () => {
    const human = await parley.human('Husam')
    const agent = await thinking.bot('Ada', { maxConsciousnessTokens: 4000 })
    const space = await parley.space(human, [agent.id])
    parley.models.script((request) =>
      JSON.stringify(request.messages).includes('POISON') && !inboxIn(request).includes('POISON')
        ? [{ error: 'Your prompt was flagged.', status: 400 }]
        : [{ text: `Read. ${LONG}` }],
    )
    await parley.send(human, space.id, `POISON ${LONG}`)
    await thinking.rest(agent)
    for (let n = 1; n <= 8; n++) {
      await parley.send(human, space.id, `Message ${n}`)
      await thinking.rest(agent)
    }
    const runs = await thinking.runsOf(agent)
    expect(runs.filter(({ status }) => status === 'FAILED').length).toBeGreaterThan(0)
    expect(runs.at(-1)?.status).toBe('COMPLETED')
  })

  test('omits and names a message that a provider refuses: the agent reads others, including those of the same time', async () => {
    const [eve, bob] = [await parley.human('Eve'), await parley.human('Bob')]
    const agent = await thinking.bot('Ada')
    const [public_, own] = [
      await parley.space(eve, [agent.id], { name: 'Public' }),
      await parley.space(bob, [agent.id]),
    ]
    const gate = createDeferred()
    parley.models.script((request) => {
      if (JSON.stringify(request.messages).includes('POISON'))
        return [{ error: 'Your prompt was flagged.', status: 400 }]
      return inboxIn(request).includes('"First"') ? [{ gate: gate.promise }, { text: 'Read.' }] : [{ text: 'Read.' }]
    })
    await parley.send(bob, own.id, 'First')
    await thinking.cycleUnderWay(agent)
    const poison = await parley.send(eve, public_.id, 'POISON')
    const beside = await parley.send(bob, own.id, 'Came with it')
    gate.resolve()
    await thinking.rest(agent)
    const after = await parley.send(bob, own.id, 'Came after it')
    await thinking.rest(agent)
    expect(await thinking.outcomeOf(poison.message, agent)).toMatchObject({ kind: 'FAILED' })
    for (const { message } of [beside, after]) {
      const outcome = await thinking.outcomeOf(message, agent)
      expect(outcome).toMatchObject({ kind: 'INBOX' })
      expect(await parley.run(outcome?.runId ?? '')).toMatchObject({ status: 'COMPLETED' })
    }
    const last = JSON.stringify((parley.models.requests.at(-1) as ModelRequest).messages)
    expect(last).toContain(`a message from \\"Eve\\" (human) in \\"Public\\" (id: ${public_.id})`)
    expect(last).toContain('Came with it')
  })

  test('remembers the actions of a refused cycle, without the event that came last', async () => {
    const human = await parley.human('Husam')
    const agent = await thinking.bot('Ada')
    const [space, odd] = [await parley.space(human, [agent.id]), await parley.space(human, [])]
    await parley.send(human, odd.id, 'FLAGGED')
    await parley.app.domain.members.add(human, { spaceId: odd.id, entityId: agent.id })
    const turns: ModelAction[][] = [[enter(space), say('Half of it.')], [enter(odd)]]
    parley.models.script((request) => {
      if (JSON.stringify(request.messages).includes('FLAGGED'))
        return [{ error: 'Your prompt was flagged.', status: 400 }]
      return inboxIn(request).includes('"Again"') ? [{ text: 'Read.' }] : (turns[request.step] ?? [])
    })
    await parley.send(human, space.id, 'Begin')
    await thinking.rest(agent)
    await parley.send(human, space.id, 'Again')
    await thinking.rest(agent)
    expect((await thinking.runsOf(agent)).map(({ status }) => status)).toEqual(['FAILED', 'COMPLETED'])
    const remembered = JSON.stringify((parley.models.requests.at(-1) as ModelRequest).messages)
    expect(remembered).toContain('Half of it.')
    expect(remembered).toContain('the provider refused it')
    expect(remembered).toContain('This cycle failed')
  })

  test.each([
    ['cannot be reached or takes no key', 401, 1],
    ['breaks', 503, 2],
  ])('loses content only for a short time when a provider %s', async (_, status, until) => {
    const human = await parley.human('Husam')
    const agent = await thinking.bot('Ada', { maxConsciousnessTokens: 4000 })
    const space = await parley.space(human, [agent.id])
    parley.models.script(() => [{ text: `Read. ${LONG}` }])
    for (let n = 1; n <= 3; n++) {
      await parley.send(human, space.id, `Story ${n}`)
      await thinking.rest(agent)
    }
    parley.models.script(() => [{ error: 'Out of order.', status, headers: { 'retry-after-ms': '1' } }])
    for (let n = 1; n <= 6; n++) {
      await parley.send(human, space.id, `Unheard ${n}`)
      await thinking.rest(agent)
    }
    parley.models.script(() => [{ text: 'Back.' }])
    for (let n = 1; n <= until; n++) {
      await parley.send(human, space.id, 'Are you back?')
      await thinking.rest(agent)
    }
    // After the recovery, the unread messages arrive together.
    expect(inboxesOf(parley.models.requests.at(-1) as ModelRequest)).toBe(3 + until + 1)
    expect(JSON.stringify((parley.models.requests.at(-1) as ModelRequest).messages)).toContain('Unheard 6')
  })

  test('after an admin raises the budget, whole cycles are sent again instead of summaries', async () => {
    const human = await parley.human('Husam')
    const agent = await thinking.bot('Ada', { maxConsciousnessTokens: 1 })
    const space = await parley.space(human, [agent.id])
    parley.models.script(() => [{ text: 'Read.' }])
    const send = async (text: string) => {
      await parley.send(human, space.id, text)
      await thinking.rest(agent)
      return inboxesOf(parley.models.requests.at(-1) as ModelRequest)
    }
    expect([await send('One'), await send('Two'), await send('Three')]).toEqual([1, 1, 1])
    await parley.app.domain.agents.update(parley.admin, { id: agent.id, cycle: { maxConsciousnessTokens: 100_000 } })
    expect([await send('Four'), await send('Five')]).toEqual([4, 5])
  })

  test('records the usage of each step and of the cycle', async () => {
    const human = await parley.human('Husam')
    const agent = await thinking.bot('Ada')
    const space = await parley.space(human, [agent.id])
    parley.models.script((request) =>
      request.step === 0
        ? [{ toolCall: 'get_my_runs', input: {} }, { usage: { inputTokens: 100, outputTokens: 10 } }]
        : [{ text: 'Done.' }, { usage: { inputTokens: 130, outputTokens: 5 } }],
    )
    await parley.send(human, space.id, 'Hello')
    await thinking.rest(agent)
    const [run] = await thinking.runsOf(agent)
    expect(run).toMatchObject({ inputTokens: 230, outputTokens: 15, usageEstimated: false, stepCount: 2 })
  })
})
