import type { ToolCall } from '../generated/prisma/client.ts'
import { prefixOf } from '../lib/ids.ts'
import type { JsonObject } from '../lib/json.ts'
import type { Tx } from '../platform/db.ts'
import { noteDeed } from '../stores/audit-store.ts'

interface Refused extends Pick<ToolCall, 'id' | 'runId' | 'agentId' | 'toolName' | 'input'> {
  /** The run's active space; null if there is none or if it is not relevant. */
  activeSpaceId: string | null
}

/**
 * Writes an audit entry for a tool call that was refused for confidentiality. The entry contains the agent, the tool
 * and the target space.
 */
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
