import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { HumanViewer } from '../../src/access/viewer.ts'
import type { CreateAgentInput } from '../../src/agents/agent-input.ts'
import { RULE_STACKS, startApplication, type TestApplication } from '../support/application.ts'
import { forAgent, type ModelAction, type ModelRequest, steps, when } from '../support/model-server-script.ts'
import { callsOf, sayIn } from '../support/space-tools.ts'
import { type Thinking, thinkingOn } from '../support/thinking.ts'
import { until } from '../support/until.ts'

const SECRET = 'The merger is on Friday.'
const enter = (spaceId: string): ModelAction => ({ toolCall: 'enter_space', input: { spaceId } })
const say = (text: string): ModelAction => ({ toolCall: 'send_message', input: { text } })
const note = (key: string): ModelAction => ({ toolCall: 'set_memories', input: { memories: [{ key, value: SECRET }] } })

describe.each(RULE_STACKS)('content of a confidential space, on the %s stack', (stack) => {
  let parley: TestApplication
  let thinking: Thinking
  let alice: HumanViewer
  let bob: HumanViewer

  beforeAll(async () => {
    parley = await startApplication({ stack })
    thinking = thinkingOn(parley)
    alice = await parley.human('Alice')
    bob = await parley.human('Bob')
    await parley.app.domain.spaces.create(parley.admin, {
      name: 'Hall',
      routing: 'BROADCAST',
      memberIds: [alice.id, bob.id],
    })
  })
  afterAll(() => parley?.close())
  beforeEach(() => parley.models.reset())
  afterEach(() => expect(parley.models.refusals).toEqual([]))

  /** Creates an agent that is alone with Alice in a confidential space, and also in a team space with Alice and Bob. */
  async function world(input: Partial<CreateAgentInput> = {}) {
    const agent = await parley.agent('Ada', input)
    const confided = await parley.space(alice, [agent.id], { name: 'Alice', confidential: true })
    const team = await parley.space(alice, [bob.id, agent.id], { name: 'Team' })
    return { agent, confided, team }
  }

  async function outputsOf(agentId: string, n = 0) {
    const run = await until('the run exists', async () => (await thinking.runsOf({ id: agentId }))[n])
    await parley.runWhen(run.id)
    return (await callsOf(parley, run.id)).map(({ output }) => JSON.stringify(output))
  }

  const textsIn = async (spaceId: string) => (await parley.messages(spaceId)).map(({ parts }) => JSON.stringify(parts))
  /** Returns the prompts of runs whose trigger contains these words. */
  const sentWith = (words: string) =>
    parley.models.requests
      .filter(({ messages }: ModelRequest) =>
        messages.some(({ role, text }) => role === 'user' && text.includes(words)),
      )
      .map(({ messages, instructions }) => instructions + messages.map(({ text }) => text).join('\n'))

  test('is refused where an outsider may read it, and the model is given the names of the outsiders', async () => {
    const { agent, confided, team } = await world()
    parley.models.script(steps([enter(team.id)], [say(SECRET)], [enter(confided.id), say('So it stays here.')]))
    await parley.send(alice, confided.id, SECRET)
    const outputs = await outputsOf(agent.id)
    expect(outputs[1]).toContain('CONFIDENTIAL')
    expect(outputs[1]).toContain('You have read content of \\"Alice\\"; Bob, who is in \\"Team\\", may not see it')
    expect(await textsIn(team.id)).toEqual([])
    expect((await textsIn(confided.id)).at(-1)).toContain('So it stays here.')
  })

  test('may be posted in another space with the same humans, and labels the message', async () => {
    const agent = await parley.agent('Ada')
    const confided = await parley.space(alice, [bob.id, agent.id], { name: 'Two', confidential: true })
    const same = await parley.space(alice, [bob.id, agent.id], { name: 'Same' })
    parley.models.script(steps([enter(same.id)], [say(SECRET)]))
    const { runs } = await parley.send(alice, confided.id, SECRET)
    await parley.runWhen(runs[0]?.id ?? '')
    expect(await textsIn(same.id)).toEqual([expect.stringContaining(SECRET)])
    const [said] = await parley.messages(same.id)
    expect(said?.label).toEqual([confided.id])
  })

  test('is refused with SPACE_TOOLS too', async () => {
    const { agent, confided, team } = await world({ toolset: 'SPACE_TOOLS' })
    parley.models.script(steps([sayIn(team.id, SECRET)], [sayIn(confided.id, 'Here.')]))
    await parley.send(alice, confided.id, SECRET)
    const outputs = await outputsOf(agent.id)
    expect(outputs[0]).toContain('CONFIDENTIAL')
    expect(await textsIn(team.id)).toEqual([])
    expect((await textsIn(confided.id)).at(-1)).toContain('Here.')
  })

  test('reaches no external tool that is not marked for it', async () => {
    const tool = (name: string, more: object) => ({
      name,
      description: 'A tool.',
      inputSchema: { type: 'object' },
      execution: 'EXTERNAL' as const,
      ...more,
    })
    const tools = [tool('plain', {}), tool('marked', { mayReceiveConfidential: true, timeoutMs: 60_000 })]
    const { confided } = await world({ tools })
    parley.models.script(
      steps([{ toolCall: 'plain', input: { said: SECRET } }], [{ toolCall: 'marked', input: { said: SECRET } }]),
    )
    const { runs } = await parley.send(alice, confided.id, SECRET)
    await parley.runWhen(runs[0]?.id ?? '', 'WAITING_TOOL')
    const [plain, marked] = await callsOf(parley, runs[0]?.id ?? '')
    expect(JSON.stringify(plain?.output)).toContain('CONFIDENTIAL')
    expect(plain?.status).toBe('FAILED')
    expect(marked?.status).toBe('WAITING')
    await parley.app.domain.control.stopRun(parley.admin, { runId: runs[0]?.id ?? '', cascade: false })
  })

  test('is hidden from a run for an outsider, which cannot enter the space either', async () => {
    const { agent, confided, team } = await world()
    await parley.send(alice, confided.id, SECRET)
    parley.models.script(steps([enter(confided.id)]))
    await parley.send(bob, team.id, 'What does Alice say?')
    const outputs = await outputsOf(agent.id, 1)
    expect(outputs[0]).toContain('CONFIDENTIAL')
    for (const sent of sentWith('What does Alice say?')) {
      expect(sent).not.toContain(SECRET)
      expect(sent).not.toContain('"Alice" (id')
    }
  })

  test('is recalled only where all members may read it; the same key elsewhere is a separate memory', async () => {
    const { agent, confided, team } = await world()
    const isOf =
      (words: string) =>
      ({ messages }: ModelRequest) =>
        messages.some(({ text }) => text.includes(words))
    parley.models.script(when(isOf('first'), steps([note('plan')])))
    await parley.send(alice, confided.id, 'first')
    await outputsOf(agent.id)
    parley.models.script(
      when(
        isOf('second'),
        steps([{ toolCall: 'set_memories', input: { memories: [{ key: 'plan', value: 'none' }] } }]),
      ),
    )
    await parley.send(bob, team.id, 'second')
    expect((await outputsOf(agent.id, 1))[0]).toBe('{"keys":["plan"],"success":true}')
    parley.models.script(when(isOf('third'), () => [{ text: 'Fine.' }]))
    await parley.send(alice, confided.id, 'third')
    await outputsOf(agent.id, 2)
    expect(sentWith('second').join()).not.toContain(SECRET)
    expect(sentWith('third').join()).toContain(`"plan": "${SECRET}"`)
    expect(sentWith('third').join()).toContain('"plan": "none"')
  })

  test('is in a persistent agent’s memory where all members may read it, and not elsewhere', async () => {
    const bot = await thinking.bot('Ben')
    const confided = await parley.space(alice, [bot.id], { name: 'Alice', confidential: true })
    const team = await parley.space(alice, [bob.id, bot.id], { name: 'Team' })
    parley.models.script(forAgent('Ben', () => [{ text: 'I know of the merger.' }]))
    await parley.send(alice, confided.id, SECRET)
    await thinking.rest(bot)
    await parley.send(bob, team.id, 'What do you know?')
    await thinking.rest(bot)
    await parley.send(alice, confided.id, 'And you?')
    await thinking.rest(bot)
    expect(sentWith('What do you know?')[0]).not.toContain('merger')
    expect(sentWith('And you?')[0]).toContain(SECRET)
  })

  test('shares a cycle only with events that have the same label', async () => {
    const bot = await thinking.bot('Cleo')
    const confided = await parley.space(alice, [bot.id], { name: 'Alice', confidential: true })
    const team = await parley.space(alice, [bob.id, bot.id], { name: 'Team' })
    await parley.app.domain.agents.update(parley.admin, { id: bot.id, paused: true })
    for (const text of ['one', 'two']) {
      await parley.send(alice, confided.id, `${SECRET} ${text}`)
      await parley.send(bob, team.id, `open ${text}`)
    }
    parley.models.script(forAgent('Cleo', () => [{ text: 'Read.' }]))
    await parley.app.domain.agents.update(parley.admin, { id: bot.id, paused: false })
    await thinking.rest(bot)
    const inboxes = parley.models.requests.map(({ messages }: ModelRequest) => messages.at(-1)?.text ?? '')
    expect(inboxes.length).toBeGreaterThan(1)
    for (const inbox of inboxes) expect(inbox.includes(SECRET) && inbox.includes('open ')).toBe(false)
  })
})
