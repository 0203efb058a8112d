import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { RULE_STACKS } from '../support/application.ts'
import { CIRCLES } from '../support/circles.ts'
import { forAgent, type ModelAction, type ModelRequest, steps } from '../support/model-server-script.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { type Named, openStage, type Person, type Read, resultsIn, type Stage } from '../support/stage.ts'
import { inboxIn, thinkingOn } from '../support/thinking.ts'
import { enter, say as says } from '../support/turns.ts'
import { until } from '../support/until.ts'

// The examples of requirement 004, with its values, as people, services and operators see them through GraphQL.

const MIND = `query ($id: ID!) { agent(id: $id) { internals {
  inbox { edges { node { type urgent payload } } } consciousness { messages cycleCount }
  goals { description status } memories { key value } plans { name instruction nextRunAt enabled } } } }`
const STEPS = `query ($id: ID!) { run(id: $id) { stepCount usage { totalTokens estimated } internals { steps { edges { node {
  index finishReason activeTools messages response } } } } } }`
const PENDING = 'query { viewer { pendingToolCalls { id toolName status input } } }'
const SUBMIT = `mutation ($input: SubmitToolResultInput!) {
  submitToolResult(input: $input) { __typename ... on SubmitToolResultPayload { toolCall { status output } } ... on Error { code } } }`

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

  const say = (person: Person, place: Named, text: string) => stage.say(person, place, text)

  test('tool phase gates: observe in steps 0 and 1, all tools from 2, only communication from 7', async () => {
    const husam = await stage.person('Husam')
    const observing = ['enter_space', 'read_messages', 'get_my_runs']
    const responding = ['send_message', 'enter_space', 'set_memories', 'set_goals']
    // A persistent agent may skip in any phase.
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

  test("async tool completion: pending at once, the cycle continues, and the service's result goes to the inbox", async () => {
    const husam = await stage.person('Husam')
    const weather = {
      name: 'weather',
      description: 'Asks the station.',
      execution: 'EXTERNAL',
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

  test.each(CIRCLES)(
    'one call, multiple actions, in $circle: one cycle plans, remembers and sets a goal; the plan wakes the agent without an active space',
    async ({ confidential }) => {
      const husam = await stage.person('Husam')
      const agent = await bot('Planner')
      const family = await stage.space('Family', [husam, agent], { routing: 'BROADCAST', confidential })
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
      const entered = await parley.models.request((request) => inboxHas('[PLAN')(request) && request.step === 2)
      // A memory from a confidential space is recalled once the agent is in that space.
      for (const { instructions } of confidential ? [entered] : [reminder, entered]) {
        expect(instructions).toContain('YOUR MEMORIES:\n- "train": "9:40"')
        expect(instructions).toMatch(/YOUR GOALS:\n- "Get Husam on the train\." \(id: gol_\w+\)/)
        expect(instructions).not.toContain('YOUR PLANS')
      }
      expect((await mindOf(agent)).plans).toMatchObject([{ name: 'Reminder', nextRunAt: null, enabled: false }])
      const [, , said] = await stage.messagesIn(family)
      expect(said.origin).toEqual({ triggerType: 'PLAN', triggerName: 'Reminder', triggerSpaceId: null })
    },
  )
})
