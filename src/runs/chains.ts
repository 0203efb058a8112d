import { wellFormedIds } from '../lib/ids.ts'
import type { Platform } from '../platform/platform.ts'

/** Agents that hand a conversation on. */
export interface Chain {
  id: string
  /** Runs in it so far, re-triggers included. */
  depth: number
  /** Who waits to be called back, the last to be asked last. */
  replyStack: { entityId: string; reason: string | null }[]
}

export interface Chains {
  getMany(ids: readonly string[]): Promise<(Chain | null)[]>
}

export function createChains({ db }: Platform): Chains {
  return {
    async getMany(ids) {
      const rows = await db.prisma.chain.findMany({ where: { id: { in: wellFormedIds(ids) } } })
      const byId = new Map(rows.map((row) => [row.id, { ...row, replyStack: row.replyStack as Chain['replyStack'] }]))
      return ids.map((id) => byId.get(id) ?? null)
    },
  }
}
