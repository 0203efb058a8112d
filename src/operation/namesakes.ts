import { Prisma } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'
import type { ErasedHuman } from './erased-human.ts'

/** Selects the existing spaces of which the human is or was a member. */
const SPACES_OF = (humanId: string) => Prisma.sql`
  SELECT "spaceId" FROM "Membership" WHERE "entityId" = ${humanId} UNION SELECT "spaceId" FROM "FormerMember" WHERE "entityId" = ${humanId}`

/**
 * Facts that show which of several people with the same name is meant in a text. They are the spaces of which the human
 * is or was a member, and the agents that are in those spaces or have runs that the human triggered.
 */
export interface Near {
  humanId: string
  spaceIds: string[]
  agentIds: string[]
}

/** Returns null if nobody else has the name, because then every occurrence means this human. */
export async function surroundingsOf(tx: Tx, { id, name }: ErasedHuman): Promise<Near | null> {
  const namesakes = await tx.entity.count({ where: { name, goneAt: null, id: { not: id } } })
  if (namesakes === 0) return null
  const spaces = await tx.$queryRaw<{ spaceId: string }[]>(SPACES_OF(id))
  const agents = await tx.$queryRaw<{ id: string }[]>`
    SELECT m."entityId" AS id FROM (
      SELECT "spaceId", "entityId" FROM "Membership" UNION SELECT "spaceId", "entityId" FROM "FormerMember"
    ) m WHERE m."spaceId" IN (${SPACES_OF(id)}) UNION SELECT "agentId" FROM "Run" WHERE "triggerSenderId" = ${id}`
  return {
    humanId: id,
    spaceIds: spaces.map(({ spaceId }) => spaceId),
    agentIds: agents.map(({ id: agentId }) => agentId),
  }
}

/**
 * Condition: the name in a row `t` may mean the erased human. If two people with the same name were in a space, the
 * condition is true for both, because it is better to replace too many names than too few. The same applies to rows
 * about calls on which the human decided.
 */
export function isNear(
  { humanId, spaceIds, agentIds }: Near,
  { table, agent, runs }: { table: string; agent: string; runs: string[] },
) {
  const isOfAgent = Prisma.sql`t.${Prisma.raw(`"${agent}"`)} = ANY(${agentIds}::text[]) AND (
    t.places = '{}' OR t.places && ${spaceIds}::text[] OR NOT t.places <@ ARRAY(
      SELECT s.id FROM "Space" s WHERE s.id = ANY(t.places) AND s."deletedAt" IS NULL))`
  const ofRuns = runs.map((column) => Prisma.sql`c."runId" = t.${Prisma.raw(`"${column}"`)}`)
  const call = table === 'InboxEvent' ? Prisma.sql`starts_with(t."dedupKey", c.id) OR ` : Prisma.empty
  const isOfDecision = Prisma.sql`EXISTS (SELECT 1 FROM "Decision" d JOIN "ToolCall" c ON c.id = d."toolCallId"
    WHERE d."humanId" = ${humanId} AND (${call}${Prisma.join(ofRuns, ' OR ')}))`
  return Prisma.sql`((${isOfAgent}) OR ${isOfDecision})`
}
