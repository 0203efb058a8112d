import { tmpdir } from 'node:os'
import path from 'node:path'
import type { AdminViewer, HumanViewer } from '../../src/access/viewer.ts'
import type { CreateAgentInput } from '../../src/agents/agent-input.ts'
import { type Application, type AppOptions, createApp } from '../../src/app.ts'
import { readConfig } from '../../src/config.ts'
import type { Message, Run, RunStatus, Space } from '../../src/generated/prisma/client.ts'
import { runTopic } from '../../src/realtime/topics.ts'
import type { CreateSpaceInput } from '../../src/spaces/spaces.ts'
import { type ModelServer, startModelServer } from './model-server.ts'
import { createTestDataDirectory } from './pglite.ts'
import { createTestDatabase, hasPostgres } from './postgres.ts'
import { openTestRedis } from './redis.ts'
import { until } from './until.ts'

/** The stacks that there are here: `describe.each(STACKS)('… on the %s stack', (stack) => …)`. */
export const STACKS = (['embedded', 'postgres'] as const).filter((stack) => stack === 'embedded' || hasPostgres)

/** The same for rules that do not depend on the stack: PostgreSQL alone where it is there, and both with NIGHTLY=1. */
export const RULE_STACKS = STACKS.filter(
  (stack) => stack === 'postgres' || !hasPostgres || process.env['NIGHTLY'] === '1',
)

/** The whole application in this process, workers included, with a scripted model at its edge. */
export interface TestApplication {
  app: Application
  models: ModelServer
  admin: AdminViewer
  human(name: string): Promise<HumanViewer>
  /** An agent of model `openai.chat:test`, which the model server plays. */
  agent(name: string, input?: Partial<CreateAgentInput>): Promise<{ id: string; name: string }>
  space(creator: HumanViewer, memberIds: string[], input?: Partial<CreateSpaceInput>): Promise<Space>
  /** A human and an agent alone in a space. */
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
  /** Waits until the run has one of the statuses; by default until it has ended. */
  runWhen(id: string, ...statuses: RunStatus[]): Promise<Run>
  messages(spaceId: string): Promise<Message[]>
  /** The types of what a run's event log holds. */
  eventsOf(runId: string): Promise<string[]>
  stores: Stores
  close(): Promise<void>
}

export interface TestApplicationOptions extends AppOptions {
  /** `postgres`: PostgreSQL and Redis; `embedded`: PGlite and this process. */
  stack: 'postgres' | 'embedded'
  settings?: Record<string, string>
  /** False: nothing is executed here. */
  worker?: boolean
  /** Another application, whose database, Redis keys and models this one shares: a second process of one deployment. */
  beside?: TestApplication
}

const ADMIN_TOKEN = 'an-admin-token-for-tests-of-32-or-more'
const ENDED: RunStatus[] = ['COMPLETED', 'FAILED', 'CANCELED']

/** Starts it; `close` stops it and drops what it used. */
export async function startApplication(options: TestApplicationOptions): Promise<TestApplication> {
  const { stack, worker = true, beside } = options
  const models = beside?.models ?? (await startModelServer())
  const stores = beside?.stores ?? (await openStores(stack))
  const settings = {
    PARLEY_ADMIN_TOKEN: ADMIN_TOKEN,
    PARLEY_SECRET_KEY: 'a-secret-key-for-tests-of-32-or-more',
    PARLEY_LOG_LEVEL: 'error',
    PARLEY_DELTA_MS: '5',
    PARLEY_CYCLE_REST_MS: '0',
    OPENAI_API_KEY: 'sk-test',
    OPENAI_BASE_URL: models.baseUrl,
    PARLEY_ALLOW_PRIVATE_TOOLS: 'true',
    ...stores.settings,
    ...options.settings,
  }
  const app = await createApp(readConfig(settings), { ...options, ...stores.options })
  if (worker) await app.startWorker()
  const close = async () => {
    await app.close(2000)
    if (beside !== undefined) return
    await models.close()
    await stores.close()
  }
  return { ...verbsOf(app), app, models, stores, close }
}

/** Where an application keeps its state. */
export interface Stores {
  settings: Record<string, string>
  options: AppOptions
  close(): Promise<void>
}

/** Stores of their own, for who starts an application again on the same: closed by who opened them. */
export async function openStores(stack: 'postgres' | 'embedded'): Promise<Stores> {
  if (stack === 'embedded') {
    const directory = await createTestDataDirectory()
    return { settings: { DATA_DIR: directory.path }, options: {}, close: directory.remove }
  }
  const database = await createTestDatabase()
  const redis = await openTestRedis()
  if (redis === null) throw new Error('this test needs a Redis')
  return {
    settings: { DATABASE_URL: database.url, REDIS_URL: redis.url, DATA_DIR: path.join(tmpdir(), 'parley-no-data') },
    options: { redisPrefix: redis.prefix },
    close: async () => {
      await redis.release()
      await database.drop()
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
      if (ENDED.includes(found.status)) await until(`the end of ${id} is told`, () => isEndTold(app, id))
      return found
    },
    eventsOf: (runId) => eventsOf(app, runId),
    messages: (spaceId) => prisma.message.findMany({ where: { spaceId }, orderBy: { seq: 'asc' } }),
  }
}

/** The types of what a run's event log holds. */
export async function eventsOf({ platform }: Application, runId: string): Promise<string[]> {
  const topic = runTopic(runId)
  const [head] = await platform.log.heads([topic])
  const beginning = await platform.log.read(topic, startOf(head ?? ''), 10_000)
  return beginning.type === 'entries' ? beginning.entries.map(({ event }) => event.type) : []
}

/** Whether the run's event log has its last entry: some time after its row has ended. */
export async function isEndTold(app: Application, runId: string): Promise<boolean> {
  const last = (await eventsOf(app, runId)).at(-1)
  return last !== undefined && /^Run(Completed|Failed|Canceled)$/.test(last)
}

/** The cursor before a topic's first entry, from any other of its cursors. */
function startOf(cursor: string): string {
  const [epoch] = Buffer.from(cursor, 'base64url').toString().split('.')
  return Buffer.from(`${epoch}.0`).toString('base64url')
}
