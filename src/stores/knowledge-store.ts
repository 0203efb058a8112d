import { isOfLabel, type Marks } from '../confidentiality/marks.ts'
import { type Goal, Prisma } from '../generated/prisma/client.ts'
import { newId } from '../lib/ids.ts'
import type { Tx } from '../platform/db.ts'

// Contains the statements that write the tables "Memory" and "Goal", except `fork-store.ts`, which copies rows.

/** Writes memories by key. A memory with the same key but another label is a different memory. */
export async function upsertMemories(
  tx: Tx,
  agentId: string,
  values: ReadonlyMap<string, string>,
  { updatedAt, places, label }: Marks & { updatedAt: Date },
): Promise<void> {
  const ids = [...values.keys()].map(() => newId('mem'))
  await tx.$executeRaw`
    WITH given AS (
      SELECT * FROM unnest(${ids}::text[], ${[...values.keys()]}::text[], ${[...values.values()]}::text[]) AS given(id, key, value)
    ), known AS (
      UPDATE "Memory" m SET value = given.value, "updatedAt" = ${updatedAt}, places = ${places}::text[], label = ${label}::text[]
      FROM given WHERE m.key = given.key AND m.id IN (
        SELECT id FROM "Memory" WHERE "agentId" = ${agentId} AND ${isOfLabel({ places, label })}
      ) RETURNING m.key
    )
    INSERT INTO "Memory" (id, "agentId", key, value, "updatedAt", places, label)
    SELECT given.id, ${agentId}, given.key, given.value, ${updatedAt}, ${places}::text[], ${label}::text[]
    FROM given WHERE given.key NOT IN (SELECT key FROM known)`
}

/** Deletes the memories with these keys that satisfy the condition. Returns the keys of the deleted memories. */
export async function deleteMemories(
  tx: Pick<Tx, '$queryRaw'>,
  agentId: string,
  keys: readonly string[],
  condition: Prisma.Sql,
): Promise<string[]> {
  const rows = await tx.$queryRaw<{ key: string }[]>`
    DELETE FROM "Memory" WHERE "agentId" = ${agentId} AND ${condition} AND key = ANY(${[...keys]}::text[]) RETURNING key`
  return rows.map(({ key }) => key)
}

export async function insertMemories(tx: Pick<Tx, 'memory'>, memories: Prisma.MemoryCreateManyInput[]): Promise<void> {
  await tx.memory.createMany({ data: memories })
}

export async function insertGoal(tx: Tx, goal: Prisma.GoalUncheckedCreateInput): Promise<Goal> {
  return tx.goal.create({ data: goal })
}

export async function insertGoals(tx: Pick<Tx, 'goal'>, goals: Prisma.GoalCreateManyInput[]): Promise<void> {
  await tx.goal.createMany({ data: goals })
}

/** Changes a goal of an agent. Returns null if the agent has no such goal. */
export async function updateGoal(
  tx: Tx,
  { id, agentId }: Pick<Goal, 'id' | 'agentId'>,
  changes: Prisma.GoalUncheckedUpdateManyInput,
): Promise<Goal | null> {
  const [goal] = await tx.goal.updateManyAndReturn({ where: { id, agentId }, data: changes })
  return goal ?? null
}

/** Deletes the given goals that satisfy the condition. Returns the ids of the deleted goals. */
export async function deleteGoals(
  tx: Pick<Tx, '$queryRaw'>,
  agentId: string,
  ids: readonly string[],
  condition: Prisma.Sql,
): Promise<string[]> {
  const rows = await tx.$queryRaw<{ id: string }[]>`
    DELETE FROM "Goal" WHERE "agentId" = ${agentId} AND ${condition} AND id = ANY(${[...ids]}::text[]) RETURNING id`
  return rows.map(({ id }) => id)
}

/**
 * Deletes the memories and goals that agents received directly in a space. Keeps those that also come from one of the
 * spaces in `unlessFrom`.
 */
export async function deleteNotesOfSpace(
  tx: Tx,
  agentIds: readonly string[],
  spaceId: string,
  { unlessFrom = [] }: { unlessFrom?: readonly string[] } = {},
): Promise<void> {
  const isKept = unlessFrom.length === 0 ? Prisma.empty : Prisma.sql`AND NOT places && ${[...unlessFrom]}::text[]`
  const isGone = Prisma.sql`"agentId" = ANY(${[...agentIds]}::text[]) AND ${spaceId} = ANY(places) ${isKept}`
  await tx.$executeRaw`DELETE FROM "Memory" WHERE ${isGone}`
  await tx.$executeRaw`DELETE FROM "Goal" WHERE ${isGone}`
}
