import { Prisma } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'
import type { ErasedHuman } from './erased-human.ts'

/** The existing spaces of which the human is or was a member. */
const SPACES_OF = (humanId: string) => Prisma.sql`
  SELECT "spaceId" FROM "Membership" WHERE "entityId" = ${humanId} UNION SELECT "spaceId" FROM "FormerMember" WHERE "entityId" = ${humanId}`

/**
 * The facts that decide which of several people with the same name is meant: the spaces where the human was, and the agents
 * and runs that have dealt with the human.
 */
export interface Near {
  humanId: string
  spaceIds: string[]
  agentIds: string[]
}

/** Returns null if nobody else has the name, so that every occurrence means this human. */
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
 * Whether a name means the erased human. If two people with the name were in the same space, the answer is yes for both:
 * it is better to replace too many names than to keep one. The same applies where the human decided on a call.
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
