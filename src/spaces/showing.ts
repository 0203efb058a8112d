import type { Platform } from '../platform/platform.ts'
import { type Message, messageOfRow } from './message.ts'
import { createMessageNews } from './message-news.ts'
import { type MessageLease, RunLostError, runFence } from './posting.ts'
import { type ShownCall, showCall } from './shown-call.ts'

/** Messages that began to show a call before its input was whole. */
export interface Showing {
  /** The messages that a run which is taken up again has begun and goes on with, by the call that each shows. */
  begunBy(runId: string): Promise<Map<string, Message>>
  /** The call's input is whole: it runs now, or waits for its answer, and the message requires action. @throws RunLostError */
  goOn(message: MessageLease, shown: ShownCall): Promise<void>
}

export function createShowing(platform: Platform): Showing {
  const { db } = platform
  const news = createMessageNews(platform)

  return {
    async begunBy(runId) {
      const rows = await db.prisma.message.findMany({ where: { runId, status: 'STREAMING' } })
      return new Map(
        rows.map(messageOfRow).flatMap((message) => {
          const [part] = message.parts
          return part?.type === 'tool' && message.runPostKey === part.toolCallId ? [[part.toolCallId, message]] : []
        }),
      )
    },
    async goOn(lease, shown) {
      if (shown.waitsUntil === null) return news.partChanged(lease, 0)
      const { id, runId, attempt } = lease
      await db.transaction(async (tx) => {
        const [held] = await tx.$queryRaw<unknown[]>(runFence(runId, attempt))
        if (held === undefined) throw new RunLostError(runId)
        await showCall(tx, lease, shown)
        const asking = { where: { id, status: 'STREAMING' as const }, data: { status: 'REQUIRES_ACTION' as const } }
        if ((await tx.message.updateMany(asking)).count === 0) throw new RunLostError(runId)
      })
      await news.waiting(lease, 0)
    },
  }
}
