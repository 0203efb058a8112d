import { createHash } from 'node:crypto'
import { Prisma } from '../generated/prisma/client.ts'
import type { Database, Tx } from '../platform/db.ts'

// The statements that read and write "Conversation".

interface Parties {
  humanId: string
  agentId: string
}

const ofParties = ({ humanId, agentId }: Parties) => `${humanId} ${agentId} `

/** Returns the key of a conversation. `thread`: what identifies it for the client, of any length. */
export const conversationKey = (parties: Parties, thread: string): string =>
  ofParties(parties) + createHash('sha256').update(thread).digest('base64url')

/** Condition on a space `s`: it is not deleted, and both are its members. */
const isOpenSql = ({ humanId, agentId }: Parties): Prisma.Sql => Prisma.sql`s."deletedAt" IS NULL
  AND EXISTS (SELECT 1 FROM "Membership" WHERE "spaceId" = s.id AND "entityId" = ${humanId})
  AND EXISTS (SELECT 1 FROM "Membership" WHERE "spaceId" = s.id AND "entityId" = ${agentId})`

/** Returns the space of a conversation; null if there is none, or it was deleted, or one of the two has left it. */
export async function findConversation(
  prisma: Pick<Database['prisma'] | Tx, '$queryRaw'>,
  key: string,
  parties: Parties,
): Promise<string | null> {
  const [found] = await prisma.$queryRaw<{ id: string }[]>`
    SELECT s.id FROM "Conversation" c JOIN "Space" s ON s.id = c."spaceId" WHERE c.key = ${key} AND ${isOpenSql(parties)}`
  return found?.id ?? null
}

/** Makes others that begin the same conversation wait until the transaction has ended. */
export async function lockConversation(tx: Tx, key: string): Promise<void> {
  await tx.$executeRaw`SELECT pg_advisory_xact_lock(hashtextextended(${key}, 0))`
}

/** Records the space of a conversation, instead of an earlier one. */
export async function putConversation(tx: Tx, key: string, spaceId: string): Promise<void> {
  await tx.conversation.upsert({ where: { key }, create: { key, spaceId }, update: { spaceId } })
}

/** A message of a conversation: its sender, and its text as `Message.text`. */
export interface Utterance {
  messageId: string
  spaceId: string
  senderId: string
  text: string
}

const MOST_CANDIDATES = 20

/**
 * Returns the ends of the newest open conversations of the two in which the human wrote this text: the messages from there
 * on, in their order.
 */
export async function conversationsAfter(
  prisma: Pick<Database['prisma'], '$queryRaw'>,
  parties: Parties,
  text: string,
): Promise<Utterance[][]> {
  const { humanId } = parties
  const prefix = ofParties(parties)
  const rows = await prisma.$queryRaw<Utterance[]>`
    SELECT m.id AS "messageId", m."spaceId", m."senderId", coalesce("searchTextOf"(m.parts), '') AS text
    FROM (
      SELECT c."spaceId" AS id, (
        SELECT max(asked.seq) FROM "Message" asked
        WHERE asked."spaceId" = c."spaceId" AND asked."senderId" = ${humanId} AND asked.parts->0->>'text' = ${text}) AS seq
      FROM "Conversation" c JOIN "Space" s ON s.id = c."spaceId"
      WHERE c.key >= ${prefix} AND c.key < ${`${prefix}\x7f`} AND ${isOpenSql(parties)}
      ORDER BY c."spaceId" DESC) found
    JOIN "Message" m ON m."spaceId" = found.id AND m.seq >= found.seq AND m.seq < found.seq + ${MOST_CANDIDATES}
    ORDER BY m."spaceId" DESC, m.seq LIMIT ${MOST_CANDIDATES * MOST_CANDIDATES}`
  return [...Map.groupBy(rows, ({ spaceId }) => spaceId).values()]
}
