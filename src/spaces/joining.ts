import type { Viewer } from '../access/viewer.ts'
import { Prisma } from '../generated/prisma/client.ts'
import { ForbiddenError, LimitExceededError } from '../lib/errors.ts'
import type { Tx } from '../platform/db.ts'

/** Maximum spaces of one agent, since each is listed in its prompt and may wake it. */
const MOST_SPACES_OF_AGENT = 1000

/**
 * Checks whether the viewer may add these agents to a space, and whether they have room for it.
 * Ignores humans.
 * @throws ForbiddenError by their `addableBy`; LimitExceededError over 1,000 spaces of an agent
 */
export async function checkAgentsMayJoin(tx: Tx, viewer: Viewer, ids: readonly string[]): Promise<void> {
  const shares = Prisma.sql`EXISTS (SELECT 1 FROM "Membership" own JOIN "Membership" its ON its."spaceId" = own."spaceId"
    WHERE own."entityId" = ${viewer.id} AND its."entityId" = a.id)`
  const agents = await tx.$queryRaw<{ isClosed: boolean; spaces: number }[]>`
    SELECT a."addableBy" = 'ADMINS' OR (a."addableBy" = 'SHARES_SPACE' AND NOT ${shares}) AS "isClosed",
      (SELECT count(*) FROM "Membership" m WHERE m."entityId" = a.id)::int AS spaces
    FROM "Agent" a WHERE a.id = ANY(${[...ids]}::text[])`
  if (viewer.scope !== 'ADMIN' && agents.some(({ isClosed }) => isClosed)) {
    throw new ForbiddenError('You may not add this agent (see its addableBy): ask an admin.')
  }
  if (agents.some(({ spaces }) => spaces >= MOST_SPACES_OF_AGENT)) {
    throw new LimitExceededError(`An agent can be a member of at most ${MOST_SPACES_OF_AGENT} spaces.`)
  }
}

/**
 * Counts a space that a human creates, in the transaction that creates it. The human's row
 * serializes concurrent creations, and still counts spaces that were deleted within the day. Spaces
 * created by an admin do not count.
 * @throws LimitExceededError for a human who has created `most` within a day; 0: no limit
 */
export async function countNewSpace(tx: Tx, viewer: Viewer, now: number, most: number): Promise<void> {
  if (viewer.scope !== 'HUMAN' || most === 0) return
  const [time, since] = [new Date(now), new Date(now - 86_400_000)]
  const counted = await tx.$executeRaw`
    INSERT INTO "SpaceCreator" AS c ("humanId", "createdAt")
    SELECT ${viewer.id}, ARRAY[${time}::timestamptz]
    WHERE (SELECT count(*) FROM "Space" WHERE "creatorId" = ${viewer.id} AND "createdAt" > ${since}) < ${most}
    ON CONFLICT ("humanId") DO UPDATE SET
      "createdAt" = ARRAY(SELECT t FROM unnest(c."createdAt") t WHERE t > ${since}) || EXCLUDED."createdAt"
    WHERE (SELECT count(*) FROM unnest(c."createdAt") t WHERE t > ${since}) < ${most}`
  if (counted > 0) return
  throw new LimitExceededError(
    `You have created ${most} spaces within a day (PARLEY_MAX_NEW_SPACES_PER_DAY): try again later, or ask an admin to create one.`,
  )
}
