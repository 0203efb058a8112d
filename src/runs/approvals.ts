import { Prisma, type ToolCall } from '../generated/prisma/client.ts'
import { createLines } from '../lib/async.ts'
import { type Json, oneLine } from '../lib/json.ts'
import { checkText } from '../lib/validate.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { CALLS_CHANNEL } from '../realtime/topics.ts'
import { ASKED, DECIDERS, termsOf } from './approval.ts'
import { noted } from './call-notifications.ts'
import { createCallPublisher } from './call-publisher.ts'
import { type CallSettling, type LockedRun, lockRunOf } from './call-settling.ts'
import { decidersOf } from './deciders.ts'
import {
  approveIn,
  checkEdit,
  checkMayDecide,
  closeDecisions,
  type Decided,
  type DecidingParts,
  decideIn,
  type GivenDecision,
  type InputCheck,
  lockCall,
  type Refusal,
} from './decision.ts'
import { forEach, type Timed } from './due.ts'
import { answer, escalated, type Settlement } from './tool-calls.ts'

/** Approval of calls by people. */
export interface Approvals {
  /**
   * Records a decision of a human who can see the call. Only one decision takes the call out of
   * PENDING; later ones get ConflictError.
   * @throws ConflictError, ForbiddenError, BadInputError; RateLimitedError if too many edits of
   * this human wait to be validated
   */
  decide(call: ToolCall, humanId: string, given: GivenDecision): Promise<ToolCall>
  /**
   * Checks pending calls (all, or those of `among`) after a member joined or left or approval was
   * requested. Calls with enough approvals become APPROVED. Calls on which too few people may
   * decide are escalated at once, or EXPIRED if they already were. Calls whose agent has left the
   * space are CANCELED.
   */
  recheck(among?: Among): Promise<void>
  /** Expires a call whose time is up by the database's clock. */
  expire(toolCallId: string): Promise<void>
  /** The calls that are due for escalation. */
  timed: Timed
}

export interface ApprovalParts extends InputCheck, Pick<DecidingParts, 'onApproved'> {
  settling: CallSettling
}

const LONGEST_REASON = 2000

export function createApprovals(platform: Platform, parts: ApprovalParts): Approvals {
  const { db, signals } = platform
  const { settling } = parts
  const callPublisher = createCallPublisher(platform)
  const inLine = createLines()

  async function tell({ call, settled, follow }: Decided): Promise<ToolCall> {
    if (settled !== null) await settling.tell(settled)
    else await settling.tellChanged(call, 'deciders')
    await follow?.afterCommit()
    if (call.approvalState === 'APPROVED') {
      await callPublisher.settled(call, 'deciders')
      if (call.status === 'WAITING') await callPublisher.waits(call, 'answerers')
      else await signals.publish(CALLS_CHANNEL, { type: 'carry', toolCallId: call.id })
    }
    return call
  }

  async function end(tx: Tx, run: LockedRun, call: ToolCall, refusal: Refusal): Promise<Decided | null> {
    const { state, deciders } = refusal
    const ended = await answer(tx, call.id, settlementOf(refusal), { decided: state })
    if (ended === null) return null
    await closeDecisions(tx, ended, deciders ?? (await decidersOf(tx, ended.id)))
    await noted(tx, ended.id, 'tool_call.decided')
    return { call: ended, settled: await settling.follow(tx, run, ended, 'deciders') }
  }

  /**
   * Runs `work` on a pending call under its run's lock; skips a call that is not pending or, if
   * `isDue`, whose run is locked.
   */
  async function whilePending(
    { id, isDue }: { id: string; isDue: boolean },
    work: (tx: Tx, run: LockedRun, call: ToolCall) => Promise<Decided | null>,
  ): Promise<Decided | null> {
    return db.transaction(async (tx) => {
      const run = await lockRunOf(tx, id, { unlessLocked: isDue })
      const call = run && (await lockCall(tx, id))
      return run && call?.approvalState === 'PENDING' ? work(tx, run, call) : null
    })
  }

  async function escalate(id: string, isDue: boolean): Promise<void> {
    const done = await whilePending({ id, isDue }, async (tx) => {
      const call = await escalated(tx, id, { isDue })
      if (call !== null) await noted(tx, id, 'tool_call.escalated')
      return call && { call, settled: null }
    })
    if (done === null) return
    await tell(done)
    await callPublisher.escalated(done.call)
    await recheckOne(id)
  }

  async function recheckOne(id: string): Promise<void> {
    const [found] = await ripe(db.prisma, { toolCallId: id })
    if (found === undefined) return
    if (isToEscalate(found)) return escalate(id, false)
    const done = await whilePending({ id, isDue: false }, async (tx, run, call) => {
      const [still] = await ripe(tx, { toolCallId: id })
      if (still === undefined || isToEscalate(still)) return null
      if (still.agreed >= still.quorum && !still.hasLeft) return approveIn(tx, parts, call, await decidersOf(tx, id))
      return end(tx, run, call, endOf(still))
    })
    if (done !== null) await tell(done)
  }

  return {
    async decide(call, humanId, given) {
      const deciding = { callId: call.id, humanId }
      await checkMayDecide(db.prisma, deciding)
      const checked = { ...given, reason: given.reason && checkText(given.reason, LONGEST_REASON, 'input.reason') }
      if (given.input !== undefined) await checkEdit(parts, call, { humanId, given })
      const work = (tx: Tx) => decideIn(tx, { ...parts, end }, { ...deciding, given: checked })
      // Serialize decisions of a run here, so that waiters for its row lock do not each occupy a connection.
      const decided = await inLine(call.runId, async () => {
        await checkMayDecide(db.prisma, deciding)
        return db.transaction(work)
      })
      return tell(decided)
    },
    async recheck(among = {}) {
      const found = await ripe(db.prisma, among)
      await forEach(
        found.map(({ id }) => id),
        recheckOne,
      )
    },
    async expire(id) {
      const done = await whilePending({ id, isDue: true }, async (tx, run, call) => {
        const [due] = await tx.$queryRaw<unknown[]>`SELECT 1 FROM "ToolCall" WHERE id = ${id} AND "expiresAt" <= now()`
        return due === undefined ? null : end(tx, run, call, { state: 'EXPIRED', message: await lateText(tx, call) })
      })
      if (done !== null) await tell(done)
    },
    timed: {
      what: 'a tool call whose approval is due for escalation',
      rows: Prisma.sql`SELECT id, "escalatesAt" AS at FROM "ToolCall" WHERE "escalatesAt" IS NOT NULL`,
      handle: (ids) => forEach(ids, (id) => escalate(id, true)),
    },
  }
}

/** Selects pending calls; empty: all. */
export interface Among {
  toolCallId?: string
  spaceId?: string
}

/** A pending call that can be settled now: enough people have approved it, or too few can. */
interface Ripe {
  id: string
  escalatesAt: Date | null
  quorum: number
  /**
   * `asked`: humans from whom approval is requested. `count`: those of them who may read what the
   * call comes from.
   */
  asked: number
  count: number
  /** How many of them approved the current input. */
  agreed: number
  /** The agent is no longer a member of the space in which approval is requested. */
  hasLeft: boolean
}

/**
 * Selects the calls that can be settled: all, the given call, or those that may be affected by a
 * change of the space's members.
 */
function ripe(tx: Tx, among: Among): Promise<Ripe[]> {
  const { toolCallId = null, spaceId = null } = among
  return tx.$queryRaw<Ripe[]>`
    SELECT * FROM (
      SELECT c.id, c."escalatesAt", (c.approval->>'quorum')::int AS quorum, d.*, (SELECT count(*)::int FROM (${ASKED}) a) AS asked,
        (c."spaceId" IS NOT NULL AND NOT EXISTS (
          SELECT 1 FROM "Membership" m WHERE m."spaceId" = c."spaceId" AND m."entityId" = c."agentId")) AS "hasLeft"
      FROM "ToolCall" c CROSS JOIN LATERAL (
        SELECT count(*)::int AS count, (count(*) FILTER (WHERE EXISTS (SELECT 1 FROM "Decision" said WHERE ${AGREES})))::int AS agreed
        FROM (${DECIDERS}) d
      ) d
      WHERE c."approvalState" = 'PENDING' AND c."expiresAt" > now() AND (${toolCallId}::text IS NULL OR c.id = ${toolCallId})
        AND (${spaceId}::text IS NULL OR c."spaceId" = ${spaceId} OR ${spaceId} = ANY(c.places || c.label))
    ) pending WHERE count < quorum OR agreed >= quorum OR "hasLeft" ORDER BY id LIMIT 500`
}

/** Condition: a decision by `d` approves the current input of `c`. */
const AGREES = Prisma.sql`said."toolCallId" = c.id AND said."humanId" = d.id AND said.approve
  AND said."inputDigest" = c."inputDigest" AND said.counted IS NULL`

const isToEscalate = ({ escalatesAt, hasLeft, count, quorum }: Ripe) =>
  escalatesAt !== null && !hasLeft && count < quorum

function endOf({ quorum, asked, count, hasLeft }: Ripe): Refusal {
  if (hasLeft) return { state: 'CANCELED', message: LEFT_TEXT }
  const tooFew = `${quorum} must agree, and only ${count} may decide`
  if (asked < quorum) return { state: 'EXPIRED', message: `${tooFew}. ${NOT_DONE} Go on without it.` }
  const why = `what you know comes from a confidential space, and the others who are asked may not hear it`
  return { state: 'EXPIRED', code: 'CONFIDENTIAL', message: `${tooFew}: ${why}. ${NOT_DONE} Go on without it.` }
}

const NOT_DONE = 'It was not carried out.'
const LEFT_TEXT = `You have left the space in which people were asked to decide. ${NOT_DONE}`

async function lateText(tx: Tx, call: ToolCall): Promise<string> {
  const agreed = await tx.$queryRaw<{ name: string }[]>`
    SELECT h.name FROM "Decision" d JOIN "Entity" h ON h.id = d."humanId"
    WHERE d."toolCallId" = ${call.id} AND d."inputDigest" = ${call.inputDigest} AND d.approve ORDER BY d.at`
  const names = agreed.map(({ name }) => JSON.stringify(oneLine(name))).join(', ')
  const who = agreed.length === 0 ? 'Nobody decided' : `Only ${names} agreed, of ${termsOf(call)?.quorum}`
  return `${who} before its time was up. ${NOT_DONE} Go on without it, or ask again where it still matters.`
}

const STATUS = { DENIED: 'FAILED', EXPIRED: 'TIMED_OUT', CANCELED: 'CANCELED', CONFIDENTIAL: 'FAILED' } as const

function settlementOf({ state, code, message }: Refusal): Settlement {
  const told = code ?? state
  const output: Json = { error: { code: told, message } }
  return { status: STATUS[told], output, error: message }
}
