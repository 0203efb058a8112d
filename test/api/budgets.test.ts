import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { RULE_STACKS } from '../support/application.ts'
import { type ModelAction, steps } from '../support/model-server-script.ts'
import type { ParleyClient } from '../support/parley-client.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { answer, type Thinking, thinkingOn } from '../support/thinking.ts'
import { until } from '../support/until.ts'

const PRICES = { 'openai.chat:test': { input: 1, output: 10 } }
const BUDGET = 'budget { tokensPerDay tokensPerRoot usdPerDay usdPerRoot tokensSpentToday usdSpentToday }'
const UPDATE_AGENT = `mutation ($input: UpdateAgentInput!) { updateAgent(input: $input) { __typename
  ... on UpdateAgentPayload { agent { internals { ${BUDGET} } } } ... on BadInputError { field message } ... on Error { message } } }`
const UPDATE_SPACE = `mutation ($input: UpdateSpaceInput!) { updateSpace(input: $input) { __typename
  ... on UpdateSpacePayload { space { ${BUDGET} } } ... on Error { message } } }`
const UPDATE_HUMAN = `mutation ($input: UpdateHumanInput!) { updateHuman(input: $input) { __typename
  ... on UpdateHumanPayload { human { ${BUDGET} } } ... on BadInputError { field message } ... on Error { message } } }`
const SEND = `mutation ($input: SendMessageInput!) { sendMessage(input: $input) { ... on SendMessagePayload {
  sentMessage { id outcomes { kind reason agent { id } } } runs { id } } ... on Error { message } } }`
const MESSAGE = `query ($id: ID!) { message(id: $id) { outcomes { kind error agent { id } run { status stopReason } } } }`
const RUN = 'query ($id: ID!) { run(id: $id) { status stopReason error stepCount usage { totalTokens } } }'
const TRIGGER = `mutation ($input: TriggerAgentInput!) { triggerAgent(input: $input) { __typename ... on Error { message } } }`
const RETRY = `mutation ($input: RetryRunInput!) { retryRun(input: $input) { __typename ... on Error { message } } }`

/** A generation with 100 tokens, which costs 0.00019 USD. */
const FIGURES = { inputTokens: 90, outputTokens: 10 }
const USD = 0.00019
const said = (text: string): ModelAction[] => [{ toolCall: 'send_message', input: { text } }, { usage: FIGURES }]
const done: ModelAction[] = [{ text: 'Done.' }, { usage: FIGURES }]

describe.each(RULE_STACKS)('budgets, on the %s stack', (stack) => {
  let parley: TestServer
  let admin: ParleyClient
  let thinking: Thinking

  beforeAll(async () => {
    parley = await startTestServer({ stack, settings: { PARLEY_PRICES: JSON.stringify(PRICES) } })
    admin = await parley.clientOf(parley.admin)
    thinking = thinkingOn(parley)
  })
  afterAll(() => parley?.close())
  beforeEach(() => parley.models.reset())
  afterEach(() => expect(parley.models.refusals).toEqual([]))

  // biome-ignore lint/suspicious/noExplicitAny: results are compared as a whole
  async function ask(operation: string, variables: object, client = admin): Promise<any> {
    const { data, errors } = await client.ask<Record<string, unknown>>(operation, variables)
    expect(errors).toBeUndefined()
    return Object.values(data ?? {})[0]
  }
  const budgetOf = (agent: { id: string }, budget: object | null) =>
    ask(UPDATE_AGENT, { input: { id: agent.id, budget } })
  const outcomesOf = async ({ id }: { id: string }) => (await ask(MESSAGE, { id })).outcomes
  const ended = async (id: string | undefined) => {
    await parley.runWhen(id ?? '')
    return ask(RUN, { id })
  }
  /** Moves all recorded usage to the previous day. */
  async function nextDay() {
    const { prisma } = parley.app.platform.db
    await prisma.$executeRaw`UPDATE "DailyUsage" SET day = day - 1`
    await prisma.$executeRaw`UPDATE "InboxEvent" SET "waitsUntil" = "waitsUntil" - interval '1 day'`
  }

  test("an admin sets limits: an omitted limit stays, null lifts it; the API shows them with today's spending", async () => {
    const { human, agent, space } = await parley.room('Ada')
    parley.models.script(steps(done))
    const { runs } = await parley.send(human, space.id, 'Hi')
    await parley.runWhen(runs[0]?.id ?? '')
    const spent = { tokensSpentToday: 100, usdSpentToday: USD }
    const none = { tokensPerDay: null, tokensPerRoot: null, usdPerDay: null, usdPerRoot: null }
    expect(await budgetOf(agent, { tokensPerDay: 1000, usdPerRoot: 0.5 })).toMatchObject({
      agent: { internals: { budget: { ...none, tokensPerDay: 1000, usdPerRoot: 0.5, ...spent } } },
    })
    expect(await budgetOf(agent, { usdPerRoot: null, usdPerDay: 2 })).toMatchObject({
      agent: { internals: { budget: { ...none, tokensPerDay: 1000, usdPerDay: 2, ...spent } } },
    })
    expect(await ask(UPDATE_AGENT, { input: { id: agent.id, name: 'Bea' } })).toMatchObject({
      agent: { internals: { budget: { tokensPerDay: 1000 } } },
    })
    expect(await budgetOf(agent, { tokensPerDay: null, usdPerDay: null })).toMatchObject({
      agent: { internals: { budget: null } },
    })
    expect(await budgetOf(agent, { usdPerDay: -1 })).toMatchObject({
      __typename: 'BadInputError',
      field: 'input.budget.usdPerDay',
    })
    const member = await parley.clientOf(human)
    const ofSpace = { input: { id: space.id, budget: { tokensPerDay: 500 } } }
    expect(await ask(UPDATE_SPACE, ofSpace, member)).toMatchObject({ __typename: 'ForbiddenError' })
    expect(await ask(UPDATE_SPACE, ofSpace)).toMatchObject({ space: { budget: { tokensPerDay: 500, ...spent } } })
    const seen = await ask(`query ($id: ID!) { space(id: $id) { ${BUDGET} } }`, { id: space.id }, member)
    expect(seen.budget).toMatchObject({ tokensPerDay: 500, ...spent })
  })

  test('a budget of a human applies to every root message of that human, and to nobody else’s', async () => {
    const { human, space } = await parley.room('Ada')
    const other = await parley.human('Bea')
    await parley.app.domain.members.add(parley.admin, { spaceId: space.id, entityId: other.id })
    expect(await ask(UPDATE_HUMAN, { input: { id: human.id, budget: { tokensPerDay: 100 } } })).toMatchObject({
      human: { budget: { tokensPerDay: 100, usdPerDay: null, tokensSpentToday: 0 } },
    })
    parley.models.script(steps(done))
    const { runs } = await parley.send(human, space.id, 'Hi')
    expect(await ended(runs[0]?.id)).toMatchObject({ status: 'COMPLETED' })
    const { message } = await parley.send(human, space.id, 'And now?')
    const [outcome] = await parley.app.platform.db.prisma.outcome.findMany({ where: { messageId: message.id } })
    expect(outcome).toMatchObject({
      kind: 'OVER_BUDGET',
      reason: "Today's budget of the person who started this is spent.",
    })
    const others = await parley.send(other, space.id, 'And I?')
    expect(await ended(others.runs[0]?.id)).toMatchObject({ status: 'COMPLETED' })
    const spent = await ask(`query ($id: ID!) { node(id: $id) { ... on Human { ${BUDGET} } } }`, { id: human.id })
    expect(spent.budget).toMatchObject({ tokensSpentToday: 100, usdSpentToday: USD })
    await ask(UPDATE_HUMAN, { input: { id: human.id, budget: { tokensPerDay: null } } })
    const again = await parley.send(human, space.id, 'And now?')
    expect(await ended(again.runs[0]?.id)).toMatchObject({ status: 'COMPLETED' })
  })

  test('events of a human without budget wait in the inbox while others are processed, until an admin raises the budget', async () => {
    const { human, agent, space } = await parley.room('Ada', { mind: 'PERSISTENT' })
    const other = await parley.human('Bea')
    await parley.app.domain.members.add(parley.admin, { spaceId: space.id, entityId: other.id })
    await ask(UPDATE_HUMAN, { input: { id: human.id, budget: { tokensPerDay: 0 } } })
    parley.models.script(steps(done))
    const { message } = await parley.send(human, space.id, 'Hi')
    await until('the event waits', async () => (await thinking.inboxOf(agent)).at(-1)?.waitsUntil)
    const answered = await parley.send(other, space.id, 'And I?')
    await until('the other event is done', async () => (await thinking.inboxOf(agent)).at(-1)?.doneAt)
    expect(await outcomesOf(answered.message)).toMatchObject([{ kind: 'INBOX' }])
    expect(await outcomesOf(message)).toMatchObject([{ kind: 'OVER_BUDGET' }])
    await ask(UPDATE_HUMAN, { input: { id: human.id, budget: null } })
    await until('the event is done', async () => (await thinking.inboxOf(agent)).every(({ doneAt }) => doneAt !== null))
    expect(await outcomesOf(message)).toMatchObject([{ kind: 'INBOX' }])
  })

  test('only admins set and see the budget of a human', async () => {
    const human = await parley.human('Ada')
    const client = await parley.clientOf(human)
    await ask(UPDATE_HUMAN, { input: { id: human.id, budget: { usdPerDay: 1 } } })
    expect(await ask(UPDATE_HUMAN, { input: { id: human.id, budget: null } }, client)).toMatchObject({
      __typename: 'ForbiddenError',
    })
    const seen = await ask(`{ viewer { human { ${BUDGET} } } }`, {}, client)
    expect(seen.human.budget).toBeNull()
    expect(await ask(UPDATE_HUMAN, { input: { id: human.id, budget: { usdPerDay: -1 } } })).toMatchObject({
      __typename: 'BadInputError',
      field: 'input.budget.usdPerDay',
    })
  })

  test.each([Number.MAX_VALUE, Number.MIN_VALUE])('a limit accepts any number: %d USD', async (usd) => {
    const { human, agent, space } = await parley.room('Ada')
    const budget = { usdPerDay: usd, usdPerRoot: usd }
    await budgetOf(agent, budget)
    expect((await ask(UPDATE_SPACE, { input: { id: space.id, budget } })).space.budget).toMatchObject(budget)
    parley.models.script(steps(done))
    const client = await parley.clientOf(human)
    const { runs } = await ask(SEND, { input: { spaceId: space.id, text: 'Hi' } }, client)
    expect(await ended(runs[0]?.id)).toMatchObject({ status: 'COMPLETED', error: null })
  })

  test('nothing wakes a stateless agent that has spent its daily budget until the next day', async () => {
    const { human, agent, space } = await parley.room('Ada')
    const client = await parley.clientOf(human)
    await budgetOf(agent, { tokensPerDay: 100 })
    parley.models.script(steps(done))
    const { runs } = await parley.send(human, space.id, 'Hi')
    expect(await ended(runs[0]?.id)).toMatchObject({ status: 'COMPLETED' })
    const refused = await ask(SEND, { input: { spaceId: space.id, text: 'And now?' } }, client)
    expect(refused).toMatchObject({ runs: [], sentMessage: { outcomes: [{ kind: 'OVER_BUDGET', reason: null }] } })
    const call = { input: { agentId: agent.id, serviceName: 'cron', payload: {} } }
    expect(await ask(TRIGGER, call)).toMatchObject({
      __typename: 'LimitExceededError',
      message: "The agent's budget for today is spent. The agent cannot be triggered until the next day (UTC).",
    })
    const plan = await ask(
      'mutation ($input: CreatePlanInput!) { createPlan(input: $input) { ... on CreatePlanPayload { plan { id } } } }',
      { input: { agentId: agent.id, name: 'daily', instruction: 'Look.', schedule: { cron: '0 9 * * *' } } },
    )
    const fired = await ask(
      'mutation ($input: RunPlanNowInput!) { runPlanNow(input: $input) { ... on RunPlanNowPayload { firing { result run { id } } } } }',
      { input: { id: plan.plan.id } },
    )
    expect(fired).toEqual({ firing: { result: 'OVER_BUDGET', run: null } })
    await nextDay()
    const again = await parley.send(human, space.id, 'And now?')
    expect(await ended(again.runs[0]?.id)).toMatchObject({ status: 'COMPLETED' })
  })

  test('a run FAILS before the generation that would exceed the budget, and is not retried', async () => {
    const { human, agent, space } = await parley.room('Ada')
    await budgetOf(agent, { usdPerRoot: 2 * USD })
    parley.models.script(steps(said('One.'), said('Two.'), said('Three.')))
    const { runs, message } = await parley.send(human, space.id, 'Count')
    const error = 'The budget of the message or trigger that started this is spent.'
    expect(await ended(runs[0]?.id)).toEqual({
      status: 'FAILED',
      stopReason: 'OVER_BUDGET',
      error,
      stepCount: 2,
      usage: { totalTokens: 200 },
    })
    expect((await parley.messages(space.id)).length).toBe(3)
    expect(await outcomesOf(message)).toMatchObject([{ kind: 'FAILED', error, run: { stopReason: 'OVER_BUDGET' } }])
    expect(await ask(RETRY, { input: { runId: runs[0]?.id } })).toEqual({
      __typename: 'LimitExceededError',
      message: error,
    })
    const other = await parley.send(human, space.id, 'Count')
    expect(await ended(other.runs[0]?.id)).toMatchObject({ stepCount: 2 })
  })

  test("the lowest limit of a root's space and agents applies to everything that the root causes", async () => {
    const human = await parley.human('Husam')
    const [ada, bea] = [await parley.agent('Ada'), await parley.agent('Bea')]
    const space = await parley.space(human, [ada.id, bea.id])
    await ask(UPDATE_SPACE, { input: { id: space.id, budget: { tokensPerRoot: 2000 } } })
    await budgetOf(bea, { tokensPerRoot: 600 })
    parley.models.script(() => said('Your turn.'))
    const { message } = await parley.send(human, space.id, 'Talk')
    const { prisma } = parley.app.platform.db
    await until('all runs have ended', async () => {
      const living = { rootId: message.id, status: { in: ['QUEUED' as const, 'RUNNING' as const] } }
      const [alive, root] = [await prisma.run.count({ where: living }), await parley.messages(space.id)]
      return alive === 0 && root.length > 1
    })
    const { rootUsage } = await ask('query ($id: ID!) { message(id: $id) { rootUsage { totalTokens } } }', {
      id: message.id,
    })
    expect(rootUsage.totalTokens).toBeGreaterThanOrEqual(600)
    // When the budget is used up, at most five runs of each agent are in progress.
    expect(rootUsage.totalTokens).toBeLessThanOrEqual(600 + 10 * 100)
    const kinds = await prisma.outcome.findMany({ where: { kind: 'OVER_BUDGET', agentId: { in: [ada.id, bea.id] } } })
    const stopped = await prisma.run.count({ where: { rootId: message.id, stopReason: 'OVER_BUDGET' } })
    expect(kinds.length + stopped).toBeGreaterThan(0)
  })

  test('a persistent agent’s events wait for the next day or a higher budget; events of a root without budget are discarded', async () => {
    const { human, agent, space } = await parley.room('Ada', { mind: 'PERSISTENT' })
    const client = await parley.clientOf(human)
    const send = async (text: string) => (await ask(SEND, { input: { spaceId: space.id, text } }, client)).sentMessage
    await budgetOf(agent, { tokensPerDay: 100 })
    parley.models.script(answer('Hello.', done))
    await send('Hello Ada')
    await until('a cycle has spent it', async () => (await thinking.cyclesOf(agent)).length === 1)
    expect(await thinking.runsOf(agent)).toMatchObject([{ status: 'FAILED', stopReason: 'OVER_BUDGET', stepCount: 1 }])
    const waits = await send('Still there?')
    expect(waits.outcomes).toMatchObject([{ kind: 'OVER_BUDGET' }])
    await until('it waits', async () => (await thinking.inboxOf(agent)).at(-1)?.waitsUntil)
    expect(await outcomesOf(waits)).toMatchObject([{ kind: 'OVER_BUDGET', run: null }])
    await nextDay()
    await until('the retry is due', async () => (await thinking.inboxOf(agent)).at(-1)?.doneAt)
    await until('the cycle has ended', async () => (await thinking.runsOf(agent)).length === 2)
    await thinking.rest(agent)
    const more = await send('And now?')
    await until('it waits again', async () => (await thinking.inboxOf(agent)).at(-1)?.waitsUntil)
    await budgetOf(agent, { tokensPerDay: 10_000 })
    await thinking.rest(agent)
    expect(await outcomesOf(more)).toMatchObject([{ kind: 'INBOX', run: { status: 'COMPLETED' } }])
    await budgetOf(agent, { tokensPerRoot: 0 })
    const never = await send('Never')
    expect(never.outcomes).toMatchObject([{ kind: 'OVER_BUDGET' }])
    await thinking.rest(agent)
    expect((await thinking.inboxOf(agent)).length).toBe(3)
  })

  test('under a limit in USD, a model without a known price does not run; a fallback with a price and the demo model do', async () => {
    const { human, agent, space } = await parley.room('Ada', { model: 'openai.chat:unpriced' })
    await budgetOf(agent, { usdPerDay: 1 })
    parley.models.script(steps(done))
    const { runs } = await parley.send(human, space.id, 'Hi')
    expect(await ended(runs[0]?.id)).toMatchObject({
      status: 'FAILED',
      stopReason: 'OVER_BUDGET',
      error: 'A budget in USD applies, but openai.chat:unpriced has no price: set it in PARLEY_PRICES.',
      stepCount: 0,
    })
    await ask(UPDATE_AGENT, { input: { id: agent.id, fallbackModels: ['openai.chat:test'] } })
    const again = await parley.send(human, space.id, 'Hi')
    expect(await ended(again.runs[0]?.id)).toMatchObject({ status: 'COMPLETED' })
    expect(parley.models.requests.map(({ model }) => model)).toEqual(['test'])
    await ask(UPDATE_AGENT, { input: { id: agent.id, model: 'demo', fallbackModels: [] } })
    const free = await parley.send(human, space.id, 'Hi')
    expect(await ended(free.runs[0]?.id)).toMatchObject({ status: 'COMPLETED' })
  })
})
