import { createHash } from 'node:crypto'
import type { Decision, ToolCall } from '../generated/prisma/client.ts'
import { ConflictError, LimitExceededError } from '../lib/errors.ts'
import { canonicalText, cutSaying, type Json, type JsonObject, oneLine } from '../lib/json.ts'
import type { SettledCallStatus } from './statuses.ts'

/** The terms of a call's approval, stored with the call, so that later changes to its tool do not affect them. */
export type ApprovalTerms = {
  /** The number of humans who must approve. */
  quorum: number
  /** The digest of the input that the model generated. */
  writtenDigest: string
  /** The schema for edited inputs. */
  inputSchema: JsonObject
  /**
   * The version of the tool when approval was requested (Tool.versionDigest). An approval is valid only for this
   * version. Absent in old rows.
   */
  toolDigest?: string
  /** The digest that a standing grant for the call must have; null if no grant is possible. Absent in old rows. */
  grantDigest?: string | null
  /** Whether to hide the output of the call, because the tool itself is not visible to the people who see the call. */
  hidesOutput: boolean
  /** The time limit for an external answer, counted from the approval; null if the server executes the call. */
  answerMs: number | null
  /** Whether the run's time limit is suspended while the call waits for approval. */
  patient: boolean
  /** How often the input was edited; absent for no edits. */
  edits?: number
  /**
   * Set if the call waits until its only approver has connected to an MCP server; absent if it waits for a decision.
   */
  connects?: {
    /** The name of the MCP server. */
    serverName: string
    /** The AskedApproval that the call needs after its approver has connected; null if none. */
    next: JsonObject | null
  }
}

/** The approval that a tool requires for its calls. */
export interface AskedApproval extends Omit<ApprovalTerms, 'writtenDigest' | 'edits'> {
  /** The approvers. If the list is empty, these are the human members of the space that shows the call. */
  approverIds: string[]
  expiresInSeconds: number
  /** The time before escalation; null for never. */
  escalateAfterSeconds: number | null
  escalateToIds: string[]
}

/** The approval that a call requires. */
export interface NewApproval extends AskedApproval {
  writtenDigest: string
}

/** The default time limits for waiting calls. */
export interface WaitLimits {
  toolWaitSeconds: number
  approvalWaitSeconds: number
}

/**
 * Returns how long a call waits for approval by a policy. `patient` is absent in policies stored before
 * PARLEY_APPROVAL_WAIT_SECONDS was introduced.
 */
export function waitSecondsOf(
  { expiresInSeconds, patient = false }: { expiresInSeconds: number | null; patient?: boolean },
  { toolWaitSeconds, approvalWaitSeconds }: WaitLimits,
): number {
  return expiresInSeconds ?? (patient ? approvalWaitSeconds : toolWaitSeconds)
}

/**
 * Returns the name of the MCP server to which the call's approver has to connect; null if the call does not wait for a
 * connection.
 */
export function connectsTo(call: Pick<ToolCall, 'approval' | 'approvalState'>): string | null {
  return call.approvalState === 'PENDING' ? (termsOf(call)?.connects?.serverName ?? null) : null
}

/** Returns a sentence about the person who has to connect. */
export const connectionInWords = (name: string, serverName: string): string =>
  `${name} has to connect to the MCP server "${serverName}" before this call is made.`

/**
 * @throws ConflictError if the call waits for its approver to connect to a server, because a decision is no substitute
 * for the connection
 */
export function requireNoConnection(call: Pick<ToolCall, 'approval' | 'approvalState'>): void {
  const serverName = connectsTo(call)
  if (serverName !== null)
    throw new ConflictError(
      `This call continues once its approver has connected to the MCP server "${serverName}": open ToolCall.authorization.url in a browser, or deny the call.`,
    )
}

/** Returns the digest that identifies an input. */
export function digestOf(input: Json): string {
  return createHash('sha256').update(canonicalText(input)).digest('base64url')
}

/** Returns the approval terms of a call; null if it needed no approval. */
export function termsOf({ approval }: Pick<ToolCall, 'approval'>): ApprovalTerms | null {
  return approval as ApprovalTerms | null
}

/** Whether an approved call waits for a worker to execute it, or is being executed. */
export function isExecutedByWorker({ status, carryAt }: Pick<ToolCall, 'status' | 'carryAt'>): boolean {
  return status === 'RUNNING' && carryAt !== null
}

/** The fields of a call that name its approvers. */
export type NamedApprovers = Readonly<Pick<ToolCall, 'approverIds' | 'escalateToIds' | 'escalatedAt'>>

/**
 * Whether a human is named as an approver in the call's policy or, once the call is escalated, as an escalation
 * contact. These humans may read the call and its input, but nothing else of the run.
 */
export function isAskedByName(call: NamedApprovers, humanId: string): boolean {
  return call.approverIds.includes(humanId) || (call.escalatedAt !== null && call.escalateToIds.includes(humanId))
}

/** A human's decision on a call. */
export interface GivenDecision {
  approve: boolean
  reason: string | null
  /** The edited input; undefined if it is unchanged. */
  input: unknown
  /** The digest of the input that the human saw; null for the input that the model generated. */
  inputDigest: string | null
}

/** Whether a call can be decided on. */
export interface DecidableCall extends Pick<ToolCall, 'status' | 'approvalState'> {
  /** Whether the deadline has passed according to the database clock. */
  isLate: boolean
}

/** @throws ConflictError with the state of the call */
export function requirePending({ status, approvalState, isLate }: DecidableCall): void {
  if (approvalState === null) throw new ConflictError('This call needs no decision.')
  if (approvalState !== 'PENDING')
    throw new ConflictError(`This call is no longer waiting for a decision: it is ${approvalState.toLowerCase()}.`)
  if (status !== 'WAITING') throw new ConflictError('This call is no longer waiting for a decision: it has ended.')
  if (isLate) throw new ConflictError('This call is no longer waiting for a decision: it has expired.')
}

/**
 * Checks that an approval is for the current input. A denial is accepted for any input, so that other people cannot
 * prevent it by editing.
 *
 * @returns the digest of the current input
 * @throws ConflictError if the human approves another input
 */
export function requireCurrentInput(
  call: Pick<ToolCall, 'inputDigest' | 'approval'>,
  { approve, inputDigest }: Pick<GivenDecision, 'approve' | 'inputDigest'>,
): string {
  const current = call.inputDigest ?? ''
  if (approve && (inputDigest ?? termsOf(call)?.writtenDigest) !== current)
    throw new ConflictError('The input of this call has changed: review the new input and send its inputDigest.')
  return current
}

/**
 * The maximum number of edits of one call by all people together. Each edit invalidates all approvals and is shown with
 * the call.
 */
const MOST_EDITS = 20

/** @throws LimitExceededError */
export function requireEditsLeft(call: Pick<ToolCall, 'approval'>): void {
  if ((termsOf(call)?.edits ?? 0) >= MOST_EDITS)
    throw new LimitExceededError(
      `The input of this call has been edited ${MOST_EDITS} times, the maximum: approve the current input or deny the call.`,
    )
}

/**
 * The maximum number of stored decisions on one call by all people together, because the call is shown with all its
 * decisions.
 */
export const MOST_DECISIONS = 100

/** The decisions on a call so far. */
export interface EarlierDecisions {
  count: number
  /** Whether the human has already decided on the current input. */
  hasDecided: boolean
}

/**
 * @throws ConflictError if the human has already decided on this input; LimitExceededError if the decision is an
 * approval and the limit is reached (a denial ends the call, so it is always allowed)
 */
export function requireFirstDecision({ count, hasDecided }: EarlierDecisions, isApproval: boolean): void {
  if (hasDecided) throw new ConflictError('You have already decided on this input.')
  if (isApproval && count >= MOST_DECISIONS)
    throw new LimitExceededError(
      `This call has ${MOST_DECISIONS} decisions, the maximum: deny the call, so that the agent can request approval again.`,
    )
}

/** Whether this number of approvals of the current input, by people who may decide, is enough. */
export function isApproved(call: Pick<ToolCall, 'approval'>, approvals: number): boolean {
  const terms = termsOf(call)
  return terms !== null && approvals >= terms.quorum
}

/** The state of a call's approval. */
export interface ApprovalStanding {
  /** The humans who may decide; empty once the call is decided. */
  deciderIds: string[]
  /** The latest decisions, oldest first. */
  decisions: (Decision & { counts: boolean })[]
}

/** Returns the humans who may decide on a call, and which of its decisions count. */
export function tally(
  call: Pick<ToolCall, 'approvalState' | 'inputDigest'>,
  deciderIds: string[],
  decisions: readonly Decision[],
): ApprovalStanding {
  const counts = ({ counted, inputDigest, humanId }: Decision) =>
    counted ?? (inputDigest === call.inputDigest && deciderIds.includes(humanId))
  return {
    deciderIds: call.approvalState === 'PENDING' ? deciderIds : [],
    decisions: decisions.map((decision) => ({ ...decision, counts: counts(decision) })),
  }
}

/** Whether a human may decide on a call now: a decider who has not yet decided on this input. */
export function mayDecide(
  { inputDigest }: Pick<ToolCall, 'inputDigest'>,
  { deciderIds, decisions }: ApprovalStanding,
  humanId: string,
): boolean {
  const hasDecided = decisions.some(
    (one) => one.humanId === humanId && one.inputDigest === inputDigest && one.counted !== false,
  )
  return deciderIds.includes(humanId) && !hasDecided
}

/** The facts on which the next step of a pending call depends. */
export interface PendingFacts {
  escalatesAt: Date | null
  quorum: number
  /**
   * `asked`: the number of humans whose approval is requested. `count`: how many of them may read the sources of the
   * call.
   */
  asked: number
  count: number
  /** `agreed`: the number of deciders who have approved the current input. */
  agreed: number
  /** Whether the agent is no longer a member of the space in which approval is requested. */
  hasLeft: boolean
}

/** Why a call is not executed. */
export interface Refusal {
  state: 'DENIED' | 'EXPIRED' | 'CANCELED'
  /** The error code for the model; if absent, the approval state is used. */
  code?: 'CONFIDENTIAL'
  message: string
}

export type PendingStep =
  | { type: 'wait' }
  | { type: 'approve' }
  /** Fewer people may decide than must approve, but there are escalation contacts. */
  | { type: 'escalate' }
  | { type: 'refuse'; refusal: Refusal }

const NOT_EXECUTED = 'The call was not executed.'

/** Returns the next step of a pending call. Called when approval is requested and when a member joins or leaves. */
export function nextOf({ escalatesAt, quorum, asked, count, agreed, hasLeft }: PendingFacts): PendingStep {
  if (hasLeft) {
    const message = `You have left the space in which people were asked to decide. ${NOT_EXECUTED}`
    return { type: 'refuse', refusal: { state: 'CANCELED', message } }
  }
  if (count < quorum && escalatesAt !== null) return { type: 'escalate' }
  if (agreed >= quorum) return { type: 'approve' }
  if (count >= quorum) return { type: 'wait' }
  const tooFew = `${quorum} must agree, and only ${count} may decide`
  if (asked < quorum)
    return {
      type: 'refuse',
      refusal: { state: 'EXPIRED', message: `${tooFew}. ${NOT_EXECUTED} Continue without it.` },
    }
  const why = 'you have read content of a confidential space that the other approvers may not see'
  const message = `${tooFew}: ${why}. ${NOT_EXECUTED} Continue without it.`
  return { type: 'refuse', refusal: { state: 'EXPIRED', code: 'CONFIDENTIAL', message } }
}

/** Returns the refusal of a call that a human has denied. `name` is null if the human was erased. */
export function denialOf(name: string | null, reason: string | null): Refusal {
  const why = reason === null ? '' : `: ${JSON.stringify(reason)}`
  const who = JSON.stringify(oneLine(name ?? 'somebody'))
  const message = `Denied by ${who}${why}. ${NOT_EXECUTED} Do not repeat the call with the same input: change it, or continue without it.`
  return { state: 'DENIED', message }
}

/** Returns the refusal of a call whose deadline has passed. `names` are the people who approved the call's input. */
export function expiryOf(call: Pick<ToolCall, 'approval'>, names: readonly string[]): Refusal {
  const { serverName } = termsOf(call)?.connects ?? {}
  if (serverName !== undefined)
    return {
      state: 'EXPIRED',
      message: `The person did not connect to the MCP server "${serverName}" in time. ${NOT_EXECUTED}`,
    }
  const listed = names.map((name) => JSON.stringify(oneLine(name))).join(', ')
  const who =
    names.length === 0
      ? 'Nobody decided'
      : `Only ${listed} approved the call, and ${termsOf(call)?.quorum} approvals were needed`
  const message = `${who} before the deadline. ${NOT_EXECUTED} Continue without it, or request approval again if the call still matters.`
  return { state: 'EXPIRED', message }
}

const STATUS_BY_CODE = {
  DENIED: 'FAILED',
  EXPIRED: 'TIMED_OUT',
  CANCELED: 'CANCELED',
  CONFIDENTIAL: 'FAILED',
} as const satisfies Record<string, SettledCallStatus>

/** Returns the result of a refused call. */
export function settlementOf({ state, code = undefined, message }: Refusal) {
  const cause = code ?? state
  const output: Json = { error: { code: cause, message } }
  return { status: STATUS_BY_CODE[cause], output, error: message }
}

/** A decision that counts towards the approval of a call. */
export interface CountedDecision {
  name: string
  approve: boolean
  reason: string | null
}

const LONGEST_INPUT = 4000

/** Describes, in one line for the agent, how people decided on its call. Names and reasons are in JSON quotes. */
export function describeDecisions(
  call: Pick<ToolCall, 'approval' | 'approvalState' | 'input'>,
  decisions: readonly CountedDecision[],
): string {
  const names = (approve: boolean) =>
    decisions
      .filter((one) => one.approve === approve)
      .map(
        ({ name, reason }) =>
          `${JSON.stringify(oneLine(name))}${reason === null ? '' : ` (${JSON.stringify(reason)})`}`,
      )
      .join(', ')
  switch (call.approvalState) {
    case 'APPROVED':
      return `approved by ${names(true)}${describeEdit(call)}`
    case 'DENIED':
      return `denied by ${names(false)}`
    case 'EXPIRED':
      return names(true) === '' ? 'expired, undecided' : `expired, approved only by ${names(true)}`
    default:
      return 'canceled'
  }
}

/** Returns a description of the edited input with which the call was executed. */
function describeEdit(call: Pick<ToolCall, 'approval' | 'input'>): string {
  const terms = termsOf(call)
  if (terms === null || digestOf(call.input as Json) === terms.writtenDigest) return ''
  return `, with another input than yours: ${cutSaying(JSON.stringify(call.input), LONGEST_INPUT)}`
}
