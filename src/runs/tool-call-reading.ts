import { isHeardBy } from '../confidence/world.ts'
import { Prisma, type ToolCall } from '../generated/prisma/client.ts'
import { wellFormedIds } from '../lib/ids.ts'
import { inOrderOf } from '../lib/in-order.ts'
import type { Platform } from '../platform/platform.ts'
import { isMet, type WaitCondition } from '../spaces/reply-search.ts'

/** Whether a call waits for a reply to its message, of people or agents. */
function waitsForReply({ status, state, settledAt }: ToolCall): boolean {
  return status === 'RUNNING' && settledAt === null && (state as { wait?: unknown } | null)?.wait !== undefined
}

/** What a call waits for. */
export function waitsFor(call: ToolCall): 'RESULT' | 'DECISION' | 'MESSAGE' | null {
  if (call.status !== 'WAITING') return waitsForReply(call) ? 'MESSAGE' : null
  return call.approvalState === 'PENDING' ? 'DECISION' : 'RESULT'
}

/** Whether a message of this human answers a call that waits for a reply. */
function mayReply({ input }: ToolCall, humanId: string): boolean {
  const conditions = (input as { wait?: { for?: WaitCondition[] } } | null)?.wait?.for ?? []
  return conditions.some((one) => isMet(one, { senderId: humanId, kind: 'HUMAN' }))
}

/** Tool calls, as they are read. */
export interface ToolCalls {
  /** What a call waits for: RESULT, that somebody submits; DECISION, of people; MESSAGE, in its space; null for nobody. */
  waitsFor(call: ToolCall): 'RESULT' | 'DECISION' | 'MESSAGE' | null
  /** Of each message, the call that waits for a reply to it. */
  waitingByMessage(messageIds: readonly string[]): Promise<Map<string, ToolCall>>
  /** Those that wait for a message which the human may post, oldest first. */
  askingHuman(humanId: string, spaceIds: string[], most: number): Promise<ToolCall[]>
  /** Those on which the human may decide and has not yet, as their input stands; oldest first. */
  askingToDecide(humanId: string, spaceIds: string[], most: number): Promise<ToolCall[]>
  getMany(ids: string[]): Promise<(ToolCall | null)[]>
  ofRuns(runIds: string[]): Promise<Map<string, ToolCall[]>>
  /** Those that wait for a result and show in one of these spaces, or are EXTERNAL ones of these agents (null: of all); oldest first. */
  waiting(where: { spaceIds: string[] | null; agentIds: string[] | null }, most: number): Promise<ToolCall[]>
}

export function createToolCalls({ db }: Pick<Platform, 'db'>): ToolCalls {
  return {
    async getMany(ids) {
      const rows = await db.prisma.toolCall.findMany({ where: { id: { in: wellFormedIds(ids) } } })
      return inOrderOf(ids, rows)
    },
    async ofRuns(runIds) {
      const rows = await db.prisma.toolCall.findMany({ where: { runId: { in: runIds } }, orderBy: { id: 'asc' } })
      return Map.groupBy(rows, (row) => row.runId)
    },
    waitsFor,
    async waitingByMessage(messageIds) {
      const rows = await db.prisma.toolCall.findMany({
        where: { messageId: { in: [...messageIds] }, status: 'RUNNING', execution: null },
        orderBy: { id: 'asc' },
      })
      return new Map(rows.filter(waitsForReply).map((call) => [call.messageId ?? '', call]))
    },
    async askingHuman(humanId, spaceIds, most) {
      const rows = await db.prisma.toolCall.findMany({
        where: { spaceId: { in: spaceIds }, status: 'RUNNING', state: { path: ['wait', 'asksPeople'], equals: true } },
        orderBy: { id: 'asc' },
      })
      return rows.filter((call) => mayReply(call, humanId)).slice(0, most)
    },
    askingToDecide: (humanId, spaceIds, most) =>
      db.prisma.$queryRaw<ToolCall[]>`
        SELECT c.* FROM "ToolCall" c WHERE c.status = 'WAITING' AND c."approvalState" = 'PENDING' AND (
          ${humanId} = ANY(c."approverIds") OR (c."escalatedAt" IS NOT NULL AND ${humanId} = ANY(c."escalateToIds"))
          OR (cardinality(c."approverIds") = 0 AND c."spaceId" = ANY(${spaceIds}::text[])))
        AND ${isHeardBy(Prisma.sql`${humanId}`, Prisma.sql`c.places || c.label`)}
        AND NOT EXISTS (SELECT 1 FROM "Decision" d WHERE d."toolCallId" = c.id AND d."humanId" = ${humanId}
          AND d."inputDigest" = c."inputDigest" AND d.counted IS NULL)
        ORDER BY c.id LIMIT ${most}`,
    waiting({ spaceIds, agentIds }, most) {
      const external = { execution: 'EXTERNAL' as const, ...(agentIds === null ? {} : { agentId: { in: agentIds } }) }
      const inSpaces = { execution: 'SPACE' as const, ...(spaceIds === null ? {} : { spaceId: { in: spaceIds } }) }
      return db.prisma.toolCall.findMany({
        where: {
          status: 'WAITING',
          AND: [{ OR: [inSpaces, external] }, { OR: [{ approvalState: null }, { approvalState: 'APPROVED' }] }],
        },
        orderBy: { id: 'asc' },
        take: most,
      })
    },
  }
}
