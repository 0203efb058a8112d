import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { RULE_STACKS } from '../support/application.ts'
import { forAgent, type ModelAction, type ModelRequest, steps } from '../support/model-server-script.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { gate } from '../support/space-tools.ts'
import { type Named, openStage, type Person, type Read, resultsIn, type Stage } from '../support/stage.ts'
import { inboxIn, interjectionIn, thinkingOn } from '../support/thinking.ts'
import { enter, say as says } from '../support/turns.ts'
import { until } from '../support/until.ts'

// The worked examples of seed 004, with its values, as people, services and operators see them through GraphQL.

const MIND = `query ($id: ID!) { agent(id: $id) { internals {
  inbox { edges { node { type urgent payload } } } consciousness { messages cycleCount }
  goals { description status } memories { key value } plans { name instruction nextRunAt enabled } } } }`
const STEPS = `query ($id: ID!) { run(id: $id) { stepCount usage { totalTokens estimated } internals { steps { edges { node {
  index finishReason activeTools messages response } } } } } }`
const PENDING = 'query { viewer { pendingToolCalls { id toolName status input } } }'
const SUBMIT = `mutation ($input: SubmitToolResultInput!) {
  submitToolResult(input: $input) { __typename ... on SubmitToolResultPayload { toolCall { status output } } ... on Error { code } } }`
const TRIGGER = `mutation ($input: TriggerAgentInput!) {
  triggerAgent(input: $input) { ... on TriggerAgentPayload { run { id } } ... on Error { message } } }`

describe.each(RULE_STACKS)("004's examples through GraphQL, on the %s stack", (stack) => {
  let parley: TestServer
  let stage: Stage

  beforeAll(async () => {
    parley = await startTestServer({ stack })
    stage = await openStage(parley)
  })
  afterAll(() => parley?.close())
  beforeEach(() => parley.models.reset())
  afterEach(() => expect(parley.models.refusals).toEqual([]))

  const bot = (name: string, more = {}) => stage.bot(name, { mind: 'PERSISTENT', toolset: 'ACTIVE_SPACE', ...more })
  const space = (name: string, ...members: Named[]) => stage.space(name, members, { routing: 'BROADCAST' })
  const rest = (agent: Named) => thinkingOn(parley).rest(agent)
  const mindOf = async ({ id }: Named): Promise<Read> => (await stage.ask(stage.admin, MIND, { id })).internals
  const textsIn = async (place: Named) => (await stage.messagesIn(place)).map(({ text }) => text)
  const inboxHas = (text: string) => (request: ModelRequest) => inboxIn(request).includes(text)

  /** Husam in "Family" and Ahmad in "Support", with one agent that is held in the first step of "Plan the party". */
  async function heldInFamily(more: (support: Named) => object = () => ({})) {
    const [husam, ahmad] = [await stage.person('Husam'), await stage.person('Ahmad')]
    const support = await space('Support', ahmad)
    const agent = await bot('Assistant', more(support))
    await parley.app.api.members.add(parley.admin, { spaceId: support.id, entityId: agent.id })
    const family = await space('Family', husam, agent)
    const held = gate()
    const plays = (script: (request: ModelRequest) => ModelAction[]) =>
      parley.models.script((request) => {
        if (!inboxHas('"Plan the party"')(request)) return script(request)
        const look = [enter(family)]
        return request.step === 0 && interjectionIn(request) === null
          ? [{ gate: held.promise }, ...look]
          : script(request)
      })
    const begin = async () => {
      await stage.say(husam, family, 'Plan the party')
      await parley.models.request(inboxHas('"Plan the party"'))
    }
    return { husam, ahmad, agent, family, support, held, plays, begin }
  }

  const say = (person: Person, place: Named, text: string) => stage.say(person, place, text)

  test('a correction is seen in the preview: the cycle ends early, and the next one handles it', async () => {
    const { husam, ahmad, agent, family, support, held, plays, begin } = await heldInFamily()
    plays((request) =>
      inboxHas('"Plan the party"')(request)
        ? [{ text: 'Husam has changed his mind: I stop here.' }]
        : (steps(
            [enter(family), says('Canceled.')],
            [enter(support), says('Friday it is.')],
            [{ text: 'I canceled the party and noted Friday.' }],
          )(request) as ModelAction[]),
    )
    await begin()
    await say(husam, family, 'Actually cancel that, I changed my mind about all of it')
    await say(ahmad, support, 'The deadline moved to Friday')
    const waiting = (await mindOf(agent)).inbox.edges.map(({ node }: Read) => [node.type, node.payload.content])
    expect(waiting.slice(-2)).toEqual([
      ['SPACE_MESSAGE', 'Actually cancel that, I changed my mind about all of it'],
      ['SPACE_MESSAGE', 'The deadline moved to Friday'],
    ])
    held.open()
    await rest(agent)

    const shown = await parley.models.request((request) => interjectionIn(request) !== null)
    expect(interjectionIn(shown)).toBe(
      [
        '[INBOX PREVIEW — 2 waiting]',
        '  [Family] Husam: "Actually cancel that, I changed my mind about all ..."',
        '  [Support] Ahmad: "The deadline moved to Friday..."',
      ].join('\n'),
    )
    expect(shown.instructions).toContain(
      'These will be fully processed in your next cycle. If any are urgent or change your current task, adapt accordingly.',
    )
    const runs = await stage.runsOf(agent)
    expect(runs.map(({ triggerSummary, summary }) => [triggerSummary, summary])).toEqual([
      ['1 inbox event', 'Husam has changed his mind: I stop here.'],
      ['2 inbox events', 'I canceled the party and noted Friday.'],
    ])
    const next = await parley.models.request(inboxHas('Actually cancel that'))
    expect(inboxIn(next).split('\n').slice(1)).toEqual([
      `- [Family (id: ${family.id})] Husam (human): "Actually cancel that, I changed my mind about all of it"`,
      `- [Support (id: ${support.id})] Ahmad (human): "The deadline moved to Friday"`,
    ])
    expect((await textsIn(family)).at(-1)).toBe('Canceled.')
    expect((await textsIn(support)).at(-1)).toBe('Friday it is.')
    const { consciousness, inbox } = await mindOf(agent)
    expect(consciousness.cycleCount).toBe(2)
    expect(JSON.stringify(consciousness.messages)).not.toContain('INBOX PREVIEW')
    expect(inbox.edges).toEqual([])
  })

  test('combined strategies: what comes from an urgent space is injected whole, the rest is previewed', async () => {
    const { husam, ahmad, agent, family, support, held, plays, begin } = await heldInFamily(({ id }) => ({
      cycle: { urgentFrom: [id] },
    }))
    plays((request) => {
      const between = interjectionIn(request)
      if (between?.startsWith('[URGENT]')) return [enter(support), says('On it.')]
      if (between !== null) return [enter(family), says('The party is planned.')]
      return [{ text: 'Read.' }]
    })
    await begin()
    await say(husam, family, 'And music?')
    await say(ahmad, support, 'The server is down')
    held.open()
    await rest(agent)
    const shown = parley.models.requests.flatMap((request) => interjectionIn(request) ?? [])
    expect(shown.slice(0, 2)).toEqual([
      `[URGENT]\n- [Support (id: ${support.id})] Ahmad (human): "The server is down"`,
      '[INBOX PREVIEW — 1 waiting]\n  [Family] Husam: "And music?..."',
    ])
    expect((await textsIn(support)).slice(-2)).toEqual(['The server is down', 'On it.'])
    const [first, second, ...more] = await stage.runsOf(agent)
    expect(more).toEqual([])
    const outcomesOf = async (place: Named, text: string) =>
      (await stage.messagesIn(place)).find((message) => message.text === text).outcomes
    expect(await outcomesOf(support, 'The server is down')).toMatchObject([{ kind: 'INBOX', run: { id: first.id } }])
    expect(await outcomesOf(family, 'And music?')).toMatchObject([{ kind: 'INBOX', run: { id: second.id } }])
  })

  test('tool phase gates: observe in steps 0 and 1, all tools from 2, only communication from 7', async () => {
    const husam = await stage.person('Husam')
    const observing = ['enter_space', 'read_messages', 'get_my_runs']
    const responding = ['send_message', 'enter_space', 'set_memories', 'set_goals']
    // Whatever the phases say, a mind may skip.
    const [observed, responded] = [[...observing, 'skip'].toSorted(), [...responding, 'skip'].toSorted()]
    const agent = await bot('Gated', {
      phases: [
        { fromStep: 0, activeTools: observing, toolChoice: 'REQUIRED' },
        { fromStep: 2, toolChoice: 'AUTO' },
        { fromStep: 7, activeTools: responding, toolChoice: 'AUTO' },
      ],
    })
    const family = await space('Family', husam, agent)
    const look: ModelAction[] = [{ toolCall: 'get_my_runs', input: {} }]
    const goals = [{ description: 'Answer Husam.', status: 'completed' }]
    const finale = [[says('I have looked everywhere.')], [{ toolCall: 'set_goals', input: { goals } }]]
    parley.models.script(
      steps([enter(family)], [{ toolCall: 'read_messages', input: {} }], look, look, look, look, look, ...finale),
    )
    await say(husam, family, 'Where is it?')
    await rest(agent)
    const offered = parley.models.requests.map(({ toolNames, body }) => [toolNames.toSorted(), body.tool_choice])
    expect(offered.slice(0, 2)).toEqual([
      [observed, 'required'],
      [observed, 'required'],
    ])
    for (const [names, choice] of offered.slice(2, 7)) {
      expect(names).toEqual(expect.arrayContaining([...observing, ...responding, 'skip', 'stop_run', 'set_plans']))
      expect(choice).toBe('auto')
    }
    expect(offered.slice(7)).toEqual([1, 2, 3].map(() => [responded, 'auto']))
    expect(await textsIn(family)).toEqual(['Where is it?', 'I have looked everywhere.'])
    expect((await mindOf(agent)).goals).toEqual([{ description: 'Answer Husam.', status: 'COMPLETED' }])
    const [run] = await stage.runsOf(agent)
    const read = await stage.ask(stage.admin, STEPS, { id: run.id })
    const records = read.internals.steps.edges.map(({ node }: Read) => node)
    expect(records.map(({ finishReason }: Read) => finishReason)).toEqual([...Array(9).fill('tool-calls'), 'stop'])
    expect(records[8].activeTools.toSorted()).toEqual(responded)
    expect(read).toMatchObject({ stepCount: 10, usage: { totalTokens: expect.any(Number) } })
  })

  test('async tool completion: pending at once, the cycle goes on, and the answer of a service comes by inbox', async () => {
    const husam = await stage.person('Husam')
    const weather = {
      ...{ name: 'weather', description: 'Asks the station.', execution: 'EXTERNAL' },
      inputSchema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
    }
    const agent = await bot('Forecaster', { tools: [weather] })
    const family = await space('Family', husam, agent)
    parley.models.script((request) =>
      inboxHas('TOOL_RESULT')(request)
        ? steps([enter(family), says('21 degrees in Lyon.')])(request)
        : steps(
            [enter(family), { toolCall: 'weather', input: { city: 'Lyon' } }],
            [says('I have asked the station.')],
          )(request),
    )
    await say(husam, family, 'How is the weather in Lyon?')
    await rest(agent)
    expect(await textsIn(family)).toEqual(['How is the weather in Lyon?', 'I have asked the station.'])
    const service = { id: 'acc_station', name: 'station', agentIds: [agent.id], tokenId: null, expiresAt: null }
    const station = await parley.clientOf({ scope: 'SERVICE', ...service })
    const { pendingToolCalls } = await stage.ask(station, PENDING)
    expect(pendingToolCalls).toMatchObject([{ toolName: 'weather', status: 'WAITING', input: { city: 'Lyon' } }])
    const toolCallId = pendingToolCalls[0].id
    const second = parley.models.requests[1] as ModelRequest
    expect(resultsIn(second).at(-1)).toEqual({ status: 'pending', toolCallId })
    const answer = { input: { toolCallId, result: { degrees: 21 } } }
    expect(await stage.ask(station, SUBMIT, answer)).toMatchObject({ toolCall: { status: 'DONE' } })
    expect(await stage.ask(station, SUBMIT, answer)).toMatchObject({ code: 'CONFLICT' })
    await rest(agent)
    expect((await textsIn(family)).at(-1)).toBe('21 degrees in Lyon.')
    const [asked, told, ...more] = await stage.runsOf(agent)
    expect(more).toEqual([])
    expect([asked.status, told.status]).toEqual(['COMPLETED', 'COMPLETED'])
    const inbox = inboxIn(parley.models.requests.at(-1) as ModelRequest)
    expect(inbox.split('\n').slice(1)).toEqual([`- [TOOL_RESULT weather (id: ${toolCallId})] {"degrees":21}`])
  })

  test('one call, multiple actions: it plans, remembers and pursues in one cycle; its plan wakes it with no space to act in', async () => {
    const husam = await stage.person('Husam')
    const agent = await bot('Planner')
    const family = await space('Family', husam, agent)
    parley.models.script(
      forAgent('Planner', (request) =>
        inboxHas('[PLAN')(request)
          ? steps([says('Too early: I am in no space.')], [enter(family), says('Time to leave!')])(request)
          : steps([
              enter(family),
              { toolCall: 'set_memories', input: { memories: [{ key: 'train', value: '9:40' }] } },
              { toolCall: 'set_goals', input: { goals: [{ description: 'Get Husam on the train.' }] } },
              {
                toolCall: 'set_plans',
                input: { plans: [{ name: 'Reminder', instruction: 'Tell Husam to leave.', afterSeconds: 1 }] },
              },
              says('I will remind you.'),
            ])(request),
      ),
    )
    await say(husam, family, 'Remind me of the 9:40 train')
    await until('it has reminded him', async () => (await textsIn(family)).length === 3)
    await rest(agent)
    expect(await textsIn(family)).toEqual(['Remind me of the 9:40 train', 'I will remind you.', 'Time to leave!'])
    const reminder = await parley.models.request((request) => inboxHas('[PLAN')(request) && request.step === 1)
    expect(inboxIn(reminder).split('\n').slice(1)).toEqual(['- [PLAN Reminder] Tell Husam to leave.'])
    expect(resultsIn(reminder).at(-1)).toMatchObject({ error: { code: 'NO_ACTIVE_SPACE' } })
    expect(reminder.instructions).toContain('YOUR MEMORIES:\n- "train": "9:40"')
    expect(reminder.instructions).toMatch(/YOUR GOALS:\n- "Get Husam on the train\." \(id: gol_\w+\)/)
    expect(reminder.instructions).not.toContain('YOUR PLANS')
    expect((await mindOf(agent)).plans).toMatchObject([{ name: 'Reminder', nextRunAt: null, enabled: false }])
    const [, , said] = await stage.messagesIn(family)
    expect(said.origin).toEqual({ triggerType: 'PLAN', triggerName: 'Reminder', triggerSpaceId: null })
  })

  test('service triggers wait in the inbox, urgent ones come first into the cycle that is under way', async () => {
    const { agent, held, plays, begin } = await heldInFamily()
    plays(() => [{ text: 'Read.' }])
    await begin()
    for (const [ticket, urgent] of [
      ['PROJ-1', false],
      ['PROJ-2', true],
    ] as const) {
      const input = { agentId: agent.id, serviceName: 'jira', payload: { ticket }, urgent }
      expect(await stage.ask(stage.admin, TRIGGER, { input })).toEqual({ run: null })
    }
    held.open()
    await rest(agent)
    const shown = parley.models.requests.flatMap((request) => interjectionIn(request) ?? [])
    expect(shown).toEqual(['[URGENT]\n- [SERVICE jira] {"ticket":"PROJ-2"}'])
    const last = inboxIn(parley.models.requests.at(-1) as ModelRequest)
    expect(last.split('\n').slice(1)).toEqual(['- [SERVICE jira] {"ticket":"PROJ-1"}'])
  })
})
