import pino from 'pino'
import { newId } from '../../src/lib/ids.ts'
import { openDatabase } from '../../src/platform/db.ts'
import type { Platform } from '../../src/platform/platform.ts'
import { createRealtime } from '../../src/realtime/realtime.ts'
import { createAnnouncer } from '../../src/spaces/announcer.ts'
import { createPosting, type Posting } from '../../src/spaces/posting.ts'
import { createReplies, type Replies } from '../../src/spaces/replies.ts'

/** Posting and waiting on a database and, where a URL is given, a Redis, without anything that acts on what is posted. */
export interface WaitingStack {
  platform: Platform
  posting: Posting<never>
  replies: Replies
  /** Spaces with one human and one agent in each. */
  spaces(count: number): Promise<{ spaceId: string; humanId: string; agentId: string }[]>
  close(): Promise<void>
}

export async function openWaitingStack(
  databaseUrl: string,
  redis: { url: string; prefix: string } | null,
): Promise<WaitingStack> {
  const db = await openDatabase({ url: databaseUrl, dataDirectory: '', poolSize: 10 })
  const realtime = await createRealtime(redis === null ? {} : { redisUrl: redis.url, prefix: redis.prefix })
  const platform = {
    db,
    log: realtime.log,
    signals: realtime.signals,
    clock: { now: () => Date.now() },
    logger: pino({ level: 'silent' }),
  } as unknown as Platform // neither jobs nor settings are asked for here
  const announcer = createAnnouncer(platform)
  const posting = createPosting<never>(platform, announcer, {
    route: async () => ({ runs: [], async afterCommit() {} }),
    foresee: async () => null,
    startedBy: async () => [],
  })
  return {
    platform,
    posting,
    replies: createReplies(platform),
    spaces: (count) => Promise.all(Array.from({ length: count }, () => createSpace(platform))),
    async close() {
      await announcer.close()
      await realtime.close()
      await db.close()
    },
  }
}

async function createSpace({ db }: Platform) {
  const [spaceId, humanId, agentId] = [newId('spc'), newId('hum'), newId('agt')]
  await db.prisma.entity.createMany({
    data: [
      { id: humanId, kind: 'HUMAN', name: 'Husam' },
      { id: agentId, kind: 'AGENT', name: 'Ada' },
    ],
  })
  await db.prisma.space.create({ data: { id: spaceId, name: 'A space', routing: 'ADMIN' } })
  await db.prisma.membership.createMany({ data: [humanId, agentId].map((entityId) => ({ spaceId, entityId })) })
  return { spaceId, humanId, agentId }
}
