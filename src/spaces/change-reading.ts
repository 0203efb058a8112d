import { Prisma, type Run } from '../generated/prisma/client.ts'
import type { Platform } from '../platform/platform.ts'

/** An earlier text of a message. */
export interface MessageVersion {
  messageId: string
  number: number
  text: string
  /** When this text was replaced by an edit. */
  editedAt: Date
}

/** An emoji with which people or agents reacted to a message. */
export interface Reaction {
  messageId: string
  emoji: string
  /** The number of entities who chose the emoji. */
  count: number
  /** The entities who chose the emoji first, at most 20. */
  entityIds: string[]
}

/** Reads edits of messages and reactions to them. The caller must check access. */
export interface ChangeReading {
  /** Returns the earlier texts of messages, newest first. The map has no entry for a message that was not edited. */
  versionsMany(messageIds: readonly string[]): Promise<Map<string, MessageVersion[]>>
  /** Returns the reactions to messages, in the order in which the emojis were first used. */
  reactionsMany(messageIds: readonly string[]): Promise<Map<string, Reaction[]>>
  /** Returns whether each entity chose the emoji on the message, in the order of `asked`. */
  areIn(asked: readonly { entityId: string; messageId: string; emoji: string }[]): Promise<boolean[]>
  /**
   * Returns the runs that began before a message's last edit and had read the message. Such a run was triggered by the
   * message, or found it in its history, its inbox or a tool result. Returns at most 100 runs for each message, oldest
   * first.
   */
  staleRunsMany(messageIds: readonly string[]): Promise<Map<string, Run[]>>
}

const MOST_ENTITIES = 20
const MOST_STALE_RUNS = 100
/**
 * The maximum number of runs whose tool results are searched for a message. The first runs that posted in its space
 * after the message are searched.
 */
const MOST_SEARCHED_RUNS = 500
/** The maximum of the column `seq`. */
const LAST_SEQ = 2 ** 31 - 1
const READING_TOOLS = ['enter_space', 'read_messages', 'readSpaceMessages']

export function createChangeReading({ db, config }: Pick<Platform, 'db' | 'config'>): ChangeReading {
  const { prisma } = db
  const { historyLimit } = config.limits

  /**
   * Selects the ids of runs that could have read the message `m`. The caller adds conditions on the time of the runs.
   */
  const readersSql = Prisma.sql`
    SELECT r.id FROM "Run" r WHERE r."triggerMessageId" = m.id
    UNION SELECT r.id FROM "Message" later JOIN "Run" r ON r."triggerMessageId" = later.id AND r."triggerType" = 'SPACE_MESSAGE'
      WHERE later."spaceId" = m."spaceId" AND later.seq > m.seq AND r."triggerSpaceId" = m."spaceId" AND (later."threadRootId" = m.id
        OR (later."threadRootId" IS NOT DISTINCT FROM m."threadRootId" AND later.seq < coalesce((
          SELECT n.seq FROM "Message" n WHERE n."spaceId" = m."spaceId" AND n.seq > m.seq AND n."threadRootId" IS NOT DISTINCT FROM m."threadRootId"
          ORDER BY n.seq LIMIT 1 OFFSET ${historyLimit - 1}), ${LAST_SEQ}::int)))
    UNION SELECT e."runId" FROM "Outcome" o JOIN "InboxEvent" e ON e."agentId" = o."agentId" AND e."messageId" = o."messageId"
      WHERE o."messageId" = m.id
    UNION (SELECT s."runId" FROM (
        SELECT "runId" FROM "RunSpace" WHERE "spaceId" = m."spaceId" AND "runId" > replace(left(m.id, 16), 'msg_', 'run_')
        ORDER BY "runId" LIMIT ${MOST_SEARCHED_RUNS}) s
      JOIN "ToolCall" c ON c."runId" = s."runId" AND c."toolName" = ANY(${READING_TOOLS}::text[]) AND c."settledAt" < m."editedAt"
      WHERE strpos(c.output::text, m.id) > 0 OR strpos(c.output::text, to_char(m."createdAt" AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')) > 0)`

  return {
    async versionsMany(messageIds) {
      const rows = await prisma.messageVersion.findMany({
        where: { messageId: { in: [...messageIds] } },
        orderBy: [{ messageId: 'asc' }, { number: 'desc' }],
      })
      return Map.groupBy(rows, ({ messageId }) => messageId)
    },
    async reactionsMany(messageIds) {
      const rows = await prisma.$queryRaw<Reaction[]>`
        SELECT "messageId", emoji, count(*)::int AS count,
          (array_agg("entityId" ORDER BY "createdAt", "entityId"))[1:${MOST_ENTITIES}] AS "entityIds"
        FROM "MessageReaction" WHERE "messageId" = ANY(${[...messageIds]}::text[])
        GROUP BY "messageId", emoji ORDER BY "messageId", min("createdAt"), emoji`
      return Map.groupBy(rows, ({ messageId }) => messageId)
    },
    async areIn(asked) {
      const key = (messageId: string, emoji: string, entityId: string) => `${messageId} ${emoji} ${entityId}`
      const rows = await prisma.$queryRaw<{ messageId: string; emoji: string; entityId: string }[]>`
        SELECT "messageId", emoji, "entityId" FROM "MessageReaction" JOIN unnest(
          ${asked.map(({ messageId }) => messageId)}::text[], ${asked.map(({ emoji }) => emoji)}::text[], ${asked.map(({ entityId }) => entityId)}::text[])
          AS asked("messageId", emoji, "entityId") USING ("messageId", emoji, "entityId")`
      const found = new Set(rows.map(({ messageId, emoji, entityId }) => key(messageId, emoji, entityId)))
      return asked.map(({ messageId, emoji, entityId }) => found.has(key(messageId, emoji, entityId)))
    },
    async staleRunsMany(messageIds) {
      const rows = await prisma.$queryRaw<{ messageId: string; runIds: string[] }[]>`
        SELECT m.id AS "messageId", ARRAY(
          SELECT r.id FROM "Run" r WHERE r.id IN (${readersSql}) AND r.id IS DISTINCT FROM m."runId" AND r."startedAt" < m."editedAt"
          ORDER BY r.id LIMIT ${MOST_STALE_RUNS}) AS "runIds"
        FROM "Message" m WHERE m.id = ANY(${[...messageIds]}::text[]) AND m."editedAt" IS NOT NULL`
      const runs = await prisma.run.findMany({ where: { id: { in: rows.flatMap(({ runIds }) => runIds) } } })
      const byId = new Map(runs.map((run) => [run.id, run]))
      return new Map(rows.map(({ messageId, runIds }) => [messageId, runIds.flatMap((id) => byId.get(id) ?? [])]))
    },
  }
}
