import { describe, expect, test } from 'vitest'
import { RULE_STACKS, type TestApplication } from '../support/application.ts'
import { playMinds } from '../support/minds.ts'
import { forAgent, steps } from '../support/model-server-script.ts'
import { callsOf, sayIn } from '../support/space-tools.ts'
import type { Thinking } from '../support/thinking.ts'
import { until } from '../support/until.ts'

const noted = (key: string) => ({ toolCall: 'set_memories', input: { memories: [{ key, value: 'v' }] } })
const enter = (spaceId: string) => ({ toolCall: 'enter_space', input: { spaceId } })
const say = (text: string) => ({ toolCall: 'send_message', input: { text } })

describe.each(RULE_STACKS)('the sources that are stored with rows', (stack) => {
  let parley: TestApplication
  let thinking: Thinking
  playMinds(stack, (opened) => {
    ;({ parley, thinking } = opened)
  })

  const db = () => parley.app.platform.db.prisma
  const sorted = (...spaces: { id: string }[]) => spaces.map(({ id }) => id).sort()

  test('a run’s row has the space that woke it and the spaces it has entered so far', async () => {
    const { human, agent, space } = await parley.room()
    const other = await parley.space(human, [agent.id], { name: 'Support' })
    parley.models.script(
      steps(
        [noted('before'), say('Hello.')],
        [enter(other.id), say('There too.'), noted('after')],
        [
          { toolCall: 'set_goals', input: { goals: [{ description: 'g' }] } },
          { toolCall: 'set_plans', input: { plans: [{ name: 'p', instruction: 'i', afterSeconds: 9999 }] } },
        ],
      ),
    )
    const { runs } = await parley.send(human, space.id, 'Hello')
    const run = await parley.runWhen(runs[0]?.id ?? '')
    expect(run).toMatchObject({ places: sorted(space, other), label: [], askers: [human.id] })
    const placesOf = (memories: { key: string; places: string[] }[]) =>
      Object.fromEntries(memories.map(({ key, places }) => [key, places]))
    expect(placesOf(await db().memory.findMany({ where: { agentId: agent.id } }))).toEqual({
      before: sorted(space),
      after: sorted(space, other),
    })
    const both = { places: sorted(space, other), label: [] }
    expect(await db().goal.findMany({ where: { agentId: agent.id } })).toMatchObject([both])
    expect(await db().plan.findMany({ where: { agentId: agent.id } })).toMatchObject([{ ...both, askers: [human.id] }])
    const said = [...(await parley.messages(space.id)), ...(await parley.messages(other.id))]
    expect(said.map(({ places, askers }) => ({ places, askers }))).toEqual([
      { places: [], askers: [] },
      { places: sorted(space), askers: [human.id] },
      { places: sorted(space, other), askers: [human.id] },
    ])
    const calls = await callsOf(parley, run.id)
    expect(calls.map(({ toolName, places }) => [toolName, places.length])).toEqual([
      ['set_memories', 1],
      ['send_message', 1],
      ['enter_space', 1],
      ['send_message', 1],
      ['set_memories', 1],
      ['set_goals', 2],
      ['set_plans', 2],
    ])
  })

  test('a persistent agent stores the sources and requesters with each event, cycle and result', async () => {
    const human = await parley.human('Husam')
    const bot = await thinking.bot('Ada', {}, { tools: [ASK] })
    const [space, other] = [await parley.space(human, [bot.id]), await parley.space(human, [bot.id])]
    parley.models.script(
      forAgent('Ada', ({ step, messages }) =>
        step === 0 && !messages.at(-1)?.text.includes('TOOL_RESULT')
          ? [enter(other.id), { toolCall: 'ask', input: {} }]
          : [{ text: 'Done.' }],
      ),
    )
    await parley.send(human, space.id, 'Hello')
    await thinking.rest(bot)
    const both = { places: sorted(space, other), label: [] }
    expect(await thinking.cyclesOf(bot)).toMatchObject([both])
    expect(await thinking.inboxOf(bot)).toMatchObject([{ places: sorted(space), askers: [human.id] }])
    const [call] = await db().toolCall.findMany({ where: { agentId: bot.id, toolName: 'ask' } })
    await parley.app.domain.control.submitToolResult(parley.admin, { toolCallId: call?.id ?? '', result: 'Yes.' })
    await thinking.rest(bot)
    expect((await thinking.inboxOf(bot)).at(-1)).toMatchObject({ type: 'TOOL_RESULT', ...both, askers: [human.id] })
    expect((await thinking.cyclesOf(bot)).at(-1)).toMatchObject(both)
  })

  test('a run that an agent triggered works on behalf of the human whose message began it, and has only the space as source', async () => {
    const human = await parley.human('Husam')
    const [ada, ben] = [await parley.agent('Ada', TOOLS), await parley.agent('Ben', TOOLS)]
    const [space, other] = [await parley.space(human, [ada.id]), await parley.space(human, [ada.id, ben.id])]
    parley.models.script(forAgent('Ada', steps([sayIn(other.id, 'Over to you.', { mention: ben.id })])))
    parley.models.script(forAgent('Ben', () => [{ text: 'Fine.' }]))
    await parley.send(human, space.id, 'Hello')
    const run = await until('Ben is woken', () => db().run.findFirst({ where: { agentId: ben.id } }))
    expect(run).toMatchObject({ places: [other.id], label: [], askers: [human.id] })
  })
})

const TOOLS = { toolset: 'SPACE_TOOLS' } as const
const ASK = { name: 'ask', description: 'Asks.', inputSchema: { type: 'object' }, execution: 'SPACE' } as const
