import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type BookedService, decidersOn, openService, refund, refundTool } from '../support/decisions.ts'
import { isNightly, sampleOf } from '../support/effort.ts'
import { steps } from '../support/model-server-script.ts'
import { allCells, type Cell, pairwiseCells } from '../support/pairwise.ts'
import { canStartPgBouncer, type PgBouncer, startPgBouncer } from '../support/pgbouncer.ts'
import { createEmptyDatabase, DANISH, hasPostgres } from '../support/postgres.ts'
import { startTestServer } from '../support/served.ts'
import { openStage, type Read, type Stage } from '../support/stage.ts'
import { until } from '../support/until.ts'

// Combines settings of a database, and poolers between it and the server. In each combination a conversation, a plan and an
// approval must work, with the right times. Without EFFORT=nightly, only a sample of combinations runs, in which each pair of
// values occurs.
const DIMENSIONS = {
  zone: ['UTC', 'Asia/Kolkata', 'America/New_York'],
  dateStyle: ['ISO, MDY', 'SQL, DMY', 'German'],
  collation: ['C', 'Danish'],
  schema: ['public', 'staging', 'of the search path', 'of the role'],
  pooler: ['none', 'session', 'transaction', 'transaction, and direct'],
} as const
const CLAUSES = { C: "LOCALE 'C' ENCODING 'UTF8'", Danish: DANISH }
const PARAMETERS = {
  public: '',
  // In PostgreSQL's default search path, a schema with the name of the role comes first.
  'of the role': '',
  staging: '?schema=staging',
  'of the search path': `?options=${encodeURIComponent('-c search_path=app')}`,
}
const STATEMENTS = {
  public: [],
  staging: [],
  'of the search path': ['CREATE SCHEMA app'],
  'of the role': ['CREATE SCHEMA AUTHORIZATION CURRENT_USER'],
}
const MINUTE_MS = 60_000

const CREATE_PLAN = `mutation ($input: CreatePlanInput!) {
  createPlan(input: $input) { ... on CreatePlanPayload { plan { id nextRunAt } } ... on Error { message } }
}`
const FIRINGS = `query ($id: ID!) { node(id: $id) { ... on Plan { firings { edges { node { dueAt firedAt } } } } } }`
const TIMES = `query ($space: ID!) {
  space(id: $space) { messages(first: 1) { edges { node { id text createdAt } } } }
}`
const MESSAGE = `query ($id: ID!) { message(id: $id) { createdAt } }`

const cells = sampleOf(isNightly ? allCells(DIMENSIONS) : pairwiseCells(DIMENSIONS), 5)

describe.skipIf(!hasPostgres || !canStartPgBouncer())('a server on a database with', () => {
  let service: BookedService
  const poolers = new Map<string, PgBouncer>()

  beforeAll(async () => {
    service = await openService()
    const server = process.env.TEST_DATABASE_URL ?? ''
    for (const poolMode of ['transaction', 'session'] as const)
      poolers.set(poolMode, await startPgBouncer(server, { poolMode, settings: { default_pool_size: 15 } }))
  })
  afterAll(async () => {
    await service?.close()
    for (const pooler of poolers.values()) await pooler.dispose()
  })

  test.each(cells.map((cell) => [Object.values(cell).join(' · '), cell] as const))('%s', async (_, cell) => {
    const { url, drop } = await createEmptyDatabase({
      clauses: CLAUSES[cell.collation],
      settings: { timezone: cell.zone, datestyle: cell.dateStyle },
      statements: STATEMENTS[cell.schema],
    })
    const parley = await startTestServer({ stack: 'postgres', isFresh: true, settings: settingsOf(cell, url) })
    try {
      const stage = await openStage(parley)
      parley.models.script(() => [{ text: 'Nothing to do.' }])
      await holdConversation(stage)
      parley.models.script(steps([refund(7)], [{ text: 'Done.' }]))
      await decide(stage)
      parley.models.script(() => [{ text: 'Nothing to do.' }])
      await firePlan(stage)
    } finally {
      await parley.close()
      await drop()
    }
  })

  function settingsOf({ schema, pooler }: Cell<typeof DIMENSIONS>, url: string): Record<string, string> {
    const through = poolers.get(pooler.split(',')[0] ?? '')?.through(url) ?? url
    const parameters = PARAMETERS[schema]
    return {
      DATABASE_URL: `${through}${parameters}`,
      ...(pooler === 'transaction, and direct' ? { PARLEY_DIRECT_DATABASE_URL: `${url}${parameters}` } : {}),
    }
  }

  async function holdConversation(stage: Stage): Promise<void> {
    const [person, bot] = [await stage.person('Ada'), await stage.bot('Bo')]
    const space = await stage.space('Room', [person, bot])
    const { sentMessage } = await stage.say(person, space, 'Hello, æøå 👋')
    const [run] = await stage.endedRuns(bot, 1)
    expect(run.status).toBe('COMPLETED')
    const { messages } = await stage.ask(person.client, TIMES, { space: space.id })
    const [{ node }] = messages.edges
    expect(node).toMatchObject({ id: sentMessage.id, text: 'Hello, æøå 👋' })
    expect(await stage.ask(person.client, MESSAGE, { id: sentMessage.id })).toEqual({ createdAt: node.createdAt })
    expect(minutesUntil(node.createdAt)).toBe(0)
  }

  async function decide(stage: Stage): Promise<void> {
    const deciders = decidersOn(stage)
    const person = await stage.person('Cy')
    const bot = await stage.bot('Di', { tools: [refundTool(service, { quorum: 1, expiresInSeconds: 600 })] })
    const space = await stage.space('Desk', [person, bot])
    await stage.say(person, space, 'Please refund 7.')
    const call = await deciders.asked(person)
    expect(minutesUntil(call.approval.expiresAt)).toBe(10)
    expect(await deciders.decide(person, call.id, true)).toMatchObject({ __typename: 'DecideToolCallPayload' })
    const [run] = await stage.endedRuns(bot, 1)
    expect(run.toolCalls).toContainEqual(expect.objectContaining({ status: 'DONE', output: { booked: { amount: 7 } } }))
  }

  async function firePlan(stage: Stage): Promise<void> {
    const bot = await stage.bot('Ed')
    const plan = async (afterSeconds: number) => {
      const input = {
        agentId: bot.id,
        name: `in ${afterSeconds} s`,
        instruction: 'Say hi.',
        schedule: { afterSeconds },
      }
      return (await stage.ask(stage.admin, CREATE_PLAN, { input })).plan as { id: string; nextRunAt: string }
    }
    const firingsOf = async ({ id }: { id: string }) =>
      (await stage.ask(stage.admin, FIRINGS, { id })).firings.edges.map(({ node }: Read) => node)
    const [later, soon] = [await plan(7200), await plan(1)]
    expect(minutesUntil(later.nextRunAt)).toBe(120)
    const [firing] = await until('the plan has fired', async () => {
      const firings = await firingsOf(soon)
      return firings.length > 0 && firings
    })
    expect(firing.dueAt).toBe(soon.nextRunAt)
    expect(minutesUntil(firing.firedAt)).toBe(0)
    expect(await firingsOf(later)).toEqual([])
  }
})

/** Compared in whole minutes, because a slow machine can take some seconds. */
const minutesUntil = (instant: string) => Math.round((Date.parse(instant) - Date.now()) / MINUTE_MS + 0.3) || 0
