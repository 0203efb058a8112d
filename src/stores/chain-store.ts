import { Prisma, type Chain as Row } from '../generated/prisma/client.ts'
import { inOrderOf } from '../lib/in-order.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import type { Chain, Waiter } from '../rules/chain.ts'

// Contains the statements that write the table "Chain".

export interface Chains {
  getMany(ids: readonly string[]): Promise<(Chain | null)[]>
}

export function createChains({ db }: Platform): Chains {
  return {
    async getMany(ids) {
      const rows = await db.prisma.chain.findMany({ where: { id: { in: [...ids] } } })
      return inOrderOf(ids, rows.map(chainOfRow))
    },
  }
}

export function chainOfRow({ replyStack, mentionedPairs, ...row }: Row): Chain {
  return {
    ...row,
    replyStack: replyStack as unknown as Waiter[],
    mentionedPairs: mentionedPairs as string[],
  }
}

/** Locks the row of a chain until the transaction ends, and reads it. */
export async function lockChain(tx: Tx, id: string): Promise<Chain | null> {
  await tx.$queryRaw`SELECT 1 FROM "Chain" WHERE id = ${id} FOR UPDATE`
  const row = await tx.chain.findUnique({ where: { id } })
  return row === null ? null : chainOfRow(row)
}

/** Returns the ids of the given chains that have not ended. */
export async function unendedChains(tx: Tx, ids: readonly string[]): Promise<Set<string>> {
  if (ids.length === 0) return new Set()
  const rows = await tx.chain.findMany({
    where: { id: { in: [...ids] }, holderId: { not: null } },
    select: { id: true },
  })
  return new Set(rows.map(({ id }) => id))
}

/**
 * Returns a CTE that starts a chain in the space of the CTE `message`. The first row of the CTE `runs`, if any, gets
 * the turn.
 */
export const insertChainSql = (chainId: string, holderId: string): Prisma.Sql => Prisma.sql`
  INSERT INTO "Chain" (id, "spaceId", depth, "holderId", "holderRunId")
  SELECT ${chainId}, "spaceId", 1, ${holderId}, (SELECT id FROM runs LIMIT 1) FROM message`

/** Inserts new chains in which no agent waits and no mention has been made. */
export async function insertChains(
  tx: Tx,
  chains: Pick<Chain, 'id' | 'spaceId' | 'depth' | 'label' | 'holderId' | 'holderRunId'>[],
): Promise<void> {
  if (chains.length > 0) await tx.chain.createMany({ data: chains })
}

/** Stores the turn and the state of a chain. */
export async function saveChain(tx: Tx, { id, replyStack, ...chain }: Chain): Promise<void> {
  const stack = replyStack.map((waiter) => ({ ...waiter }))
  await tx.chain.update({ where: { id }, data: { ...chain, replyStack: stack } })
}

/** Reopens an ended chain for the retry of its last run, which gets the turn. */
export async function reopenChain(tx: Tx, id: string, holder: Pick<Chain, 'holderId' | 'holderRunId'>): Promise<void> {
  await tx.chain.update({ where: { id }, data: holder })
}

export async function deleteChainsOfSpace(tx: Tx, spaceId: string): Promise<void> {
  await tx.chain.deleteMany({ where: { spaceId } })
}
