import type { ModelMessage } from 'ai'
import type { Prisma } from '../generated/prisma/client.ts'
import { toJson } from '../lib/json.ts'
import type { Tx } from '../platform/db.ts'

// The only writer of Cycle, which contains the think cycles that a persistent agent remembers.

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
 * Deletes a cycle.
 * @returns the id of its agent; null if there is no such cycle
 */
export async function deleteCycle(tx: Tx, id: string): Promise<string | null> {
  const [cycle] = await tx.$queryRaw<{ agentId: string }[]>`DELETE FROM "Cycle" WHERE id = ${id} RETURNING "agentId"`
  return cycle?.agentId ?? null
}

export async function deleteCyclesOfAgent(tx: Tx, agentId: string): Promise<void> {
  await tx.cycle.deleteMany({ where: { agentId } })
}

/** Deletes the cycles in which agents received messages of a space. */
export async function deleteCyclesOfSpace(tx: Tx, agentIds: string[], spaceId: string): Promise<void> {
  await tx.$executeRaw`DELETE FROM "Cycle" WHERE "agentId" = ANY(${agentIds}::text[]) AND ${spaceId} = ANY(places)`
}
