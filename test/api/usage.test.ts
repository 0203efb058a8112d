import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { openDatabase } from '../../src/platform/db.ts'
import { createUsageReading } from '../../src/runs/usage.ts'
import { RULE_STACKS } from '../support/application.ts'
import { runsOf } from '../support/effort.ts'
import { fillLedger } from '../support/ledger.ts'
import { type ModelAction, steps, when } from '../support/model-server-script.ts'
import type { ParleyClient } from '../support/parley-client.ts'
import { createTestDatabase, hasPostgres } from '../support/postgres.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { answer, skip, type Thinking, thinkingOn } from '../support/thinking.ts'
import { until } from '../support/until.ts'

const PRICES = {
  'openai.chat:test': { input: 2, cachedInput: 0.5, output: 10 },
  'openai.chat:plain': { input: 1, output: 4 },
}
const USAGE = 'inputTokens cachedInputTokens outputTokens totalTokens costUsd estimated'
const MESSAGE = `query ($id: ID!) { message(id: $id) { rootUsage { ${USAGE} } } }`
const RUN = `query ($id: ID!) { run(id: $id) { usage { ${USAGE} } rootUsage { ${USAGE} }
  internals { steps { edges { node { usage { ${USAGE} } } } } } } }`
const LEDGER = `query ($from: DateTime!, $to: DateTime!, $by: [UsageDimension!]!, $agentId: ID, $spaceId: ID) {
  usage(from: $from, to: $to, by: $by, agentId: $agentId, spaceId: $spaceId) {
    day agent { id name } space { id } model human { id } runs skippedCycles inputTokens cachedInputTokens outputTokens costUsd } }`
const FOLLOW = `subscription ($spaceId: ID!) { spaceMessages(spaceId: $spaceId) {
  __typename ... on MessageUpdated { message { id rootUsage { totalTokens costUsd } } } } }`

const DAY_MS = 86_400_000
const today = () => new Date(Math.floor(Date.now() / DAY_MS) * DAY_MS)
/** The period from yesterday until tomorrow, so that the test can run around midnight. */
const span = () => ({ from: new Date(today().getTime() - DAY_MS), to: new Date(today().getTime() + 2 * DAY_MS) })

/** A generation with 1000 fresh input tokens at 2, 400 cached ones at 0.5, and 50 written tokens at 10 USD per million. */
const FIGURES = { inputTokens: 1400, cachedInputTokens: 400, outputTokens: 50 }
const COST = 0.0027
const said = (text: string): ModelAction[] => [{ toolCall: 'send_message', input: { text } }, { usage: FIGURES }]
const done: ModelAction[] = [{ text: 'Done.' }, { usage: FIGURES }]

describe.each(RULE_STACKS)('the cost of runs, on the %s stack', (stack) => {
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
  const ask = async (operation: string, variables: object): Promise<any> => {
    const { data, errors } = await admin.ask(operation, variables)
    expect(errors).toBeUndefined()
    return data
  }
  // biome-ignore lint/suspicious/noExplicitAny: results are compared as a whole
  const ledger = async (filter: object): Promise<any[]> => (await ask(LEDGER, { ...span(), by: [], ...filter })).usage

  test('a run, its steps and its root show their cost, with cached input at its own price', async () => {
    const { human, space } = await parley.room('Ada')
    parley.models.script(steps(said('Four.'), done))
    const { runs, message } = await parley.send(human, space.id, 'What is 2 + 2?')
    await parley.runWhen(runs[0]?.id ?? '')
    const { run } = await ask(RUN, { id: runs[0]?.id })
    const one = { ...FIGURES, totalTokens: 1450, costUsd: COST, estimated: false }
    const both = { inputTokens: 2800, cachedInputTokens: 800, outputTokens: 100, totalTokens: 2900, costUsd: 2 * COST }
    expect(run.internals.steps.edges).toEqual([{ node: { usage: one } }, { node: { usage: one } }])
    expect(run.usage).toEqual({ ...both, estimated: false })
    expect(run.rootUsage).toEqual(run.usage)
    expect(await ask(MESSAGE, { id: message.id })).toEqual({ message: { rootUsage: run.usage } })
    const replies = await parley.messages(space.id)
    expect(await ask(MESSAGE, { id: replies[1]?.id })).toEqual({ message: { rootUsage: null } })
  })

  test('a message’s usage includes the runs that its agents triggered, even in other spaces, and its viewers get an update', async () => {
    const human = await parley.human('Husam')
    const [ada, bea] = [await parley.agent('Ada'), await parley.agent('Bea')]
    const space = await parley.space(human, [ada.id])
    const other = await parley.space(human, [ada.id, bea.id], { name: 'Elsewhere' })
    const client = await parley.clientOf(human)
    const events = client.subscribe(FOLLOW as never, { spaceId: space.id } as never)
    await events.first(() => true)
    parley.models.script(
      when(
        ({ instructions }) => instructions.includes('You are Ada'),
        steps(
          [{ toolCall: 'enter_space', input: { spaceId: other.id } }, { usage: FIGURES }],
          said('Bea, what do you say?'),
          done,
        ),
      ),
    )
    parley.models.script(when(({ instructions }) => instructions.includes('You are Bea'), steps(done)))
    const { message } = await parley.send(human, space.id, 'Ask Bea')
    await until('both have ended', async () => {
      const ended = await parley.app.platform.db.prisma.run.count({
        where: { rootId: message.id, status: 'COMPLETED' },
      })
      return ended === 2
    })
    const { rootUsage } = (await ask(MESSAGE, { id: message.id })).message
    expect(rootUsage).toMatchObject({ totalTokens: 4 * 1450, costUsd: 4 * COST })
    const updated = await events.first((event) => JSON.stringify(event).includes(`"totalTokens":${4 * 1450}`))
    expect(updated).toEqual({
      spaceMessages: {
        __typename: 'MessageUpdated',
        message: { id: message.id, rootUsage: { totalTokens: 4 * 1450, costUsd: 4 * COST } },
      },
    })
    events.stop()
    expect(await ledger({ by: ['SPACE', 'AGENT'], agentId: ada.id })).toMatchObject([
      { agent: { id: ada.id, name: 'Ada' }, space: { id: space.id }, runs: 1, inputTokens: 4200, costUsd: 3 * COST },
    ])
    expect(await ledger({ by: ['SPACE'], spaceId: other.id })).toMatchObject([
      { agent: null, space: { id: other.id }, runs: 1, inputTokens: 1400, costUsd: COST, day: null, model: null },
    ])
  })

  test('a model without a known price has an unknown cost, and demo costs nothing', async () => {
    const { human, space, agent } = await parley.room('Ada', { model: 'openai.chat:unknown' })
    const demo = await parley.room('Dee', { model: 'demo' })
    parley.models.script(steps(done))
    for (const { id } of (await parley.send(human, space.id, 'Hi')).runs) await parley.runWhen(id)
    const sent = await parley.send(demo.human, demo.space.id, 'Hi')
    for (const { id } of sent.runs) await parley.runWhen(id)
    expect(await ledger({ by: ['MODEL'], agentId: agent.id })).toMatchObject([
      { model: 'openai.chat:unknown', runs: 1, outputTokens: 50, costUsd: null },
    ])
    expect(await ledger({ by: ['MODEL'], agentId: demo.agent.id })).toMatchObject([
      { model: 'demo', runs: 1, costUsd: 0 },
    ])
    const { rootUsage } = (await ask(MESSAGE, { id: sent.message.id })).message
    expect(rootUsage).toMatchObject({ costUsd: 0 })
    expect(rootUsage.totalTokens).toBeGreaterThan(0)
  })

  test('the usage of a skipped cycle stays in the ledger and in its root after the run is deleted', async () => {
    const { human, agent, space } = await parley.room('Ada', { mind: 'PERSISTENT' })
    parley.models.script(() => [...skip('Not for me.'), { usage: FIGURES }])
    const { message } = await parley.send(human, space.id, 'Lunch?')
    await thinking.rest(agent)
    expect(await thinking.runsOf(agent)).toEqual([])
    const used = { inputTokens: 1400, cachedInputTokens: 400, outputTokens: 50, costUsd: COST }
    expect(await ledger({ by: ['DAY', 'AGENT'], agentId: agent.id })).toMatchObject([
      { runs: 0, skippedCycles: 1, ...used },
    ])
    expect((await ask(MESSAGE, { id: message.id })).message.rootUsage).toMatchObject(used)
    parley.models.script(answer('Hello.', done))
    await parley.send(human, space.id, 'Ada, hello')
    await thinking.rest(agent)
    expect(await ledger({ agentId: agent.id })).toMatchObject([{ runs: 1, skippedCycles: 1 }])
  })

  test('a generation that was stopped has an estimated cost in the run, its root and the ledger', async () => {
    const { human, agent, space } = await parley.room('Ada')
    parley.models.script(() => [{ text: 'It is a long story, ' }, { hang: true }])
    const { runs, message } = await parley.send(human, space.id, 'Tell me')
    const id = runs[0]?.id ?? ''
    const events = admin.subscribe(
      'subscription ($id: ID!) { runEvents(runId: $id) { __typename } }' as never,
      { id } as never,
    )
    await events.first((event) => JSON.stringify(event).includes('RunTextDelta'))
    await parley.app.domain.control.stopRun(parley.admin, { runId: id, cascade: false })
    const usage = await until('the stopped generation is counted', async () => {
      const { run } = await ask(RUN, { id })
      return run.usage.totalTokens > 0 && run
    })
    expect(usage.usage).toMatchObject({ estimated: true })
    expect(usage.usage.costUsd).toBeGreaterThan(0)
    expect(usage.rootUsage).toEqual(usage.usage)
    expect((await ask(MESSAGE, { id: message.id })).message.rootUsage).toEqual(usage.usage)
    const [row] = await ledger({ agentId: agent.id })
    const { inputTokens, outputTokens, costUsd } = usage.usage
    expect(row).toMatchObject({ runs: 1, inputTokens, outputTokens, costUsd })
  })

  test('days count from `from` inclusive to `to` exclusive, in UTC', async () => {
    const agent = await parley.agent('Ada')
    const rows = ['2025-03-01', '2025-03-02', '2025-03-03'].map((day) => ({
      day: new Date(day),
      agentId: agent.id,
      spaceId: '',
      model: 'demo',
      runs: 2,
      outputTokens: 5_000_000_000,
    }))
    await parley.app.platform.db.prisma.dailyUsage.createMany({ data: rows })
    const between = (from: string, to: string) => ledger({ from, to, by: ['DAY'], agentId: agent.id })
    const daysOf = (found: { day: string }[]) => found.map(({ day }) => day.slice(8, 10))
    expect(daysOf(await between('2025-03-01T00:00:00Z', '2025-03-03T00:00:00Z'))).toEqual(['01', '02'])
    expect(daysOf(await between('2025-03-01T00:00:01Z', '2025-03-03T00:00:01Z'))).toEqual(['02', '03'])
    expect(daysOf(await between('2025-03-02T01:00:00+02:00', '2025-03-03T01:00:00+02:00'))).toEqual(['02'])
    expect(await between('2025-03-03T00:00:00Z', '2025-03-01T00:00:00Z')).toEqual([])
    expect(await ledger({ from: '2025-03-01T00:00:00Z', to: '2025-04-01T00:00:00Z', agentId: agent.id })).toEqual([
      expect.objectContaining({ day: null, runs: 6, outputTokens: 15_000_000_000, costUsd: 0, space: null }),
    ])
  })

  test('usage by human is charged to the sender of the root message, including what agents trigger; services are charged to nobody', async () => {
    const { human, agent, space } = await parley.room('Ada')
    const other = await parley.human('Bea')
    await parley.app.domain.members.add(parley.admin, { spaceId: space.id, entityId: other.id })
    const helper = await parley.agent('Cyd')
    await parley.app.domain.members.add(human, { spaceId: space.id, entityId: helper.id })
    parley.models.script(steps(said('And you?'), done))
    const { message } = await parley.send(human, space.id, 'Hi')
    await until('both agents have answered', async () => {
      const { prisma } = parley.app.platform.db
      const runs = await prisma.run.findMany({ where: { rootId: message.id } })
      return runs.length > 2 && runs.every(({ status }) => status === 'COMPLETED')
    })
    parley.models.script(steps(done))
    const second = await parley.send(other, space.id, 'Hi')
    for (const { id } of second.runs) await parley.runWhen(id)
    const service = await parley.app.domain.control.triggerAgent(parley.admin, {
      agentId: agent.id,
      serviceName: 'cron',
      payload: {},
    })
    await parley.runWhen(service.run?.id ?? '')
    const all = await ledger({ spaceId: space.id })
    const rows = await ledger({ by: ['HUMAN', 'MODEL'], spaceId: space.id })
    const runsOf = (id: string | undefined) => rows.find((row) => row.human?.id === id)?.runs
    expect(rows.map((row) => row.human?.id).sort()).toEqual([human.id, other.id].sort())
    expect(runsOf(other.id)).toBe(2)
    expect((runsOf(human.id) ?? 0) + 2).toBe(all[0]?.runs)
    const ofAgent = await ledger({ by: ['HUMAN'], agentId: agent.id })
    expect(ofAgent.find((row) => row.human === null)).toMatchObject({ runs: 1, outputTokens: 50, costUsd: COST })
    const sum = ofAgent.reduce((total, row) => total + row.inputTokens, 0)
    expect([sum]).toEqual((await ledger({ agentId: agent.id })).map(({ inputTokens }) => inputTokens))
  })

  test('only an admin sees usage', async () => {
    const client = await parley.clientOf(await parley.human('Eve'))
    expect(await client.ask(LEDGER, { ...span(), by: [] })).toMatchObject({ data: { usage: null } })
  })
})

/** The long form of the test has a million runs. */
const LEDGER_SPACES = runsOf({ usual: 2, nightly: 20 })

describe.skipIf(!hasPostgres)('the ledger of many runs', () => {
  let parley: TestServer
  let admin: ParleyClient

  beforeAll(async () => {
    parley = await startTestServer({ stack: 'postgres', worker: false, settings: { PARLEY_ROLE: 'api' } })
    admin = await parley.clientOf(parley.admin)
    await fillLedger(parley.app.platform.db, LEDGER_SPACES)
  })
  afterAll(() => parley?.close())

  const COUNTS = `query ($from: DateTime!, $to: DateTime!, $by: [UsageDimension!]!) {
    usage(from: $from, to: $to, by: $by) { day agent { id name } runs costUsd } }`
  const from = '2025-01-01T00:00:00Z'

  test('is summed by day and agent', async () => {
    const filter = { from: new Date(from), to: new Date('2025-04-11'), by: ['DAY', 'AGENT'] as const }
    const rows = await parley.app.domain.usage.query(filter)
    expect(rows.reduce((sum, { runs }) => sum + runs, 0)).toBe(LEDGER_SPACES * 50_000)
  })

  test('has an efficient query plan for the requested days each time, however often it was summed before', async () => {
    const database = await createTestDatabase()
    const db = await openDatabase({ url: database.url, dataDirectory: '', poolSize: 1 })
    const usage = createUsageReading({ db, log: parley.app.platform.log })
    for (let days = 1; days <= 8; days++)
      await usage.query({ from: new Date(from), to: new Date(Date.parse(from) + days * DAY_MS), by: ['DAY', 'AGENT'] })
    const kept = await db.prisma.$queryRaw<object[]>`
      SELECT generic_plans::int AS "forAnyDays", custom_plans::int AS "forTheseDays" FROM pg_prepared_statements
      WHERE statement LIKE '%FROM "DailyUsage"%' AND statement NOT LIKE '%pg_prepared_statements%'`
    await db.close()
    await database.drop()
    expect(kept).toEqual([{ forAnyDays: 0, forTheseDays: 8 }])
  })

  test('is returned by day and agent; a result of over 10,000 rows is refused with advice', async () => {
    const shown = await admin.ask<{ usage: unknown[] }>(COUNTS, {
      from,
      to: '2025-01-11T00:00:00Z',
      by: ['DAY', 'AGENT'],
    })
    expect(shown.errors).toBeUndefined()
    expect(shown.data?.usage).toHaveLength(1000)
    const refused = await admin.ask(COUNTS, { from, to: '2025-04-11T00:00:00Z', by: ['DAY', 'SPACE', 'AGENT'] })
    expect(refused.errors).toEqual([
      expect.objectContaining({
        message: 'The result would have more than 10000 rows: request fewer days or fewer dimensions.',
        extensions: expect.objectContaining({ code: 'BAD_USER_INPUT' }),
      }),
    ])
  })
})
