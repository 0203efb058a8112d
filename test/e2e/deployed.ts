import { type ModelServer, startModelServer } from '../support/model-server.ts'
import { createParleyClient, type ParleyClient } from '../support/parley-client.ts'
import { type ParleyProcess, startParley } from '../support/parley-process.ts'
import { createTestDatabase, hasPostgres } from '../support/postgres.ts'
import { canStartRedis, startThrowawayRedis, type ThrowawayRedis } from '../support/throwaway-redis.ts'

/** Whether PostgreSQL and a Redis of a test's own can be had here. */
export const hasServices = hasPostgres && canStartRedis()

/** `embedded`: one process with everything in it; `services`: PostgreSQL, Redis, processes that serve and one that works. */
export type Stack = 'embedded' | 'services'

export const STACKS: Stack[] = hasServices ? ['embedded', 'services'] : ['embedded']

/** Parley as an operator runs it, and a model at its edge. */
export interface Deployment {
  /** The processes that serve. */
  apis: ParleyProcess[]
  /** The process that executes runs: the same one when embedded. */
  worker: ParleyProcess
  models: ModelServer
  /** The Redis of this deployment alone; null when embedded. */
  redis: ThrowawayRedis | null
  admin: ParleyClient
  /** A person with a token of its own, and clients of hers at any of the processes that serve. */
  person(name: string): Promise<Person>
  agent(name: string, model: string): Promise<string>
  close(): Promise<void>
}

export interface Person {
  id: string
  token: string
  /** At the process of that index; closed with the deployment. */
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
  const processes = await Promise.all(roles.map((role) => startParley({ settings: { ...all, PARLEY_ROLE: role } })))
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

// biome-ignore lint/suspicious/noExplicitAny: read freely by tests
export type Json = any

/** Sends one mutation and answers with its payload, or with the one object in it. @throws what it answered instead. */
export async function mutate(client: ParleyClient, field: string, payload: string): Promise<Json> {
  const answer = await client.ask<Json>(
    `mutation { result: ${field} { __typename ... on ${payload} ... on Error { message } } }`,
  )
  const { __typename, ...result } = answer.data?.result ?? {}
  if (!payload.startsWith(__typename)) throw new Error(`${field}\nanswered ${JSON.stringify(answer)}`)
  const [only, ...others] = Object.values(result) as Json[]
  return others.length === 0 && typeof only === 'object' ? only : result
}

/** Makes a space of the person's with these members, and answers with its id. */
export async function createSpace(client: ParleyClient, memberIds: string[]): Promise<string> {
  const ids = memberIds.map((id) => `"${id}"`).join(', ')
  const field = `createSpace(input: { name: "Kitchen", memberIds: [${ids}] })`
  return (await mutate(client, field, 'CreateSpacePayload { space { id } }')).id
}

/** Posts, and answers with the ids of the runs that it set off. */
export async function say(client: ParleyClient, spaceId: string, text: string): Promise<string[]> {
  const field = `sendMessage(input: { spaceId: "${spaceId}", text: "${text}" })`
  const runs: Json[] = await mutate(client, field, 'SendMessagePayload { runs { id } }')
  return runs.map(({ id }) => id)
}
