import { createHash } from 'node:crypto'
import { Prisma } from '../generated/prisma/client.ts'
import type { Database, Tx } from '../platform/db.ts'

// Contains the statements that read and write the table "Conversation".

interface Parties {
  humanId: string
  agentId: string
}

const ofParties = ({ humanId, agentId }: Parties) => `${humanId} ${agentId} `

/** Returns the key of a conversation. `thread`: the client's id of the conversation, of any length. */
export const conversationKey = (parties: Parties, thread: string): string =>
  ofParties(parties) + createHash('sha256').update(thread).digest('base64url')

/** SQL condition on a space `s`: the space is not deleted, and both parties are members. */
const isOpenSql = ({ humanId, agentId }: Parties): Prisma.Sql => Prisma.sql`s."deletedAt" IS NULL
  AND EXISTS (SELECT 1 FROM "Membership" WHERE "spaceId" = s.id AND "entityId" = ${humanId})
  AND EXISTS (SELECT 1 FROM "Membership" WHERE "spaceId" = s.id AND "entityId" = ${agentId})`

/**
 * Returns the space of a conversation. Returns null if there is none, if it was deleted, or if one of the parties has
 * left it.
 */
export async function findConversation(
  prisma: Pick<Database['prisma'] | Tx, '$queryRaw'>,
  key: string,
  parties: Parties,
): Promise<string | null> {
  const [found] = await prisma.$queryRaw<{ id: string }[]>`
    SELECT s.id FROM "Conversation" c JOIN "Space" s ON s.id = c."spaceId" WHERE c.key = ${key} AND ${isOpenSql(parties)}`
  return found?.id ?? null
}

/**
 * Locks the key of a conversation, so that other transactions that want to create the same conversation wait for this
 * one.
 */
export async function lockConversation(tx: Tx, key: string): Promise<void> {
  await tx.$executeRaw`SELECT pg_advisory_xact_lock(hashtextextended(${key}, 0))`
}

/** Records the space of a conversation. Replaces an earlier space. */
export async function putConversation(tx: Tx, key: string, spaceId: string): Promise<void> {
  await tx.conversation.upsert({ where: { key }, create: { key, spaceId }, update: { spaceId } })
}

/**
 * Deletes the keys of all conversations of a human or an agent, including those in spaces that the human or agent has
 * left.
 */
export async function deleteConversationsOf(tx: Tx, entityId: string): Promise<void> {
  await tx.$executeRaw`
    DELETE FROM "Conversation" WHERE (split_part(key, ' ', 1) = ${entityId} OR split_part(key, ' ', 2) = ${entityId})
      AND "spaceId" IN (
        SELECT "spaceId" FROM "Membership" WHERE "entityId" = ${entityId}
        UNION SELECT "spaceId" FROM "FormerMember" WHERE "entityId" = ${entityId})`
}

/** A message of a conversation, with its sender and its text (as in `Message.text`). */
export interface Utterance {
  messageId: string
  spaceId: string
  senderId: string
  text: string
}

const MOST_CANDIDATES = 20
/** The number of recent conversations to search. Clients usually continue a recent one. */
const MOST_SPACES = 50
const MOST_MESSAGES = 100

/**
 * Searches the newest open conversations between only these two parties. Finds those in which this text is the
 * human's last or second-to-last message. For each, returns the messages from this one on, in order.
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
      SELECT s.id FROM "Conversation" c JOIN "Space" s ON s.id = c."spaceId"
      WHERE c.key >= ${prefix} AND c.key < ${`${prefix}\x7f`} AND ${isOpenSql(parties)}
        AND (SELECT count(*) FROM "Membership" WHERE "spaceId" = s.id) = 2
      ORDER BY s.id DESC LIMIT ${MOST_SPACES}) newest
    CROSS JOIN LATERAL (
      SELECT max(recent.seq) FILTER (WHERE recent."senderId" = ${humanId} AND recent.parts->0->>'text' = ${text}) AS seq
      FROM (
        SELECT seq, "senderId", parts FROM "Message" WHERE "spaceId" = newest.id
        ORDER BY seq DESC LIMIT ${MOST_MESSAGES}) recent) asked
    JOIN "Message" m ON m."spaceId" = newest.id AND m.seq >= asked.seq AND m.seq < asked.seq + ${MOST_CANDIDATES}
    WHERE (SELECT count(*) FROM "Message" later
      WHERE later."spaceId" = newest.id AND later.seq > asked.seq AND later."senderId" = ${humanId}) <= 1
    ORDER BY m."spaceId" DESC, m.seq LIMIT ${MOST_CANDIDATES * MOST_CANDIDATES}`
  return [...Map.groupBy(rows, ({ spaceId }) => spaceId).values()]
}
