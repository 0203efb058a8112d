import { Prisma } from '../generated/prisma/client.ts'

/**
 * The maximum total size of the newest notes that are read. A prompt has room for far fewer, and selects among them.
 */
const KNOWLEDGE_CHARACTERS = 40_000

/** The tables of an agent's notes and think cycles. */
export const MEMORY = Prisma.sql`"Memory"`
export const GOAL = Prisma.sql`"Goal"`
export const PLAN = Prisma.sql`"Plan"`
export const CYCLE = Prisma.sql`"Cycle"`

/** The maximum number of rows that are read from one table. A run may read at most this many notes of one kind. */
const MOST_READ = 500

/** Selects the newest rows of an agent `a` in a table. */
const newestOf = (table: Prisma.Sql, condition: Prisma.Sql, order: Prisma.Sql) =>
  Prisma.sql`(SELECT * FROM ${table} WHERE "agentId" = a.id AND ${condition} ORDER BY ${order} LIMIT ${MOST_READ}) AS newer`

/**
 * SQL for additional columns of an agent `a` with the agent's notes, newest first. They contain as many notes as can be
 * shown, without those from a hidden space.
 */
export const knowledgeBut = (hidden: Prisma.Sql) => Prisma.sql`
      (SELECT coalesce(jsonb_agg(m ORDER BY m.key), '[]') FROM (
        SELECT key, value, places || label AS marks, row_number() OVER newest AS newest, sum(length(key) + length(value)) OVER newest AS reach
        FROM ${newestOf(MEMORY, Prisma.sql`NOT (places || label && ${hidden})`, Prisma.sql`"updatedAt" DESC, key`)} WINDOW newest AS (ORDER BY "updatedAt" DESC, key)
      ) m WHERE m.reach <= ${KNOWLEDGE_CHARACTERS}) AS memories,
      (SELECT coalesce(jsonb_agg(g ORDER BY g.id), '[]') FROM (
        SELECT id, description, places || label AS marks, row_number() OVER newest AS newest, sum(length(description)) OVER newest AS reach
        FROM ${newestOf(GOAL, Prisma.sql`status = 'ACTIVE' AND NOT (places || label && ${hidden})`, Prisma.sql`id DESC`)} WINDOW newest AS (ORDER BY id DESC)
      ) g WHERE g.reach <= ${KNOWLEDGE_CHARACTERS}) AS goals,
      (SELECT coalesce(jsonb_agg(p ORDER BY p.id), '[]') FROM (
        SELECT id, name, instruction, cron, "timeZone", "nextRunAt", places || label AS marks, row_number() OVER newest AS newest, sum(length(instruction)) OVER newest AS reach
        FROM ${newestOf(PLAN, Prisma.sql`enabled AND NOT (places || label && ${hidden})`, Prisma.sql`id DESC`)} WINDOW newest AS (ORDER BY id DESC)
      ) p WHERE p.reach <= ${KNOWLEDGE_CHARACTERS}) AS plans`
