// The state of spaces that routing needs. Routing reads it in a transaction (`readRoom`) or from a cache
// (`createRooms`). The cache is part of an optimization. post.ts describes the optimization, its gain, and how to
// remove it.
import { LRUCache } from 'lru-cache'
import { type EntityKind, type Message, type Mind, Prisma, type Routing } from '../generated/prisma/client.ts'
import type { OverBudget } from '../lib/budget.ts'
import { overBudget, rootOfMessage } from '../platform/budget-state.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import type { NotifyLevel } from '../rules/notices.ts'
import type { AgentMember, Room } from '../rules/routing.ts'
import { lastPickedIn } from '../stores/thread-store.ts'

/** A space with all its members, for routing. */
export interface FullRoom extends Room {
  spaceName: string
  /** The version of the space. Triggers on "Space" and "Membership" increment it on each change. */
  version: number
  members: Map<string, { name: string; kind: EntityKind; level: NotifyLevel }>
}

/** Caches spaces for routing. */
export interface Rooms {
  /**
   * Returns the cached space without budgets, or null if the space does not exist. A caller that makes a decision
   * from the result must check `version` in the statement that writes the decision.
   */
  cached(spaceId: string): Promise<FullRoom | null>
  /** Drops a space from the cache. */
  forget(spaceId: string): void
}

/** The maximum number of cached members in all spaces together. */
const MOST_CACHED_MEMBERS = 200_000

interface MemberRow {
  id: string | null
  name: string
  kind: EntityKind
  mind: Mind | null
  paused: boolean | null
  over: OverBudget | null
  level: NotifyLevel
  joinedAt: Date
  spaceName: string
  version: number
  routing: Routing
  adminAgentId: string | null
  mentionNarrows: boolean
  lastPickedId: string | null
  lastPickedJoinedAt: Date | null
}

export function createRooms({ db }: Pick<Platform, 'db'>): Rooms {
  const rooms = new LRUCache<string, FullRoom>({
    maxSize: MOST_CACHED_MEMBERS,
    sizeCalculation: ({ members }) => members.size + 1,
  })

  return {
    async cached(spaceId) {
      const before = rooms.get(spaceId)
      if (before !== undefined) return before
      const room = roomOf(await db.query<MemberRow>(membersOf(spaceId, NO_BUDGET)))
      if (room !== null) rooms.set(spaceId, room)
      return room
    },
    forget: (spaceId) => void rooms.delete(spaceId),
  }
}

/**
 * Reads the space in this transaction, with the budgets that apply to runs of the message. For a message in a thread,
 * also reads who last had the turn in the thread.
 */
export async function readRoom(
  tx: Tx,
  { spaceId, threadRootId, ...message }: Pick<Message, 'spaceId' | 'rootId' | 'senderId' | 'threadRootId'>,
): Promise<FullRoom | null> {
  const over = overBudget({ agentId: Prisma.sql`a.id`, spaceId: Prisma.sql`s.id`, ...rootOfMessage(message) })
  const ofAgents = Prisma.sql`CASE WHEN a.id IS NOT NULL THEN ${over} END`
  const room = roomOf(await tx.$queryRaw<MemberRow[]>(membersOf(spaceId, ofAgents)))
  if (room === null || threadRootId === null || room.routing !== 'MENTION_CHAIN') return room
  return { ...room, lastPicked: await lastPickedIn(tx, threadRootId) }
}

/**
 * A placeholder in the SQL for the budget state. The budget state is not cached, because it changes with every
 * generation.
 */
const NO_BUDGET = Prisma.sql`NULL::text`

const membersOf = (spaceId: string, over: Prisma.Sql) => Prisma.sql`
  SELECT e.id, e.name, e.kind, a.mind, a.paused, ${over} AS over, m."notifyLevel"::text AS level, m."joinedAt", s.name AS "spaceName", s.version, s.routing, s."adminAgentId", s."mentionNarrows",
    s."lastPickedId", s."lastPickedJoinedAt"
  FROM "Space" s
  LEFT JOIN "Membership" m ON m."spaceId" = s.id
  LEFT JOIN "Entity" e ON e.id = m."entityId"
  LEFT JOIN "Agent" a ON a.id = e.id
  WHERE s.id = ${spaceId}
  ORDER BY m."joinedAt", e.id`

/** Builds a room from the rows of its members, which are ordered by the time of joining. */
function roomOf(rows: MemberRow[]): FullRoom | null {
  const [space] = rows
  if (space === undefined) return null
  const { spaceName, version, routing, adminAgentId, mentionNarrows } = space
  return {
    spaceName,
    version,
    routing,
    adminAgentId,
    mentionNarrows,
    lastPicked: placeOf(space),
    members: new Map(rows.flatMap(({ id, name, kind, level }) => (id === null ? [] : [[id, { name, kind, level }]]))),
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
