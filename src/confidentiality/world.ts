import { Prisma } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'
import type { World } from './rules.ts'

/** A snapshot of spaces. It contains the confidential spaces and the spaces that were requested by id. */
export interface KnownWorld extends World {
  spaces: ReadonlyMap<string, KnownSpace>
}

export interface KnownSpace {
  id: string
  name: string
  confidential: boolean
  /** The version of the space. Every change to the space's members or settings increments it. */
  version: number
  humans: { id: string; name: string }[]
  /** Whether the entity `memberId` is a member of the space. */
  isOwn: boolean
}

interface Asked {
  /** The ids of spaces that are read only if they are confidential. */
  marks: readonly string[]
  /** The ids of spaces that are always read. */
  spaceIds?: readonly string[]
  /** The entity for which `isOwn` is computed. */
  memberId?: string
}

export async function readWorld(tx: Tx, { marks, spaceIds = [], memberId = '' }: Asked): Promise<KnownWorld> {
  return worldOf(
    await tx.$queryRaw<KnownSpace[]>`
      SELECT s.id, s.name, s.confidential, s.version, (
        SELECT coalesce(jsonb_agg(jsonb_build_object('id', e.id, 'name', e.name) ORDER BY e.name, e.id), '[]') FROM "Membership" m
        JOIN "Entity" e ON e.id = m."entityId" AND e.kind = 'HUMAN' WHERE m."spaceId" = s.id
      ) AS humans, EXISTS (SELECT 1 FROM "Membership" o WHERE o."spaceId" = s.id AND o."entityId" = ${memberId}) AS "isOwn"
      FROM "Space" s WHERE (s.confidential AND s.id = ANY(${[...marks]}::text[])) OR s.id = ANY(${[...spaceIds]}::text[])`,
  )
}

function worldOf(rows: readonly KnownSpace[]): KnownWorld {
  const spaces = new Map(rows.map((row) => [row.id, row]))
  const humans = new Map(rows.map((row) => [row.id, new Set(row.humans.map(({ id }) => id))]))
  return {
    spaces,
    isConfidential: (spaceId) => spaces.get(spaceId)?.confidential === true,
    humansOf: (spaceId) => humans.get(spaceId) ?? NOBODY,
  }
}

/**
 * Condition: a human is a member of all confidential spaces among these, so the human may read content from all of
 * them.
 */
export const isHeardBy = (humanId: Prisma.Sql, spaceIds: Prisma.Sql) => Prisma.sql`NOT EXISTS (
  SELECT 1 FROM "Space" s WHERE s.confidential AND s.id = ANY(${spaceIds})
    AND NOT EXISTS (SELECT 1 FROM "Membership" m WHERE m."spaceId" = s.id AND m."entityId" = ${humanId}))`

/** The same condition for all humans in a space. */
export const isHeardIn = (spaceId: Prisma.Sql, spaceIds: Prisma.Sql) => Prisma.sql`NOT EXISTS (
  SELECT 1 FROM "Space" s WHERE s.confidential AND s.id = ANY(${spaceIds}) AND s.id <> ${spaceId} AND EXISTS (
    SELECT 1 FROM "Membership" h JOIN "Entity" e ON e.id = h."entityId" AND e.kind = 'HUMAN' WHERE h."spaceId" = ${spaceId}
      AND NOT EXISTS (SELECT 1 FROM "Membership" m WHERE m."spaceId" = s.id AND m."entityId" = h."entityId")))`

/**
 * Returns the given confidential spaces of which a human is not a member, by human. The map has no entry for a human
 * without such spaces.
 */
export async function readUnheard(
  tx: Tx,
  asked: readonly { humanId: string; spaceId: string }[],
): Promise<Map<string, Set<string>>> {
  if (asked.length === 0) return new Map()
  const rows = await tx.$queryRaw<{ humanId: string; spaceIds: string[] }[]>`
    SELECT asked."humanId", array_agg(s.id) AS "spaceIds" FROM unnest(
      ${asked.map(({ humanId }) => humanId)}::text[], ${asked.map(({ spaceId }) => spaceId)}::text[]) AS asked("humanId", id)
    JOIN "Space" s ON s.id = asked.id AND s.confidential
    WHERE NOT EXISTS (SELECT 1 FROM "Membership" m WHERE m."spaceId" = s.id AND m."entityId" = asked."humanId")
    GROUP BY asked."humanId"`
  return new Map(rows.map(({ humanId, spaceIds }) => [humanId, new Set(spaceIds)]))
}

const NOBODY: ReadonlySet<string> = new Set()

/**
 * The state of a space in which a check has allowed writing. The result of the check is valid only while the space is
 * in this state.
 */
export interface Cleared {
  /** The version of the space. */
  version: number
  /** The confidential spaces whose content may be posted in the space. */
  from: string[]
}

/**
 * Condition on a row of "Space": content with these marks may be written in this space. The condition is true if the
 * space is not confidential and no other confidential space is a source. It is also true if a check has cleared every
 * confidential source (`cleared`) and the version of the space is unchanged.
 */
export function mayBeWritten(spaceId: string, marks: readonly string[], cleared: Cleared | null): Prisma.Sql {
  const known = [spaceId, ...(cleared?.from ?? [])]
  const isKnown = Prisma.sql`NOT EXISTS (
    SELECT 1 FROM "Space" c WHERE c.confidential AND c.id = ANY(${[...marks]}::text[]) AND c.id <> ALL(${known}::text[]))`
  const isAsCleared =
    cleared === null ? Prisma.sql`NOT "Space".confidential` : Prisma.sql`"Space".version = ${cleared.version}`
  return Prisma.sql`(${isAsCleared} AND ${isKnown})`
}
