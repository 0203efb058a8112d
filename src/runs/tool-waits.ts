import { Prisma } from '../generated/prisma/client.ts'
import type { Platform } from '../platform/platform.ts'
import { createCallNews } from '../spaces/call-news.ts'
import { RunLostError, runFence } from '../spaces/posting.ts'
import type { Claim } from './lifecycle.ts'

/** Calls that show nowhere and wait for an answer from outside. */
export interface ToolWaits {
  /** The call waits until `until`. @throws RunLostError */
  begin(claim: Claim, toolCallId: string, until: Date): Promise<void>
}

export function createToolWaits(platform: Platform): ToolWaits {
  const { db } = platform
  const callNews = createCallNews(platform)

  return {
    async begin({ run, attempt }, toolCallId, until) {
      const count = await db.prisma.$executeRaw(Prisma.sql`
        WITH fence AS (${runFence(run.id, attempt)})
        UPDATE "ToolCall" SET status = 'WAITING', "expiresAt" = ${until} WHERE id = ${toolCallId} AND EXISTS (SELECT 1 FROM fence)`)
      if (count === 0) throw new RunLostError(run.id)
      await callNews.waits({ id: toolCallId, agentId: run.agentId, spaceId: null })
    },
  }
}
