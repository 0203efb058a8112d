import pino from 'pino'
import { Registry } from 'prom-client'
import { createTokens, type Tokens } from '../../src/access/tokens.ts'
import type { AdminViewer, HumanViewer, ServiceViewer } from '../../src/access/viewer.ts'
import { createVisibility, type Visibility } from '../../src/access/visibility.ts'
import type { CreateAgentInput } from '../../src/agents/agent-input.ts'
import { type Agent, type Agents, createAgents } from '../../src/agents/agents.ts'
import { createHumans, type Humans } from '../../src/agents/humans.ts'
import { type Config, readConfig } from '../../src/config.ts'
import type { Message as MessageRow, Prisma, Routing, Run, Space } from '../../src/generated/prisma/client.ts'
import { newId } from '../../src/lib/ids.ts'
import type { Clock } from '../../src/platform/clock.ts'
import { openDatabase } from '../../src/platform/db.ts'
import type { Platform } from '../../src/platform/platform.ts'
import { createSecretBox } from '../../src/platform/secret-box.ts'
import { createInProcessEventLog } from '../../src/realtime/in-process-event-log.ts'
import { createInProcessSignals } from '../../src/realtime/in-process-signals.ts'
import { createPausing } from '../../src/runs/pausing.ts'
import { createMembers, type Members } from '../../src/spaces/members.ts'
import { createReading, type Reading } from '../../src/spaces/reading.ts'
import { createSpacePublisher } from '../../src/spaces/space-publisher.ts'
import { createSpaces, type Spaces } from '../../src/spaces/spaces.ts'
import { createTestDataDirectory } from './pglite.ts'
import { createTestDatabase, hasPostgres } from './postgres.ts'

/** The domain on a database of its own, without jobs and engine: what people and admins do, and what they see. */
export interface Domain {
  platform: Platform
  clock: Clock & { set(now: number): void }
  tokens: Tokens
  visibility: Visibility
  spaces: Spaces
  members: Members
  reading: Reading
  agents: Agents
  humans: Humans
  admin: AdminViewer
  human(name: string): Promise<HumanViewer>
  service(name: string, agentIds: string[] | null): Promise<ServiceViewer>
  agent(name: string, input?: Partial<CreateAgentInput>): Promise<Agent>
  space(
    creator: AdminViewer | HumanViewer,
    memberIds?: string[],
    input?: { routing?: Routing; adminAgentId?: string },
  ): Promise<Space>
  /** A row as posting leaves it: whole and unrouted unless said otherwise. */
  message(spaceId: string, senderId: string, row?: Partial<Prisma.MessageUncheckedCreateInput>): Promise<MessageRow>
  run(agentId: string, row?: Partial<Prisma.RunUncheckedCreateInput>): Promise<Run>
  close(): Promise<void>
}

export const ADMIN_TOKEN = 'an-admin-token-for-tests-of-32-or-more'

/** The databases here that the domain runs on: `describe.each(DATABASES)('… on %s', (database) => …)`. */
export const DATABASES = (['postgres', 'pglite'] as const).filter((kind) => kind === 'pglite' || hasPostgres)

/** Models are `demo` and `openai:…`; an input schema is an object with `type: 'object'`. */
const HOOKS = {
  checkModel: (name: string) => (name === 'demo' || name.startsWith('openai:') ? null : `There is no model "${name}".`),
  checkInputSchema: async (schema: unknown) =>
    typeof schema === 'object' && schema !== null && 'type' in schema && schema.type === 'object'
      ? null
      : 'The schema must describe an object.',
  checkSchema: async () => null,
}

export async function openDomain(database: (typeof DATABASES)[number] = 'postgres'): Promise<Domain> {
  const { db, drop } = await (database === 'postgres' ? openOnPostgres() : openEmbedded())
  const clock = movableClock()
  const logger = pino({ level: 'silent' })
  const platform = {
    config: testConfig(),
    db,
    log: createInProcessEventLog(),
    signals: createInProcessSignals(logger),
    clock,
    logger,
    metrics: new Registry(),
    secretBox: createSecretBox('a-secret-key-for-tests-of-32-or-more'),
  } as unknown as Platform // without `jobs`: nothing here wakes anybody
  const visibility = createVisibility(platform)
  const publisher = createSpacePublisher(platform)
  const parts = {
    tokens: createTokens(platform, ADMIN_TOKEN),
    spaces: createSpaces(platform, visibility, publisher, { async onBudgetChanged() {} }),
    members: createMembers(platform, visibility, publisher, {
      onLeft: async () => ({ async afterCommit() {} }),
      async onJoined() {},
    }),
    reading: createReading(platform, publisher),
    agents: createAgents(platform, { ...HOOKS, ...createPausing(platform) }),
    humans: createHumans(platform, visibility, { async onRenamed() {} }),
  }
  return {
    platform,
    clock,
    visibility,
    ...parts,
    ...cast(platform, parts),
    async close() {
      await platform.log.close()
      await db.close()
      await drop()
    },
  }
}

async function openOnPostgres() {
  const { url, drop } = await createTestDatabase()
  return { db: await openDatabase({ url, dataDirectory: '', poolSize: 10 }), drop }
}

async function openEmbedded() {
  const directory = await createTestDataDirectory()
  return { db: await openDatabase({ url: null, dataDirectory: directory.path }), drop: directory.remove }
}

function testConfig(): Config {
  return readConfig({ PARLEY_DEFAULT_MODEL: 'demo' })
}

function movableClock() {
  let time: number | null = null
  return {
    now: () => time ?? Date.now(),
    set(now: number) {
      time = now
    },
  }
}

/** People, agents and what they leave behind. */
function cast(platform: Platform, parts: Pick<Domain, 'tokens' | 'spaces' | 'agents' | 'humans'>) {
  const { prisma } = platform.db
  const admin: AdminViewer = { scope: 'ADMIN', id: newId('acc'), tokenId: null, expiresAt: null }
  return {
    admin,
    async human(name: string): Promise<HumanViewer> {
      const { id } = await parts.humans.create(admin, { name })
      return { scope: 'HUMAN', id, tokenId: null, expiresAt: null }
    },
    async service(name: string, agentIds: string[] | null) {
      const { secret } = await parts.tokens.create(admin, { grant: { service: { name, agentIds } } })
      return (await parts.tokens.authenticate(secret)) as ServiceViewer
    },
    agent: (name: string, input: Partial<CreateAgentInput> = {}) =>
      parts.agents.create(admin, { name, instructions: '', mind: 'STATELESS', toolset: 'ACTIVE_SPACE', ...input }),
    space: (
      creator: AdminViewer | HumanViewer,
      memberIds: string[] = [],
      input: { routing?: Routing; adminAgentId?: string } = {},
    ) => parts.spaces.create(creator, { name: 'A space', routing: 'BROADCAST', memberIds, ...input }),
    async message(spaceId: string, senderId: string, row: Partial<Prisma.MessageUncheckedCreateInput> = {}) {
      const { lastSeq: seq } = await prisma.space.update({
        where: { id: spaceId },
        data: { lastSeq: { increment: 1 } },
      })
      const parts = [{ type: 'text', text: `message ${seq}` }]
      const base = { id: newId('msg'), spaceId, seq, senderId, status: 'COMPLETE' as const, parts, depth: 0 }
      return prisma.message.create({ data: { ...base, rootId: base.id, ...row } })
    },
    run(agentId: string, row: Partial<Prisma.RunUncheckedCreateInput> = {}) {
      const id = newId('run')
      const base = { agentId, status: 'COMPLETED' as const, triggerType: 'SPACE_MESSAGE' as const, depth: 0 }
      return prisma.run.create({ data: { id, triggerSummary: 'for a test', rootId: id, ...base, ...row } })
    },
  }
}
