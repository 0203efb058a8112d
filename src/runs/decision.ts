import { Prisma, type ToolCall } from '../generated/prisma/client.ts'
import { BadInputError, ConflictError, ForbiddenError, LimitExceededError } from '../lib/errors.ts'
import type { Requester } from '../lib/fair-queue.ts'
import { type JsonObject, oneLine, toJson } from '../lib/json.ts'
import { checkJsonSize } from '../lib/validate.ts'
import type { Tx } from '../platform/db.ts'
import { DECIDERS, digestOf, MOST_DECISIONS, termsOf } from './approval.ts'
import { noted } from './call-notifications.ts'
import { type LockedRun, lockRunOf, type Settled } from './call-settling.ts'
import { decidersOf } from './deciders.ts'
import { approved, edited } from './tool-calls.ts'

/**
 * Maximum number of edits of one call, by anybody: each edit invalidates all approvals, and is
 * shown with the call.
 */
const MOST_EDITS = 20

/** A human's decision on a call. */
export interface GivenDecision {
  approve: boolean
  reason: string | null
  /** The edited input; undefined: unchanged. */
  input: unknown
  /** The digest of the input that the human saw; null: the one that the model generated. */
  inputDigest: string | null
}

/** The result of a decision or of a deadline. */
export interface Decided {
  call: ToolCall
  /** Null: the call is not settled by it. */
  settled: Settled | null
  follow?: { afterCommit(): Promise<void> } | null
}

/** Why a call is not executed. */
export interface Refusal {
  state: 'DENIED' | 'EXPIRED' | 'CANCELED'
  /** The error code for the model; absent: the state. */
  code?: 'CONFIDENTIAL'
  message: string
  /** Who could decide at that time; absent: who can now. */
  deciders?: string[]
}

/** The effects of a decision. */
export interface DecidingParts {
  /** In the transaction that approves a call: informs a persistent agent, which does not wait for the call. */
  onApproved(tx: Tx, call: ToolCall): Promise<{ afterCommit(): Promise<void> } | null> | null
  end(tx: Tx, run: LockedRun, call: ToolCall, refusal: Refusal): Promise<Decided | null>
}

/** Validates an input by a user's JSON Schema. @returns an error message, or null */
export interface InputCheck {
  checkInput(
    tool: { inputSchema: JsonObject; isForeign: true },
    input: unknown,
    requester: Requester,
  ): Promise<string | null>
}

interface Deciding {
  callId: string
  humanId: string
  given: GivenDecision
}

/** Locks the run's row and the call, checks the human and the input, records the decision, and applies it. */
export async function decideIn(tx: Tx, parts: DecidingParts, { callId, humanId, given }: Deciding): Promise<Decided> {
  const run = await lockRunOf(tx, callId, { unlessLocked: false })
  const call = await lockCall(tx, callId)
  if (run === null || call === null) throw new ConflictError(NOTHING_LEFT)
  checkIsPending(call)
  const deciders = await decidersOf(tx, callId)
  if (!deciders.includes(humanId)) throw new ForbiddenError(NOT_ASKED)
  const before = checkIsSeen(call, given)
  await checkIsFirst(tx, { callId, humanId, digest: before, isApproval: given.approve })
  const digest = await inputAfter(tx, call, given)
  await tx.$executeRaw`
    INSERT INTO "Decision" ("toolCallId", "humanId", "inputDigest", approve, reason, at)
    VALUES (${callId}, ${humanId}, ${digest}, ${given.approve}, ${given.reason}, now())
    ON CONFLICT ("toolCallId", "humanId", "inputDigest") DO UPDATE
      SET approve = excluded.approve, reason = excluded.reason, at = excluded.at, counted = NULL`
  const decided = given.approve
    ? await approveIn(tx, parts, { ...call, inputDigest: digest }, deciders)
    : await parts.end(tx, run, call, {
        state: 'DENIED',
        message: await deniedText(tx, humanId, given.reason),
        deciders,
      })
  return decided ?? { call: (await lockCall(tx, callId)) ?? call, settled: null }
}

/** Under a lock on a pending call: approves it if enough of the deciders have approved its input. */
export async function approveIn(
  tx: Tx,
  { onApproved }: Pick<DecidingParts, 'onApproved'>,
  call: Pick<ToolCall, 'id' | 'inputDigest' | 'approval'>,
  deciders: string[],
): Promise<Decided | null> {
  const { id: toolCallId, inputDigest } = call
  const agreed = await tx.decision.count({
    where: { toolCallId, inputDigest: inputDigest ?? '', approve: true, humanId: { in: deciders }, counted: null },
  })
  const terms = termsOf(call)
  if (terms === null || agreed < terms.quorum) return null
  const done = await approved(tx, toolCallId, terms.answerMs)
  if (done === null) return null
  await closeDecisions(tx, done, deciders)
  await noted(tx, done.id, 'tool_call.decided')
  if (done.status === 'WAITING') await noted(tx, done.id, 'tool_call.waiting')
  return { call: done, settled: null, follow: await onApproved(tx, done) }
}

/** `isLate`: its time is up by the database's clock. */
export async function lockCall(tx: Tx, id: string): Promise<(ToolCall & { isLate: boolean }) | null> {
  const [call] = await tx.$queryRaw<(ToolCall & { isLate: boolean })[]>`
    SELECT *, coalesce("expiresAt" <= now(), false) AS "isLate" FROM "ToolCall" WHERE id = ${id} FOR NO KEY UPDATE`
  return call ?? null
}

/**
 * Whether a human may decide on a call, checked before anything is validated or locked. Checked
 * again under the lock.
 * @throws ConflictError with the state of the call; ForbiddenError
 */
export async function checkMayDecide(tx: Tx, { callId, humanId }: Pick<Deciding, 'callId' | 'humanId'>): Promise<void> {
  const [standing] = await tx.$queryRaw<(Pending & { mayDecide: boolean })[]>`
    SELECT ${PENDING}, ${humanId} IN (${DECIDERS}) AS "mayDecide" FROM "ToolCall" c WHERE c.id = ${callId}`
  if (standing === undefined) throw new ConflictError(NOTHING_LEFT)
  checkIsPending(standing)
  if (!standing.mayDecide) throw new ForbiddenError(NOT_ASKED)
}

const NOTHING_LEFT = 'The run of this call has ended and was deleted.'
const NOT_ASKED = 'You are not an approver of this call.'

interface Pending extends Pick<ToolCall, 'status' | 'approvalState'> {
  isLate: boolean
}

/** Columns of a call `c`, for Pending. */
const PENDING = Prisma.sql`c.status::text AS status, c."approvalState"::text AS "approvalState", coalesce(c."expiresAt" <= now(), false) AS "isLate"`

/** @throws ConflictError with the state of the call */
function checkIsPending({ status, approvalState, isLate }: Pending): void {
  if (approvalState === null) throw new ConflictError('This call needs no decision.')
  if (approvalState !== 'PENDING')
    throw new ConflictError(`This call no longer waits for a decision: it is ${approvalState.toLowerCase()}.`)
  if (status !== 'WAITING') throw new ConflictError('This call no longer waits for a decision: it has ended.')
  if (isLate) throw new ConflictError('This call no longer waits for a decision: it has expired.')
}

/**
 * Checks that an approval is for the current input. A denial is for the call with any input, so
 * that edits by others cannot prevent it.
 * @returns the digest of the current input
 * @throws ConflictError if the human approves another input
 */
function checkIsSeen(call: ToolCall, { approve, inputDigest }: GivenDecision): string {
  const stands = call.inputDigest ?? ''
  if (approve && (inputDigest ?? termsOf(call)?.writtenDigest) !== stands)
    throw new ConflictError('The input of this call has changed: review the new input and send its inputDigest.')
  return stands
}

/** Validates an edit before anything is locked, because users' schemas may be slow. */
export async function checkEdit(
  { checkInput }: InputCheck,
  call: ToolCall,
  { humanId, given: { approve, input } }: Pick<Deciding, 'humanId' | 'given'>,
): Promise<void> {
  const terms = termsOf(call)
  if (terms === null) return
  if (!approve) throw new BadInputError('A denial cannot change the input: omit it.', 'input.input')
  checkJsonSize(input, 'input.input')
  const requester = { id: humanId, isPatient: false }
  const fault = await checkInput({ inputSchema: terms.inputSchema, isForeign: true }, input, requester)
  if (fault !== null) throw new BadInputError(`The input does not match the tool's schema: ${fault}`, 'input.input')
}

/** Writes an edited input. @returns the digest of the input that is decided on */
async function inputAfter(tx: Tx, call: ToolCall, { input }: GivenDecision): Promise<string> {
  const stands = call.inputDigest ?? ''
  if (input === undefined) return stands
  const json = toJson(input)
  const digest = digestOf(json)
  if (digest !== stands) {
    if ((termsOf(call)?.edits ?? 0) >= MOST_EDITS)
      throw new LimitExceededError(
        `The input of this call has been edited ${MOST_EDITS} times, the maximum: approve the current input or deny the call.`,
      )
    await edited(tx, call.id, json, digest)
    // Approvals stay invalid, even if a later edit restores the input.
    await tx.decision.updateMany({ where: { toolCallId: call.id }, data: { counted: false } })
  }
  return digest
}

/**
 * @throws ConflictError if the human has already decided on this input; LimitExceededError for an
 * approval over the limit (a denial ends the call, so it is always allowed)
 */
async function checkIsFirst(
  tx: Tx,
  { callId, humanId, digest, isApproval }: { callId: string; humanId: string; digest: string; isApproval: boolean },
): Promise<void> {
  const [before] = await tx.$queryRaw<{ count: number; hasDecided: boolean }[]>`
    SELECT count(*)::int AS count,
      coalesce(bool_or("humanId" = ${humanId} AND "inputDigest" = ${digest} AND counted IS NULL), false) AS "hasDecided"
    FROM "Decision" WHERE "toolCallId" = ${callId}`
  if (before?.hasDecided === true) throw new ConflictError('You have already decided on this input.')
  if (isApproval && before !== undefined && before.count >= MOST_DECISIONS)
    throw new LimitExceededError(
      `This call has ${MOST_DECISIONS} decisions, the maximum: deny the call, so that the agent can request approval again.`,
    )
}

/**
 * Marks which decisions counted, when the call is decided, so that later changes of membership do
 * not affect them. `deciders` is passed in because one of them may be leaving at the same time.
 */
export async function closeDecisions(tx: Tx, { id, inputDigest }: ToolCall, deciders: string[]): Promise<void> {
  await tx.$executeRaw`
    UPDATE "Decision" SET counted = (counted IS NULL AND "inputDigest" = ${inputDigest} AND "humanId" = ANY(${deciders}::text[])) WHERE "toolCallId" = ${id}`
}

async function deniedText(tx: Tx, humanId: string, reason: string | null): Promise<string> {
  const human = await tx.entity.findUnique({ where: { id: humanId }, select: { name: true } })
  const why = reason === null ? '' : `: ${JSON.stringify(reason)}`
  return `Denied by ${JSON.stringify(oneLine(human?.name ?? 'somebody'))}${why}. It was not carried out. Do not call it again with the same input: adapt, or go on without it.`
}
