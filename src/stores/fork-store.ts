import { type Message, Prisma, type Space, type Step, type ToolCall } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'
import { adoptCalls } from './call-store.ts'
import { copyEntities } from './entity-store.ts'
import { filesOfCalls, touchObjectsOf } from './file-store.ts'
import { beginAt } from './run-store.ts'
import { OPEN_MESSAGES_SQL, SETTLED_CALLS_SQL } from './status-sql.ts'
import { insertCopiedSteps } from './step-store.ts'

// Contains the statements that copy the rows of a space and its agents into a new space, with one INSERT … SELECT per
// table. A column without a rule is copied unchanged, so a new column that contains the id of a copied row needs a
// rule in this file. test/stores/fork-store.test.ts fails until the column has a rule or is listed as unchanged.

/** A copy that is being created. */
export interface Fork {
  /** The id of the original. */
  fromId: string
  /** The id of the copy. */
  intoId: string
  /** The `seq` of the last message to copy. */
  atSeq: number
  /** The agents to copy from the original. */
  agentIds: readonly string[]
}

const COLUMNS = {
  Agent: Prisma.AgentScalarFieldEnum,
  Memory: Prisma.MemoryScalarFieldEnum,
  Goal: Prisma.GoalScalarFieldEnum,
  Message: Prisma.MessageScalarFieldEnum,
  MessageVersion: Prisma.MessageVersionScalarFieldEnum,
  MessageReaction: Prisma.MessageReactionScalarFieldEnum,
  ToolCall: Prisma.ToolCallScalarFieldEnum,
  Decision: Prisma.DecisionScalarFieldEnum,
  File: Prisma.FileScalarFieldEnum,
  FileText: Prisma.FileTextScalarFieldEnum,
}
export type CopiedTable = keyof typeof COLUMNS

const NULL = Prisma.sql`NULL`
const column = (name: string) => Prisma.sql`t.${Prisma.raw(`"${name}"`)}`

/** The values of the columns that differ in the copy of a row `t`. */
export function rulesOf({ fromId, intoId, agentIds }: Fork): Record<CopiedTable, Record<string, Prisma.Sql>> {
  const copied = (value: Prisma.Sql) => Prisma.sql`"copiedId"(${value}, ${intoId})`
  const copiedColumn = (name: string) => copied(column(name))
  const entity = (value: Prisma.Sql) =>
    Prisma.sql`CASE WHEN ${value} = ANY(${[...agentIds]}::text[]) THEN ${copied(value)} ELSE ${value} END`
  /** The original space becomes an additional source of all copied messages. */
  const marks = {
    places: Prisma.sql`CASE WHEN t.places = '{}' THEN ARRAY[${fromId}::text] WHEN ${fromId} = ANY(t.places) THEN t.places
      ELSE ARRAY(SELECT DISTINCT unnest(t.places || ${fromId}::text) ORDER BY 1) END`,
    label: Prisma.sql`CASE WHEN (SELECT confidential FROM "Space" WHERE id = ${fromId})
      THEN ARRAY(SELECT DISTINCT unnest(t.label || ${fromId}::text) ORDER BY 1) ELSE t.label END`,
  }
  const parts = Prisma.sql`CASE WHEN t.parts @> '[{"type":"tool"}]' OR t.parts @> '[{"type":"file"}]' THEN (
    SELECT jsonb_agg(CASE part->>'type'
      WHEN 'tool' THEN part || jsonb_build_object('toolCallId', ${copied(Prisma.sql`part->>'toolCallId'`)})
      WHEN 'file' THEN part || jsonb_build_object('fileId', ${copied(Prisma.sql`part->>'fileId'`)}) ELSE part END ORDER BY n)
    FROM jsonb_array_elements(t.parts) WITH ORDINALITY AS each(part, n)) ELSE t.parts END`
  const isSettled = Prisma.sql`t.status IN ${SETTLED_CALLS_SQL}`
  return {
    Agent: {
      id: copiedColumn('id'),
      copyOfId: column('id'),
      version: Prisma.sql`0`,
      notifyUrl: NULL,
      notifySecretSealed: NULL,
      remoteHeadersSealed: NULL,
      cycleCount: Prisma.sql`0`,
      firstCycle: Prisma.sql`0`,
      restsUntil: NULL,
      // Only members of the copied space can have a use for the agent's copy, so nobody else may add it to a space.
      addableBy: Prisma.sql`CASE t."addableBy" WHEN 'EVERYONE' THEN 'SHARES_SPACE' ELSE t."addableBy" END`,
      cycle: Prisma.sql`replace(t.cycle::text, ${fromId}, ${intoId})::jsonb`,
    },
    Memory: { id: copiedColumn('id'), agentId: copiedColumn('agentId') },
    Goal: { id: copiedColumn('id'), agentId: copiedColumn('agentId') },
    Message: {
      id: copiedColumn('id'),
      spaceId: Prisma.sql`${intoId}`,
      senderId: entity(column('senderId')),
      // No run in the copy will continue an unfinished message.
      status: Prisma.sql`CASE WHEN t.status IN ${OPEN_MESSAGES_SQL} THEN 'INTERRUPTED' ELSE t.status END`,
      parts,
      mentionedAgentId: entity(column('mentionedAgentId')),
      mentionedIds: Prisma.sql`CASE WHEN cardinality(t."mentionedIds") = 0 THEN t."mentionedIds" ELSE ARRAY(
        SELECT ${entity(Prisma.sql`each.id`)} FROM unnest(t."mentionedIds") WITH ORDINALITY AS each(id, n) ORDER BY n) END`,
      runId: NULL,
      runPostKey: NULL,
      idempotencyKey: NULL,
      rootId: copiedColumn('rootId'),
      replyToId: copiedColumn('replyToId'),
      threadRootId: copiedColumn('threadRootId'),
      // Removes this text. Deletion and erasure find it through the message's run, but messages in copies have no
      // runs.
      origin: Prisma.sql`t.origin - 'triggerMessage'`,
      routedAt: Prisma.sql`coalesce(t."routedAt", t."createdAt")`,
      ...marks,
    },
    MessageVersion: { messageId: copiedColumn('messageId') },
    MessageReaction: { messageId: copiedColumn('messageId'), entityId: entity(column('entityId')) },
    ToolCall: {
      id: copiedColumn('id'),
      runId: copiedColumn('runId'),
      agentId: entity(column('agentId')),
      messageId: copiedColumn('messageId'),
      spaceId: Prisma.sql`${intoId}`,
      status: Prisma.sql`CASE WHEN ${isSettled} THEN t.status ELSE 'CANCELED' END`,
      settledAt: Prisma.sql`CASE WHEN ${isSettled} THEN t."settledAt" ELSE now() END`,
      approvalState: Prisma.sql`CASE t."approvalState" WHEN 'PENDING' THEN 'CANCELED' ELSE t."approvalState" END`,
      escalatesAt: NULL,
      expiresAt: NULL,
      state: NULL,
      carryAt: NULL,
      grantId: NULL,
      files: Prisma.sql`CASE WHEN jsonb_typeof(t.files) = 'array' THEN (
        SELECT jsonb_agg(CASE WHEN each.entry->>'fileId' IS NULL THEN each.entry
          ELSE each.entry || jsonb_build_object('fileId', ${copied(Prisma.sql`each.entry->>'fileId'`)}) END ORDER BY n)
        FROM jsonb_array_elements(t.files) WITH ORDINALITY AS each(entry, n)) ELSE t.files END`,
      ...marks,
    },
    Decision: { toolCallId: copiedColumn('toolCallId') },
    File: {
      id: copiedColumn('id'),
      ownerId: entity(column('ownerId')),
      messageId: copiedColumn('messageId'),
      spaceId: Prisma.sql`CASE WHEN t."spaceId" IS NULL THEN NULL ELSE ${intoId} END`,
      callId: copiedColumn('callId'),
    },
    FileText: { fileId: copiedColumn('fileId') },
  }
}

export const columnsOf = (table: CopiedTable): string[] => Object.values(COLUMNS[table])

/** Copies the rows `t` of a table. */
function copySql(fork: Fork, table: CopiedTable, rows: Prisma.Sql): Prisma.Sql {
  const rules = rulesOf(fork)[table]
  const columns = columnsOf(table)
  return Prisma.sql`INSERT INTO ${Prisma.raw(`"${table}"`)} (${Prisma.raw(columns.map((name) => `"${name}"`).join(', '))})
    SELECT ${Prisma.join(columns.map((name) => rules[name] ?? column(name)))} FROM ${rows}`
}

/**
 * Determines which notes of agents are copied. A note is copied if the human may read it and its sources are among
 * the spaces that are locked for the copy.
 */
export interface CopiedNotes {
  isReadable: Prisma.Sql
  heldIds: readonly string[]
}

/**
 * Copies the rows of agents, and the notes that `isReadable` and `heldIds` allow. Also copies the entities of the
 * agents. Tools are copied later, because their headers are encrypted for one agent.
 */
export async function copyAgentRows(tx: Tx, fork: Fork, { isReadable, heldIds }: CopiedNotes, at: Date): Promise<void> {
  const ids = Prisma.sql`ANY(${[...fork.agentIds]}::text[])`
  await copyEntities(tx, fork, at)
  await tx.$executeRaw(copySql(fork, 'Agent', Prisma.sql`"Agent" t WHERE t.id = ${ids}`))
  const isHeld = Prisma.sql`NOT EXISTS (
    SELECT 1 FROM "Space" s WHERE s.id = ANY(t.places) AND s.id <> ALL(${[...heldIds]}::text[]))`
  for (const table of ['Memory', 'Goal'] as const) {
    const rows = Prisma.sql`${Prisma.raw(`"${table}"`)} t WHERE t."agentId" = ${ids} AND ${isReadable} AND ${isHeld}`
    await tx.$executeRaw(copySql(fork, table, rows))
  }
}

/**
 * Copies the messages of a space with their files, reactions and earlier texts, and the calls that they show. Adds
 * only the messages after `unindexedSeq` to the search index.
 */
export async function copyMessages(tx: Tx, fork: Fork, { unindexedSeq }: { unindexedSeq: number }): Promise<void> {
  const { fromId, intoId, atSeq } = fork
  const isCopied = (message: string) =>
    Prisma.sql`${Prisma.raw(message)}."spaceId" = ${fromId} AND ${Prisma.raw(message)}.seq <= ${atSeq}`
  const ofMessages = (table: string) =>
    Prisma.sql`${Prisma.raw(`"${table}"`)} t JOIN "Message" m ON m.id = t."messageId" AND ${isCopied('m')}`
  // Rows of the search index are copied, which is faster than computing them, or are added later (`indexSome`). JIT
  // compilation is off, because compiling the expressions took 0.5 s for 50,000 rows and saved nothing.
  await tx.$executeRaw`SELECT set_config('parley.copying', 'on', true), set_config('jit', 'off', true)`
  await tx.$executeRaw(copySql(fork, 'Message', Prisma.sql`"Message" t WHERE ${isCopied('t')} ORDER BY t.seq`))
  await tx.$executeRaw`SELECT set_config('parley.copying', 'off', true)`
  await tx.$executeRaw`
    INSERT INTO "SearchText" ("messageId", "fileId", "spaceId", "senderId", at, plain, words)
    SELECT "copiedId"(t."messageId", ${intoId}), '', ${intoId}, ${rulesOf(fork).Message['senderId']}, t.at, t.plain, t.words
    FROM "SearchText" t JOIN "Message" m ON m.id = t."messageId" AND ${isCopied('m')} AND m.seq > ${unindexedSeq}
    WHERE t."spaceId" = ${fromId} AND t."fileId" = ''`
  await tx.$executeRaw(
    copySql(fork, 'MessageVersion', Prisma.sql`${ofMessages('MessageVersion')} AND m."editedAt" IS NOT NULL`),
  )
  await tx.$executeRaw(
    copySql(fork, 'MessageReaction', Prisma.sql`${ofMessages('MessageReaction')} AND m."reactionCount" > 0`),
  )
  await tx.$executeRaw(copySql(fork, 'ToolCall', Prisma.sql`${ofMessages('ToolCall')} WHERE t."spaceId" = ${fromId}`))
  await tx.$executeRaw(
    copySql(
      fork,
      'Decision',
      Prisma.sql`"Decision" t JOIN "ToolCall" c ON c.id = t."toolCallId" AND c."spaceId" = ${fromId}
      JOIN "Message" m ON m.id = c."messageId" AND ${isCopied('m')}`,
    ),
  )
  await copyFiles(
    tx,
    fork,
    Prisma.sql`
      SELECT f.id FROM "File" f JOIN "Message" m ON m.id = f."messageId" AND ${isCopied('m')} WHERE f."spaceId" = ${fromId}
      UNION ALL SELECT f.id FROM "Message" m JOIN "ToolCall" c ON c."messageId" = m.id AND c."spaceId" = ${fromId}
        JOIN "File" f ON f."callId" = c.id WHERE ${isCopied('m')}`,
  )
}

/** Copies the files with these ids, and their texts. Their messages and calls have already been copied. */
async function copyFiles(tx: Tx, fork: Fork, ids: Prisma.Sql): Promise<void> {
  await tx.$executeRaw(copySql(fork, 'File', Prisma.sql`"File" t WHERE t.id IN (${ids})`))
  await tx.$executeRaw(copySql(fork, 'FileText', Prisma.sql`"FileText" t WHERE t."fileId" IN (${ids})`))
  await touchObjectsOf(tx, Prisma.sql`SELECT "copiedId"(given.id, ${fork.intoId}) FROM (${ids}) given(id)`)
}

/**
 * Locks a space while it is copied. Members cannot leave and messages cannot be deleted, but new messages can be
 * posted. Also locks the spaces from which notes of its agents come, so that a deletion of one of these spaces finds
 * the copies (`forgetSpaceWithCopies`). Deletions lock several of these spaces too, so one statement locks all of
 * them in the order of their ids.
 * @returns null if there is no such space
 */
export async function holdForkedSpace(tx: Tx, id: string): Promise<{ space: Space; heldIds: string[] } | null> {
  const agents = Prisma.sql`SELECT "entityId" FROM "Membership" WHERE "spaceId" = ${id}`
  const heldIds = await holdSpaces(tx, Prisma.sql`SELECT ${id}::text UNION ${sourcesOf(agents)}`)
  const space = await tx.space.findUnique({ where: { id, deletedAt: null } })
  return space === null ? null : { space, heldIds }
}

/**
 * Locks only the spaces from which the notes of these agents come.
 * @returns their ids
 */
export async function holdSources(tx: Tx, agentIds: readonly string[]): Promise<string[]> {
  return holdSpaces(tx, sourcesOf(Prisma.sql`SELECT unnest(${[...agentIds]}::text[])`))
}

const sourcesOf = (agentIds: Prisma.Sql) => Prisma.sql`
  SELECT unnest(t.places) FROM "Memory" t WHERE t."agentId" IN (${agentIds})
  UNION SELECT unnest(t.places) FROM "Goal" t WHERE t."agentId" IN (${agentIds})`

async function holdSpaces(tx: Tx, ids: Prisma.Sql): Promise<string[]> {
  const rows = await tx.$queryRaw<{ id: string }[]>`
    SELECT id FROM "Space" WHERE id IN (${ids}) ORDER BY id FOR KEY SHARE`
  return rows.map(({ id }) => id)
}

/**
 * Prevents the erasure of people in a space until the transaction ends. Returns whether the erasure of one of them
 * has already started.
 */
export async function holdPeople(tx: Tx, spaceId: string): Promise<boolean> {
  const people = await tx.$queryRaw<{ isBeingErased: boolean }[]>`
    SELECT e.kind = 'HUMAN' AND e."goneAt" IS NOT NULL AND e.formerly IS NOT NULL AS "isBeingErased" FROM "Entity" e
    WHERE e.id IN (SELECT "entityId" FROM "Membership" WHERE "spaceId" = ${spaceId}
      UNION SELECT "entityId" FROM "FormerMember" WHERE "spaceId" = ${spaceId}) ORDER BY e.id FOR KEY SHARE`
  return people.some(({ isBeingErased }) => isBeingErased)
}

/**
 * A locked copy of a message. If `runId` is set, a repeated run has continued the text of the copy, so that it
 * differs from the original.
 */
export type LockedCopy = Pick<Message, 'id' | 'runId'>

/**
 * Locks the direct and indirect copies of a message that still have content. Finds a copy even if it was made from a
 * copied space that is deleted now. Also locks the space and its copies, in the order of their ids. These locks wait
 * for copies that are being created, so the search is repeated until it finds no new copy. Locks messages before
 * spaces, as all other code does.
 */
export async function lockCopiesOfMessage(
  tx: Tx,
  { spaceId, seq }: { spaceId: string; seq: number },
): Promise<LockedCopy[]> {
  const copies: LockedCopy[] = []
  const lockedIds = new Set<string>()
  for (;;) {
    const found = await tx.$queryRaw<{ id: string }[]>`
      WITH RECURSIVE fork AS (
        SELECT ${spaceId}::text COLLATE "C" AS id
        UNION SELECT s.id FROM "Space" s JOIN fork f ON s."forkOfId" = f.id WHERE s."forkSeq" >= ${seq}
      ) SELECT id FROM fork`
    const newIds = found.flatMap(({ id }) => (lockedIds.has(id) ? [] : [id]))
    if (newIds.length === 0) return copies
    const forkIds = newIds.filter((id) => id !== spaceId)
    copies.push(
      ...(await tx.$queryRaw<LockedCopy[]>`
        SELECT m.id, m."runId" FROM "Message" m JOIN "Space" s ON s.id = m."spaceId" AND s."deletedAt" IS NULL
        WHERE m."spaceId" = ANY(${forkIds}::text[]) AND m.seq = ${seq} AND m."deletedAt" IS NULL ORDER BY m.id FOR UPDATE OF m`),
    )
    await tx.$queryRaw`SELECT 1 FROM "Space" WHERE id = ANY(${newIds}::text[]) ORDER BY id FOR UPDATE`
    for (const id of newIds) lockedIds.add(id)
  }
}

/** The number of messages that one statement adds to the search index. */
export const INDEXED_AT_ONCE = 500

/** Adds the messages of a copied space with `after` < `seq` ≤ `upTo` to the search index. */
export async function indexMessages(
  tx: Tx,
  spaceId: string,
  { after, upTo }: { after: number; upTo: number },
): Promise<void> {
  // Locks the rows. Otherwise the text of a message that is deleted or erased at the same time could reappear.
  await tx.$executeRaw`
    WITH m AS MATERIALIZED (
      SELECT id, "spaceId", "senderId", "createdAt", parts FROM "Message"
      WHERE "spaceId" = ${spaceId} AND seq > ${after} AND seq <= ${upTo} AND status <> 'STREAMING' ORDER BY id FOR NO KEY UPDATE
    )
    INSERT INTO "SearchText" ("messageId", "spaceId", "senderId", at, plain, words)
    SELECT m.id, m."spaceId", m."senderId", m."createdAt", folded.text, "searchWords"(folded.text)
    FROM m, LATERAL (SELECT "searchFold"("searchTextOf"(m.parts)) AS text OFFSET 0) folded WHERE folded.text <> ''
    ON CONFLICT ("messageId", "fileId") DO NOTHING`
}

/** The beginning of a run's journal: its first steps with their calls. */
export interface JournalBeginning {
  steps: Step[]
  calls: ToolCall[]
  /** The ids of the files that the calls have returned. */
  fileIds: string[]
}

/** Reads the part of a run's journal before a step. */
export async function readBeginning(tx: Tx, runId: string, step: number): Promise<JournalBeginning> {
  const steps = await tx.step.findMany({ where: { runId, index: { lt: step } }, orderBy: { index: 'asc' } })
  const calls = await tx.toolCall.findMany({ where: { runId, stepIndex: { lt: step } }, orderBy: { id: 'asc' } })
  const fileIds = await filesOfCalls(
    tx,
    calls.map(({ id }) => id),
  )
  return { steps, calls, fileIds }
}

/** Returns the given ids of messages and files that the copy contains. */
export async function copiedAmong(tx: Tx, { fromId, atSeq }: Fork, ids: readonly string[]): Promise<string[]> {
  const rows = await tx.$queryRaw<{ id: string }[]>`
    SELECT m.id FROM "Message" m WHERE m.id = ANY(${[...ids]}::text[]) AND m."spaceId" = ${fromId} AND m.seq <= ${atSeq}
    UNION ALL SELECT f.id FROM "File" f JOIN "Message" m ON m.id = f."messageId"
      WHERE f.id = ANY(${[...ids]}::text[]) AND m."spaceId" = ${fromId} AND m.seq <= ${atSeq}`
  return rows.map(({ id }) => id)
}

/**
 * Inserts the beginning of a journal for a new run. The caller has already replaced ids by those of the copies,
 * except ids of files. If a copied message shows a call, the call and its files already exist and are assigned to the
 * run. The run is marked as claimed before, so that the worker that claims it reads the journal.
 */
export async function insertBeginning(
  tx: Tx,
  fork: Fork,
  runId: string,
  { steps, calls, fileIds }: JournalBeginning,
): Promise<void> {
  await insertCopiedSteps(tx, steps)
  await adoptCalls(tx, calls, runId)
  const isLeft = Prisma.sql`NOT EXISTS (SELECT 1 FROM "File" copy WHERE copy.id = "copiedId"(given.id, ${fork.intoId}))`
  const left = await tx.$queryRaw<{ id: string }[]>`
    SELECT given.id FROM unnest(${[...fileIds]}::text[]) given(id) WHERE ${isLeft}`
  await copyFiles(tx, fork, Prisma.sql`SELECT unnest(${left.map(({ id }) => id)}::text[])`)
  await beginAt(tx, runId, { stepCount: steps.length, spaceId: fork.intoId })
}

/**
 * Returns the `seq` of the last message that a run could read before a given time. If the message that triggered the
 * run has a greater `seq`, returns that one.
 */
export async function lastSeqBefore(
  tx: Tx,
  { spaceId, messageId, at }: { spaceId: string; messageId: string | null; at: Date },
): Promise<number> {
  const [row] = await tx.$queryRaw<{ seq: number }[]>`
    SELECT coalesce(max(seq), 0)::int AS seq FROM "Message" WHERE "spaceId" = ${spaceId} AND ("createdAt" < ${at} OR id = ${messageId})`
  return row?.seq ?? 0
}
