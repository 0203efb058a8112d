import type { Viewer } from '../access/viewer.ts'
import type { Visibility } from '../access/visibility.ts'
import type { ToolCall } from '../generated/prisma/client.ts'
import { DUE_JOBS_CHANNEL, NOTIFY, PUBLISH_CHANGE } from '../jobs/queues.ts'
import { createLines } from '../lib/async.ts'
import { BadInputError, ConflictError, ForbiddenError, LimitExceededError, NotFoundError } from '../lib/errors.ts'
import { toJson } from '../lib/json.ts'
import { checkInput } from '../lib/schema-checks.ts'
import { checkJsonSize, checkText } from '../lib/validate.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { requireInPerson } from '../rules/acting.ts'
import {
  type AskedApproval,
  connectsTo,
  denialOf,
  digestOf,
  expiryOf,
  type GivenDecision,
  isApproved,
  nextOf,
  type Refusal,
  requireCurrentInput,
  requireEditsLeft,
  requireFirstDecision,
  requireNoConnection,
  requirePending,
  settlementOf,
  termsOf,
} from '../rules/approvals.ts'
import { isAnsweredBy, mayAnswer, waitsFor } from '../rules/call-answers.ts'
import { type Audience, audienceOf, createCallPublisher } from '../runs/call-publisher.ts'
import { forEach, type Timed } from '../runs/due.ts'
import type { ToolCalls } from '../runs/tool-call-reading.ts'
import { enqueueNotice } from '../stores/call-notices.ts'
import {
  approveCall,
  askAgain,
  CALL_DEADLINES_SQL,
  CALL_ESCALATIONS_SQL,
  editInput,
  escalateCall,
  type LockedCall,
  lockCall,
  readConnecting,
  setClaimer,
  settleWaitingCall,
} from '../stores/call-store.ts'
import {
  closeDecisions,
  countApprovals,
  invalidateDecisions,
  type PendingCalls,
  readApproverNames,
  readDecidable,
  readDecidedCalls,
  readDeciders,
  readDecidersOfCalls,
  readEarlierDecisions,
  recordDecision,
} from '../stores/decision-store.ts'
import { type LockedRun, lockRunOfCall } from '../stores/run-store.ts'
import { deliverApproval, type SettleCall, type Settled } from './settle-call.ts'

export interface DecideInput {
  toolCallId: string
  approve: boolean
  reason?: string | null
  input?: unknown
  inputDigest?: string | null
}

/** Records what people decide about pending tool calls, and which person is working on a call. */
export interface DecideCall {
  /**
   * Records a decision. The first decision that settles the call ends its PENDING state; later decisions get a
   * ConflictError.
   *
   * @throws NotFoundError, ForbiddenError, ConflictError, BadInputError, LimitExceededError; RateLimitedError if too
   * many edits of this human are waiting for validation
   */
  decideToolCall(viewer: Viewer, input: DecideInput): Promise<ToolCall>
  /**
   * Returns a pending call if the human may decide on it now.
   *
   * @throws NotFoundError, ForbiddenError, ConflictError
   */
  decidable(viewer: Viewer, toolCallId: string): Promise<{ call: ToolCall; humanId: string }>
  /**
   * Checks that `humanId` may approve a pending call, locks the call, and runs `also` in the same transaction. If
   * `approveCall` is set, the transaction also approves the call.
   *
   * @throws ForbiddenError, ConflictError, LimitExceededError, and the errors of `also`
   */
  decideAnd<T>(
    decision: { call: ToolCall; humanId: string; approveCall: boolean },
    also: (tx: Tx) => Promise<T>,
  ): Promise<{ call: ToolCall; also: T }>
  /**
   * Claims a call, or releases a claimed call.
   *
   * @throws NotFoundError, ForbiddenError, ConflictError, LimitExceededError
   */
  claimToolCall(viewer: Viewer, input: { toolCallId: string; release: boolean }): Promise<ToolCall>
  /**
   * Returns the human who has claimed each call. Omits calls that no longer wait, and humans who may no longer answer
   * the call.
   */
  claimersOf(calls: readonly ToolCall[]): Promise<Map<string, string>>
  /**
   * Recomputes the state of pending calls with `nextOf` of rules/approvals.ts, after a member has joined or left, or
   * after approval was requested. Without `among`, does this for all pending calls.
   */
  recheck(among?: PendingCalls): Promise<void>
  /**
   * Returns the URL at which a person has to connect their account before a call can continue, and the name of the
   * call's agent.
   * @throws NotFoundError if the call does not wait for this person, or if the viewer is an admin who acts as the
   * person
   */
  awaitedConnection(viewer: Viewer, toolCallId: string): Promise<Connection & { agentName: string }>
  /**
   * Continues the calls that were waiting for a person to connect their account. Each call is then executed, or waits
   * for approval.
   */
  connected(connection: Connection): Promise<void>
  /** Finds calls that are past their deadline or due for escalation, by the clock of the database. */
  timed: Timed[]
}

export interface DecideCallParts {
  visibility: Pick<Visibility, 'toolCallsAskedAbout'>
  toolCalls: Pick<ToolCalls, 'getMany'>
  settleCall: Pick<SettleCall, 'applySettled' | 'publishSettled' | 'publishChanged' | 'expireResult'>
}

/** The account of a person at an MCP server that an agent uses. */
export interface Connection {
  agentId: string
  serverName: string
  humanId: string
}

/** The effect of a decision on a call. */
interface Decided {
  call: ToolCall
  /** Null if the decision does not settle the call. */
  settled: Settled | null
  delivered?: { afterCommit(): Promise<void> } | null
  /** The keys of the jobs that publish the effect if this process dies before it can (change-store.ts). */
  changes: string[]
}

interface Deciding {
  callId: string
  humanId: string
  given: GivenDecision
}

/** The maximum number of times that one call can be claimed and released. Each writes an audit entry. */
const MOST_CLAIM_CHANGES = 100
const LONGEST_REASON = 2000
const NO_SUCH_CALL = 'There is no such tool call.'
const HUMANS_ONLY = 'Only a human can decide on calls and claim them: use the token of a human.'
const RUN_DELETED = 'The run of this call has ended and was deleted.'
const NO_APPROVER = 'You are not an approver of this call.'
const NO_ANSWERER = 'Only a person who may answer this call can claim it.'
const AWAITS_RESULT = 'This call waits for its result: submit it (submitToolResult).'
const AWAITS_MESSAGE = 'This call waits for a message: post one in its space (sendMessage).'

export function createDecideCall(
  platform: Platform,
  { visibility, toolCalls, settleCall }: DecideCallParts,
): DecideCall {
  const { db, signals, jobs } = platform
  const callPublisher = createCallPublisher(platform)
  const inLine = createLines()

  /** Returns a call if the human may see it. */
  async function callFor(viewer: Viewer, toolCallId: string): Promise<{ call: ToolCall; humanId: string }> {
    const [call] = await toolCalls.getMany([toolCallId])
    // A human who was asked about the call but is too late gets a ConflictError instead of a NotFoundError.
    if (call == null || !(await visibility.toolCallsAskedAbout(viewer, [call])).has(call.id))
      throw new NotFoundError(NO_SUCH_CALL)
    if (viewer.scope !== 'HUMAN') throw new ForbiddenError(HUMANS_ONLY)
    requireInPerson(viewer, 'decide on calls or claim them')
    return { call, humanId: viewer.id }
  }

  /**
   * Checks that a human may decide, before the input is validated and the call is locked. The check is repeated under
   * the lock.
   *
   * @throws ConflictError with the state of the call; ForbiddenError
   */
  async function requireDecider(callId: string, humanId: string): Promise<void> {
    const call = await readDecidable(db.prisma, callId, humanId)
    if (call === null) throw new ConflictError(RUN_DELETED)
    requirePending(call)
    if (!call.mayDecide) throw new ForbiddenError(NO_APPROVER)
  }

  /** Locks the run's row and the call, and checks that the human may decide. */
  async function lockPending(tx: Tx, callId: string, humanId: string) {
    const run = await lockRunOfCall(tx, callId, { unlessLocked: false })
    const call = await lockCall(tx, callId)
    if (run === null || call === null) throw new ConflictError(RUN_DELETED)
    requirePending(call)
    const deciderIds = await readDeciders(tx, callId)
    if (!deciderIds.includes(humanId)) throw new ForbiddenError(NO_APPROVER)
    return { run, call, deciderIds }
  }

  /** Locks the call, checks the human and the input, records the decision, and applies it. */
  async function decideIn(tx: Tx, { callId, humanId, given }: Deciding): Promise<Decided> {
    const { run, call, deciderIds } = await lockPending(tx, callId, humanId)
    if (given.approve) requireNoConnection(call)
    const current = requireCurrentInput(call, given)
    const earlier = await readEarlierDecisions(tx, { toolCallId: callId, humanId, inputDigest: current })
    requireFirstDecision(earlier, given.approve)
    const inputDigest = await writeEdit(tx, call, given, current)
    const { change } = await recordDecision(tx, { toolCallId: callId, humanId, inputDigest }, given)
    const decided = given.approve
      ? await approveIn(tx, { ...call, inputDigest }, deciderIds)
      : await refuseIn(tx, { run, call, deciderIds }, denialOf(await nameOf(tx, humanId), given.reason))
    if (decided === null) return { call: (await lockCall(tx, callId)) ?? call, settled: null, changes: [change] }
    return { ...decided, changes: [change, ...decided.changes] }
  }

  /** Approves a locked pending call if enough deciders have approved its input. */
  async function approveIn(
    tx: Tx,
    call: Pick<ToolCall, 'id' | 'inputDigest' | 'approval'>,
    deciderIds: string[],
  ): Promise<Decided | null> {
    const key = { toolCallId: call.id, inputDigest: call.inputDigest ?? '' }
    if (!isApproved(call, await countApprovals(tx, key, deciderIds))) return null
    const approved = await approveCall(tx, call.id, termsOf(call)?.answerMs ?? null)
    if (approved === null) return null
    await closeDecisions(tx, approved, deciderIds)
    await enqueueNotice(tx, approved.id, 'tool_call.decided')
    if (approved.status === 'WAITING') await enqueueNotice(tx, approved.id, 'tool_call.waiting')
    const delivered = await deliverApproval(tx, platform, approved)
    return { call: approved, settled: null, delivered, changes: [approved.change] }
  }

  /** Settles a locked pending call as refused, without executing it. */
  async function refuseIn(
    tx: Tx,
    { run, call, deciderIds }: { run: LockedRun; call: ToolCall; deciderIds?: string[] },
    refusal: Refusal,
  ): Promise<Decided | null> {
    const refused = await settleWaitingCall(tx, call.id, settlementOf(refusal), { decided: refusal.state })
    if (refused === null) return null
    await closeDecisions(tx, refused, deciderIds ?? (await readDeciders(tx, refused.id)))
    await enqueueNotice(tx, refused.id, 'tool_call.decided')
    const settled = await settleCall.applySettled(tx, run, refused, 'deciders')
    return { call: refused, settled, changes: [refused.change] }
  }

  /**
   * Locks the run and runs `work` on its pending call. Skips the call if it is not pending or, with `isDue`, if the
   * run is locked by another transaction.
   */
  async function whilePending(
    { id, isDue }: { id: string; isDue: boolean },
    work: (tx: Tx, run: LockedRun, call: LockedCall) => Promise<Decided | null>,
  ): Promise<Decided | null> {
    return db.transaction(async (tx) => {
      const run = await lockRunOfCall(tx, id, { unlessLocked: isDue })
      const call = run && (await lockCall(tx, id))
      return run && call?.approvalState === 'PENDING' ? work(tx, run, call) : null
    })
  }

  /** Publishes the effect of a decision. `also` publishes the remaining changes. */
  async function publish(
    { call, settled, delivered, changes }: Decided,
    also?: () => Promise<unknown>,
  ): Promise<ToolCall> {
    if (settled !== null) await settleCall.publishSettled(settled)
    else await settleCall.publishChanged(call, 'deciders')
    await delivered?.afterCommit()
    if (call.approvalState === 'APPROVED') {
      await callPublisher.settled(call, 'deciders')
      if (call.status === 'WAITING') await callPublisher.waits(call, 'answerers')
      else await signals.publish(DUE_JOBS_CHANNEL, {})
    }
    await also?.()
    for (const change of changes) jobs.withdraw(PUBLISH_CHANGE, change)
    return call
  }

  async function escalate(id: string, isDue: boolean): Promise<void> {
    const done = await whilePending({ id, isDue }, async (tx) => {
      const call = await escalateCall(tx, id, { isDue })
      if (call === null) return null
      await enqueueNotice(tx, id, 'tool_call.escalated')
      await jobs.enqueue(tx, NOTIFY, [{ key: `decision:${id}`, input: { cause: 'decision', id } }])
      return { call, settled: null, changes: [call.change] }
    })
    if (done === null) return
    await publish(done, () => Promise.all([callPublisher.escalated(done.call), signals.publish(DUE_JOBS_CHANNEL, {})]))
    await recheckOne(id)
  }

  async function recheckOne(id: string): Promise<void> {
    const [found] = await readDecidedCalls(db.prisma, { toolCallId: id })
    if (found === undefined) return
    if (nextOf(found).type === 'escalate') return escalate(id, false)
    const done = await whilePending({ id, isDue: false }, async (tx, run, call) => {
      const [facts] = await readDecidedCalls(tx, { toolCallId: id })
      const next = facts && nextOf(facts)
      if (next?.type === 'approve') return approveIn(tx, call, await readDeciders(tx, id))
      return next?.type === 'refuse' ? refuseIn(tx, { run, call }, next.refusal) : null
    })
    if (done !== null) await publish(done)
  }

  /** Expires a pending call whose deadline has passed. */
  async function expireApproval(id: string): Promise<void> {
    const done = await whilePending({ id, isDue: true }, async (tx, run, call) => {
      if (!call.isLate) return null
      const { inputDigest } = call
      return refuseIn(tx, { run, call }, expiryOf(call, await readApproverNames(tx, { toolCallId: id, inputDigest })))
    })
    if (done !== null) await publish(done)
  }

  async function expire(id: string): Promise<void> {
    const select = { id: true, toolName: true, approvalState: true }
    const call = await db.prisma.toolCall.findUnique({ where: { id }, select })
    if (call?.approvalState === 'PENDING') await expireApproval(id)
    else if (call !== null) await settleCall.expireResult(call)
  }

  async function decidable(viewer: Viewer, toolCallId: string): Promise<{ call: ToolCall; humanId: string }> {
    const { call, humanId } = await callFor(viewer, toolCallId)
    const waits = waitsFor(call)
    if (waits === 'RESULT' && call.approvalState === null) throw new ConflictError(AWAITS_RESULT)
    if (waits === 'MESSAGE') throw new ConflictError(AWAITS_MESSAGE)
    await requireDecider(call.id, humanId)
    return { call, humanId }
  }

  /** Continues a locked pending call after the person for whom it waits has connected their account. */
  async function connectedIn(tx: Tx, call: LockedCall, humanId: string): Promise<Decided | null> {
    const { connects } = termsOf(call) ?? {}
    if (connects === undefined || call.isLate) return null
    const inputDigest = call.inputDigest ?? ''
    if (connects.next === null) {
      const given = { approve: true, reason: null }
      const { change } = await recordDecision(tx, { toolCallId: call.id, humanId, inputDigest }, given)
      const approved = await approveIn(tx, call, await readDeciders(tx, call.id))
      return approved && { ...approved, changes: [change, ...approved.changes] }
    }
    const asked = await askAgain(tx, call.id, {
      ...(connects.next as unknown as AskedApproval),
      writtenDigest: inputDigest,
    })
    await enqueueNotice(tx, call.id, 'tool_call.waiting')
    await jobs.enqueue(tx, NOTIFY, [{ key: `decision:${call.id}`, input: { cause: 'decision', id: call.id } }])
    return { call: asked, settled: null, changes: [asked.change] }
  }

  return {
    decidable,
    async awaitedConnection(viewer, toolCallId) {
      const [call] = await toolCalls.getMany([toolCallId])
      const serverName = call == null ? null : connectsTo(call)
      const isOwn = viewer.scope === 'HUMAN' && viewer.acting === undefined && call?.approverIds[0] === viewer.id
      if (call == null || serverName === null || !isOwn) throw new NotFoundError(NO_SUCH_CALL)
      const isSeen = (await visibility.toolCallsAskedAbout(viewer, [call])).has(call.id)
      if (!isSeen) throw new NotFoundError(NO_SUCH_CALL)
      return {
        agentId: call.agentId,
        agentName: (await nameOf(db.prisma, call.agentId)) ?? 'The agent',
        serverName,
        humanId: viewer.id,
      }
    },
    async connected(connection) {
      await forEach(await readConnecting(db.prisma, connection), async (id) => {
        const done = await whilePending({ id, isDue: false }, (tx, _, call) =>
          connectsTo(call) === null ? Promise.resolve(null) : connectedIn(tx, call, connection.humanId),
        )
        if (done === null) return
        const isAsked = done.call.approvalState === 'PENDING'
        await publish(done, async () => {
          if (!isAsked) return
          await Promise.all([callPublisher.waits(done.call, 'deciders'), signals.publish(DUE_JOBS_CHANNEL, {})])
        })
        if (isAsked) await recheckOne(id)
      })
    },
    async decideAnd({ call: { id: callId, runId, inputDigest }, humanId, approveCall }, also) {
      const given = { approve: true, reason: null, input: undefined, inputDigest }
      const { decided, done } = await inLine(runId, () =>
        db.transaction(async (tx) => {
          const { call } = await lockPending(tx, callId, humanId)
          requireNoConnection(call)
          const done = await also(tx)
          const decided = approveCall
            ? await decideIn(tx, { callId, humanId, given })
            : { call, settled: null, changes: [] }
          return { decided, done }
        }),
      )
      return { call: approveCall ? await publish(decided) : decided.call, also: done }
    },
    async decideToolCall(viewer, { toolCallId, approve, reason, input, inputDigest }) {
      const { call, humanId } = await decidable(viewer, toolCallId)
      const checkedReason = reason ? checkText(reason, LONGEST_REASON, 'input.reason') : (reason ?? null)
      // Clients send null for an omitted input. A tool input is always an object, so null is never an edit.
      const edit = input ?? undefined
      const given = { approve, reason: checkedReason, input: edit, inputDigest: inputDigest ?? null }
      if (edit !== undefined) await checkEdit(call, { humanId, given })
      // Decisions on calls of the same run wait for each other here, in the process. If they waited for the run's row
      // lock, each would occupy a database connection.
      const decided = await inLine(call.runId, async () => {
        await requireDecider(call.id, humanId)
        return db.transaction((tx) => decideIn(tx, { callId: call.id, humanId, given }))
      })
      return publish(decided)
    },
    async claimToolCall(viewer, { toolCallId, release }) {
      const { call: seen, humanId } = await callFor(viewer, toolCallId)
      requireClaimable(seen)
      if (!(await mayClaim(db.prisma, seen, humanId))) throw new ForbiddenError(NO_ANSWERER)
      const { call, claimed } = await db.transaction((tx) => claimIn(tx, seen.id, humanId, release))
      if (claimed === null) return call
      await settleCall.publishChanged(call, claimed.audience)
      jobs.withdraw(PUBLISH_CHANGE, claimed.change)
      return call
    },
    async claimersOf(calls) {
      const claimed = calls.filter((call) => call.claimedById !== null && isClaimable(call))
      const mayAnswerIt = await readClaimants(db.prisma, claimed)
      return new Map(
        claimed.flatMap((call) => {
          const { id, claimedById } = call
          return claimedById !== null && mayAnswerIt(call, claimedById) ? [[id, claimedById]] : []
        }),
      )
    },
    async recheck(among = {}) {
      const found = await readDecidedCalls(db.prisma, among)
      await forEach(
        found.map(({ id }) => id),
        recheckOne,
      )
    },
    timed: [
      { what: 'a tool call past its deadline', rows: CALL_DEADLINES_SQL, handle: (ids) => forEach(ids, expire) },
      {
        what: 'a tool call whose approval is due for escalation',
        rows: CALL_ESCALATIONS_SQL,
        handle: (ids) => forEach(ids, (id) => escalate(id, true)),
      },
    ],
  }
}

/** Validates an edited input before any row is locked, because validation against a user's schema can be slow. */
async function checkEdit(
  call: ToolCall,
  { humanId, given: { approve, input } }: Pick<Deciding, 'humanId' | 'given'>,
): Promise<void> {
  const terms = termsOf(call)
  if (terms === null) return
  if (!approve) throw new BadInputError('A denial cannot change the input: omit it.', 'input.input')
  checkJsonSize(input, 'input.input')
  const tool = { inputSchema: terms.inputSchema, isForeign: true }
  const fault = await checkInput(tool, input, { id: humanId, isPatient: false })
  if (fault !== null) throw new BadInputError(`The input does not match the tool's schema: ${fault}`, 'input.input')
}

/**
 * Stores an edited input.
 * @returns the digest of the input to which the decision applies
 */
async function writeEdit(tx: Tx, call: ToolCall, { input }: GivenDecision, current: string): Promise<string> {
  if (input === undefined) return current
  const json = toJson(input)
  const digest = digestOf(json)
  if (digest === current) return current
  requireEditsLeft(call)
  await editInput(tx, call.id, json, digest)
  await invalidateDecisions(tx, call.id)
  return digest
}

async function nameOf(tx: Tx, entityId: string): Promise<string | null> {
  const entity = await tx.entity.findUnique({ where: { id: entityId }, select: { name: true } })
  return entity?.name ?? null
}

function isClaimable(call: ToolCall): boolean {
  const waits = waitsFor(call)
  return waits === 'RESULT' || waits === 'DECISION'
}

/** @throws ConflictError */
function requireClaimable(call: ToolCall): void {
  if (isClaimable(call)) return
  throw new ConflictError(waitsFor(call) === 'MESSAGE' ? AWAITS_MESSAGE : NOTHING_TO_ANSWER)
}

const NOTHING_TO_ANSWER = 'This call is no longer waiting for an answer.'

/**
 * Claims a call for a human who may answer it. Replaces an earlier claim if its human may no longer answer the call.
 */
async function claimIn(
  tx: Tx,
  id: string,
  humanId: string,
  release: boolean,
): Promise<{ call: ToolCall; claimed: { audience: Audience; change: string } | null }> {
  const call = await lockCall(tx, id)
  if (call === null) throw new ConflictError(NOTHING_TO_ANSWER)
  requireClaimable(call)
  const { claimedById } = call
  const isAnothers = claimedById !== null && claimedById !== humanId && (await mayClaim(tx, call, claimedById))
  if (isAnothers)
    throw new ConflictError('Another person has claimed this call (see claimedBy). You may still answer it.')
  if (claimedById === (release ? null : humanId)) return { call, claimed: null }
  if (call.claimChanges >= MOST_CLAIM_CHANGES)
    throw new LimitExceededError(
      `This call has been claimed and released ${MOST_CLAIM_CHANGES} times, the maximum: answer it without claiming it.`,
    )
  const changed = await setClaimer(tx, id, release ? null : humanId)
  if (!release) await enqueueNotice(tx, id, 'tool_call.claimed')
  return { call: changed, claimed: { audience: audienceOf(call), change: changed.change } }
}

/** Whether a human may submit the result of a call or decide on the call. */
async function mayClaim(tx: Tx, call: ToolCall, humanId: string): Promise<boolean> {
  const mayAnswerIt = await readClaimants(tx, [{ ...call, claimedById: humanId }])
  return mayAnswerIt(call, humanId)
}

/** Reads, in two statements, whether the humans who claimed the calls may submit the results or decide on the calls. */
async function readClaimants(
  tx: Tx,
  calls: readonly ToolCall[],
): Promise<(call: ToolCall, humanId: string) => boolean> {
  const ofDecisions = calls.filter((call) => waitsFor(call) === 'DECISION')
  const ofResults = calls.filter((call) => waitsFor(call) !== 'DECISION' && isAnsweredBy(call, 'HUMAN'))
  const places = ofResults.flatMap(({ spaceId, claimedById: entityId }) =>
    spaceId === null || entityId === null ? [] : [{ spaceId, entityId }],
  )
  const decisionIds = ofDecisions.map(({ id }) => id)
  const [deciders, members] = await Promise.all([
    decisionIds.length === 0 ? [] : readDecidersOfCalls(tx, decisionIds),
    places.length === 0 ? [] : tx.membership.findMany({ where: { OR: places } }),
  ])
  const allowed = new Set([
    ...deciders.map(({ callId, id }) => `${callId} ${id}`),
    ...members.map(({ spaceId, entityId }) => `${spaceId} ${entityId}`),
  ])
  return (call, humanId) => {
    if (waitsFor(call) === 'DECISION') return allowed.has(`${call.id} ${humanId}`)
    if (!isAnsweredBy(call, 'HUMAN') || call.spaceId === null) return false
    return mayAnswer(call, { scope: 'HUMAN', isMember: allowed.has(`${call.spaceId} ${humanId}`) })
  }
}
