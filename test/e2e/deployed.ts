import { type ModelServer, startModelServer } from '../support/model-server.ts'
import { createParleyClient, type ParleyClient } from '../support/parley-client.ts'
import { type ParleyProcess, startParley } from '../support/parley-process.ts'
import { createTestDatabase, hasPostgres } from '../support/postgres.ts'
import { canStartRedis, startThrowawayRedis, type ThrowawayRedis } from '../support/throwaway-redis.ts'

/** Whether the machine has PostgreSQL and can start a Redis for one test. */
export const hasServices = hasPostgres && canStartRedis()

/** `embedded` is one process for everything; `services` are PostgreSQL, Redis, API processes and a worker. */
export type Stack = 'embedded' | 'services'

export const STACKS: Stack[] = hasServices ? ['embedded', 'services'] : ['embedded']

/** Parley as an operator runs it, with a scripted model server. */
export interface Deployment {
  /** The API processes. */
  apis: ParleyProcess[]
  /** The process that executes runs; the same process as the API when embedded. */
  worker: ParleyProcess
  /** Starts another process that executes runs. */
  startWorker(): Promise<ParleyProcess>
  models: ModelServer
  /** The Redis that only this deployment uses; null when embedded. */
  redis: ThrowawayRedis | null
  admin: ParleyClient
  /** Creates a person with a token, and that person's clients of all API processes. */
  person(name: string): Promise<Person>
  agent(name: string, model: string): Promise<string>
  close(): Promise<void>
}

export interface Person {
  id: string
  token: string
  /** A client of the process with this index. It is closed together with the deployment. */
  at(index: number): ParleyClient
}

export async function deploy(stack: Stack, apiCount = 1, settings: Record<string, string> = {}): Promise<Deployment> {
  const models = await startModelServer()
  const redis = stack === 'services' ? await startThrowawayRedis() : null
  const database = stack === 'services' ? await createTestDatabase() : null
  const all = {
    OPENAI_API_KEY: 'sk-test',
    OPENAI_BASE_URL: models.baseUrl,
    PARLEY_LOG_LEVEL: 'fatal',
    PARLEY_SECRET_KEY: 'a-secret-key-for-tests-of-32-or-more',
    ...(redis && database ? { REDIS_URL: redis.url, DATABASE_URL: database.url } : {}),
    ...settings,
  }
  const roles = stack === 'embedded' ? ['all'] : [...Array.from({ length: apiCount }, () => 'api'), 'worker']
  const start = (role: string) => startParley({ settings: { ...all, PARLEY_ROLE: role } })
  const processes = await Promise.all(roles.map(start))
  const apis = processes.slice(0, stack === 'embedded' ? 1 : apiCount)
  const clients: ParleyClient[] = []
  const connect = (index: number, token: string) => {
    const client = createParleyClient({ origin: (apis[index] as ParleyProcess).origin, token })
    clients.push(client)
    return client
  }
  const admin = connect(0, (apis[0] as ParleyProcess).adminToken)
  return {
    apis,
    worker: processes.at(-1) as ParleyProcess,
    async startWorker() {
      const worker = await start('worker')
      processes.push(worker)
      return worker
    },
    models,
    redis,
    admin,
    async person(name) {
      const { id } = await mutate(
        admin,
        `createHuman(input: { name: "${name}" })`,
        'CreateHumanPayload { human { id } }',
      )
      const grant = `createAccessToken(input: { grant: { humanId: "${id}" } })`
      const { secret: token } = await mutate(admin, grant, 'CreateAccessTokenPayload { secret }')
      return { id: id as string, token: token as string, at: (index) => connect(index, token as string) }
    },
    async agent(name, model) {
      const input = `name: "${name}", instructions: "Answer briefly.", model: "${model}"`
      const { id } = await mutate(admin, `createAgent(input: { ${input} })`, 'CreateAgentPayload { agent { id } }')
      return id as string
    },
    async close() {
      await Promise.all(clients.map((client) => client.close()))
      await Promise.all(processes.map((parley) => parley.kill()))
      await Promise.all([models.close(), redis?.dispose(), database?.drop()])
    },
  }
}

// biome-ignore lint/suspicious/noExplicitAny: assertions read fields that are not typed
export type Json = any

/**
 * Sends one mutation. Returns its payload, or the only object in the payload. @throws with the response if it is of another
 * type
 */
export async function mutate(client: ParleyClient, field: string, payload: string): Promise<Json> {
  const answer = await client.ask<Json>(
    `mutation { result: ${field} { __typename ... on ${payload} ... on Error { message } } }`,
  )
  const { __typename, ...result } = answer.data?.result ?? {}
  if (!payload.startsWith(__typename)) throw new Error(`${field}\nanswered ${JSON.stringify(answer)}`)
  const [only, ...others] = Object.values(result) as Json[]
  return others.length === 0 && typeof only === 'object' ? only : result
}

/** Creates a space of the person with these members, and returns its id. */
export async function createSpace(client: ParleyClient, memberIds: string[]): Promise<string> {
  const ids = memberIds.map((id) => `"${id}"`).join(', ')
  const field = `createSpace(input: { name: "Kitchen", memberIds: [${ids}] })`
  return (await mutate(client, field, 'CreateSpacePayload { space { id } }')).id
}

/** Posts a message, and returns the ids of the runs that it triggered. */
export async function say(client: ParleyClient, spaceId: string, text: string): Promise<string[]> {
  const field = `sendMessage(input: { spaceId: "${spaceId}", text: "${text}" })`
  const runs: Json[] = await mutate(client, field, 'SendMessagePayload { runs { id } }')
  return runs.map(({ id }) => id)
}
