import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { RULE_STACKS } from '../support/application.ts'
import { inTurn, type ModelAction } from '../support/model-server-script.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { type Named, openStage, type Person, type Read, type Stage } from '../support/stage.ts'
import { until } from '../support/until.ts'

const PLAIN_TEXT = `query ($id: ID!) { agent(id: $id) { internals { plainText } } }`
const UPDATE = `mutation ($input: UpdateAgentInput!) { updateAgent(input: $input) {
  ... on UpdateAgentPayload { agent { internals { plainText } } } ... on Error { message } } }`
const SAID = `query ($id: ID!) { space(id: $id) { messages { edges { node { text status fromPlainText sender { kind } } } } } }`
const HINT = `query ($id: ID!) { run(id: $id) { internals { hint } } }`
const RUN = `query ($id: ID!) { run(id: $id) { error } }`

describe.each(RULE_STACKS)('closing text, on the %s stack', (stack) => {
  let parley: TestServer
  let stage: Stage
  let ada: Person

  beforeAll(async () => {
    const settings = {
      PARLEY_PROVIDERS: JSON.stringify({ hosted: { api: 'openai-chat', baseUrl: 'https://models.example.com/v1' } }),
    }
    parley = await startTestServer({ stack, settings })
    stage = await openStage(parley)
    ada = await stage.person('Ada')
  })
  afterAll(() => parley?.close())
  beforeEach(() => parley.models.reset())

  const spoken = (more: object = {}) => stage.bot('Bot', { toolset: 'ACTIVE_SPACE', plainText: undefined, ...more })

  /** Posts "Go". When the agent's run has ended, returns the run and what the agent has posted. */
  async function play(agent: Named, ...generations: ModelAction[][]) {
    parley.models.script(inTurn(...generations))
    const space = await stage.space('Room', [ada, agent], { routing: 'BROADCAST' })
    await stage.say(ada, space, 'Go')
    const [run] = await stage.endedRuns(agent, 1)
    return { space, run, said: await saidIn(space) }
  }

  async function saidIn(space: Named) {
    const { messages } = await stage.ask(ada.client, SAID, { id: space.id })
    return messages.edges.flatMap(({ node }: Read) =>
      node.sender.kind === 'AGENT' ? [[node.status, node.text, node.fromPlainText]] : [],
    )
  }

  const hintOf = async ({ id }: Read) => (await stage.ask(stage.admin, HINT, { id })).internals.hint
  const plainTextOf = async ({ id }: Named) => (await stage.ask(stage.admin, PLAIN_TEXT, { id })).internals.plainText

  test('is posted by default if the provider is local, and internal otherwise; both can be configured', async () => {
    const agents = [
      await spoken(),
      await spoken({ model: 'hosted:m' }),
      await spoken({ model: 'demo' }),
      await spoken({ plainText: 'INTERNAL' }),
      await spoken({ model: 'hosted:m', plainText: 'SPOKEN_IF_SILENT' }),
    ]
    const settings = await Promise.all(agents.map(plainTextOf))
    expect(settings).toEqual(['SPOKEN_IF_SILENT', 'INTERNAL', 'INTERNAL', 'INTERNAL', 'SPOKEN_IF_SILENT'])
    const changed = { id: agents[0]?.id, model: 'hosted:m' }
    expect((await stage.ask(stage.admin, UPDATE, { input: changed })).agent.internals.plainText).toBe(
      'SPOKEN_IF_SILENT',
    )
    const chosen = { ...changed, plainText: 'INTERNAL' }
    expect((await stage.ask(stage.admin, UPDATE, { input: chosen })).agent.internals.plainText).toBe('INTERNAL')
    const none = { ...changed, plainText: null }
    expect((await stage.ask(stage.admin, UPDATE, { input: none })).message).toMatch(/must not be null/i)
  })

  test('closing text of a run that posted no message is posted, and marked', async () => {
    const { run, said } = await play(await spoken(), [{ text: ' Hello Ada. ' }])
    expect(said).toEqual([['COMPLETE', 'Hello Ada.', true]])
    expect(run).toMatchObject({ status: 'COMPLETED', summary: 'Hello Ada.' })
    expect(await hintOf(run)).toBeNull()
  })

  test('wakes the others of the space like any message', async () => {
    const [one, other] = [await spoken({ name: 'One' }), await spoken({ name: 'Other', plainText: 'INTERNAL' })]
    const space = await stage.space('Room', [ada, one], { routing: 'BROADCAST' })
    parley.models.script(({ instructions }) => [{ text: instructions.includes('You are One') ? 'Hello.' : 'Seen.' }])
    const add = `mutation ($input: AddMemberInput!) { addMember(input: $input) { __typename } }`
    await stage.ask(ada.client, add, { input: { spaceId: space.id, entityId: other.id } })
    await stage.say(ada, space, 'Go', { mentionedAgentId: one.id })
    const runs = await stage.endedRuns(other, 2)
    expect(runs.map(({ triggerSummary }: Read) => triggerSummary).join()).toContain('One')
  })

  test.each<[string, ModelAction[][]]>([
    ['posted', [[{ toolCall: 'send_message', input: { text: 'Hello' } }], [{ text: 'Done.' }]]],
    [
      'failed',
      [
        [
          { text: 'I will', chunks: 2 },
          { error: 'No.', code: 'invalid_request' },
        ],
      ],
    ],
  ])('closing text of a run that %s is not posted', async (_, generations) => {
    const { said } = await play(await spoken(), ...generations)
    expect(said.filter(([, , fromPlainText]: Read[]) => fromPlainText)).toEqual([])
  })

  test('closing text of a run that skipped is not posted', async () => {
    const agent = await spoken({ mind: 'PERSISTENT' })
    parley.models.script(inTurn([{ text: 'Nothing.' }, { toolCall: 'skip' }]))
    const space = await stage.space('Room', [ada, agent], { routing: 'BROADCAST' })
    await stage.say(ada, space, 'Go')
    await until('the message is skipped', async () => {
      const [message] = await stage.messagesIn(space)
      return message.outcomes[0]?.kind === 'SKIPPED'
    })
    expect(await saidIn(space)).toEqual([])
  })

  test('closing text that is withheld by INTERNAL leaves a hint for admins', async () => {
    const { run, said } = await play(await spoken({ plainText: 'INTERNAL' }), [{ text: 'Hello Ada.' }])
    expect(said).toEqual([])
    expect(await hintOf(run)).toMatch(/SPOKEN_IF_SILENT/)
  })

  test('closing text that is a tool call is executed if it can be parsed, and is never posted', async () => {
    const call = '<tool_call>{"name":"send_message","arguments":{"text":"Hello"}}</tool_call>'
    const read = await play(await spoken(), [{ text: `<think>Hm.</think>${call}` }], [{ text: 'Done.' }])
    expect(read.said).toEqual([['COMPLETE', 'Hello', false]])
    parley.models.reset()
    const unread = await play(await spoken(), [{ text: '<tool_call>say hello' }])
    expect(unread.said).toEqual([])
    expect(await hintOf(unread.run)).toMatch(/not a JSON object/)
  })

  test('closing text that contains reasoning between tags is posted without the reasoning', async () => {
    const { said } = await play(await spoken(), [{ text: '<think>Who is there?</think>Hello.' }])
    expect(said).toEqual([['COMPLETE', 'Hello.', true]])
  })

  test('closing text of a think cycle is posted if its events come from a single space, and not from a service', async () => {
    const mind = await spoken({ mind: 'PERSISTENT' })
    const { said } = await play(mind, [{ text: 'Hello.' }])
    expect(said).toEqual([['COMPLETE', 'Hello.', true]])
  })

  test('is not posted for a plan', async () => {
    const agent = await spoken()
    const space = await stage.space('Room', [ada, agent], { routing: 'BROADCAST' })
    parley.models.script(inTurn([{ text: 'The plan is done.' }]))
    const create = `mutation ($input: CreatePlanInput!) { createPlan(input: $input) { ... on CreatePlanPayload { plan { id } } ... on Error { message } } }`
    const run = `mutation ($input: RunPlanNowInput!) { runPlanNow(input: $input) { __typename ... on Error { message } } }`
    const input = { agentId: agent.id, name: 'Daily', instruction: 'Go', schedule: { cron: '0 6 * * *' } }
    const { plan } = await stage.ask(stage.admin, create, { input })
    expect(await stage.ask(stage.admin, run, { input: { id: plan.id } })).not.toHaveProperty('message')
    const [ended] = await stage.endedRuns(agent, 1)
    expect(ended).toMatchObject({ status: 'COMPLETED', triggerType: 'PLAN' })
    expect(await saidIn(space)).toEqual([])
  })

  test('a provider’s message is for admins; members see what they can do', async () => {
    const agent = await spoken()
    const { run, space } = await play(agent, [
      { error: 'Your account has no money.', code: 'insufficient_quota', status: 429 },
    ])
    const advice = /no quota left/
    expect((await stage.ask(stage.admin, RUN, { id: run.id })).error).toBe('Your account has no money. (HTTP 429)')
    expect((await stage.ask(ada.client, RUN, { id: run.id })).error).toMatch(advice)
    const outcomes = `query ($id: ID!) { space(id: $id) { messages { edges { node { outcomes { kind error } } } } } }`
    const { messages } = await stage.ask(ada.client, outcomes, { id: space.id })
    expect(messages.edges[0].node.outcomes).toEqual([{ kind: 'FAILED', error: expect.stringMatching(advice) }])
    const live = ada.client.subscribe<Read, object>(
      'subscription ($id: ID!) { runEvents(runId: $id) { __typename ... on RunFailed { error } } }',
      { id: run.id },
    )
    await live.ended
    expect(live.seen.at(-1).runEvents.error).toMatch(advice)
  })
})
