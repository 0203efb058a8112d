import type { Viewer } from '../access/viewer.ts'
import type { Visibility } from '../access/visibility.ts'
import { JOBS_CHANNEL, runTopic, spaceTopic } from '../broker/topics.ts'
import { union } from '../confidentiality/marks.ts'
import type { ToolCall } from '../generated/prisma/client.ts'
import { PUBLISH_CHANGE } from '../jobs/queues.ts'
import { BadInputError, ConflictError, ForbiddenError, NotFoundError } from '../lib/errors.ts'
import type { Requester } from '../lib/fair-queue.ts'
import { type Json, type JsonObject, toJson } from '../lib/json.ts'
import { checkJson } from '../lib/schema-checks.ts'
import type { ResultFile } from '../lib/tool-file.ts'
import { checkJsonSize } from '../lib/validate.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { type CallAnswerer, isAnsweredBy, isAnsweredOutside, mayAnswer, waitsFor } from '../rules/call-answers.ts'
import { indexOfCall, messageOfRow } from '../rules/message.ts'
import { isAdmin } from '../rules/permissions.ts'
import { type Audience, audienceOf, createCallPublisher } from '../runs/call-publisher.ts'
import { fileLines } from '../runs/conversation.ts'
import { readDecisionTexts } from '../runs/decision-texts.ts'
import { appending } from '../runs/run-events.ts'
import type { ToolCalls } from '../runs/tool-call-reading.ts'
import { type Answerer, type ChangedCall, settleWaitingCall, showsWaitingCallSql } from '../stores/call-store.ts'
import { type LockedRun, lockRunOfCall, resumeRunOfCalls } from '../stores/run-store.ts'
import type { Post } from './post.ts'
import { deliver, publishWoken } from './wake.ts'

/** The effects of settling a call, which are published after the commit. */
export interface Settled {
  call: ChangedCall
  partIndex: number | null
  /** The people who were last asked for an answer or a decision; null if nobody was asked. */
  audience: Audience | null
  afterCommit: (() => Promise<void>)[]
}

export interface SettleOptions {
  audience: Audience | null
  /** Whether the call may have timed out. Such a call is skipped for now if the row of its run is locked. */
  isDue?: boolean
}

/**
 * Settles calls that their run does not execute itself. People or services answer them or decide on them, another
 * worker executes them, or they time out.
 */
export interface SettleCall {
  /**
   * Submits the result of a call. Only the first result has an effect. When the last missing result of a step
   * arrives, the run resumes. A late result is refused, but if the agent is persistent, the result is added to its
   * inbox.
   *
   * @throws NotFoundError, ForbiddenError, ConflictError, BadInputError; RateLimitedError if too many results of the
   * viewer are waiting for validation
   */
  submitToolResult(viewer: Viewer, input: { toolCallId: string; result: unknown }): Promise<ToolCall>
  /**
   * Times out a call that waits for its result. Does nothing if the call was already answered, is not due yet, or is
   * locked.
   */
  expireResult(call: Pick<ToolCall, 'id' | 'toolName'>): Promise<void>
  /**
   * Settles a call in a transaction. Locks the run's row, so that no pause or stop happens at the same time. Changes
   * the call with `change`, which is a compare-and-set, and applies the effects. Publishes the effects after the
   * commit. Returns null if there was nothing to change.
   */
  settle(
    toolCallId: string,
    options: SettleOptions,
    change: (tx: Tx, run: LockedRun) => Promise<ChangedCall | null>,
  ): Promise<ToolCall | null>
  /**
   * Applies the effects within the transaction. Finishes the call's message if no other call in the message waits.
   * Adds the result to the inbox of a persistent agent. Makes the run claimable once none of its calls waits for an
   * answer from outside.
   */
  applySettled(tx: Tx, run: LockedRun, call: ChangedCall, audience: Audience | null): Promise<Settled>
  /**
   * Applies the effects of calls whose run has ended. Only finishes their messages, because the agent gets no result.
   */
  applyAbandoned(tx: Tx, calls: ChangedCall[]): Promise<Settled[]>
  /** Publishes the effects after the commit. */
  publishSettled(settled: Settled): Promise<void>
  /** Publishes a change to the approval or claim of a call to everybody who sees the call. */
  publishChanged(call: ToolCall, audience: Audience): Promise<void>
}

export interface SettleCallParts {
  visibility: Pick<Visibility, 'toolCalls' | 'agents' | 'isMember'>
  toolCalls: Pick<ToolCalls, 'getMany'>
  posting: Pick<Post, 'finishAnswered'>
}

export function createSettleCall(platform: Platform, { visibility, toolCalls, posting }: SettleCallParts): SettleCall {
  const { db, log, signals, jobs } = platform
  const callPublisher = createCallPublisher(platform)

  /** Finishes the message that shows a call, once none of the calls in the message waits any more. */
  async function finishMessage(tx: Tx, call: ChangedCall, audience: Audience | null): Promise<Settled> {
    const settled: Settled = { call, partIndex: null, audience, afterCommit: [] }
    const { messageId } = call
    const row = messageId === null ? null : await tx.message.findUnique({ where: { id: messageId } })
    if (row === null) return settled
    settled.partIndex = indexOfCall(messageOfRow(row).parts, call.id)
    if (row.status !== 'REQUIRES_ACTION') return settled
    const [open] = await tx.$queryRaw<{ waits: boolean }[]>`SELECT ${showsWaitingCallSql(row.id)} AS waits`
    if (open?.waits === true) return settled
    const finished = await posting.finishAnswered(tx, row.id, call.status === 'CANCELED' ? 'INTERRUPTED' : 'COMPLETE')
    settled.afterCommit.push(finished.afterCommit)
    return settled
  }

  async function applySettled(tx: Tx, run: LockedRun, call: ChangedCall, audience: Audience | null): Promise<Settled> {
    const settled = await finishMessage(tx, call, audience)
    const delivered = await deliverResult(tx, platform, { call, result: call.output as Json, dedupKey: call.id })
    if (delivered !== null) settled.afterCommit.push(delivered.afterCommit)
    if (run.status === 'WAITING_TOOL') await resumeRunOfCalls(tx, run.id)
    return settled
  }

  async function publishPart({ messageId, spaceId }: ToolCall, partIndex: number | null): Promise<void> {
    if (messageId === null || spaceId === null || partIndex === null || partIndex < 0) return
    await log.append(spaceTopic(spaceId), { type: 'MessagePartChanged', messageId, partIndex })
  }

  function publishToRun(type: 'RunToolReturned' | 'RunToolCallChanged', { id, runId }: ToolCall) {
    const event = { type, toolCallId: id }
    return log.append(runTopic(runId), event, appending(runId, event))
  }

  async function publishSettled({ call, partIndex, audience, afterCommit }: Settled): Promise<void> {
    await publishPart(call, partIndex)
    if (audience === 'deciders') {
      await publishToRun('RunToolCallChanged', call)
      await callPublisher.changed(call, audience)
    }
    if (audience !== null) await callPublisher.settled(call, audience)
    await publishToRun('RunToolReturned', call)
    for (const after of afterCommit) await after()
    await signals.publish(JOBS_CHANNEL, {})
    jobs.withdraw(PUBLISH_CHANGE, call.change)
  }

  const settle: SettleCall['settle'] = async (toolCallId, { audience, isDue = false }, change) => {
    const settled = await db.transaction(async (tx) => {
      const run = await lockRunOfCall(tx, toolCallId, { unlessLocked: isDue })
      const call = run && (await change(tx, run))
      return run && call && applySettled(tx, run, call, audience)
    })
    if (settled === null) return null
    await publishSettled(settled)
    return settled.call
  }

  async function answererFor(viewer: Viewer, call: ToolCall): Promise<CallAnswerer> {
    if (isAdmin(viewer)) return { scope: 'ADMIN' }
    const { scope } = viewer
    switch (scope) {
      case 'ADMIN':
        return { scope }
      case 'SERVICE':
        return { scope, isGranted: visibility.agents(viewer, [call.agentId]).has(call.agentId) }
      case 'HUMAN': {
        const isShown = isAnsweredBy(call, scope) && call.spaceId !== null
        return { scope, isMember: isShown && (await visibility.isMember(call.spaceId ?? '', viewer.id)) }
      }
    }
  }

  /** Validates a result before any row is locked, because validation against a user's schema can be slow. */
  async function checkResult(call: ToolCall, result: Json, requester: Requester): Promise<void> {
    checkJsonSize(result, 'input.result')
    const { agentId, toolName: name, status } = call
    if (status !== 'WAITING') return
    const tool = await db.prisma.agentTool.findUnique({ where: { agentId_name: { agentId, name } } })
    if (tool?.resultSchema == null) return
    const fault = await checkJson(tool.resultSchema as JsonObject, result, requester)
    if (fault !== null) throw new BadInputError(`The result does not match resultSchema: ${fault}`, 'input.result')
  }

  /** Adds an answer to the agent's inbox if it arrived after the call had timed out. Adds it at most once. */
  async function deliverLate(toolCallId: string, result: Json): Promise<boolean> {
    const delivered = await db.transaction(async (tx) => {
      const call = await tx.toolCall.findUnique({ where: { id: toolCallId } })
      if (call?.status !== 'TIMED_OUT' || call.approvalState === 'EXPIRED') return null
      return deliverResult(tx, platform, { call, result, dedupKey: `${toolCallId}:late` })
    })
    await delivered?.afterCommit()
    return delivered !== null
  }

  return {
    async submitToolResult(viewer, { toolCallId, result: given }) {
      const [call] = await toolCalls.getMany([toolCallId])
      if (call == null || !(await visibility.toolCalls(viewer, [call])).has(call.id))
        throw new NotFoundError('There is no such tool call.')
      const waits = waitsFor(call)
      if (waits === 'MESSAGE')
        throw new ConflictError('This call waits for a message: post one in its space (sendMessage).')
      if (waits === 'DECISION')
        throw new ConflictError('This call waits for a decision: approve or deny it first (decideToolCall).')
      if (!mayAnswer(call, await answererFor(viewer, call))) throw new ForbiddenError(whoAnswers(call))
      const result = toJson(given)
      await checkResult(call, result, { id: viewer.id, isPatient: isAdmin(viewer) })
      const settlement = { status: 'DONE' as const, output: result, error: null }
      const settled = await settle(call.id, { audience: 'answerers' }, (tx) =>
        settleWaitingCall(tx, call.id, settlement, { by: answererOf(viewer) }),
      )
      if (settled !== null) return settled
      if (await deliverLate(call.id, result))
        throw new ConflictError(
          'This call has timed out, and its agent has continued without it. The result was put into the inbox of the agent.',
        )
      throw new ConflictError('This call has already been answered, has timed out, or its run has ended.')
    },
    async expireResult({ id, toolName }) {
      const error = 'Nobody answered in time.'
      const settlement = { status: 'TIMED_OUT' as const, output: timedOutResult(toolName), error }
      await settle(id, { audience: 'answerers', isDue: true }, (tx) =>
        settleWaitingCall(tx, id, settlement, { isDue: true }),
      )
    },
    settle,
    applySettled,
    async applyAbandoned(tx, calls) {
      const settled = []
      for (const call of calls) settled.push(await finishMessage(tx, call, audienceOf(call)))
      return settled
    },
    publishSettled,
    async publishChanged(call, audience) {
      const row = call.messageId && (await db.prisma.message.findUnique({ where: { id: call.messageId } }))
      await publishPart(call, row ? indexOfCall(messageOfRow(row).parts, call.id) : null)
      await publishToRun('RunToolCallChanged', call)
      await callPublisher.changed(call, audience)
    },
  }
}

function answererOf(viewer: Viewer): Answerer {
  return {
    humanId: viewer.scope === 'HUMAN' ? viewer.id : null,
    serviceName: viewer.scope === 'SERVICE' ? viewer.name : null,
  }
}

function whoAnswers({ execution }: ToolCall): string {
  if (execution === 'SPACE') return 'Only a member of the space in which the call is visible can answer it.'
  if (execution === 'EXTERNAL') return 'Only a service with a grant for the agent can answer this call.'
  return 'The server executes this call itself: no result can be submitted.'
}

/** Returns the result that the model receives for a call that timed out. */
function timedOutResult(toolName: string): Json {
  const message = `Nobody answered ${toolName} in time. Continue without its result, or call the tool again.`
  return { error: { code: 'TIMED_OUT', message } }
}

/**
 * Adds the result of a call to the inbox of its agent, in the transaction that settles or approves the call. Does
 * this even if the think cycle has ended. Returns null if the call does not belong to a think cycle, because its run
 * then waits for the result.
 */
async function deliverResult(
  tx: Tx,
  platform: Pick<Platform, 'signals'>,
  { call, result, dedupKey }: { call: ToolCall; result: Json; dedupKey: string },
) {
  const run = await tx.run.findUnique({ where: { id: call.runId } })
  const isAsynchronous = isAnsweredOutside(call) || call.approvalState !== null
  if (run?.triggerType !== 'INBOX' || !isAsynchronous) return null
  const { id: toolCallId, toolName, agentId, label } = call
  const { id: parentRunId, rootId, depth, askers } = run
  const [decisions] = await readDecisionTexts(tx, [call])
  const files = fileLines((call.files ?? []) as unknown as ResultFile[])
  const woken = await deliver(tx, {
    agentId,
    type: 'TOOL_RESULT',
    dedupKey,
    payload: {
      toolCallId,
      toolName,
      result,
      ...(decisions === undefined ? {} : { decisions: decisions.text }),
      ...(files.length === 0 ? {} : { files }),
    },
    // A call is canceled when its agent leaves the space. Its result then no longer belongs to the space.
    spaceId: call.status === 'CANCELED' ? null : call.spaceId,
    rootId,
    depth,
    parentRunId,
    askers,
    // The answer comes from the space that shows the call, and from the sources of the call's run.
    places: union(call.places, call.spaceId === null ? [] : [call.spaceId]),
    label,
  })
  return woken && { afterCommit: () => publishWoken(platform, woken) }
}

/**
 * Notifies a persistent agent that its call was approved but still waits for the result of a service. Runs in the
 * transaction that approves the call. Returns null if no notification is needed.
 */
export async function deliverApproval(tx: Tx, platform: Pick<Platform, 'signals'>, call: ToolCall) {
  if (call.status !== 'WAITING') return null
  const result = { status: 'approved', toolCallId: call.id }
  return deliverResult(tx, platform, { call, result, dedupKey: `${call.id}:approved` })
}
