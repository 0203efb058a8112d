import { readFile } from 'node:fs/promises'
import { createParleyClient, type ParleyClient } from '../../test/support/parley-client.ts'
import { type ParleyProcess, startParley } from '../../test/support/parley-process.ts'
import { createTestDatabase } from '../../test/support/postgres.ts'
import type { Model } from './model.ts'
import { CREATE_AGENT, CREATE_HUMAN, CREATE_SPACE, CREATE_TOKEN } from './operations.ts'

export type Backing = 'embedded' | 'PostgreSQL and Redis'

/** A Parley process, and the local model as its provider. */
export interface Stack {
  parley: ParleyProcess
  admin: ParleyClient
  /** The URL of the database; null if it is embedded. */
  databaseUrl: string | null
  /** Starts another process on the same database and Redis, which stops together with the stack. */
  join(settings: Record<string, string>): Promise<ParleyProcess>
  stop(): Promise<void>
}

/** A space with one human, who subscribes to the space over a separate WebSocket, and with agents if requested. */
export interface Room {
  spaceId: string
  human: ParleyClient
  /** The human's token. */
  token: string
  agentIds: string[]
}

export async function startStack(
  backing: Backing,
  model: Model,
  settings: Record<string, string> = {},
): Promise<Stack> {
  const database = backing === 'embedded' ? null : await createTestDatabase({ isDurable: true })
  const redis = process.env.TEST_REDIS_URL || 'redis://127.0.0.1:6379'
  const common = {
    OPENAI_API_KEY: 'none',
    OPENAI_BASE_URL: model.baseUrl,
    PARLEY_LOG_LEVEL: 'error',
    // In benchmarks, one viewer sends as many requests as many viewers usually do.
    PARLEY_RATE_MESSAGES: '0',
    PARLEY_RATE_TRIGGERS: '0',
    PARLEY_RATE_REQUESTS: '0',
    PARLEY_SECRET_KEY: 'the same for all processes of a benchmark',
    ...(database ? { DATABASE_URL: database.url, REDIS_URL: redis } : {}),
    ...settings,
  }
  const parley = await startParley({ settings: common })
  const others: ParleyProcess[] = []
  const admin = createParleyClient({ origin: parley.origin, token: parley.adminToken })
  return {
    parley,
    admin,
    databaseUrl: database?.url ?? null,
    async join(own) {
      const other = await startParley({ settings: { ...common, ...own } })
      others.push(other)
      return other
    },
    async stop() {
      await admin.close()
      await Promise.all([parley, ...others].map((one) => one.stop()))
      await database?.drop()
    },
  }
}

/** Creates a room with its own human. If a model is given, the room also has agents, which answer there. */
export async function createRoom(
  { admin, parley }: Stack,
  model: string | null,
  agents = 1,
  mind: 'STATELESS' | 'PERSISTENT' = 'STATELESS',
): Promise<Room> {
  const { createHuman } = await admin.send(CREATE_HUMAN, { name: 'Ada' })
  if (createHuman.__typename !== 'CreateHumanPayload') throw new Error(createHuman.message)
  const { createAccessToken } = await admin.send(CREATE_TOKEN, { humanId: createHuman.human.id })
  if (createAccessToken.__typename !== 'CreateAccessTokenPayload') throw new Error(createAccessToken.message)
  const agentIds: string[] = []
  while (model !== null && agentIds.length < agents)
    agentIds.push(await createAgent(admin, `openai.chat:${model}`, mind))
  const human = createParleyClient({ origin: parley.origin, token: createAccessToken.secret })
  const spaceId = await createSpaceWith(human, agentIds)
  await human.connect()
  return { spaceId, human, token: createAccessToken.secret, agentIds }
}

/** Creates a space of the human with these agents. */
export async function createSpaceWith(human: ParleyClient, agentIds: string[]): Promise<string> {
  const { createSpace } = await human.send(CREATE_SPACE, { name: 'Bench', memberIds: agentIds })
  if (createSpace.__typename !== 'CreateSpacePayload') throw new Error(createSpace.message)
  return createSpace.space.id
}

async function createAgent(admin: ParleyClient, model: string, mind: 'STATELESS' | 'PERSISTENT'): Promise<string> {
  const { createAgent: result } = await admin.send(CREATE_AGENT, { name: 'Echo', model, mind })
  if (result.__typename !== 'CreateAgentPayload') throw new Error(result.message)
  return result.agent.id
}

/** Returns the user and system CPU time of a process so far, in seconds. Linux only. */
export async function cpuSecondsOf(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8')
  // The times are fields 14 and 15. The second field may contain spaces, so count after its closing parenthesis.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const TICKS_A_SECOND = 100
  return (Number(fields[11]) + Number(fields[12])) / TICKS_A_SECOND
}

/** Returns the resident memory of a process in MiB. Linux only. */
export async function residentMebibytesOf(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8')
  return Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1]) / 1024
}
