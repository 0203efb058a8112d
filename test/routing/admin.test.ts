import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { AgentMember, Room, RoutableMessage } from '../../src/rules/routing.ts'
import { admin } from '../../src/rules/routing.ts'
import { RULE_STACKS, startApplication, type TestApplication } from '../support/application.ts'
import { forAgent, steps } from '../support/model-server-script.ts'
import { endedRun, messagesOf, runsOf, spaceToolsRoom } from '../support/space-tools.ts'
import { until } from '../support/until.ts'

const agent = (id: string, joinedAt: number): AgentMember => ({
  id,
  name: id,
  mind: 'STATELESS',
  joinedAt,
})

const ROOM: Room = {
  routing: 'ADMIN',
  adminAgentId: 'ada',
  mentionNarrows: false,
  lastPicked: null,
  agents: [agent('ada', 1), agent('bea', 2), agent('cem', 3)],
}

const from = (senderId: string, ...mentions: string[]): RoutableMessage => ({
  senderId,
  senderKind: ROOM.agents.some(({ id }) => id === senderId) ? 'AGENT' : 'HUMAN',
  mentions,
})

describe('the recipients under ADMIN routing', () => {
  test.each([
    ["a human's message: the admin agent", from('husam'), ROOM, ['ada']],
    ["a human's message that mentions another agent: the admin agent", from('husam', 'bea'), ROOM, ['ada']],
    ["the admin agent's own message: nobody", from('ada'), ROOM, []],
    ["an agent's message: nobody, not even the admin agent", from('bea'), ROOM, []],
    ["an agent's message that mentions one: that one", from('ada', 'cem'), ROOM, ['cem']],
    ['an agent that mentions the admin agent: that one', from('bea', 'ada'), ROOM, ['ada']],
    [
      "a human's message in a space with one agent and no admin: that one",
      from('husam'),
      { ...ROOM, adminAgentId: null, agents: [agent('bea', 1)] },
      ['bea'],
    ],
    ['with an admin agent that has left: nobody', from('husam'), { ...ROOM, adminAgentId: 'gone' }, []],
    [
      'with an admin agent that has left, and one that is there: nobody',
      from('husam'),
      { ...ROOM, adminAgentId: 'gone', agents: [agent('bea', 1)] },
      [],
    ],
  ] satisfies [string, RoutableMessage, Room, string[]][])('%s', (_, message, room, woken) => {
    const decision = admin(message, room)
    expect(decision.wakes.map((wake) => wake.agent.id)).toEqual(woken)
    const others = room.agents.filter(({ id }) => id !== message.senderId && !woken.includes(id))
    expect(decision.sleeps.map((sleep) => sleep.agent.id)).toEqual(others.map(({ id }) => id))
    for (const { reason } of [...decision.wakes, ...decision.sleeps]) expect(reason).not.toBe('')
  })
})

describe.each(RULE_STACKS)('ADMIN routing, on the %s stack', (stack) => {
  let parley: TestApplication

  beforeAll(async () => {
    parley = await startApplication({ stack })
  })
  afterAll(() => parley?.close())
  beforeEach(() => {
    parley.models.reset()
    parley.models.script(() => [{ text: 'Seen.' }])
  })

  const outcomesOf = (messageId: string) =>
    parley.app.platform.db.prisma.outcome.findMany({ where: { messageId }, orderBy: { agentId: 'asc' } })

  test('only the admin agent responds to a human, and every other agent member has its reason', async () => {
    const { human, agents, space } = await spaceToolsRoom(parley, { names: ['Ada', 'Bea', 'Cem'] })
    const { message, runs } = await parley.send(human, space.id, 'Hello')
    expect(runs.map(({ agentId }) => agentId)).toEqual([agents[0]?.id])
    expect(await outcomesOf(message.id)).toMatchObject([
      { agentId: agents[0]?.id, kind: 'RUN', runId: runs[0]?.id },
      { agentId: agents[1]?.id, kind: 'NOT_ROUTED' },
      { agentId: agents[2]?.id, kind: 'NOT_ROUTED' },
    ])
    await parley.runWhen(runs[0]?.id ?? '')
  })

  test("a human's mention of another agent wakes the admin agent, whose prompt names the addressee", async () => {
    const { human, agents, space } = await spaceToolsRoom(parley, { names: ['Ada', 'Bea'] })
    const { message, runs } = await parley.app.domain.sending.send(human, {
      spaceId: space.id,
      text: 'Bea, please',
      mentionedAgentId: agents[1]?.id ?? '',
    })
    expect(message.mentionedAgentId).toBe(agents[1]?.id)
    expect(runs.map(({ agentId }) => agentId)).toEqual([agents[0]?.id])
    const request = await parley.models.request(({ instructions }) => instructions.includes('You are Ada'))
    const said = request.messages.find(({ role }) => role === 'user')?.text
    expect(said).toContain(`, addressed to Bea (id: ${agents[1]?.id})`)
    await parley.runWhen(runs[0]?.id ?? '')
  })

  test.each([
    ['BadInputError for a human', 'human'],
    ['BadInputError for an agent that is no member', 'stranger'],
  ])('a mention of anyone but an agent member is refused: %s', async (_, whom) => {
    const { human, space } = await spaceToolsRoom(parley)
    const stranger = await parley.agent('Stranger')
    const mentionedAgentId = whom === 'human' ? human.id : stranger.id
    const sending = parley.app.domain.sending.send(human, { spaceId: space.id, text: 'You?', mentionedAgentId })
    await expect(sending).rejects.toMatchObject({ code: 'BAD_INPUT', field: 'input.mentionedAgentId' })
    expect(await parley.messages(space.id)).toEqual([])
  })

  test('changing the admin agent changes who wakes; a non-member or human is refused', async () => {
    const { human, agents, space } = await spaceToolsRoom(parley, { names: ['Ada', 'Bea'] })
    const update = (adminAgentId: string | null) =>
      parley.app.domain.spaces.update(human, { id: space.id, adminAgentId })
    for (const id of [human.id, (await parley.agent('Stranger')).id]) {
      await expect(update(id)).rejects.toMatchObject({ code: 'BAD_INPUT', field: 'input.adminAgentId' })
    }
    await expect(update(null)).rejects.toMatchObject({ code: 'BAD_INPUT' })
    await update(agents[1]?.id ?? '')
    const { runs } = await parley.send(human, space.id, 'Hello')
    expect(runs.map(({ agentId }) => agentId)).toEqual([agents[1]?.id])
    await parley.runWhen(runs[0]?.id ?? '')
  })

  test('when the admin agent leaves, humans wake no agent and the outcome has the reason; after its return it wakes again', async () => {
    const { human, agents, space } = await spaceToolsRoom(parley, { names: ['Ada', 'Bea'] })
    const member = { spaceId: space.id, entityId: agents[0]?.id ?? '' }
    await parley.app.domain.members.remove(human, member)
    expect((await parley.app.domain.spaces.adminAgentsOf([space.id])).size).toBe(0)
    const unheard = await parley.send(human, space.id, 'Anybody?')
    expect(unheard.runs).toEqual([])
    expect(await outcomesOf(unheard.message.id)).toMatchObject([
      { agentId: agents[1]?.id, kind: 'NOT_ROUTED', reason: expect.stringMatching(/no admin agent/) },
    ])
    await parley.app.domain.members.add(human, member)
    const { runs } = await parley.send(human, space.id, 'Ada?')
    expect(runs.map(({ agentId }) => agentId)).toEqual([agents[0]?.id])
    await parley.runWhen(runs[0]?.id ?? '')
  })

  test('an agent’s response wakes no agent; its mention wakes the mentioned agent, with any toolset', async () => {
    const { human, agents, space } = await spaceToolsRoom(parley, { names: ['Ada', 'Bea'] })
    const cem = await parley.agent('Cem', { toolset: 'ACTIVE_SPACE' })
    await parley.app.domain.members.add(human, { spaceId: space.id, entityId: cem.id })
    const mention = { spaceId: space.id, text: 'Cem, please', mention: cem.id }
    parley.models.script(forAgent('Ada', steps([{ toolCall: 'sendSpaceMessage', input: mention }])))
    parley.models.script(forAgent('Cem', steps([{ toolCall: 'send_message', input: { text: 'Done.' } }])))
    await parley.send(human, space.id, 'Begin')
    expect(await endedRun(parley, cem.id)).toMatchObject({ status: 'COMPLETED', triggerSenderId: agents[0]?.id })
    const [answer] = await messagesOf(parley, space.id, cem.id)
    const outcomes = await until('all messages are routed', async () => {
      const found = await outcomesOf(answer?.id ?? '')
      return found.length === 2 && found
    })
    expect(outcomes.map(({ kind }) => kind)).toEqual(['NOT_ROUTED', 'NOT_ROUTED'])
    expect(await runsOf(parley, agents[1]?.id ?? '')).toEqual([])
  })

  test('two agents that mention each other endlessly stop at the maximum depth of the chain, with its outcome', async () => {
    const { human, agents, space } = await spaceToolsRoom(parley, { names: ['Ada', 'Bea'] })
    const mentions = (mention: string | undefined) =>
      steps([{ toolCall: 'sendSpaceMessage', input: { spaceId: space.id, text: 'You again?', mention } }])
    parley.models.script(forAgent('Ada', mentions(agents[1]?.id)))
    parley.models.script(forAgent('Bea', mentions(agents[0]?.id)))
    await parley.send(human, space.id, 'Begin')
    const { maxChainDepth } = parley.app.platform.config.limits
    const last = await until('the last message is complete', async () => {
      const message = (await parley.messages(space.id))[maxChainDepth]
      return message?.routedAt && message
    })
    expect(last).toMatchObject({ depth: maxChainDepth, status: 'COMPLETE' })
    const outcomes = await outcomesOf(last.id)
    expect(outcomes).toMatchObject([{ agentId: last.mentionedAgentId, kind: 'LOOP_LIMIT' }])
    for (const { id } of agents) for (const run of await runsOf(parley, id)) await parley.runWhen(run.id)
    expect(await parley.messages(space.id)).toHaveLength(maxChainDepth + 1)
  })
})
