import { runTopic } from '../broker/topics.ts'
import { Prisma } from '../generated/prisma/client.ts'
import { sleep } from '../lib/async.ts'
import { messageOf } from '../lib/errors.ts'
import { runIdAt } from '../lib/ids.ts'
import { type Json, jsonbText } from '../lib/json.ts'
import { sweepRows } from '../lib/sweep-rows.ts'
import type { Platform } from '../platform/platform.ts'
import { createTextRemoval, type TextRemoval } from '../rules/deleted-text.ts'
import { createMessagePublisher } from '../spaces/message-publisher.ts'
import { withCopies } from '../stores/copy-store.ts'
import {
  deletionsDuring,
  endDeletion,
  type MessageDeletion,
  openDeletions,
  removeDone,
  saveDeletion,
  takeDeletion,
} from '../stores/deletion-store.ts'
import { noteRedaction } from '../stores/run-store.ts'
import { ACTIVE_RUNS_SQL } from '../stores/status-sql.ts'

/**
 * Removes the texts of deleted messages from everything that was derived from them: journals, recorded prompts,
 * results of tools, consciousness, notes, plans, inbox events, quotations in the origins of messages, and event logs
 * of runs. Finds quotations of a text or its beginning (rules/deleted-text.ts) in rows of agents that belong or
 * belonged to the space. Leaves all other text of people and agents unchanged.
 */
export interface DerivedTexts {
  /** Removes the text of a deleted message. Never throws, because a sweep repeats the parts that failed. */
  forget(messageId: string): Promise<void>
  /**
   * Removes the texts of messages that were deleted during a run from everything that the run has written since the
   * deletion.
   */
  forgetInRun(runId: string): Promise<void>
  /**
   * Continues deletions that are waiting for active runs to end, or that were interrupted. If one fails, the others
   * continue.
   */
  sweep(signal?: AbortSignal): Promise<void>
}

const RUNS_AT_ONCE = 50
/** The batch size, which is small because a row can have several megabytes. */
const ROWS_AT_ONCE = 20
const PAUSE_MS = 5
const AT_ONCE_MS = 5000
const A_SWEEP_MS = 30_000
/** The number of seconds after which another process may continue a deletion whose process has died. */
const TAKEN_SECONDS = 60
/** Tolerance for differences between the clocks of the processes that created the ids. */
const CLOCK_SLACK_MS = 3_600_000

/** A table with columns whose text may quote a message. */
interface Derived {
  table: Prisma.ModelName
  json?: readonly string[]
  text?: readonly string[]
  /** Columns with text that the run's model generated. The event log of the run contains this text too. */
  generated?: readonly string[]
}

/** Tables whose rows belong to runs. `column` contains the id of the run. */
const OF_RUNS: readonly (Derived & { column: string })[] = [
  {
    table: 'Run',
    column: 'id',
    json: ['triggerPayload', 'wokenBy', 'state'],
    text: ['triggerSummary', 'summary', 'error'],
  },
  {
    table: 'Step',
    column: 'runId',
    json: ['messagesAdded', 'assistant'],
    text: ['instructions'],
    generated: ['assistant'],
  },
  { table: 'ToolCall', column: 'runId', json: ['input', 'output', 'state'], text: ['error'], generated: ['input'] },
  { table: 'Message', column: 'runId', json: ['origin'] },
]

/** Tables whose rows belong to agents. */
const OF_AGENTS: readonly Derived[] = [
  { table: 'Cycle', json: ['messages'], text: ['summary'] },
  { table: 'InboxEvent', json: ['payload', 'wokenBy'] },
  { table: 'Memory', text: ['value'] },
  { table: 'Goal', text: ['description'] },
  { table: 'Plan', text: ['instruction'] },
]

export function createDerivedTexts(platform: Platform): DerivedTexts {
  const { db, clock, log, logger } = platform
  const publisher = createMessagePublisher(platform)
  const { prisma } = db

  /** @param isPublished whether the deletion was published; false if its process may have died before publishing */
  async function finish(
    messageId: string,
    { forMs, isPublished, signal }: { forMs: number; isPublished: boolean; signal?: AbortSignal | undefined },
  ): Promise<void> {
    const deletion = await takeDeletion(prisma, messageId, TAKEN_SECONDS)
    if (deletion === null) return
    try {
      const until = clock.now() + forMs
      await goOn(deletion, { isPublished, isOver: () => clock.now() >= until || signal?.aborted === true })
    } finally {
      await saveDeletion(prisma, messageId, { takenUntil: null })
    }
  }

  async function goOn(
    deletion: MessageDeletion,
    { isPublished, isOver }: { isPublished: boolean; isOver: () => boolean },
  ): Promise<void> {
    const { messageId, spaceId, texts, sentAt } = deletion
    const removal = createTextRemoval(texts)
    const agentIds = await agentsOf(deletion)
    let { afterId, living } = deletion
    if (afterId === null) {
      if (!isPublished) await publisher.deleted({ id: messageId, spaceId })
      const before = await activeAmong(agentIds)
      await fromNotes(agentIds, deletion, removal)
      // A run that started during `fromNotes` may have read notes that still contained the text.
      living = [...new Set([...before, ...(await activeAmong(agentIds))])].sort()
      afterId = runIdAt(sentAt.getTime() - CLOCK_SLACK_MS)
      await saveDeletion(prisma, messageId, { afterId, living })
    }
    while (afterId !== END && !isOver()) {
      const runIds = await runsAfter(agentIds, afterId)
      await fromRuns(runIds, removal)
      afterId = runIds.length < RUNS_AT_ONCE ? END : runIds.at(-1)!
      await saveDeletion(prisma, messageId, { afterId, takenUntil: new Date(clock.now() + TAKEN_SECONDS * 1000) })
      await sleep(PAUSE_MS)
    }
    if (afterId !== END || (await areActive(living))) return
    // These runs may have read the text before the deletion, and written it afterwards.
    await fromRuns(living, removal)
    if (living.length > 0) await fromNotes(agentIds, deletion, removal)
    await endDeletion(prisma, messageId)
  }

  /**
   * Returns the current and former agents of the space, the agents whose runs the message started, and the copies of
   * all these agents.
   */
  async function agentsOf({ spaceId, messageId, runId }: MessageDeletion): Promise<string[]> {
    const rows = await prisma.$queryRaw<{ id: string }[]>`
      SELECT "entityId" AS id FROM "Membership" WHERE "spaceId" = ${spaceId}
      UNION SELECT "entityId" FROM "FormerMember" WHERE "spaceId" = ${spaceId}
      UNION SELECT "agentId" FROM "Run" WHERE "triggerMessageId" = ${messageId} OR id = ${runId}`
    return withCopies(
      prisma,
      rows.map(({ id }) => id).filter((id) => id.startsWith('agt_')),
    )
  }

  async function runsAfter(agentIds: string[], after: string): Promise<string[]> {
    const rows = await prisma.$queryRaw<{ id: string }[]>`
      SELECT id FROM "Run" WHERE "agentId" = ANY(${agentIds}::text[]) AND id > ${after} ORDER BY id LIMIT ${RUNS_AT_ONCE}`
    return rows.map(({ id }) => id)
  }

  async function activeAmong(agentIds: string[]): Promise<string[]> {
    const rows = await prisma.$queryRaw<{ id: string }[]>`
      SELECT id FROM "Run" WHERE "agentId" = ANY(${agentIds}::text[]) AND status IN ${ACTIVE_RUNS_SQL} ORDER BY id`
    return rows.map(({ id }) => id)
  }

  async function areActive(runIds: string[]): Promise<boolean> {
    const [row] = await prisma.$queryRaw<unknown[]>`
      SELECT 1 FROM "Run" WHERE id = ANY(${runIds}::text[]) AND status IN ${ACTIVE_RUNS_SQL} LIMIT 1`
    return row !== undefined
  }

  /** Removes the texts from the rows of runs, and makes active runs read their journals again. */
  async function fromRuns(runIds: string[], removal: TextRemoval): Promise<void> {
    if (runIds.length === 0) return
    const generated = new Set<string>()
    for (const { column, ...derived } of OF_RUNS) {
      const where = Prisma.sql`t.${name(column)} = ANY(${runIds}::text[])`
      for (const runId of await fromRows({ ...derived, owner: column }, where, removal)) generated.add(runId)
    }
    await noteRedaction(prisma, runIds)
    // An active run may still need its log, so only logs of ended runs are deleted. The last pass checks the logs
    // again.
    const ended = [...generated].filter((id) => id !== '')
    for (const runId of ended) if (!(await areActive([runId]))) await log.expire(runTopic(runId), 0)
  }

  /** Removes the texts from the data that agents keep between runs, and from chains and outcomes. */
  async function fromNotes(agentIds: string[], deletion: MessageDeletion, removal: TextRemoval): Promise<void> {
    const { spaceId, messageId, sentAt } = deletion
    const ofAgents = Prisma.sql`t."agentId" = ANY(${agentIds}::text[])`
    const since = Prisma.sql`t."createdAt" >= ${new Date(sentAt.getTime() - CLOCK_SLACK_MS)}`
    for (const derived of OF_AGENTS) {
      const isDated = derived.table === 'Cycle' || derived.table === 'InboxEvent'
      await fromRows(derived, isDated ? Prisma.sql`${ofAgents} AND ${since}` : ofAgents, removal)
    }
    await fromRows({ table: 'Chain', json: ['replyStack'] }, Prisma.sql`t."spaceId" = ${spaceId} AND ${since}`, removal)
    // Calls in a copied space have no run rows, so they are found by the space.
    const ofCopy = Prisma.sql`t."spaceId" = ${spaceId} AND NOT EXISTS (SELECT 1 FROM "Run" r WHERE r.id = t."runId")`
    await fromRows({ table: 'ToolCall', json: ['input', 'output'], text: ['error'] }, ofCopy, removal)
    const ofMessage = Prisma.sql`t."messageId" = ${messageId}`
    await fromRows({ table: 'Outcome', text: ['reason', 'error'], key: 'agentId' }, ofMessage, removal)
  }

  /**
   * Removes the texts from the rows that meet the SQL condition.
   * @returns the values of the column `owner` of the rows in which a generated column has changed
   */
  async function fromRows(
    {
      table,
      json = [],
      text = [],
      generated = [],
      key = 'id',
      owner = key,
    }: Derived & { key?: string; owner?: string },
    where: Prisma.Sql,
    removal: TextRemoval,
  ): Promise<string[]> {
    // A message that consists only of tool calls has no text.
    if (removal.probes?.length === 0) return []
    const columns = [...json, ...text]
    const list = Prisma.join(columns.map((column) => Prisma.sql`t.${name(column)}`))
    const probes = removal.probes
    const mayQuote =
      probes === null
        ? Prisma.sql`true`
        : Prisma.join(
            columns.flatMap((column) =>
              probes.map((probe) => Prisma.sql`strpos(t.${name(column)}::text, ${probe}) > 0`),
            ),
            ' OR ',
          )
    const changedOwners: string[] = []
    for (let after = ''; ; ) {
      const rows = await prisma.$queryRaw<{ key: string; owner: string }[]>`
        SELECT t.${name(key)} AS key, t.${name(owner)} AS owner FROM ${name(table)} t
        WHERE ${where} AND t.${name(key)} > ${after} AND (${mayQuote}) ORDER BY t.${name(key)} LIMIT ${ROWS_AT_ONCE}`
      for (const { key: id, owner: ofRow } of rows) {
        // Reads the row again under a lock, because an agent may have changed the row in the meantime.
        const changed = await db.transaction(async (tx) => {
          const isRow = Prisma.sql`t.${name(key)} = ${id} AND ${where}`
          const [row] = await tx.$queryRaw<Record<string, Json>[]>`
            SELECT ${list} FROM ${name(table)} t WHERE ${isRow} FOR UPDATE OF t`
          const sets = row === undefined ? [] : setsOf(row, { json, text }, removal)
          if (sets.length > 0)
            await tx.$executeRaw`UPDATE ${name(table)} t SET ${Prisma.join(sets.map(({ set }) => set))} WHERE ${isRow}`
          return sets.map(({ column }) => column)
        })
        if (changed.some((column) => generated.includes(column))) changedOwners.push(ofRow)
      }
      const last = rows[ROWS_AT_ONCE - 1]
      if (last === undefined) return changedOwners
      after = last.key
    }
  }

  return {
    async forget(messageId) {
      try {
        await finish(messageId, { forMs: AT_ONCE_MS, isPublished: true })
      } catch (error) {
        logger.warn({ messageId, error: messageOf(error) }, NOT_FINISHED)
      }
    },
    async forgetInRun(runId) {
      for (const { texts } of await deletionsDuring(prisma, runId)) await fromRuns([runId], createTextRemoval(texts))
    },
    async sweep(signal) {
      await removeDone(prisma)
      await sweepRows({
        next: (after, most) => openDeletions(prisma, after, most),
        handle: ({ id }) => finish(id, { forMs: A_SWEEP_MS, isPublished: false, signal }),
        report: ({ id }, error) => logger.warn({ messageId: id, error: messageOf(error) }, NOT_FINISHED),
        signal,
      })
    },
  }
}

const NOT_FINISHED = 'could not finish the deletion of a message; the next sweep continues it'

/** A string that sorts after every run id. */
const END = 'run_~'

const name = (column: string) => Prisma.raw(`"${column}"`)

/** Returns SQL assignments for the columns of a row that quote a text. */
function setsOf(
  row: Record<string, Json>,
  { json, text }: { json: readonly string[]; text: readonly string[] },
  removal: TextRemoval,
): { column: string; set: Prisma.Sql }[] {
  const ofJson = json.flatMap((column) => {
    const [before = null, after] = [row[column], removal.fromJson(row[column] ?? null)]
    return after === before ? [] : [{ column, set: Prisma.sql`${name(column)} = ${jsonbText(after)}::jsonb` }]
  })
  const ofText = text.flatMap((column) => {
    const before = row[column]
    const after = typeof before === 'string' ? removal.fromText(before) : before
    return after === before || typeof after !== 'string'
      ? []
      : [{ column, set: Prisma.sql`${name(column)} = ${after}` }]
  })
  return [...ofJson, ...ofText]
}
