import { LRUCache } from 'lru-cache'
import { type EntityKind, type Mind, Prisma, type Routing } from '../generated/prisma/client.ts'
import { type OverBudget, overBudget } from '../platform/budget-state.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import type { AgentMember, Room } from './route.ts'

/** A space as routing sees it, cached. */
export interface KnownRoom extends Room {
  spaceName: string
  /** Incremented on each change; see the triggers on "Space" and "Membership". */
  version: number
  members: Map<string, { name: string; kind: EntityKind }>
}

/** A cache of spaces for routing. */
export interface Rooms {
  /**
   * Returns the cached space. The caller must check its `version` in the statement that writes the
   * decision. Null: there is no such space.
   */
  known(spaceId: string): Promise<KnownRoom | null>
  /** Reads the space in this transaction, with the budgets that apply to runs of the message. */
  read(tx: Tx, message: { spaceId: string; rootId: string }): Promise<KnownRoom | null>
  /** Drops a space from the cache. */
  forget(spaceId: string): void
}

/** Maximum number of cached members, over all spaces. */
const MOST_REMEMBERED = 200_000

interface MemberRow {
  id: string | null
  name: string
  kind: EntityKind
  mind: Mind | null
  paused: boolean | null
  over: OverBudget | null
  joinedAt: Date
  spaceName: string
  version: number
  routing: Routing
  adminAgentId: string | null
  lastPickedId: string | null
  lastPickedJoinedAt: Date | null
}

export function createRooms({ db }: Pick<Platform, 'db'>): Rooms {
  const remembered = new LRUCache<string, KnownRoom>({
    maxSize: MOST_REMEMBERED,
    sizeCalculation: ({ members }) => members.size + 1,
  })

  return {
    async known(spaceId) {
      const before = remembered.get(spaceId)
      if (before !== undefined) return before
      const room = roomOf(await db.query<MemberRow>(membersOf(spaceId, NOBODY)))
      if (room !== null) remembered.set(spaceId, room)
      return room
    },
    read: async (tx, { spaceId, rootId }) => {
      const over = overBudget({ agentId: Prisma.sql`a.id`, spaceId: Prisma.sql`s.id`, rootId })
      return roomOf(
        await tx.$queryRaw<MemberRow[]>(membersOf(spaceId, Prisma.sql`CASE WHEN a.id IS NOT NULL THEN ${over} END`)),
      )
    },
    forget: (spaceId) => void remembered.delete(spaceId),
  }
}

/** Budget state changes with every generation, so it is not cached. */
const NOBODY = Prisma.sql`NULL::text`

const membersOf = (spaceId: string, over: Prisma.Sql) => Prisma.sql`
  SELECT e.id, e.name, e.kind, a.mind, a.paused, ${over} AS over, m."joinedAt", s.name AS "spaceName", s.version, s.routing, s."adminAgentId",
    s."lastPickedId", s."lastPickedJoinedAt"
  FROM "Space" s
  LEFT JOIN "Membership" m ON m."spaceId" = s.id
  LEFT JOIN "Entity" e ON e.id = m."entityId"
  LEFT JOIN "Agent" a ON a.id = e.id
  WHERE s.id = ${spaceId}
  ORDER BY m."joinedAt", e.id`

/** The rows are in join order. */
function roomOf(rows: MemberRow[]): KnownRoom | null {
  const [space] = rows
  if (space === undefined) return null
  const { spaceName, version, routing, adminAgentId } = space
  return {
    ...{ spaceName, version, routing, adminAgentId },
    lastPicked: placeOf(space),
    members: new Map(rows.flatMap(({ id, name, kind }) => (id === null ? [] : [[id, { name, kind }]]))),
    agents: rows.flatMap(({ id, name, mind, paused, over, joinedAt }): AgentMember[] =>
      id === null || mind === null
        ? []
        : [{ id, name, mind, paused: paused === true, over, joinedAt: joinedAt.getTime() }],
    ),
  }
}

function placeOf({ lastPickedId, lastPickedJoinedAt }: MemberRow): Room['lastPicked'] {
  if (lastPickedId === null || lastPickedJoinedAt === null) return null
  return { id: lastPickedId, joinedAt: lastPickedJoinedAt.getTime() }
}
