import type { AdminViewer, HumanViewer } from '../../src/access/viewer.ts'
import type { CreateAgentInput } from '../../src/agents/agent-input.ts'
import { type Application, createApp } from '../../src/app.ts'
import { readConfig } from '../../src/config.ts'
import { type ModelServer, startModelServer } from '../support/model-server.ts'
import type { ModelRequest } from '../support/model-server-script.ts'
import { type ParleyProcess, startParley } from '../support/parley-process.ts'
import { startThrowawayPostgres, type ThrowawayPostgres } from '../support/throwaway-postgres.ts'
import { startThrowawayRedis, type ThrowawayRedis } from '../support/throwaway-redis.ts'

/** PostgreSQL, Redis and a model server for this test, an API in this process, and workers that can be killed. */
export interface Deployment {
  app: Application
  models: ModelServer
  postgres: ThrowawayPostgres
  redis: ThrowawayRedis
  human: HumanViewer
  workers: ParleyProcess[]
  /** The key that identifies a worker's requests to the model. */
  keyOf(index: number): string
  /**
   * Waits until all processes are ready, so that the others can take over. Then sends SIGKILL to one process, and starts a new
   * one in its place. Returns the key that the dead process used in its requests to the model.
   */
  replaceWorker(index: number): Promise<string>
  /** Creates a space with its own agent. */
  room(name: string, agent?: Partial<CreateAgentInput>): Promise<{ spaceId: string; agentId: string }>
  /** Posts as the human, and returns the runs that the message starts. */
  say(spaceId: string, text: string): Promise<string[]>
  close(): Promise<void>
}

/** Returns the run of a request to the model, from its prompt. */
export const runOf = (request: ModelRequest) => /- Run (run_\w+) \(this run\)/.exec(request.instructions)?.[1] ?? ''
/** Returns the worker of a request to the model. Each worker has its own key. */
export const workerOf = (request: ModelRequest) => String(request.headers.authorization)

/** Additional settings of its workers. */
export interface DeployOptions {
  settings?: Record<string, string>
  /** How far the clock of each worker is from the true time. */
  clockSkewsMs?: number[]
}

export async function deploy(workerCount: number, options: DeployOptions = {}): Promise<Deployment> {
  const [postgres, redis, models] = await Promise.all([
    startThrowawayPostgres(),
    startThrowawayRedis(),
    startModelServer(),
  ])
  const settings = {
    DATABASE_URL: postgres.url,
    REDIS_URL: redis.url,
    OPENAI_BASE_URL: models.baseUrl,
    PARLEY_SECRET_KEY: 'a-secret-key-for-tests-of-32-or-more',
    PARLEY_ADMIN_TOKEN: 'an-admin-token-for-tests-of-32-or-more',
    PARLEY_LOG_LEVEL: 'fatal',
    ...options.settings,
  }
  const app = await createApp(readConfig({ ...settings, PARLEY_ROLE: 'api', OPENAI_API_KEY: 'sk-api' }))
  let made = 0
  const keys: string[] = []
  /** Promises that resolve when the replacement of the worker with this index is ready. */
  const replacing: Promise<void>[] = []
  async function startWorker(index: number): Promise<ParleyProcess> {
    made += 1
    keys[index] = `sk-worker-${made}`
    const own = { PARLEY_ROLE: 'worker', PARLEY_WORKER_CONCURRENCY: '5', OPENAI_API_KEY: keys[index] }
    const clockSkewMs = options.clockSkewsMs?.[index] ?? 0
    return startParley({ settings: { ...settings, ...own }, clockSkewMs })
  }
  const workers = await Promise.all(Array.from({ length: workerCount }, (_, index) => startWorker(index)))
  const admin: AdminViewer = { scope: 'ADMIN', id: 'acc_test', tokenId: null, expiresAt: null }
  const { id } = await app.domain.humans.create(admin, { name: 'Husam' })
  const human: HumanViewer = { scope: 'HUMAN', id, tokenId: null, expiresAt: null }
  return {
    app,
    models,
    postgres,
    redis,
    human,
    workers,
    async replaceWorker(index) {
      await Promise.all(replacing)
      const dead = `Bearer ${keys[index]}`
      await workers[index]?.kill()
      replacing[index] = startWorker(index).then((worker) => {
        workers[index] = worker
      })
      return dead
    },
    keyOf: (index) => `Bearer ${keys[index]}`,
    async say(spaceId, text) {
      const { runs } = await app.domain.sending.send(human, { spaceId, text })
      return runs.map(({ id }) => id)
    },
    async room(name, input = {}) {
      const agent = await app.domain.agents.create(admin, {
        name,
        instructions: 'Work in steps.',
        model: 'openai.chat:test',
        mind: 'STATELESS',
        toolset: 'ACTIVE_SPACE',
        maxConcurrentRuns: 20,
        ...input,
      })
      const space = await app.domain.spaces.create(human, { name, routing: 'BROADCAST', memberIds: [agent.id] })
      return { spaceId: space.id, agentId: agent.id }
    },
    async close() {
      await Promise.allSettled(replacing)
      await Promise.all(workers.map((worker) => worker.kill()))
      await app.close(0)
      await Promise.all([models.close(), postgres.dispose(), redis.dispose()])
    },
  }
}
