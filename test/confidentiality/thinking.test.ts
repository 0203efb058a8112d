import { beforeEach, describe, expect, test } from 'vitest'
import type { HumanViewer } from '../../src/access/viewer.ts'
import { RULE_STACKS, type TestApplication } from '../support/application.ts'
import { playMinds } from '../support/minds.ts'
import { forAgent, type ModelRequest } from '../support/model-server-script.ts'
import { callsOf, gate } from '../support/space-tools.ts'
import { inboxIn, interjectionIn, type Thinking } from '../support/thinking.ts'
import { until } from '../support/until.ts'

const SECRET = 'The merger is on Friday.'
const ASK = { name: 'ask', description: 'Asks.', inputSchema: { type: 'object' }, execution: 'SPACE' } as const

describe.each(RULE_STACKS)('a persistent agent in a confidential space, on the %s stack', (stack) => {
  let parley: TestApplication
  let thinking: Thinking
  let alice: HumanViewer
  let bob: HumanViewer
  playMinds(stack, (opened) => {
    ;({ parley, thinking } = opened)
  })
  beforeEach(async () => {
    alice = await parley.human('Alice')
    bob = await parley.human('Bob')
    await parley.app.domain.spaces.create(parley.admin, {
      name: 'Hall',
      routing: 'BROADCAST',
      memberIds: [alice.id, bob.id],
    })
  })

  /**
   * Creates a persistent agent whose first cycle waits at a gate after it has received `first`, so that its next step can see
   * later events.
   */
  async function thinksAbout(first: string, cycle: object = {}) {
    const bot = await thinking.bot('Cleo', cycle)
    const diary = await parley.space(alice, [bot.id], { name: 'Diary', confidential: true })
    const team = await parley.space(alice, [bob.id, bot.id], { name: 'Team' })
    const held = gate()
    const isFirst = (request: ModelRequest) => inboxIn(request).includes(first) && request.step === 0
    parley.models.script(
      forAgent('Cleo', (request) =>
        isFirst(request) ? [{ gate: held.promise }, { toolCall: 'get_plans', input: {} }] : [{ text: 'Read.' }],
      ),
    )
    const meanwhile = async () => {
      await until('it thinks', async () => parley.models.requests.some(isFirst))
      await parley.send(alice, diary.id, `${SECRET} Later.`)
      await parley.send(bob, team.id, 'An open word.')
      held.open()
      await thinking.rest(bot)
      const next = parley.models.requests.find(
        (request) => request.messages.some(({ text }) => text.includes(first)) && interjectionIn(request) !== null,
      )
      return next === undefined ? null : interjectionIn(next)
    }
    return { bot, diary, team, meanwhile }
  }

  test('sees the number of events in its preview, and only content of its own label', async () => {
    const open = await thinksAbout('How are you?')
    await parley.send(bob, open.team.id, 'How are you?')
    const seen = await open.meanwhile()
    expect(seen).toContain('[INBOX PREVIEW — 1 waiting]')
    expect(seen).toContain('An open word.')
    expect(seen).not.toContain('merger')
  })

  test('sees the same in a confidential cycle', async () => {
    const confided = await thinksAbout('Just for you.')
    await parley.send(alice, confided.diary.id, 'Just for you.')
    const seen = await confided.meanwhile()
    expect(seen).toContain('[INBOX PREVIEW — 1 waiting]')
    expect(seen).toContain('merger')
    expect(seen).not.toContain('An open word.')
  })

  test('puts urgent events into a cycle of their label, and into no other', async () => {
    const urgent = { urgentInjection: true, urgentFrom: [alice.id, bob.id] }
    const open = await thinksAbout('How are you?', urgent)
    await parley.send(bob, open.team.id, 'How are you?')
    const seen = await open.meanwhile()
    expect(seen).toContain('[URGENT]')
    expect(seen).toContain('An open word.')
    expect(seen).not.toContain('merger')
    const cycles = await thinking.cyclesOf(open.bot)
    expect(cycles.map(({ label }) => label)).toEqual([[], [open.diary.id]])
    expect((await thinking.runsOf(open.bot))[0]?.askers).toEqual([bob.id])
  })

  test('gets a result with the label of its call', async () => {
    const bot = await thinking.bot('Cleo', {}, { tools: [ASK] })
    const diary = await parley.space(alice, [bot.id], { name: 'Diary', confidential: true })
    const team = await parley.space(alice, [bob.id, bot.id], { name: 'Team' })
    const enter = (spaceId: string) => ({ toolCall: 'enter_space', input: { spaceId } })
    parley.models.script(
      forAgent('Cleo', (request) => {
        const isResult = inboxIn(request).includes('TOOL_RESULT')
        if (request.step > 0) return [{ text: 'Done.' }]
        return isResult
          ? [enter(team.id), { toolCall: 'send_message', input: { text: SECRET } }]
          : [enter(diary.id), { toolCall: 'ask', input: {} }]
      }),
    )
    await parley.send(alice, diary.id, 'Ask me.')
    await thinking.rest(bot)
    const [call] = await parley.app.platform.db.prisma.toolCall.findMany({
      where: { agentId: bot.id, toolName: 'ask' },
    })
    await parley.app.domain.control.submitToolResult(alice, { toolCallId: call?.id ?? '', result: SECRET })
    await thinking.rest(bot)
    expect((await thinking.inboxOf(bot)).at(-1)).toMatchObject({ type: 'TOOL_RESULT', label: [diary.id] })
    const runs = await thinking.runsOf(bot)
    expect(runs[1]).toMatchObject({ label: [diary.id], askers: [alice.id] })
    const [, said] = await callsOf(parley, runs[1]?.id ?? '')
    expect(said).toMatchObject({
      toolName: 'send_message',
      status: 'FAILED',
      output: { error: { code: 'CONFIDENTIAL' } },
    })
    expect(await parley.messages(team.id)).toEqual([])
  })
})
