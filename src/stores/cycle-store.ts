import type { ModelMessage } from 'ai'
import type { Prisma } from '../generated/prisma/client.ts'
import { toJson } from '../lib/json.ts'
import type { Tx } from '../platform/db.ts'

// Contains the statements that write the table "Cycle". The table contains the think cycles that persistent agents
// remember.

export interface NewCycle {
  agentId: string
  /** The number of the cycle, counted from 0 for each agent. */
  index: number
  runId: string
  places: string[]
  label: string[]
  messages: ModelMessage[]
  summary: string
  tokenEstimate: number
}

export async function insertCycle(tx: Tx, { messages, ...cycle }: NewCycle): Promise<void> {
  await tx.cycle.create({ data: { ...cycle, messages: toJson(messages) as Prisma.InputJsonValue } })
}

/**
 * Deletes a think cycle.
 * @returns the id of its agent, or null if there is no such cycle
 */
export async function deleteCycle(tx: Tx, id: string): Promise<string | null> {
  const [cycle] = await tx.$queryRaw<{ agentId: string }[]>`DELETE FROM "Cycle" WHERE id = ${id} RETURNING "agentId"`
  return cycle?.agentId ?? null
}

export async function deleteCyclesOfAgent(tx: Tx, agentId: string): Promise<void> {
  await tx.cycle.deleteMany({ where: { agentId } })
}

/** Deletes the think cycles in which agents received messages from a space. */
export async function deleteCyclesOfSpace(tx: Tx, agentIds: string[], spaceId: string): Promise<void> {
  await tx.$executeRaw`DELETE FROM "Cycle" WHERE "agentId" = ANY(${agentIds}::text[]) AND ${spaceId} = ANY(places)`
}
