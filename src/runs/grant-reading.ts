import type { Viewer } from '../access/viewer.ts'
import type { GrantDecision } from '../generated/prisma/client.ts'
import { wellFormedIds } from '../lib/ids.ts'
import { inOrderOf } from '../lib/in-order.ts'
import type { Platform } from '../platform/platform.ts'
import { isAdmin } from '../rules/permissions.ts'
import type { ReadGrant } from '../rules/standing-grants.ts'
import {
  listGrants,
  listGrantsOfSpaces,
  readGrantDeciders,
  readGrantDecisions,
  readGrants,
  readSeenGrants,
} from '../stores/grant-store.ts'

/** The people who can approve a grant, and their decisions. */
export interface GrantStanding {
  /** The humans whose approval counts. */
  deciderIds: string[]
  /** The decisions, oldest first. */
  decisions: (GrantDecision & { counts: boolean })[]
}

/** Reads standing grants. */
export interface GrantReading {
  /** Returns grants in the order of the ids; null for an unknown id. Does not check visibility. */
  getMany(ids: readonly string[]): Promise<(ReadGrant | null)[]>
  /**
   * Returns the ids of those grants that the viewer may see. These are the grants in the viewer's spaces, and the
   * grants that the viewer may approve. An admin may see all grants.
   */
  visible(viewer: Viewer, ids: readonly string[]): Promise<Set<string>>
  /** Returns the newest 100 grants that the viewer may see, newest first. */
  list(viewer: Viewer, filter: { agentId: string | null; spaceId: string | null }): Promise<ReadGrant[]>
  /** Returns the newest 100 grants of each space, newest first. Does not check visibility. */
  ofSpaces(spaceIds: readonly string[]): Promise<Map<string, ReadGrant[]>>
  standingOf(ids: readonly string[]): Promise<Map<string, GrantStanding>>
}

const MOST_LISTED = 100

export function createGrantReading({ db }: Pick<Platform, 'db'>): GrantReading {
  return {
    getMany: async (ids) => inOrderOf(ids, await readGrants(db.prisma, wellFormedIds(ids))),
    async visible(viewer, ids) {
      if (isAdmin(viewer)) return new Set(ids)
      if (viewer.scope === 'SERVICE' || ids.length === 0) return new Set()
      return new Set(await readSeenGrants(db.prisma, viewer.id, ids))
    },
    async list(viewer, { agentId, spaceId }) {
      if (viewer.scope === 'SERVICE') return []
      const given = [agentId, spaceId].filter((id) => id !== null)
      if (wellFormedIds(given).length < given.length) return []
      const filter = {
        ...(agentId === null ? {} : { agentId }),
        ...(spaceId === null ? {} : { spaceId }),
        ...(viewer.scope === 'HUMAN' ? { humanId: viewer.id } : {}),
      }
      return listGrants(db.prisma, filter, MOST_LISTED)
    },
    async ofSpaces(spaceIds) {
      const grants = await listGrantsOfSpaces(db.prisma, spaceIds, MOST_LISTED)
      return Map.groupBy(grants, ({ spaceId }) => spaceId ?? '')
    },
    async standingOf(ids) {
      const [deciders, decisions] = await Promise.all([
        readGrantDeciders(db.prisma, ids),
        readGrantDecisions(db.prisma, ids),
      ])
      const decidersByGrant = Map.groupBy(deciders, ({ grantId }) => grantId)
      const decisionsByGrant = Map.groupBy(decisions, ({ grantId }) => grantId)
      return new Map(
        ids.map((id) => {
          const deciderIds = (decidersByGrant.get(id) ?? []).map((decider) => decider.id)
          const counted = (decisionsByGrant.get(id) ?? []).map((decision) => ({
            ...decision,
            counts: deciderIds.includes(decision.humanId),
          }))
          return [id, { deciderIds, decisions: counted }]
        }),
      )
    },
  }
}
