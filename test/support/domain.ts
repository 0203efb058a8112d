import pino from 'pino'
import { Registry } from 'prom-client'
import { createSessions } from '../../src/access/sessions.ts'
import { createTokens, type Tokens } from '../../src/access/tokens.ts'
import type { AdminViewer, HumanViewer, ServiceViewer } from '../../src/access/viewer.ts'
import { createVisibility, type Visibility } from '../../src/access/visibility.ts'
import type { CreateAgentInput } from '../../src/agents/agent-input.ts'
import { type Agent, type Agents, createAgents } from '../../src/agents/agents.ts'
import { createHumans, type Humans } from '../../src/agents/humans.ts'
import { createMemoryLog } from '../../src/broker/memory/log.ts'
import { createMemorySignals } from '../../src/broker/memory/signals.ts'
import { type Config, readConfig } from '../../src/config.ts'
import { createFileReading } from '../../src/files/file-reading.ts'
import { createSpaceCreation, type SpaceCreation } from '../../src/flows/create-space.ts'
import { createJoinLinks } from '../../src/flows/join-links.ts'
import { createJoining, type Joining } from '../../src/flows/join-space.ts'
import { createLeaving, type Leaving } from '../../src/flows/leave-space.ts'
import { createMailLinks } from '../../src/flows/mail-links.ts'
import { createHumanUpdates, type HumanUpdates } from '../../src/flows/update-human.ts'
import { createSpaceUpdates, type SpaceUpdates } from '../../src/flows/update-space.ts'
import type { Message as MessageRow, Prisma, Routing, Run, Space } from '../../src/generated/prisma/client.ts'
import { newId } from '../../src/lib/ids.ts'
import type { Clock } from '../../src/platform/clock.ts'
import { type Database, openDatabase } from '../../src/platform/db.ts'
import type { Platform } from '../../src/platform/platform.ts'
import { createSecretBox } from '../../src/platform/secret-box.ts'
import { createMembers, type Members } from '../../src/spaces/members.ts'
import { createReading, type Reading } from '../../src/spaces/reading.ts'
import { createSpacePublisher } from '../../src/spaces/space-publisher.ts'
import { createSpaces, type Spaces } from '../../src/spaces/spaces.ts'
import { isNightly } from './effort.ts'
import { createTestDataDirectory } from './pglite.ts'
import { createTestDatabase, hasPostgres } from './postgres.ts'
import { keepOrDispose, type Reusable, shapeOf, takeKept } from './reuse.ts'

/** The domain on a separate database, without jobs and engine: the actions of people and admins, and what they see. */
export interface Domain {
  platform: Platform
  clock: Clock & { set(now: number): void }
  tokens: Tokens
  visibility: Visibility
  spaces: Spaces & SpaceCreation & SpaceUpdates
  members: Members & Joining & Leaving
  reading: Reading
  agents: Agents
  humans: Humans & HumanUpdates
  admin: AdminViewer
  human(name: string): Promise<HumanViewer>
  service(name: string, agentIds: string[] | null): Promise<ServiceViewer>
  agent(name: string, input?: Partial<CreateAgentInput>): Promise<Agent>
  space(
    creator: AdminViewer | HumanViewer,
    memberIds?: string[],
    input?: { routing?: Routing; adminAgentId?: string },
  ): Promise<Space>
  /** Inserts a message as posting does: by default COMPLETE, and not routed. */
  message(spaceId: string, senderId: string, row?: Partial<Prisma.MessageUncheckedCreateInput>): Promise<MessageRow>
  run(agentId: string, row?: Partial<Prisma.RunUncheckedCreateInput>): Promise<Run>
  close(): Promise<void>
}

export const ADMIN_TOKEN = 'an-admin-token-for-tests-of-32-or-more'

/** The available databases. Use: `describe.each(DATABASES)('… on %s', (database) => …)`. */
export const DATABASES = (['postgres', 'pglite'] as const).filter((kind) => kind === 'pglite' || hasPostgres)

/** The databases for rules that do not depend on the database: only the first one, but all with EFFORT=nightly. */
export const RULE_DATABASES = isNightly ? DATABASES : DATABASES.slice(0, 1)

/** The available models are `demo` and `openai:…`. */
const checkModel = (name: string) =>
  name === 'demo' || name.startsWith('openai:') ? null : `There is no model "${name}".`

/** In this test domain, nobody has runs or calls. */
const NO_RUNS = {
  loseTurns: async () => ({ async afterCommit() {} }),
  lifecycle: { async leave() {} },
  decideCall: { async recheck() {} },
}

export async function openDomain(database: (typeof DATABASES)[number] = 'postgres'): Promise<Domain> {
  const key = `domain on ${database}`
  const opened =
    takeKept<Reusable & { db: Database }>(key) ?? (await (database === 'postgres' ? openOnPostgres() : openEmbedded()))
  const { db } = opened
  const clock = movableClock()
  const logger = pino({ level: 'silent' })
  const platform = {
    config: testConfig(),
    db,
    log: createMemoryLog(),
    signals: createMemorySignals(logger),
    clock,
    logger,
    metrics: new Registry(),
    secretBox: createSecretBox('a-secret-key-for-tests-of-32-or-more'),
    // No worker performs jobs here.
    jobs: { withdraw() {} },
  } as unknown as Platform
  const visibility = createVisibility(platform)
  const publisher = createSpacePublisher(platform)
  const members = createMembers(platform)
  const joint = { ...NO_RUNS, visibility, publisher }
  const sessions = createSessions(platform, ADMIN_TOKEN)
  const mailLinks = createMailLinks(platform, { ...joint, sessions })
  const tokens = createTokens(platform, ADMIN_TOKEN)
  const parts = {
    tokens,
    sessions,
    spaces: {
      ...createSpaces(platform),
      ...createSpaceCreation(platform, { visibility, publisher }),
      ...createSpaceUpdates(platform, { visibility, publisher }),
    },
    joinLinks: createJoinLinks(platform, joint),
    members: { ...members, ...createJoining(platform, joint), ...createLeaving(platform, joint) },
    reading: createReading(platform, publisher),
    agents: createAgents(platform, {
      models: { check: checkModel, isLocal: () => false, defaultModel: async () => 'demo', lookFor: async () => {} },
    }),
    humans: {
      ...createHumans(platform),
      ...createHumanUpdates(platform, {
        mailLinks,
        visibility,
        members,
        publisher,
        files: createFileReading(platform, { tokens }),
      }),
    },
  }
  return {
    platform,
    clock,
    visibility,
    ...parts,
    ...cast(platform, parts),
    async close() {
      await platform.log.close()
      await keepOrDispose(key, opened)
    },
  }
}

async function openOnPostgres() {
  const { url, drop } = await createTestDatabase()
  return reusable(await openDatabase({ url, dataDirectory: '', poolSize: 10 }), drop)
}

async function openEmbedded() {
  const directory = await createTestDataDirectory()
  return reusable(await openDatabase({ url: null, dataDirectory: directory.path }), directory.remove)
}

async function reusable(db: Database, drop: () => Promise<void>): Promise<Reusable & { db: Database }> {
  const dispose = async () => {
    await db.close()
    await drop()
  }
  return { db, shape: await shapeOf(db), settle: async () => {}, dispose }
}

function testConfig(): Config {
  return readConfig({ PARLEY_DEFAULT_MODEL: 'demo', PARLEY_DIRECTORY: 'shared' })
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

/** People, agents and the rows that they create. */
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
