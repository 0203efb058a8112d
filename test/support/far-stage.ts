import { decidersOn } from './decisions.ts'
import type { ModelServer } from './model-server.ts'
import { createParleyClient, type ParleyClient } from './parley-client.ts'
import { createTestDataDirectory } from './pglite.ts'
import { createTestDatabase } from './postgres.ts'
import type { TestServer } from './served.ts'
import { openStage, type Person, type Read } from './stage.ts'
import { startThrowawayRedis } from './throwaway-redis.ts'

const TOKEN = `mutation ($grant: TokenGrantInput!) { createAccessToken(input: { grant: $grant }) { ... on CreateAccessTokenPayload { secret } } }`
const HUMAN =
  'mutation ($name: String!) { createHuman(input: { name: $name }) { ... on CreateHumanPayload { human { id } } } }'

/** The settings and stores of servers in separate processes, for which this process plays the models. */
export async function openStores(
  stack: string,
  models: ModelServer,
): Promise<{ settings: Record<string, string>; dispose(): Promise<unknown> }> {
  const { path, remove } = await createTestDataDirectory()
  const settings = {
    DATA_DIR: path,
    PARLEY_SECRET_KEY: 'a-secret-key-for-tests-of-32-or-more',
    PARLEY_LOG_LEVEL: 'fatal',
    PARLEY_ALLOW_PRIVATE_TOOLS: 'true',
    PARLEY_CYCLE_REST_MS: '0',
    OPENAI_API_KEY: 'sk-test',
    OPENAI_BASE_URL: models.baseUrl,
  }
  if (stack === 'embedded') return { settings, dispose: remove }
  const [database, redis] = await Promise.all([createTestDatabase(), startThrowawayRedis()])
  return {
    settings: { ...settings, DATABASE_URL: database.url, REDIS_URL: redis.url },
    dispose: () => Promise.all([database.drop(), redis.dispose(), remove()]),
  }
}

interface FarServer {
  origin: string
  adminToken: string
}

/** Creates the people and the stage on a server in another process, all through its API. */
export async function enter({ origin, adminToken }: FarServer) {
  const clients: ParleyClient[] = []
  const clientWith = (token: string) => {
    const client = createParleyClient({ origin, token })
    clients.push(client)
    return client
  }
  const admin = clientWith(adminToken)
  const first = async (operation: string, variables: object): Promise<Read> =>
    Object.values((await admin.ask<Read>(operation, variables)).data)[0]
  const stage = await openStage({
    admin: { scope: 'ADMIN' },
    human: async (name: string) => ({ scope: 'HUMAN', id: (await first(HUMAN, { name })).human.id }),
    clientOf: async ({ scope, id }: { scope: string; id: string }) =>
      scope === 'ADMIN' ? admin : clientWith((await first(TOKEN, { grant: { humanId: id } })).secret),
  } as unknown as TestServer)
  return {
    stage,
    deciders: decidersOn(stage),
    /** Returns a person who was created on another server with the same stores, or during an earlier start of this server. */
    async back({ id, name }: Person): Promise<Person> {
      const { secret } = await first(TOKEN, { grant: { humanId: id } })
      return { id, name, client: clientWith(secret) }
    },
    leave: () => Promise.all(clients.map((client) => client.close())),
  }
}
