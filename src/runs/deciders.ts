import type { Decision, ToolCall } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { DECIDERS, MOST_DECISIONS } from './approval.ts'

/** The humans who may decide on a call, also after it was decided. */
export async function decidersOf(tx: Tx, toolCallId: string): Promise<string[]> {
  const rows = await tx.$queryRaw<{ id: string }[]>`
    SELECT d.id FROM "ToolCall" c CROSS JOIN LATERAL (${DECIDERS}) d WHERE c.id = ${toolCallId}`
  return rows.map(({ id }) => id)
}

/** The state of a call's approval. */
export interface ApprovalStanding {
  /** Who may decide; empty once it is decided. */
  deciderIds: string[]
  /** The latest decisions, oldest first. */
  decisions: (Decision & { counts: boolean })[]
}

/** Reads approvals. */
export interface ApprovalReading {
  /** Returns the approval state by call, for calls that needed approval. */
  standingOf(calls: readonly ToolCall[]): Promise<Map<string, ApprovalStanding>>
  /** Whether a human may decide on a call now: an approver who has not yet decided on this input. */
  mayDecide(call: ToolCall, standing: ApprovalStanding, humanId: string): boolean
}

export function createApprovalReading({ db }: Pick<Platform, 'db'>): ApprovalReading {
  return {
    async standingOf(given) {
      const calls = given.filter(({ approvalState }) => approvalState !== null)
      if (calls.length === 0) return new Map()
      const ids = calls.map(({ id }) => id)
      const [deciders, decisions] = await Promise.all([
        db.prisma.$queryRaw<{ callId: string; id: string }[]>`
          SELECT c.id AS "callId", d.id FROM "ToolCall" c CROSS JOIN LATERAL (${DECIDERS}) d
          WHERE c.id = ANY(${ids}::text[]) ORDER BY d.id`,
        db.prisma.$queryRaw<Decision[]>`
          SELECT d.* FROM unnest(${ids}::text[]) AS c(id) CROSS JOIN LATERAL (
            SELECT * FROM "Decision" WHERE "toolCallId" = c.id ORDER BY at DESC, "humanId" DESC LIMIT ${MOST_DECISIONS}
          ) d ORDER BY d.at, d."humanId"`,
      ])
      return new Map(calls.map((call) => [call.id, standing(call, deciders, decisions)]))
    },
    mayDecide,
  }
}

function standing(call: ToolCall, rows: { callId: string; id: string }[], decisions: Decision[]): ApprovalStanding {
  const deciderIds = rows.flatMap(({ callId, id }) => (callId === call.id ? [id] : []))
  const counts = ({ counted, inputDigest, humanId }: Decision) =>
    counted ?? (inputDigest === call.inputDigest && deciderIds.includes(humanId))
  return {
    deciderIds: call.approvalState === 'PENDING' ? deciderIds : [],
    decisions: decisions
      .filter(({ toolCallId }) => toolCallId === call.id)
      .map((decision) => ({ ...decision, counts: counts(decision) })),
  }
}

function mayDecide({ inputDigest }: ToolCall, { deciderIds, decisions }: ApprovalStanding, humanId: string): boolean {
  const hasDecided = decisions.some(
    (one) => one.humanId === humanId && one.inputDigest === inputDigest && one.counted !== false,
  )
  return deciderIds.includes(humanId) && !hasDecided
}
