import type { ToolCall, ToolExecution } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'

/** A tool call shown as a message's part: being written by the model, running, or waiting for an answer until a time. */
export interface ShownCall {
  toolCallId: string
  waitsUntil: Date | null
  /** What is known of a call whose input the model is still writing: it is in no journaled step yet. */
  writing?: { toolName: string; execution: ToolExecution | null }
}

/** The step of a call that is in no journaled one: its input is being written, or was broken off. */
const NO_STEP = -1

/** Whether a call is in the journal, as part of a step whose generation has ended. */
export function isJournaled({ stepIndex }: Pick<ToolCall, 'stepIndex'>): boolean {
  return stepIndex !== NO_STEP
}

/**
 * A call that shows from the moment when the model begins to write it. Its step and the model's id of it come with the journal;
 * where that was faster, only the message is missing.
 */
export async function beginCall(
  tx: Tx,
  message: { id: string; spaceId: string; runId: string; senderId: string },
  toolCallId: string,
  { toolName, execution }: NonNullable<ShownCall['writing']>,
): Promise<void> {
  await tx.$executeRaw`
    INSERT INTO "ToolCall" (id, "runId", "agentId", "stepIndex", "modelCallId", "toolName", execution, status, "messageId", "spaceId")
    VALUES (${toolCallId}, ${message.runId}, ${message.senderId}, ${NO_STEP}, ${toolCallId}, ${toolName},
      ${execution}::"ToolExecution", 'STREAMING', ${message.id}, ${message.spaceId})
    ON CONFLICT (id) DO UPDATE SET "messageId" = EXCLUDED."messageId", "spaceId" = EXCLUDED."spaceId"`
}

/** Ties a call to the message that shows it; one that waits gets its deadline. */
export async function showCall(
  tx: Tx,
  message: { id: string; spaceId: string },
  { toolCallId, waitsUntil }: ShownCall,
): Promise<ToolCall> {
  const waiting = waitsUntil === null ? {} : { status: 'WAITING' as const, expiresAt: waitsUntil }
  const call = await tx.toolCall.update({
    where: { id: toolCallId },
    data: { messageId: message.id, spaceId: message.spaceId, ...waiting },
  })
  return call
}
