import { tmpdir } from 'node:os'
import path from 'node:path'
import type { AdminViewer, HumanViewer } from '../../src/access/viewer.ts'
import type { CreateAgentInput } from '../../src/agents/agent-input.ts'
import { type Application, type AppOptions, createApp } from '../../src/app.ts'
import { runTopic } from '../../src/broker/topics.ts'
import { readConfig } from '../../src/config.ts'
import type { CreateSpaceInput } from '../../src/flows/create-space.ts'
import type { Message, Run, RunStatus, Space } from '../../src/generated/prisma/client.ts'
import { isNightly } from './effort.ts'
import { type ModelServer, startModelServer } from './model-server.ts'
import { createTestDataDirectory } from './pglite.ts'
import { createTestDatabase, hasPostgres, type TestDatabase } from './postgres.ts'
import { openTestRedis } from './redis.ts'
import { keepOrDispose, type Reusable, shapeOf, takeKept } from './reuse.ts'
import { until } from './until.ts'

/** The stacks that this machine can run. Use: `describe.each(STACKS)('… on the %s stack', (stack) => …)`. */
export const STACKS = (['embedded', 'postgres'] as const).filter((stack) => stack === 'embedded' || hasPostgres)

/** The stack for tests that work on any: PostgreSQL if it is available, because tests take half the time there. */
export const DEFAULT_STACK: (typeof STACKS)[number] = hasPostgres ? 'postgres' : 'embedded'

/** The stacks for rules that do not depend on the stack: only the default one, but all of `STACKS` with EFFORT=nightly. */
export const RULE_STACKS = isNightly ? STACKS : [DEFAULT_STACK]

/** The whole application in this process, including workers, with a scripted model server. */
export interface TestApplication {
  app: Application
  models: ModelServer
  admin: AdminViewer
  human(name: string): Promise<HumanViewer>
  /** Creates an agent with the model `openai.chat:test`, which the model server plays. */
  agent(name: string, input?: Partial<CreateAgentInput>): Promise<{ id: string; name: string }>
  space(creator: HumanViewer, memberIds: string[], input?: Partial<CreateSpaceInput>): Promise<Space>
  /** Creates a human and an agent that are alone in a space. */
  room(
    name?: string,
    input?: Partial<CreateAgentInput>,
    space?: Partial<CreateSpaceInput>,
  ): Promise<{ human: HumanViewer; agent: { id: string; name: string }; space: Space }>
  send(
    sender: HumanViewer,
    spaceId: string,
    text: string,
  ): Promise<{ message: { id: string; seq: number }; runs: Run[] }>
  run(id: string): Promise<Run>
  /** Waits until the run has one of the statuses. By default, waits until it has ended. */
  runWhen(id: string, ...statuses: RunStatus[]): Promise<Run>
  messages(spaceId: string): Promise<Message[]>
  /** Returns the event types in a run's event log. */
  eventsOf(runId: string): Promise<string[]>
  stores: Stores
  close(): Promise<void>
}

export interface TestApplicationOptions extends AppOptions {
  /** `postgres` is PostgreSQL and Redis; `embedded` is PGlite and this process. If absent, the stack does not matter. */
  stack?: 'postgres' | 'embedded'
  settings?: Record<string, string>
  /** If false, this application executes no runs. */
  worker?: boolean
  /** Another application whose database, Redis keys and models this one shares, like a second process of one deployment. */
  beside?: TestApplication
  /** If true, no other test file uses this application, neither before nor after. */
  isFresh?: boolean
}

/** The default settings of all applications. */
const USUAL_SETTINGS: Record<string, string> = {
  PORT: '0',
  PARLEY_ADMIN_TOKEN: 'an-admin-token-for-tests-of-32-or-more',
  PARLEY_SECRET_KEY: 'a-secret-key-for-tests-of-32-or-more',
  PARLEY_LOG_LEVEL: 'error',
  // In most tests, people who share no space must not find each other. test/access/directory.test.ts tests the other setting,
  // and the default.
  PARLEY_DIRECTORY: 'shared',
  PARLEY_DELTA_MS: '5',
  PARLEY_CYCLE_REST_MS: '0',
  OPENAI_API_KEY: 'sk-test',
  PARLEY_ALLOW_PRIVATE_TOOLS: 'true',
}
/** The runs that a test file leaves unfinished are released. */
const GRACE_MS = 500
const ENDED: RunStatus[] = ['COMPLETED', 'FAILED', 'CANCELED']

/** An application without a started worker, and its stores. */
interface Opened extends Reusable {
  app: Application
  models: ModelServer
  stores: Stores
}

/** The applications in use, each with the number of other applications that are open alongside it. */
const inUse = new Map<Application, { opened: Opened; beside: number }>()

/**
 * Starts an application. `close` stops it, and drops its database and keys, or empties them for the next test file that needs
 * the same options (reuse.ts).
 */
export async function startApplication(options: TestApplicationOptions = {}): Promise<TestApplication> {
  const { worker = true, beside } = options
  const key = keyOf(options)
  const opened = (key === null ? undefined : takeKept<Opened>(key)) ?? (await openApplication(options))
  const { app, models, stores } = opened
  const [use, host] = [{ opened, beside: 0 }, beside && inUse.get(beside.app)]
  inUse.set(app, use)
  if (host !== undefined) host.beside += 1
  if (worker) await app.startWorker()
  const close = async () => {
    await keepOrDispose(use.beside > 0 ? null : key, opened)
    inUse.delete(app)
    if (host !== undefined) host.beside -= 1
  }
  return { ...verbsOf(app), app, models, stores, close }
}

/**
 * Returns a key that is equal for applications that can replace each other; null if no other application can replace this one.
 */
function keyOf({
  stack = DEFAULT_STACK,
  settings = {},
  worker,
  isFresh = false,
  ...others
}: TestApplicationOptions): string | null {
  if (isFresh || Object.values(others).some((value) => value !== undefined)) return null
  const own = Object.entries(settings).filter(([name, value]) => USUAL_SETTINGS[name] !== value)
  return JSON.stringify([stack, own.toSorted()])
}

async function openApplication(options: TestApplicationOptions): Promise<Opened> {
  const { stack = DEFAULT_STACK, beside } = options
  const models = beside?.models ?? (await startModelServer())
  const stores =
    beside?.stores ??
    (await openStores(stack, options.isFresh || stack === 'embedded' ? undefined : emptyDatabases.pop()))
  const settings = {
    ...USUAL_SETTINGS,
    OPENAI_BASE_URL: models.baseUrl,
    ...stores.settings,
    ...options.settings,
  }
  const app = await createApp(readConfig(settings), { ...options, ...stores.options })
  const dispose: Reusable['dispose'] = async (state) => {
    await app.close(2000)
    if (beside !== undefined) return
    await models.close()
    await stores.close(state)
  }
  const settle = async () => {
    await app.stopWorker(GRACE_MS)
    models.reset()
  }
  const { db } = app.platform
  return { app, models, stores, db, shape: options.isFresh ? '' : await shapeOf(db), settle, dispose }
}

/** The database and Redis of an application. */
export interface Stores {
  settings: Record<string, string>
  options: AppOptions
  /** Removes them. An empty database is left to the next application. */
  close(state?: { isEmpty: boolean }): Promise<void>
}

/** For a new database, PostgreSQL copies about a thousand files, which takes longer than a short test. */
const emptyDatabases: TestDatabase[] = []

/**
 * Opens separate stores for tests that restart an application on them. The test that opened them closes them.
 * @param empty a database for the stack `postgres`; by default a new one
 */
export async function openStores(stack: 'postgres' | 'embedded', empty?: TestDatabase): Promise<Stores> {
  if (stack === 'embedded') {
    const directory = await createTestDataDirectory()
    return { settings: { DATA_DIR: directory.path }, options: {}, close: directory.remove }
  }
  const database = empty ?? (await createTestDatabase())
  const redis = await openTestRedis()
  if (redis === null) throw new Error('this test needs a Redis')
  return {
    settings: {
      DATABASE_URL: database.url,
      REDIS_URL: redis.url,
      DATA_DIR: path.join(tmpdir(), 'parley-no-data'),
      // Applications that are kept share the hundred connections of a PostgreSQL with everything else that runs.
      PARLEY_DATABASE_CONNECTIONS: '5',
    },
    options: { redisPrefix: redis.prefix },
    close: async ({ isEmpty } = { isEmpty: false }) => {
      await redis.release()
      if (isEmpty) emptyDatabases.push(database)
      else await database.drop()
    },
  }
}

function verbsOf(app: Application): Omit<TestApplication, 'models' | 'close' | 'app' | 'stores'> {
  const { prisma } = app.platform.db
  const admin: AdminViewer = { scope: 'ADMIN', id: 'acc_test', tokenId: null, expiresAt: null }
  const run = (id: string) => prisma.run.findUniqueOrThrow({ where: { id } })

  const cast: Pick<TestApplication, 'human' | 'agent' | 'space'> = {
    async human(name) {
      const human = await app.domain.humans.create(admin, { name })
      return { scope: 'HUMAN', id: human.id, tokenId: null, expiresAt: null }
    },
    agent: (name, input = {}) =>
      app.domain.agents.create(admin, {
        name,
        instructions: `Answer briefly.`,
        model: 'openai.chat:test',
        mind: 'STATELESS',
        toolset: 'ACTIVE_SPACE',
        // The model server has a local address, and scripts end runs with a text.
        plainText: 'INTERNAL',
        ...input,
      }),
    space: (creator, memberIds, input = {}) =>
      app.domain.spaces.create(creator, { name: 'Project Alpha', routing: 'BROADCAST', memberIds, ...input }),
  }

  return {
    admin,
    ...cast,
    async room(name = 'Ada', input = {}, place = {}) {
      const human = await cast.human('Husam')
      const agent = await cast.agent(name, input)
      return { human, agent, space: await cast.space(human, [agent.id], place) }
    },
    send: (sender, spaceId, text) => app.domain.sending.send(sender, { spaceId, text }),
    run,
    async runWhen(id, ...statuses) {
      const found = await until(`${id} is ${statuses.join(' or ') || 'over'}`, async () => {
        const current = await run(id)
        return (statuses.length === 0 ? ENDED : statuses).includes(current.status) ? current : null
      })
      if (ENDED.includes(found.status)) await until(`the end of ${id} is published`, () => isEndTold(app, id))
      return found
    },
    eventsOf: (runId) => eventsOf(app, runId),
    messages: (spaceId) => prisma.message.findMany({ where: { spaceId }, orderBy: { seq: 'asc' } }),
  }
}

/** Returns the event types in a run's event log. */
export async function eventsOf({ platform }: Application, runId: string): Promise<string[]> {
  const topic = runTopic(runId)
  const [head] = await platform.log.heads([topic])
  const beginning = await platform.log.read(topic, startOf(head ?? ''), 10_000)
  return beginning.type === 'publications' ? beginning.publications.map(({ event }) => event.type) : []
}

/** Returns whether the run's event log has its last entry, which is written shortly after the row has ended. */
export async function isEndTold(app: Application, runId: string): Promise<boolean> {
  const last = (await eventsOf(app, runId)).at(-1)
  return last !== undefined && /^Run(Completed|Failed|Canceled)$/.test(last)
}

/** Returns the cursor before a topic's first entry, computed from any other of its cursors. */
function startOf(cursor: string): string {
  const [epoch] = Buffer.from(cursor, 'base64url').toString().split('.')
  return Buffer.from(`${epoch}.0`).toString('base64url')
}
