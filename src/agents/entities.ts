import type { Entity } from '../generated/prisma/client.ts'
import { wellFormedIds } from '../lib/ids.ts'
import { inOrderOf } from '../lib/in-order.ts'
import type { Platform } from '../platform/platform.ts'

/** Reads entities, which have the fields that humans and agents have in common. */
export interface Entities {
  /** Returns entities in the order of the ids; null for an unknown id. Does not check visibility. */
  getMany(ids: readonly string[]): Promise<(Entity | null)[]>
}

export function createEntities({ db }: Pick<Platform, 'db'>): Entities {
  return {
    async getMany(ids) {
      const rows = await db.prisma.entity.findMany({ where: { id: { in: wellFormedIds(ids) } } })
      return inOrderOf(ids, rows)
    },
  }
}
