import type { ToolCall } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'

/** A tool call shown as a message's part: running, or waiting for an answer until a time. */
export interface ShownCall {
  toolCallId: string
  waitsUntil: Date | null
}

/** Ties a call to the message that shows it; one that waits gets its deadline, and the job that enforces it. */
export async function showCall(
  tx: Tx,
  { jobs }: Pick<Platform, 'jobs'>,
  message: { id: string; spaceId: string },
  { toolCallId, waitsUntil }: ShownCall,
): Promise<ToolCall> {
  const waiting = waitsUntil === null ? {} : { status: 'WAITING' as const, expiresAt: waitsUntil }
  const call = await tx.toolCall.update({
    where: { id: toolCallId },
    data: { messageId: message.id, spaceId: message.spaceId, ...waiting },
  })
  if (waitsUntil !== null) await jobs.enqueue(tx, [{ wakeUp: { type: 'tool-deadline', toolCallId }, at: waitsUntil }])
  return call
}
