import type { Viewer } from '../access/viewer.ts'
import { isHeardBy } from '../confidentiality/world.ts'
import { Prisma, type ToolCall } from '../generated/prisma/client.ts'
import { wellFormedIds } from '../lib/ids.ts'
import { inOrderOf } from '../lib/in-order.ts'
import type { Platform } from '../platform/platform.ts'
import { waitsForReply } from '../rules/call-answers.ts'
import { isAdmin } from '../rules/permissions.ts'
import { isMet, type WaitCondition } from '../spaces/reply-search.ts'

/** Whether a message by this human would answer a waiting call. `wait` is part of the call's state. */
function mayReply(wait: unknown, humanId: string): boolean {
  const conditions = (wait as { for?: WaitCondition[] } | null)?.for ?? []
  return conditions.some((one) => isMet(one, { senderId: humanId, kind: 'HUMAN' }))
}

/** A call in a list. A long input or output is omitted. It is read separately if a query selects it. */
export type BriefCall = ToolCall & { omitsInput?: boolean; omitsOutput?: boolean }

export type CallContents = Pick<ToolCall, 'id' | 'input' | 'output'>

/** Reads tool calls. */
export interface ToolCalls {
  /** Returns the call that waits for a reply to a message, by message. */
  waitingByMessage(messageIds: readonly string[]): Promise<Map<string, BriefCall>>
  /** Returns the calls that the viewer may answer or decide on, oldest first, at most 100. */
  pendingToolCalls(viewer: Viewer): Promise<BriefCall[]>
  /** Returns complete calls in the order of the ids; null for an unknown id. */
  getMany(ids: string[]): Promise<(ToolCall | null)[]>
  /** Returns the calls without long inputs and outputs, which `contentsOf` reads. */
  getBriefMany(ids: readonly string[]): Promise<(BriefCall | null)[]>
  contentsOf(ids: readonly string[]): Promise<Map<string, CallContents>>
  ofRuns(runIds: string[]): Promise<Map<string, BriefCall[]>>
}

const MOST_PENDING = 100

/** An input or output of at most this many characters of JSON is included with its call. */
const BRIEF_CHARACTERS = 16 * 1024
/**
 * A value that is stored in at most this many bytes is short even after decompression. Only larger values are measured.
 */
const SURELY_SHORT_BYTES = 128

const isLongSql = (column: Prisma.Sql) => Prisma.sql`
  (pg_column_size(${column}) > ${SURELY_SHORT_BYTES} AND length(${column}::text) > ${BRIEF_CHARACTERS})`
const INPUT = Prisma.sql`c.input`
const OUTPUT = Prisma.sql`c.output`
const OTHER_COLUMNS = Object.values(Prisma.ToolCallScalarFieldEnum)
  .filter((name) => name !== 'input' && name !== 'output')
  .map((name) => `c."${name}"`)
  .join(', ')

/** SQL for the columns of a BriefCall, from the call `c`. */
const BRIEF_COLUMNS = Prisma.sql`${Prisma.raw(OTHER_COLUMNS)},
  coalesce(${isLongSql(INPUT)}, false) AS "omitsInput", CASE WHEN NOT ${isLongSql(INPUT)} THEN c.input END AS input,
  coalesce(${isLongSql(OUTPUT)}, false) AS "omitsOutput", CASE WHEN NOT ${isLongSql(OUTPUT)} THEN c.output END AS output`

const byAge = (a: ToolCall, b: ToolCall) => (a.id < b.id ? -1 : 1)

export function createToolCalls({ db }: Pick<Platform, 'db'>): ToolCalls {
  const briefCalls = (condition: Prisma.Sql) =>
    db.prisma.$queryRaw<BriefCall[]>`SELECT ${BRIEF_COLUMNS} FROM "ToolCall" c WHERE ${condition}`

  /**
   * Returns the calls that wait for a result, oldest first. These are the calls that one of the spaces shows, and the
   * EXTERNAL calls of the agents (null means all agents).
   */
  function awaitingResult({ spaceIds, agentIds }: { spaceIds: string[] | null; agentIds: string[] | null }) {
    const inAny = (column: Prisma.Sql, ids: string[] | null) =>
      ids === null ? Prisma.empty : Prisma.sql`AND ${column} = ANY(${ids}::text[])`
    return briefCalls(Prisma.sql`
      c.status = 'WAITING' AND (c."approvalState" IS NULL OR c."approvalState" = 'APPROVED') AND (
        (c.execution = 'SPACE' ${inAny(Prisma.sql`c."spaceId"`, spaceIds)})
        OR (c.execution = 'EXTERNAL' ${inAny(Prisma.sql`c."agentId"`, agentIds)}))
      ORDER BY c.id LIMIT ${MOST_PENDING}`)
  }

  /** Returns the calls that wait for a message which the human may post, oldest first. */
  async function awaitingMessageOf(humanId: string, spaceIds: string[]): Promise<BriefCall[]> {
    const rows = await db.prisma.$queryRaw<(BriefCall & { wait: unknown })[]>`
      SELECT ${BRIEF_COLUMNS}, c.input->'wait' AS wait FROM "ToolCall" c
      WHERE c."spaceId" = ANY(${spaceIds}::text[]) AND c.status = 'RUNNING' AND c.state @> '{"wait": {"asksPeople": true}}'
      ORDER BY c.id`
    return rows.filter((call) => mayReply(call.wait, humanId)).slice(0, MOST_PENDING)
  }

  /** Returns the calls on whose current input the human may still decide, oldest first. */
  function awaitingDecisionOf(humanId: string, spaceIds: string[]): Promise<BriefCall[]> {
    return briefCalls(Prisma.sql`
      c.status = 'WAITING' AND c."approvalState" = 'PENDING' AND (
        ${humanId} = ANY(c."approverIds") OR (c."escalatedAt" IS NOT NULL AND ${humanId} = ANY(c."escalateToIds"))
        OR (cardinality(c."approverIds") = 0 AND c."spaceId" = ANY(${spaceIds}::text[])))
      AND ${isHeardBy(Prisma.sql`${humanId}`, Prisma.sql`c.places || c.label`)}
      AND NOT EXISTS (SELECT 1 FROM "Decision" d WHERE d."toolCallId" = c.id AND d."humanId" = ${humanId}
        AND d."inputDigest" = c."inputDigest" AND d.counted IS NULL)
      ORDER BY c.id LIMIT ${MOST_PENDING}`)
  }

  return {
    async getMany(ids) {
      const rows = await db.prisma.toolCall.findMany({ where: { id: { in: wellFormedIds(ids) } } })
      return inOrderOf(ids, rows)
    },
    async getBriefMany(ids) {
      const rows = await briefCalls(Prisma.sql`c.id = ANY(${wellFormedIds(ids)}::text[])`)
      return inOrderOf(ids, rows)
    },
    async contentsOf(ids) {
      const select = { id: true, input: true, output: true }
      const rows = await db.prisma.toolCall.findMany({ where: { id: { in: [...ids] } }, select })
      return new Map(rows.map((row) => [row.id, row]))
    },
    async ofRuns(runIds) {
      const rows = await briefCalls(Prisma.sql`c."runId" = ANY(${runIds}::text[]) ORDER BY c.id`)
      return Map.groupBy(rows, (row) => row.runId)
    },
    async waitingByMessage(messageIds) {
      const rows = await briefCalls(Prisma.sql`
        c."messageId" = ANY(${[...messageIds]}::text[]) AND c.status = 'RUNNING' AND c.execution IS NULL ORDER BY c.id`)
      return new Map(rows.filter(waitsForReply).map((call) => [call.messageId ?? '', call]))
    },
    async pendingToolCalls(viewer) {
      const everything = { spaceIds: null, agentIds: null }
      if (viewer.scope === 'ADMIN') return awaitingResult(everything)
      if (viewer.scope === 'SERVICE') return awaitingResult({ spaceIds: [], agentIds: viewer.agentIds })
      const memberships = await db.prisma.membership.findMany({
        where: { entityId: viewer.id },
        select: { spaceId: true },
      })
      const spaceIds = memberships.map(({ spaceId }) => spaceId)
      const found = await Promise.all([
        awaitingResult(isAdmin(viewer) ? everything : { spaceIds, agentIds: [] }),
        awaitingMessageOf(viewer.id, spaceIds),
        awaitingDecisionOf(viewer.id, spaceIds),
      ])
      return found.flat().toSorted(byAge).slice(0, MOST_PENDING)
    },
  }
}
