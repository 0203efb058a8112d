import { describe, expect, test } from 'vitest'
import { RULE_STACKS } from '../support/application.ts'
import { playDecisions } from '../support/decisions.ts'
import type { ModelAction } from '../support/model-server-script.ts'
import { gate, sayIn } from '../support/space-tools.ts'
import type { Named, Person, Read } from '../support/stage.ts'
import { enter, takesTurns } from '../support/turns.ts'
import { until } from '../support/until.ts'

const SECRET = 'The merger is on Friday.'
const ADD = `mutation ($input: AddMemberInput!) { addMember(input: $input) { __typename } }`
const CONFIDE = `mutation ($id: ID!) { updateSpace(input: { id: $id, confidential: true }) { __typename } }`
const REMOVE = `mutation ($input: RemoveMemberInput!) { removeMember(input: $input) { __typename } }`
const LIFT = `mutation ($id: ID!) { updateSpace(input: { id: $id, confidential: false }) { __typename } }`
const CALL = `query ($id: ID!) { node(id: $id) { ... on ToolCall { status input output error } } }`
const ALONE = { routing: 'BROADCAST', confidential: true }
const TOGETHER = { routing: 'BROADCAST' }
const CHART = {
  name: 'chart',
  description: 'Draws.',
  inputSchema: { type: 'object' },
  execution: 'INTERNAL',
  visible: true,
}

describe.each(RULE_STACKS)('access changes while a text streams, on the %s stack', (stack) => {
  const play = playDecisions(stack)

  async function world(more: object = {}) {
    const [alice, bob] = await Promise.all([play.stage.person('Alice'), play.stage.person('Bob')])
    const agent = await play.stage.bot('Ada', { toolset: 'ACTIVE_SPACE', ...more })
    return { alice, bob, agent }
  }

  const joins = (space: Named, who: Person) =>
    play.stage.ask(play.stage.admin, ADD, { input: { spaceId: space.id, entityId: who.id } })
  const lastIn = async (space: Named): Promise<Read> => (await play.stage.messagesIn(space)).at(-1)
  /** Returns a text in pieces, with a gate between them. */
  const inPieces = (before: string, held: Promise<void>, after: string): ModelAction => ({
    toolCall: 'send_message',
    input: `{"text":"${before}${after}"}`,
    chunks: [`{"text":"${before}`, held, ...after.split(/(?<= )/), '"}'],
    delayMs: 60,
  })
  const REST = `${SECRET} And so on, word by word, for as long as it takes to look who hears it now.`

  test('a new member who may not read the text interrupts it: INTERRUPTED, and the model gets an error', async () => {
    const { alice, bob, agent } = await world()
    const diary = await play.stage.space('Diary', [alice, agent], ALONE)
    const desk = await play.stage.space('Desk', [alice, agent], TOGETHER)
    const held = gate()
    takesTurns(play.parley.models, agent.name, [[enter(desk)], [inPieces('It is known: ', held.promise, REST)]])
    const { runs } = await play.stage.say(alice, diary, SECRET)
    await until('the text streams', async () => (await lastIn(desk))?.status === 'STREAMING')
    await joins(desk, bob)
    held.open()
    await play.parley.runWhen(runs[0].id)
    const said = await until(
      'the text has ended',
      async () => (await lastIn(desk)).status !== 'STREAMING' && lastIn(desk),
    )
    expect(said.status).toBe('INTERRUPTED')
    expect(said.text).toContain('It is known:')
    expect(said.text).not.toContain('who hears it now')
    const [, call] = (await play.stage.endedRuns(agent, 1))[0].toolCalls
    expect(call).toMatchObject({ status: 'FAILED', output: { error: { code: 'CONFIDENTIAL' } } })
  })

  test('a space that becomes confidential interrupts texts in other spaces that use its content', async () => {
    const { alice, bob, agent } = await world()
    const aside = await play.stage.space('Aside', [alice, agent], TOGETHER)
    const team = await play.stage.space('Team', [alice, bob, agent], TOGETHER)
    const held = gate()
    const long = Array.from({ length: 40 }, (_, n) => `word${n} `).join('')
    takesTurns(play.parley.models, agent.name, [
      [enter(team)],
      [inPieces('It is known: ', held.promise, `${long}${SECRET}`)],
    ])
    const { runs } = await play.stage.say(alice, aside, 'Tell them.')
    await until('the text streams', async () => (await lastIn(team))?.status === 'STREAMING')
    await play.stage.ask(alice.client, CONFIDE, { id: aside.id })
    held.open()
    await play.parley.runWhen(runs[0].id)
    const said = await until(
      'the text has ended',
      async () => (await lastIn(team)).status !== 'STREAMING' && lastIn(team),
    )
    expect(said.status).toBe('INTERRUPTED')
    expect(said.text).not.toContain(SECRET)
  })

  test('the input of a displayed call is hidden from a member who joined while it was generated', async () => {
    const { alice, bob, agent } = await world({ tools: [CHART] })
    const diary = await play.stage.space('Diary', [alice, agent], ALONE)
    const desk = await play.stage.space('Desk', [alice, agent], TOGETHER)
    const held = gate()
    const chart: ModelAction = {
      toolCall: 'chart',
      input: JSON.stringify({ title: 'Known', said: SECRET }),
      chunks: ['{"title":"Known"', held.promise, `,"said":"${SECRET}"}`],
    }
    takesTurns(play.parley.models, agent.name, [[enter(desk)], [chart]])
    const { runs } = await play.stage.say(alice, diary, SECRET)
    const part = await until('the call is visible', async () => (await lastIn(desk))?.parts[0]?.toolCall)
    expect(part).toMatchObject({ status: 'STREAMING' })
    await joins(desk, bob)
    held.open()
    await play.parley.runWhen(runs[0].id)
    expect(JSON.stringify(await play.stage.ask(bob.client, CALL, { id: part.id }))).not.toContain(SECRET)
    expect(
      await until('the call has ended', async () => (await lastIn(desk)).status !== 'STREAMING' && lastIn(desk)),
    ).toMatchObject({
      status: 'INTERRUPTED',
    })
    expect(await play.stage.ask(play.stage.admin, CALL, { id: part.id })).toMatchObject({
      status: 'FAILED',
      input: { said: SECRET },
    })
  })

  test('each part of a message is checked: earlier parts stay whole and unrestricted', async () => {
    const { alice, bob, agent } = await world({ toolset: 'SPACE_TOOLS' })
    const diary = await play.stage.space('Diary', [alice, agent], ALONE)
    const team = await play.stage.space('Team', [alice, bob, agent], TOGETHER)
    takesTurns(
      play.parley.models,
      agent.name,
      [],
      [
        [sayIn(team.id, 'One moment.')],
        [{ toolCall: 'readSpaceMessages', input: { spaceId: diary.id } }],
        [sayIn(team.id, SECRET)],
      ],
      [[sayIn(team.id, 'I am here.')]],
    )
    await play.parley.runWhen((await play.stage.say(alice, diary, SECRET)).runs[0].id)
    const { runs } = await play.stage.say(alice, team, 'What is new?')
    await play.parley.runWhen(runs[0].id)
    expect(await lastIn(team)).toMatchObject({
      status: 'COMPLETE',
      text: 'One moment.',
      parts: [{ text: 'One moment.' }],
    })
    await play.parley.runWhen((await play.stage.say(bob, team, 'And now?')).runs[0].id)
    expect(await lastIn(team)).toMatchObject({ status: 'COMPLETE', text: 'I am here.' })
  })

  test('a message with several parts has the sources of all its parts', async () => {
    const { alice, agent } = await world({ toolset: 'SPACE_TOOLS' })
    const diary = await play.stage.space('Diary', [alice, agent], ALONE)
    const desk = await play.stage.space('Desk', [alice, agent], TOGETHER)
    takesTurns(
      play.parley.models,
      agent.name,
      [],
      [
        [sayIn(desk.id, 'One moment.')],
        [{ toolCall: 'readSpaceMessages', input: { spaceId: diary.id } }],
        [sayIn(desk.id, SECRET)],
      ],
    )
    await play.parley.runWhen((await play.stage.say(alice, diary, SECRET)).runs[0].id)
    const { runs } = await play.stage.say(alice, desk, 'What is new?')
    await play.parley.runWhen(runs[0].id)
    const message = await lastIn(desk)
    expect(message.parts.map(({ text }: Read) => text)).toEqual(['One moment.', SECRET])
    const { prisma } = play.parley.app.platform.db
    expect((await prisma.message.findUniqueOrThrow({ where: { id: message.id } })).label).toEqual([diary.id])
  })

  test('a result that arrives after an outsider joined is not shown there', async () => {
    const look = { ...CHART, name: 'look', execution: 'EXTERNAL', timeoutMs: 60_000, mayReceiveConfidential: true }
    const { alice, bob, agent } = await world({ tools: [look] })
    const diary = await play.stage.space('Diary', [alice, agent], ALONE)
    const desk = await play.stage.space('Desk', [alice, agent], TOGETHER)
    takesTurns(play.parley.models, agent.name, [[enter(desk), { toolCall: 'look', input: {} }]])
    const { runs } = await play.stage.say(alice, diary, SECRET)
    await play.parley.runWhen(runs[0].id, 'WAITING_TOOL')
    const { id } = (await lastIn(desk)).parts[0].toolCall
    await joins(desk, bob)
    await play.parley.app.domain.control.submitToolResult(play.parley.admin, { toolCallId: id, result: SECRET })
    await play.parley.runWhen(runs[0].id)
    expect(await play.stage.ask(bob.client, CALL, { id })).toMatchObject({ status: 'DONE', output: null })
    expect(await play.stage.ask(play.stage.admin, CALL, { id })).toMatchObject({ output: SECRET })
  })

  test('membership is checked at each use: a new member is included, a former one is not, and an admin may remove the label', async () => {
    const { alice, bob, agent } = await world()
    const diary = await play.stage.space('Diary', [alice, agent], ALONE)
    const team = await play.stage.space('Team', [alice, bob, agent], TOGETHER)
    const say = (): ModelAction => ({ toolCall: 'send_message', input: { text: SECRET } })
    const lift = (client: Person['client']) => play.stage.ask(client, LIFT, { id: diary.id })
    const leaves = () => play.stage.ask(play.stage.admin, REMOVE, { input: { spaceId: diary.id, entityId: bob.id } })
    const tells = async () => {
      takesTurns(play.parley.models, agent.name, [[enter(team)], [say()]])
      const { runs } = await play.stage.say(alice, diary, SECRET)
      await play.parley.runWhen(runs[0].id)
      return (await play.stage.runsOf(agent)).at(-1).toolCalls[1].status
    }
    expect(await tells()).toBe('FAILED')
    await joins(diary, bob)
    expect(await tells()).toBe('DONE')
    await leaves()
    expect(await tells()).toBe('FAILED')
    expect(await lift(alice.client)).toEqual({ __typename: 'ForbiddenError' })
    expect(await tells()).toBe('FAILED')
    expect(await lift(play.stage.admin)).toEqual({ __typename: 'UpdateSpacePayload' })
    expect(await tells()).toBe('DONE')
  })

  test('a message that is stopped midway has all sources that its run had read', async () => {
    const { alice, agent } = await world()
    const diary = await play.stage.space('Diary', [alice, agent], ALONE)
    const desk = await play.stage.space('Desk', [alice, agent], TOGETHER)
    takesTurns(play.parley.models, agent.name, [[enter(desk)], [{ toolCall: 'send_message', input: { text: SECRET } }]])
    await play.parley.runWhen((await play.stage.say(alice, diary, SECRET)).runs[0].id)
    const held = gate()
    takesTurns(play.parley.models, agent.name, [[inPieces('It is known: ', held.promise, 'x')]])
    const { runs } = await play.stage.say(alice, desk, 'What is it?')
    await until('the text streams', async () => (await lastIn(desk))?.status === 'STREAMING')
    await play.parley.app.domain.control.stopRun(play.parley.admin, { runId: runs[0].id, cascade: false })
    held.open()
    const said = await until(
      'the text has ended',
      async () => (await lastIn(desk)).status !== 'STREAMING' && lastIn(desk),
    )
    const { prisma } = play.parley.app.platform.db
    expect(await prisma.message.findUnique({ where: { id: said.id } })).toMatchObject({
      status: 'INTERRUPTED',
      label: [diary.id],
    })
  })
})
