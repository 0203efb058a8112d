import { type Agent, Prisma } from '../generated/prisma/client.ts'
import { jsonbText } from '../lib/json.ts'
import type { Tx } from '../platform/db.ts'
import { IS_GONE_SQL } from './inbox-store.ts'

// Contains the statements that write the table "Agent", except `fork-store.ts`, which copies rows.

export async function insertAgent(tx: Tx, agent: Prisma.AgentUncheckedCreateInput): Promise<Agent> {
  return tx.agent.create({ data: agent })
}

export async function updateAgent(tx: Tx, id: string, changes: Prisma.AgentUncheckedUpdateInput): Promise<void> {
  await tx.agent.update({ where: { id }, data: changes })
}

/**
 * Deletes an agent. Foreign keys also delete its tools, servers, notes, plans, versions and draft. The row of its
 * entity remains.
 */
export async function deleteAgentRow(tx: Tx, id: string): Promise<void> {
  await tx.agent.delete({ where: { id } })
}

/**
 * Stores the agent card of a remote agent. The first card is also stored as the trusted one. Keeps the stored card if
 * it was read later. Returns the stored card as `card`, or no row if the agent now has another model.
 */
export const keepCardSql = (
  agent: { id: string; model: string },
  card: { readAt: number; fingerprint: string },
): Prisma.Sql => Prisma.sql`
  UPDATE "Agent" SET "remoteCard" = CASE
    WHEN coalesce(("remoteCard"->>'readAt')::double precision, 0) > ${card.readAt}::double precision THEN "remoteCard"
    ELSE ${jsonbText(card)}::jsonb
      || jsonb_build_object('trusted', coalesce("remoteCard"->>'trusted', ${card.fingerprint}::text)) END
  WHERE id = ${agent.id} AND model = ${agent.model} RETURNING "remoteCard" AS card`

/** Marks the most recently read card of a remote agent as trusted. */
export async function trustCard(tx: Tx, id: string): Promise<void> {
  await tx.$executeRaw`
    UPDATE "Agent" SET "remoteCard" = "remoteCard" || jsonb_build_object('trusted', "remoteCard"->>'fingerprint')
    WHERE id = ${id}`
}

/** Hides all previous think cycles from a persistent agent. Returns false if there is no such agent. */
export async function hideCycles(tx: Tx, id: string): Promise<boolean> {
  const count = await tx.$executeRaw`
    UPDATE "Agent" SET "firstCycle" = "cycleCount" WHERE id = ${id} AND mind = 'PERSISTENT'`
  return count > 0
}

/** Sets the pause after a think cycle. */
export const setRestSql = (id: string, restMs: number): Prisma.Sql => Prisma.sql`
  UPDATE "Agent" SET "restsUntil" = clock_timestamp() + ${restMs} * interval '1 millisecond' WHERE id = ${id}`

/**
 * Counts a think cycle that will be added to the consciousness, and returns the new count. Returns null, without
 * counting, if a source of the cycle's events was deleted.
 */
export async function countCycle(tx: Tx, id: string, runId: string): Promise<number | null> {
  const [agent] = await tx.$queryRaw<{ cycleCount: number }[]>`
    UPDATE "Agent" SET "cycleCount" = "cycleCount" + 1
    WHERE id = ${id} AND NOT EXISTS (SELECT 1 FROM "InboxEvent" e WHERE e."runId" = ${runId} AND ${IS_GONE_SQL})
    RETURNING "cycleCount"`
  return agent?.cycleCount ?? null
}
