import type { Viewer } from '../access/viewer.ts'
import { Prisma } from '../generated/prisma/client.ts'
import { ForbiddenError, LimitExceededError } from '../lib/errors.ts'
import type { Tx } from '../platform/db.ts'

/** Spaces that one agent is in, at most: each is told to it, and may wake it. */
const MOST_SPACES_OF_AGENT = 1000
/** Spaces that a human creates within a day, at most; what an admin creates for it does not count. */
const MOST_NEW_SPACES = 100

/**
 * Whether the viewer may put these, as far as they are agents, into a space of its own, and there is room for them there.
 * @throws ForbiddenError as their `addableBy` says, LimitExceededError past 1,000 spaces of an agent
 */
export async function checkAgentsMayJoin(tx: Tx, viewer: Viewer, ids: readonly string[]): Promise<void> {
  const shares = Prisma.sql`EXISTS (SELECT 1 FROM "Membership" own JOIN "Membership" its ON its."spaceId" = own."spaceId"
    WHERE own."entityId" = ${viewer.id} AND its."entityId" = a.id)`
  const agents = await tx.$queryRaw<{ isClosed: boolean; spaces: number }[]>`
    SELECT a."addableBy" = 'ADMINS' OR (a."addableBy" = 'SHARES_SPACE' AND NOT ${shares}) AS "isClosed",
      (SELECT count(*) FROM "Membership" m WHERE m."entityId" = a.id)::int AS spaces
    FROM "Agent" a WHERE a.id = ANY(${[...ids]}::text[])`
  if (viewer.scope !== 'ADMIN' && agents.some(({ isClosed }) => isClosed)) {
    throw new ForbiddenError('Not everybody may add this agent (its addableBy says who): ask an admin.')
  }
  if (agents.some(({ spaces }) => spaces >= MOST_SPACES_OF_AGENT)) {
    throw new LimitExceededError(`An agent is in at most ${MOST_SPACES_OF_AGENT} spaces.`)
  }
}

/** @throws LimitExceededError for a human who has created as many spaces as one may within a day */
export async function checkMayCreateMore(tx: Tx, viewer: Viewer, now: number): Promise<void> {
  if (viewer.scope !== 'HUMAN') return
  const since = new Date(now - 86_400_000)
  const count = await tx.space.count({ where: { creatorId: viewer.id, createdAt: { gt: since } } })
  if (count >= MOST_NEW_SPACES) {
    throw new LimitExceededError(`You have created ${MOST_NEW_SPACES} spaces within a day: ask an admin for more.`)
  }
}
