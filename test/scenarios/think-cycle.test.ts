import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { createDeferred } from '../../src/lib/async.ts'
import { RULE_STACKS } from '../support/application.ts'
import { forAgent } from '../support/model-server-script.ts'
import type { ParleyClient } from '../support/parley-client.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { answer, skip, thinkingOn } from '../support/thinking.ts'
import { until } from '../support/until.ts'

// biome-ignore lint/suspicious/noExplicitAny: assertions read fields that are not typed
type Read = any

const AGENT = `mutation ($input: CreateAgentInput!) {
  createAgent(input: $input) { __typename ... on CreateAgentPayload { agent { id name mind internals { cycle {
    maxConsciousnessTokens minRecentCycles inboxPreview urgentInjection urgentFrom stopWhenAllAnswered } tokenBudget maxSteps } } } }
}`
const SPACE = `mutation ($input: CreateSpaceInput!) {
  createSpace(input: $input) { ... on CreateSpacePayload { space { id } } }
}`
const SAY = `mutation ($input: SendMessageInput!) {
  sendMessage(input: $input) { __typename ... on SendMessagePayload { runs { id } } }
}`
const MESSAGES = `query ($id: ID!) {
  space(id: $id) { messages { edges { node { id text sender { name } outcomes { agent { id name } kind reason run { id status triggerType triggerSummary } } } } } }
}`
const MIND = `query ($id: ID!) {
  agent(id: $id) { active activeRuns { id } runs { edges { node { id } } } internals {
    inbox { edges { node { id type urgent payload } } }
    consciousness { messages cycleCount tokenEstimate lastCycleAt } } }
}`
const RUN_EVENTS = `subscription ($runId: ID!) { runEvents(runId: $runId) { __typename
  ... on RunCanceled { run { id status summary toolCalls { id } pendingToolCalls { id } triggerMessage { id } internals { steps { edges { node { id } } } } } }
  ... on RunToolCalled { toolCall { toolName input output run { id } } } } }`
const ACTIVITY = `subscription ($spaceId: ID!) { agentActivity(spaceId: $spaceId) { agent { id } active } }`

describe.each(RULE_STACKS)('persistent agents through GraphQL, on the %s stack', (stack) => {
  let parley: TestServer
  let admin: ParleyClient

  beforeAll(async () => {
    parley = await startTestServer({ stack })
    admin = await parley.clientOf(parley.admin)
  })
  afterAll(() => parley?.close())
  beforeEach(() => parley.models.reset())

  async function ask(client: ParleyClient, operation: string, variables: object): Promise<Read> {
    const answered = await client.ask<Read>(operation, variables)
    expect(answered.errors).toBeUndefined()
    return answered.data
  }

  async function bot(name: string, input: object = {}): Promise<{ id: string; name: string }> {
    const settings = { name, instructions: 'Answer briefly.', model: 'openai.chat:test', mind: 'PERSISTENT', ...input }
    return (await ask(admin, AGENT, { input: settings })).createAgent.agent
  }

  const mindOf = async (id: string) => (await ask(admin, MIND, { id })).agent

  test("004's Engineering example: one bot responds, two leave no trace but their outcomes", async () => {
    const [ahmad, husam] = [await parley.human('Ahmad'), await parley.human('Husam')]
    const client = await parley.clientOf(ahmad)
    const bots = [await bot('FrontendBot'), await bot('BackendBot'), await bot('DevOpsBot')] as const
    const [frontend, backend, devops] = bots
    const memberIds = [ahmad.id, husam.id, ...bots.map(({ id }) => id)]
    const space = (await ask(admin, SPACE, { input: { name: 'Engineering', routing: 'BROADCAST', memberIds } }))
      .createSpace.space

    const gate = createDeferred()
    parley.models.script(forAgent('FrontendBot', answer('Sure, checking now...', [{ text: 'I check the CSS.' }])))
    parley.models.script(
      forAgent('BackendBot', () => [{ gate: gate.promise }, ...skip('CSS question addressed to FrontendBot')]),
    )
    parley.models.script(forAgent('DevOpsBot', () => skip('Frontend CSS issue, not ops-related')))
    const activity = client.subscribe<Read, object>(ACTIVITY, { spaceId: space.id })
    await until('all three are published', () => activity.seen.length >= 3)
    const text = 'Hey FrontendBot, can you check the CSS on the login page?'
    const sent = (await ask(client, SAY, { input: { spaceId: space.id, text } })).sendMessage
    expect(sent).toMatchObject({ __typename: 'SendMessagePayload', runs: [] })

    const [run] = await until('BackendBot thinks', async () => {
      const { active, activeRuns } = await mindOf(backend.id)
      return active && activeRuns.length === 1 ? activeRuns : null
    })
    const watched = admin.subscribe<Read, object>(RUN_EVENTS, { runId: run.id })
    await watched.first((event: Read) => event.runEvents.__typename === 'RunStarted')
    gate.resolve()
    expect(await watched.ended).toBeNull()
    expect(watched.seen.at(-1)).toMatchObject({ runEvents: { __typename: 'RunCanceled', run: { id: run.id } } })
    await thinkingOn(parley).rest(...bots)

    const lines = (await ask(admin, MESSAGES, { id: space.id })).space.messages.edges.map(({ node }: Read) => node)
    expect(lines.map((line: Read) => [line.sender.name, line.text])).toEqual([
      ['Ahmad', text],
      ['FrontendBot', 'Sure, checking now...'],
    ])
    const outcomes = new Map(lines[0].outcomes.map((outcome: Read) => [outcome.agent.name, outcome]))
    expect(outcomes.get('FrontendBot')).toMatchObject({
      kind: 'INBOX',
      run: { status: 'COMPLETED', triggerType: 'INBOX', triggerSummary: '1 inbox event' },
    })
    expect(outcomes.get('BackendBot')).toMatchObject({
      kind: 'SKIPPED',
      reason: 'CSS question addressed to FrontendBot',
      run: null,
    })
    expect(outcomes.get('DevOpsBot')).toMatchObject({
      kind: 'SKIPPED',
      reason: 'Frontend CSS issue, not ops-related',
      run: null,
    })
    // People also see the reasons of the other agents.
    const forHumans = (await ask(client, MESSAGES, { id: space.id })).space.messages.edges[0].node.outcomes
    expect(forHumans.map(({ reason }: Read) => reason).toSorted()).toEqual([
      'CSS question addressed to FrontendBot',
      'Frontend CSS issue, not ops-related',
      null,
    ])

    for (const { id } of [backend, devops]) {
      expect(await mindOf(id)).toMatchObject({
        active: false,
        activeRuns: [],
        runs: { edges: [] },
        internals: {
          inbox: { edges: [] },
          consciousness: { messages: [], cycleCount: 0, tokenEstimate: 0, lastCycleAt: null },
        },
      })
    }
    const mind = await mindOf(frontend.id)
    expect(mind.internals.consciousness).toMatchObject({ cycleCount: 1, tokenEstimate: expect.any(Number) })
    expect(mind.internals.consciousness.messages.map(({ role }: Read) => role)).toEqual([
      'user',
      'assistant',
      'tool',
      'assistant',
      'tool',
      'assistant',
    ])
    await until('no activity is visible any more', () =>
      bots.every(
        ({ id }) =>
          activity.seen.findLast(({ agentActivity }: Read) => agentActivity.agent.id === id)?.agentActivity.active ===
          false,
      ),
    )
    activity.stop()
  })

  test('the settings of a cycle have the defaults of the contract, and can be set', async () => {
    const defaults = {
      maxConsciousnessTokens: 100_000,
      minRecentCycles: 10,
      inboxPreview: true,
      urgentInjection: true,
      urgentFrom: [],
      stopWhenAllAnswered: false,
    }
    expect(await bot('Ada')).toMatchObject({
      mind: 'PERSISTENT',
      internals: { cycle: defaults, tokenBudget: 50_000, maxSteps: 20 },
    })
    const cycle = { maxConsciousnessTokens: 5000, stopWhenAllAnswered: true }
    expect(await bot('Bob', { cycle })).toMatchObject({ internals: { cycle: { ...defaults, ...cycle } } })
  })

  test('an admin removes an event from an inbox, once, and only before a cycle claims it', async () => {
    const REMOVE = `mutation ($id: ID!) { removeInboxEvent(input: { id: $id }) { __typename
      ... on RemoveInboxEventPayload { removedInboxEventId } ... on Error { code message } } }`
    const human = await parley.human('Husam')
    const client = await parley.clientOf(human)
    const ada = await bot('Ada')
    const space = await parley.space(human, [ada.id])
    const gate = createDeferred()
    parley.models.script((request) =>
      request.n === 1 ? [{ gate: gate.promise }, { text: 'Read.' }] : [{ text: 'Read.' }],
    )
    await ask(client, SAY, { input: { spaceId: space.id, text: 'One' } })
    await parley.models.request(({ n }) => n === 1)
    await ask(client, SAY, { input: { spaceId: space.id, text: 'Two' } })
    const waiting = (await mindOf(ada.id)).internals.inbox.edges.map(({ node }: Read) => node)
    expect(waiting.map(({ payload }: Read) => payload.content)).toEqual(['Two'])
    const [two] = waiting
    const [one] = await thinkingOn(parley).inboxOf(ada)
    expect((await ask(client, REMOVE, { id: two.id })).removeInboxEvent).toMatchObject({ code: 'FORBIDDEN' })
    expect((await ask(admin, REMOVE, { id: one?.id })).removeInboxEvent).toMatchObject({ code: 'CONFLICT' })
    expect((await ask(admin, REMOVE, { id: two.id })).removeInboxEvent).toMatchObject({ removedInboxEventId: two.id })
    for (const id of [two.id, 'inb_00000000000000000000000000000000']) {
      expect((await ask(admin, REMOVE, { id })).removeInboxEvent).toMatchObject({ code: 'NOT_FOUND' })
    }
    gate.resolve()
    await thinkingOn(parley).rest(ada)
    expect(parley.models.requests).toHaveLength(1)
    expect((await mindOf(ada.id)).internals.inbox.edges).toEqual([])
  })

  test('an admin resets a consciousness', async () => {
    const RESET = `mutation ($agentId: ID!) { resetConsciousness(input: { agentId: $agentId }) { __typename
      ... on ResetConsciousnessPayload { agent { id } } ... on Error { code } } }`
    const human = await parley.human('Husam')
    const ada = await bot('Ada')
    const space = await parley.space(human, [ada.id])
    parley.models.script(() => [{ text: 'I know the secret.' }])
    await parley.send(human, space.id, 'The secret is 42.')
    await thinkingOn(parley).rest(ada)
    const client = await parley.clientOf(human)
    expect((await ask(client, RESET, { agentId: ada.id })).resetConsciousness).toMatchObject({ code: 'FORBIDDEN' })
    const stateless = await parley.agent('Bob')
    expect((await ask(admin, RESET, { agentId: stateless.id })).resetConsciousness).toMatchObject({ code: 'NOT_FOUND' })
    expect((await ask(admin, RESET, { agentId: ada.id })).resetConsciousness).toMatchObject({ agent: { id: ada.id } })
    expect((await mindOf(ada.id)).internals.consciousness).toMatchObject({ messages: [], cycleCount: 0 })
    await parley.send(human, space.id, 'What was it?')
    await thinkingOn(parley).rest(ada)
    expect(JSON.stringify(parley.models.requests.at(-1)?.messages)).not.toContain('The secret is 42.')
  })
})
