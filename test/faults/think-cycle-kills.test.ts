import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { HumanViewer } from '../../src/access/viewer.ts'
import type { ToolInput } from '../../src/agents/custom-tools.ts'
import { createCycles } from '../../src/context/cycle.ts'
import { createDeferred } from '../../src/lib/async.ts'
import { type Stores, startApplication, type TestApplication } from '../support/application.ts'
import { type ModelServer, startModelServer } from '../support/model-server.ts'
import { forAgent, type ModelAction, steps } from '../support/model-server-script.ts'
import { type ParleyProcess, startParley } from '../support/parley-process.ts'
import { createTestDatabase, hasPostgres, type TestDatabase } from '../support/postgres.ts'
import { imbalanceOf, inboxIn, interjectionIn, skip, type Thinking, thinkingOn } from '../support/thinking.ts'
import { canStartRedis, startThrowawayRedis, type ThrowawayRedis } from '../support/throwaway-redis.ts'
import { until } from '../support/until.ts'

/** Longer than it takes to detect a lost lease, with a margin for a busy machine. */
const TAKEN_OVER_WITHIN = { timeoutMs: 60_000 }

/**
 * One worker and nine agents, each of which is paused at a different point of its cycle. The worker is then killed with
 * SIGKILL, and another one starts.
 */
describe.skipIf(!hasPostgres || !canStartRedis())('a worker killed at every point of a think cycle', () => {
  let database: TestDatabase
  let redis: ThrowawayRedis
  let models: ModelServer
  let parley: TestApplication
  let thinking: Thinking
  let settings: Record<string, string>
  let worker: ParleyProcess
  let tools: Server
  const toolKeys: string[] = []
  const toolAnswered = createDeferred()

  beforeAll(async () => {
    ;[database, redis, models] = await Promise.all([createTestDatabase(), startThrowawayRedis(), startModelServer()])
    settings = {
      DATABASE_URL: database.url,
      REDIS_URL: redis.url,
      DATA_DIR: path.join(tmpdir(), 'parley-no-data'),
      PARLEY_SECRET_KEY: 'a-secret-key-for-tests-of-32-or-more',
      PARLEY_LOG_LEVEL: 'error',
      PARLEY_ALLOW_PRIVATE_TOOLS: 'true',
      OPENAI_API_KEY: 'sk-test',
      OPENAI_BASE_URL: models.baseUrl,
    }
    const stores: Stores = { settings, options: {}, async close() {} }
    const beside = { models, stores } as TestApplication
    parley = await startApplication({ stack: 'postgres', worker: false, beside })
    thinking = thinkingOn(parley)
    tools = createServer((request, response) => {
      toolKeys.push(String(request.headers['idempotency-key']))
      const answer = () => response.writeHead(200, { 'content-type': 'application/json' }).end('{"booked":true}')
      if (toolKeys.length > 1) answer()
      else void toolAnswered.promise.then(answer)
    })
    await new Promise<void>((resolve) => tools.listen(0, '127.0.0.1', resolve))
  })
  afterAll(async () => {
    toolAnswered.resolve()
    await worker?.kill()
    tools?.closeAllConnections()
    tools?.close()
    await parley?.close()
    await models?.close()
    await Promise.all([database?.drop(), redis?.dispose()])
  })

  interface Held {
    agent: { id: string; name: string }
    human: HumanViewer
    space: { id: string }
    messageId: string
  }

  async function begin(name: string, options: { tools?: ToolInput[] } = {}): Promise<Held> {
    const human = await parley.human(`Husam of ${name}`)
    const agent = await thinking.bot(name, {}, options)
    const space = await parley.space(human, [agent.id])
    const { message } = await parley.send(human, space.id, `Hello ${name}`)
    return { agent, human, space, messageId: message.id }
  }

  const db = () => parley.app.platform.db.prisma
  const held = createDeferred()
  const urgentSent = createDeferred()

  /** Enters a space, posts and ends. `first` delays or cuts off the first execution of a step. */
  function script(
    name: string,
    first: Record<number, (actions: ModelAction[]) => ModelAction[]>,
    last?: ModelAction[],
  ): void {
    const asked = new Set<number>()
    models.script(
      forAgent(name, (request) => {
        const spaceId = /\(id: (spc_\w+)\)/.exec(inboxIn(request))?.[1] ?? ''
        const generations: ModelAction[][] = [
          [{ toolCall: 'enter_space', input: { spaceId } }],
          [{ toolCall: 'send_message', input: { text: `Hello from ${name}.` } }],
        ]
        const actions = generations[request.step] ?? last ?? [{ text: `${name} is done.` }]
        const change = asked.has(request.step) ? undefined : first[request.step]
        asked.add(request.step)
        return change === undefined ? actions : change(actions)
      }),
    )
  }

  const requestOf = (name: string, step: number) =>
    models.request((request) => request.instructions.includes(`You are ${name},`) && request.step === step)

  /** An event that arrives during its first step appears in the second, in which the worker is killed. */
  async function interruptWithUrgentEvent(agentId: string): Promise<void> {
    await requestOf('Interrupted', 0)
    const event = { agentId, serviceName: 'pager', payload: { down: true }, urgent: true }
    await parley.app.domain.control.triggerAgent(parley.admin, event)
    urgentSent.resolve()
    expect(interjectionIn(await requestOf('Interrupted', 1))).toContain('[URGENT]')
  }

  const wait = (actions: ModelAction[]): ModelAction[] => [{ gate: held.promise }, ...actions]

  test('loses or repeats no event, duplicates no message, and leaves every consciousness balanced', {
    timeout: 240_000,
  }, async () => {
    const book = { name: 'book', description: 'Books.', inputSchema: { type: 'object' }, execution: 'HTTP' as const }
    const url = `http://127.0.0.1:${(tools.address() as AddressInfo).port}/`
    script('BeforeModel', { 0: wait })
    script('MidStream', {
      1: () => [
        { toolCall: 'send_message', input: '{"text":"Hello from Mid', chunks: ['{"text":"Hello from Mid'] },
        { hang: true },
      ],
    })
    script('AfterSpeaking', { 2: wait })
    script('BeforeSave', {})
    script('AfterSave', {})
    models.script(
      forAgent('InTool', (request) => steps([{ toolCall: 'book', input: {} }], [{ text: 'InTool is done.' }])(request)),
    )
    models.script(forAgent('SkipBeforeSave', () => skip('Not for me.')))
    script('Interrupted', { 0: (actions) => [{ gate: urgentSent.promise }, ...actions], 1: wait })

    // The end of a cycle locks its agent's row. Holding that lock stops the cycle right before its save.
    const agents = {
      taken: await begin('Taken'),
      beforeModel: await begin('BeforeModel'),
      midStream: await begin('MidStream'),
      afterSpeaking: await begin('AfterSpeaking'),
      beforeSave: await begin('BeforeSave'),
      afterSave: await begin('AfterSave'),
      inTool: await begin('InTool', { tools: [{ ...book, url }] }),
      skipBeforeSave: await begin('SkipBeforeSave'),
      interrupted: await begin('Interrupted'),
    }
    script('Taken', {})
    const { taken, midStream, beforeSave, afterSave, skipBeforeSave, interrupted } = agents
    // The worker is killed right after it has claimed the cycle, before any effect.
    await createCycles(parley.app.platform).claim(taken.agent.id)
    expect(await thinking.runsOf(taken.agent)).toMatchObject([{ status: 'RUNNING', stepCount: 0 }])

    const locker = new pg.Client({ connectionString: database.url })
    await locker.connect()
    const lockAgents = async () => {
      await locker.query('BEGIN')
      await locker.query('SELECT 1 FROM "Agent" WHERE id = ANY($1) FOR NO KEY UPDATE', [
        [beforeSave.agent.id, skipBeforeSave.agent.id],
      ])
    }
    const closing = createDeferred()
    const afterClosing = () => closing.promise.then(() => undefined)
    models.script(forAgent('BeforeSave', (request) => (request.step === 2 ? afterClosing() : undefined)))
    models.script(forAgent('SkipBeforeSave', afterClosing))

    worker = await startParley({ settings: { ...settings, PARLEY_ROLE: 'worker' } })
    await Promise.all([
      requestOf('BeforeModel', 0),
      until('MidStream has begun', async () => (await parley.messages(midStream.space.id)).length === 2),
      requestOf('AfterSpeaking', 2),
      until('InTool is in its tool', () => toolKeys.length === 1),
      requestOf('BeforeSave', 2),
      requestOf('SkipBeforeSave', 0),
      interruptWithUrgentEvent(interrupted.agent.id),
      until('AfterSave is saved', async () => (await thinking.cyclesOf(afterSave.agent)).length === 1),
      until('Taken is done', async () => (await thinking.cyclesOf(taken.agent)).length === 1),
    ])
    await lockAgents()
    closing.resolve()
    await until('two ends wait for the lock', async () => {
      const { rows } = await locker.query(
        `SELECT count(*)::int AS count FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
      )
      return rows[0].count >= 2
    })
    await worker.kill()
    await locker.query('ROLLBACK')
    await locker.end()
    held.resolve()
    toolAnswered.resolve()
    worker = await startParley({ settings: { ...settings, PARLEY_ROLE: 'worker' } })
    const bots = Object.values(agents)
    for (const { agent } of bots) {
      await until(
        `${agent.name} has handled all events`,
        async () => {
          const waiting = await db().inboxEvent.count({ where: { agentId: agent.id, doneAt: null } })
          const living = await db().run.count({ where: { agentId: agent.id, status: { in: ['QUEUED', 'RUNNING'] } } })
          return waiting + living === 0
        },
        TAKEN_OVER_WITHIN,
      )
    }
    expect(models.refusals).toEqual([])
    for (const { agent, space } of bots) {
      const said = (await parley.messages(space.id)).filter(({ senderId }) => senderId === agent.id)
      const whole = said.filter(({ status }) => status === 'COMPLETE').map(({ parts }) => parts)
      const speaks = agent.id !== skipBeforeSave.agent.id && agent.id !== agents.inTool.agent.id
      expect([agent.name, whole]).toEqual([
        agent.name,
        speaks ? [[{ type: 'text', text: `Hello from ${agent.name}.` }]] : [],
      ])
      expect(said.filter(({ status }) => status !== 'COMPLETE').map(({ status }) => status)).toEqual(
        agent.id === midStream.agent.id ? ['INTERRUPTED'] : [],
      )
      const cycles = await thinking.cyclesOf(agent)
      const consciousness = cycles.flatMap(({ messages }) => messages as { role: string; content: unknown }[])
      expect([agent.name, imbalanceOf(consciousness)]).toEqual([agent.name, null])
      const inboxes = consciousness.filter(({ content }) => String(content).includes(`"Hello ${agent.name}"`))
      expect([agent.name, inboxes.length]).toEqual([agent.name, agent.id === skipBeforeSave.agent.id ? 0 : 1])
      expect((await thinking.inboxOf(agent)).every(({ doneAt }) => doneAt !== null)).toBe(true)
    }
    expect(await thinking.runsOf(skipBeforeSave.agent)).toEqual([])
    expect(await thinking.outcomeOf({ id: skipBeforeSave.messageId }, skipBeforeSave.agent)).toMatchObject({
      kind: 'SKIPPED',
      reason: 'Not for me.',
    })
    expect(models.requests.filter(({ instructions }) => instructions.includes('You are SkipBeforeSave,'))).toHaveLength(
      1,
    )
    expect(new Set(toolKeys).size).toBe(1)
    const shown = models.requests.filter((request) => interjectionIn(request)?.startsWith('[URGENT]'))
    expect(shown.map(({ step }) => step)).toEqual([1, 1])
    const mind = JSON.stringify((await thinking.cyclesOf(interrupted.agent)).map(({ messages }) => messages))
    expect(mind.match(/\[SERVICE pager\]/g)).toHaveLength(1)
  })
})
