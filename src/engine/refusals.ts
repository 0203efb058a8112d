import type { ToolCall } from '../generated/prisma/client.ts'
import { prefixOf } from '../lib/ids.ts'
import type { JsonObject } from '../lib/json.ts'
import type { Tx } from '../platform/db.ts'
import { noteDeed } from '../platform/record.ts'

interface Refused extends Pick<ToolCall, 'id' | 'runId' | 'agentId' | 'toolName' | 'input'> {
  /** Where its run is; null where it is nowhere, or where that is no matter. */
  activeSpaceId: string | null
}

/** Puts on record that a tool was refused because of what its run knows in confidence: who, which tool, where it would have gone. */
export async function recordRefusal(
  tx: Tx,
  { id, runId, agentId, toolName, input, activeSpaceId }: Refused,
): Promise<void> {
  const { spaceId, targetSpaceId } = (input ?? {}) as JsonObject
  const named = [spaceId, targetSpaceId].find((value) => typeof value === 'string' && prefixOf(value) === 'spc')
  const targetId = typeof named === 'string' ? named : activeSpaceId
  const deed = { actorId: agentId, serviceName: null, action: `tool:${toolName}`, targetId }
  await noteDeed(tx, { ...deed, detail: { runId, toolCallId: id } }, { refused: true })
}
