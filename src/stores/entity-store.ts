import type { Entity, Prisma } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'

// Contains the statements that write the table "Entity". `human-store.ts` contains functions for humans, which use
// these statements.

export async function insertEntity(tx: Tx, entity: Prisma.EntityUncheckedCreateInput): Promise<Entity> {
  return tx.entity.create({ data: entity })
}

export async function updateEntity(tx: Tx, id: string, changes: Prisma.EntityUncheckedUpdateInput): Promise<void> {
  await tx.entity.update({ where: { id }, data: changes })
}

const ofHuman = (id: string) => ({ id, kind: 'HUMAN' as const, goneAt: null })

/** Changes a human. Returns null if the human does not exist or was erased. */
export async function updateLivingHuman(
  tx: Tx,
  id: string,
  changes: Prisma.EntityUncheckedUpdateManyInput,
): Promise<Entity | null> {
  const [human] = await tx.entity.updateManyAndReturn({ where: ofHuman(id), data: changes })
  return human ?? null
}

/** Sets the role of a human. Returns false if the human does not exist or was erased. */
export async function setRole(tx: Tx, id: string, role: Entity['role']): Promise<boolean> {
  const { count } = await tx.entity.updateMany({ where: ofHuman(id), data: { role } })
  return count > 0
}

/**
 * Replaces the stored list of work (as JSON) that remains for an erasure, unless another process has changed the
 * list.
 */
export async function replaceErasureTask(
  prisma: Pick<Tx, '$executeRaw'>,
  id: string,
  { before, task }: { before: string; task: string | null },
): Promise<void> {
  await prisma.$executeRaw`
    UPDATE "Entity" SET formerly = ${task}::jsonb WHERE id = ${id} AND formerly = ${before}::jsonb`
}

/** Creates copies of agents' entities for the copy of a space. */
export async function copyEntities(
  tx: Tx,
  { intoId, agentIds }: { intoId: string; agentIds: readonly string[] },
  at: Date,
): Promise<void> {
  await tx.$executeRaw`
    INSERT INTO "Entity" (id, kind, name, "createdAt")
    SELECT "copiedId"(t.id, ${intoId}), t.kind, t.name, ${at} FROM "Entity" t WHERE t.id = ANY(${[...agentIds]}::text[])`
}
