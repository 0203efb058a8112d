import { Registry } from 'prom-client'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { openDatabase } from '../../src/platform/db.ts'
import { RULE_STACKS } from '../support/application.ts'
import { figure, type Sample, scrape } from '../support/figures.ts'
import { type ModelAction, steps } from '../support/model-server-script.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'

const MODEL = 'openai.chat:test'
const PRICES = { [MODEL]: { input: 2, cachedInput: 0.5, output: 10 } }
const FIGURES = { inputTokens: 1400, cachedInputTokens: 400, outputTokens: 50 }
const COST = 0.0027
const said: ModelAction[] = [{ toolCall: 'send_message', input: { text: 'Four.' } }, { usage: FIGURES }]
const WATCH = `subscription ($spaceId: ID!) { spaceMessages(spaceId: $spaceId) { __typename } }`

describe.each(RULE_STACKS)('the metrics of a server, on the %s stack', (stack) => {
  let parley: TestServer

  beforeAll(async () => {
    parley = await startTestServer({ stack, settings: { PARLEY_PRICES: JSON.stringify(PRICES) } })
  })
  afterAll(() => parley?.close())
  beforeEach(() => parley.models.reset())
  afterEach(() => expect(parley.models.refusals).toEqual([]))

  /** Returns how much a metric has increased since `before`. */
  async function grown(before: Sample[], name: string, labels: Record<string, string> = {}): Promise<number> {
    return (figure(await scrape(parley.origin), name, labels) ?? 0) - (figure(before, name, labels) ?? 0)
  }

  test('count a run when it ends, by status, reason and agent, with its tokens, its cost and its first text', async () => {
    const { human, space, agent } = await parley.room('Ada')
    const client = await parley.clientOf(human)
    const watched = client.subscribe<object, object>({ toString: () => WATCH }, { spaceId: space.id })
    await watched.first(() => true)
    parley.models.script(steps(said, [{ text: 'Done.' }, { usage: FIGURES }]))
    const before = await scrape(parley.origin)
    const { runs } = await parley.send(human, space.id, 'Two and two?')
    await parley.runWhen(runs[0]?.id ?? '')
    const ended = { status: 'COMPLETED', reason: 'FINISHED', agent: agent.id }
    await until('its end is counted', async () => (await grown(before, 'parley_runs_ended_total', ended)) === 1)
    expect(await grown(before, 'parley_tokens_total', { model: MODEL, direction: 'input' })).toBe(2800)
    expect(await grown(before, 'parley_cost_usd_total', { model: MODEL })).toBeCloseTo(2 * COST, 10)
    expect(await grown(before, 'parley_first_delta_seconds_count')).toBe(1)
    expect(await grown(before, 'parley_model_first_chunk_seconds_count', { model: MODEL })).toBe(2)
    await until('its events are published', async () => (await grown(before, 'parley_fanout_lag_seconds_count')) > 0)
    watched.stop()
    await client.close()
    const closes = () => grown(before, 'parley_socket_closes_total', { code: '1000' })
    await until('the socket is counted by its code', async () => (await closes()) === 1)
  })

  test('count unfinished runs by status and agent, with the age of the oldest queued run', async () => {
    const { human, space, agent } = await parley.room('Bea', { maxConcurrentRuns: 1 })
    const held = Promise.withResolvers<void>()
    parley.models.script(() => [{ gate: held.promise }, { text: 'Done.' }])
    for (const text of ['One', 'Two', 'Three']) await parley.send(human, space.id, text)
    const living = async (status: string) =>
      figure(await scrape(parley.origin), 'parley_runs', { status, agent: agent.id })
    await until('one runs, and two wait', async () => (await living('RUNNING')) === 1 && (await living('QUEUED')) === 2)
    const samples = await scrape(parley.origin)
    expect(figure(samples, 'parley_oldest_queued_run_seconds')).toBeGreaterThan(0)
    expect(figure(samples, 'parley_database_up')).toBe(1)
    held.resolve()
    await until('none is left', async () => (await living('RUNNING')) === null && (await living('QUEUED')) === null)
    expect(figure(await scrape(parley.origin), 'parley_runs', { status: 'QUEUED' })).toBe(0)
  })

  test('count failures of a provider, and the reasons of its failed runs', async () => {
    const { human, space, agent } = await parley.room('Cy')
    parley.models.script(() => [{ error: 'no such key', status: 401 }])
    const before = await scrape(parley.origin)
    const { runs } = await parley.send(human, space.id, 'Hello')
    await parley.runWhen(runs[0]?.id ?? '')
    const ended = { status: 'FAILED', reason: 'MODEL_FAILED', agent: agent.id }
    await until('its end is counted', async () => (await grown(before, 'parley_runs_ended_total', ended)) === 1)
    expect(await grown(before, 'parley_provider_failures_total', { provider: 'openai.chat' })).toBeGreaterThan(0)
  })

  test('come from a recent read if they are scraped often', async () => {
    const { prisma } = parley.app.platform.db
    const { $queryRaw } = prisma
    let reads = 0
    prisma.$queryRaw = ((...given: Parameters<typeof $queryRaw>) => {
      if (String(given[0]).includes('"oldestSeconds"')) reads += 1
      return $queryRaw.apply(prisma, given)
    }) as typeof $queryRaw
    const since = performance.now()
    for (let n = 0; n < 10; n++) await scrape(parley.origin)
    prisma.$queryRaw = $queryRaw
    expect(reads).toBeLessThanOrEqual(1 + Math.floor((performance.now() - since) / 1000) + 1)
  })

  test.runIf(stack === 'postgres')('include how long statements wait for a connection', async () => {
    const samples = await scrape(parley.origin)
    expect(figure(samples, 'parley_pool_connections')).toBeGreaterThan(0)
    expect(figure(samples, 'parley_redis_away')).toBe(0)
    const metrics = new Registry()
    const db = await openDatabase({
      url: parley.app.platform.config.databaseUrl,
      dataDirectory: '',
      poolSize: 1,
      metrics,
    })
    const sleeps = Array.from({ length: 3 }, () => db.prisma.$queryRaw`SELECT pg_sleep(0.05)::text`)
    await Promise.all(sleeps)
    const text = await metrics.metrics()
    await db.close()
    expect(text).toMatch(/parley_pool_wait_seconds_count 2/)
    expect(text).toMatch(/parley_pool_connections 1\b/)
  })
})
