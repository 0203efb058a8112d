import pino from 'pino'
import { createVisibility } from '../../src/access/visibility.ts'
import { createBroker } from '../../src/broker/broker.ts'
import { readConfig } from '../../src/config.ts'
import { createPost } from '../../src/flows/post.ts'
import { createSending } from '../../src/flows/send-message.ts'
import { newId } from '../../src/lib/ids.ts'
import { openDatabase } from '../../src/platform/db.ts'
import type { Platform } from '../../src/platform/platform.ts'
import type { Message } from '../../src/rules/message.ts'
import { createAnnouncer } from '../../src/spaces/announcer.ts'
import { createReplies, type Replies } from '../../src/spaces/replies.ts'

/** Functions that post messages and wait for replies, on a database and, with a URL, on a Redis, without workers or routing. */
export interface WaitingStack {
  platform: Platform
  /** Posts as a human. */
  send(message: { spaceId: string; senderId: string; text: string }): Promise<{ message: Message }>
  replies: Replies
  /** Creates spaces with one human and one agent each. */
  spaces(count: number): Promise<{ spaceId: string; humanId: string; agentId: string }[]>
  close(): Promise<void>
}

export async function openWaitingStack(
  databaseUrl: string,
  redis: { url: string; prefix: string } | null,
): Promise<WaitingStack> {
  const db = await openDatabase({ url: databaseUrl, dataDirectory: '', poolSize: 10 })
  const realtime = await createBroker(redis === null ? {} : { redisUrl: redis.url, prefix: redis.prefix })
  const platform = {
    db,
    log: realtime.log,
    signals: realtime.signals,
    clock: { now: () => Date.now() },
    config: readConfig({}),
    logger: pino({ level: 'silent' }),
  } as unknown as Platform // Waits need no jobs.
  const announcer = createAnnouncer(platform)
  const { post } = createPost(platform)
  const sending = createSending(platform, { visibility: createVisibility(platform), announcer, post })
  return {
    platform,
    send: ({ senderId: id, ...input }) => sending.send({ scope: 'HUMAN', id, tokenId: null, expiresAt: null }, input),
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
