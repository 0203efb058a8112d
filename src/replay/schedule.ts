import { isDeepStrictEqual } from 'node:util'
import { MCP_NAME_SEPARATOR } from '../agents/tool-names.ts'
import type { Decision, Message, Run, Step, ToolCall } from '../generated/prisma/client.ts'
import { isObject, type JsonObject } from '../lib/json.ts'
import { digestOf } from '../rules/approvals.ts'
import { isAnsweredOutside } from '../rules/call-answers.ts'
import { isAnsweredCall } from '../rules/statuses.ts'
import { memoriesWritten, pausesOf, spaceChanges } from './changes.ts'
import { CLOCKS_MS, showsUrgent } from './momentary.ts'
import {
  type Action,
  answerKey,
  beginKey,
  callKey,
  deleteKey,
  editKey,
  inOrder,
  messageKey,
  type Nodes,
  type ScheduledAction,
  settleKey,
  stepKey,
  stopKey,
} from './order.ts'
import { callsIn, executionKey, orderReadings, wasStreamed } from './readings.ts'
import { type Recorded, type Recording, UnusableRecordingError } from './recording.ts'

/** Whether the call was sent to a person, service or server outside. */
export const isOutside = ({ execution, toolName }: Pick<Recorded<ToolCall>, 'execution' | 'toolName'>): boolean =>
  execution === 'HTTP' || (execution === null && toolName.includes(MCP_NAME_SEPARATOR))

/** Whether the call waits for a person or a service. */
const waitsOutside = (call: Recorded<ToolCall>): boolean => call.approvalState !== null || isAnsweredOutside(call)

/** Returns the members at the beginning, and the people and agents who joined and left later. */
export function firstMembers({ memberships, formerMembers, space, messages, audit }: Recording): {
  initial: string[]
  joined: { entityId: string; at: string }[]
  left: { entityId: string; at: string }[]
} {
  const begun = messages[0]?.createdAt ?? space.createdAt
  const joined = memberships
    .filter(({ joinedAt }) => joinedAt !== null && Date.parse(joinedAt) > Date.parse(begun))
    .map(({ entityId, joinedAt }) => ({ entityId, at: String(joinedAt) }))
  const later = new Set(joined.map(({ entityId }) => entityId))
  const stays = memberships.filter(({ entityId }) => !later.has(entityId)).map(({ entityId }) => entityId)
  const isJoin = (action: string) => action === 'addMember' || action === 'joinSpace'
  const changes = audit
    .filter(({ action }) => isJoin(action) || action === 'removeMember')
    .toSorted((a, b) => Date.parse(a.at) - Date.parse(b.at))
  // If a person joins by a link, the entry names no member, because the person is the actor.
  const memberOf = ({ detail, actorId }: (typeof changes)[number]) =>
    ((detail as JsonObject)['entityId'] ?? actorId) as string | null
  const left: { entityId: string; at: string }[] = []
  const before = new Set(stays)
  for (const { entityId } of formerMembers) {
    const own = changes.filter((change) => memberOf(change) === entityId)
    const gone = own.findLast(({ action }) => !isJoin(action))
    if (gone === undefined)
      throw new UnusableRecordingError(
        `The recording does not say when the former member ${entityId} left: the audit log no longer has the entry (PARLEY_KEEP_AUDIT_DAYS).`,
      )
    left.push({ entityId, at: gone.at })
    const came = own.find(({ action, at }) => isJoin(action) && Date.parse(at) > Date.parse(begun))
    if (came !== undefined && own[0] === came) joined.push({ entityId, at: came.at })
    else before.add(entityId)
  }
  return { initial: [...before], joined, left }
}

/** Returns all actions in an order in which they can be repeated. */
export function scheduleOf(recording: Recording): ScheduledAction[] {
  const nodes: Nodes = new Map()
  const add = (key: string, at: string | number, action: Action, after: string[] = []) => {
    nodes.set(key, { key, at: typeof at === 'number' ? at : Date.parse(at), action, after })
  }
  addMessages(recording, add)
  addRuns(recording, add)
  addCalls(recording, add)
  addCauses(recording, add)
  expandSettled(recording, nodes)
  orderReadings(recording, nodes)
  return inOrder(nodes)
}

/** The reasons why a run ended in the middle of a step. */
const CUTS_OFF = new Set(['STOPPED', 'MODEL_FAILED', 'OVER_BUDGET', 'TIME_LIMIT', 'WORKER_LOST', 'GONE', 'INTERNAL'])

type Add = (key: string, at: string | number, action: Action, after?: string[]) => void

function addMessages(recording: Recording, add: Add): void {
  const { messages, messageVersions, reactions, calls } = recording
  const bySeq = new Map(messages.map((message) => [message.id, message]))
  for (const message of messages) {
    const before = message.seq > 1 ? [`message ${message.seq - 1}`] : []
    const [first] = messageVersions.filter(({ messageId }) => messageId === message.id)
    const text = message.deletedAt === null ? (first?.text ?? textOf(message)) : textOfDeleted(message)
    if (message.deletedAt !== null && !isDeletedByAgent(recording, message))
      add(deleteKey(message.id), message.deletedAt, { type: 'delete', message }, [messageKey(message)])
    if (message.runId === null) add(messageKey(message), message.createdAt, { type: 'say', message, text }, before)
    else add(messageKey(message), message.createdAt, { type: 'post', message }, [...before, ...postsAfter(message)])
    if (message.runId !== null) continue
    const versions = messageVersions.filter(({ messageId }) => messageId === message.id)
    versions.forEach(({ editedAt, number }, index) => {
      const text = versions[index + 1]?.text ?? textOf(message)
      const after = index === 0 ? messageKey(message) : editKey(message.id, Number(versions[index - 1]?.number))
      const retriesRuns = startedByEdit(recording, message.id, editedAt).length > 0
      add(editKey(message.id, number), editedAt, { type: 'edit', message, text, retriesRuns }, [after])
    })
  }
  for (const reaction of reactions) {
    const message = bySeq.get(reaction.messageId)
    if (message === undefined || !reaction.entityId.startsWith('hum_')) continue
    const { messageId, emoji, entityId, createdAt } = reaction
    add(`react ${messageId} ${emoji} ${entityId}`, createdAt, { type: 'react', reaction }, [messageKey(message)])
  }

  /**
   * Returns the keys of the actions that precede a message. It begins while the model writes its call, or when the call
   * is executed.
   */
  function postsAfter(message: Recorded<Message>): string[] {
    const [call] = callsIn(recording, message)
    if (call === undefined) return []
    const { runId, stepIndex } = call
    return [wasStreamed(message, call, calls) ? stepKey(runId, stepIndex) : executionKey(calls, call)]
  }
}

/**
 * Returns a placeholder for the text of a message that a person has deleted. The deletion in the replay removes the
 * placeholder from everything that is derived from the message. It is long enough to be found without quotation marks.
 */
const textOfDeleted = ({ seq }: Recorded<Message>): string => `The deleted message ${seq}.`

const DELETING = ['delete_message', 'deleteMessage']

/** Whether a call of a run has deleted a message. */
const isDeletedByAgent = ({ calls }: Recording, { id }: Recorded<Message>): boolean =>
  calls.some(
    ({ toolName, status, input }) =>
      DELETING.includes(toolName) && status === 'DONE' && isObject(input) && input['messageId'] === id,
  )

/** Returns the text of a message as its sender wrote it. */
export function textOf({ parts }: Pick<Recorded<Message>, 'parts'>): string {
  return (parts as { type: string; text?: string }[])
    .flatMap(({ type, text }) => (type === 'text' ? (text ?? '') : []))
    .join('')
}

function addRuns(recording: Recording, add: Add): void {
  for (const run of recording.runs) {
    const begin = beginKey(run.id)
    const after = causesOf(recording, run)
    const isByPerson = run.stoppedById === null || run.stoppedById.startsWith('hum_')
    if (run.stopReason === 'STOPPED' && isByPerson)
      add(stopKey(run.id), String(run.finishedAt), { type: 'stop', run }, run.startedAt === null ? after : [begin])
    if (run.startedAt === null) continue
    if (run.retryOfId !== null) {
      add(`retry ${run.id}`, run.queuedAt, { type: 'retry', runId: run.retryOfId })
      after.push(`retry ${run.id}`)
    }
    add(begin, run.startedAt, { type: 'begin', run }, after)
    addSteps(recording, run, add)
  }
}

/** The maximum difference between the time of an edit and that of the runs that it starts in the same transaction. */
const EDIT_MS = 1000

/** Returns the runs that an edit of a message started because the editor asked for new runs. */
function startedByEdit({ runs }: Recording, messageId: string, editedAt: string): Recorded<Run>[] {
  const ofMessage = runs.filter(
    ({ triggerMessageId, triggerType, retryOfId }) =>
      triggerMessageId === messageId && triggerType === 'SPACE_MESSAGE' && retryOfId === null,
  )
  const isLater = (run: Recorded<Run>) =>
    ofMessage.some((other) => other.agentId === run.agentId && Date.parse(other.queuedAt) < Date.parse(run.queuedAt))
  return ofMessage.filter((run) => isLater(run) && Math.abs(Date.parse(run.queuedAt) - Date.parse(editedAt)) < EDIT_MS)
}

/** Returns the messages that triggered a run. A cycle can also read messages that were posted after its beginning. */
function causesOf(recording: Recording, run: Recorded<Run>): string[] {
  const { messages, messageVersions, outcomes } = recording
  const isInbox = run.triggerType === 'INBOX'
  const read = outcomes.filter(({ runId }) => isInbox && runId === run.id).map(({ messageId }) => messageId)
  const ids = new Set([run.triggerMessageId, ...read])
  const begun = Date.parse(String(run.startedAt))
  const edits = messageVersions
    .filter(
      ({ messageId, editedAt }) =>
        messageId === run.triggerMessageId && startedByEdit(recording, messageId, editedAt).includes(run),
    )
    .map(({ messageId, number }) => editKey(messageId, number))
  return messages
    .filter(({ id, createdAt }) => ids.has(id) && !(isInbox && Date.parse(createdAt) > begun))
    .map(messageKey)
    .concat(edits)
}

function addSteps(recording: Recording, run: Recorded<Run>, add: Add): void {
  const own = recording.steps.filter(({ runId }) => runId === run.id)
  const before = (index: number) =>
    index === 0 ? [beginKey(run.id)] : [answerKey(run.id, index - 1), `settled ${run.id} ${index - 1}`]
  let endedAt = Date.parse(String(run.startedAt))
  for (const step of own) {
    const { index, durationMs } = step
    const key = stepKey(run.id, index)
    const startedAt = Date.parse(step.startedAt)
    // The prompt is built as soon as the results of the previous step are available, which is before the recorded time
    // of the step.
    const at = Math.min(startedAt, Math.max(endedAt, settledBy(recording, step)) + 1)
    add(key, at, { type: 'step', run, index, isOptional: false }, [
      ...before(index),
      ...urgentIn(recording, run, step),
      ...postedBy(recording, run, index - 1),
    ])
    endedAt = startedAt + (durationMs ?? 0)
    // A wait begins with its call, so messages that are later than the call are shown after the wait.
    const waited = recording.calls.find(
      (call) => call.runId === run.id && call.stepIndex === index && waitsOutside(call),
    )
    const answeredAt = Math.max(endedAt, waited === undefined ? 0 : Date.parse(waited.createdAt))
    add(answerKey(run.id, index), answeredAt, { type: 'answer', run, index, isOptional: false }, [key])
  }
  // A step that failed, or was interrupted by the end of the run, is not in the journal. Whether it began is unknown.
  const isCutOff = run.finishedAt !== null && CUTS_OFF.has(run.stopReason ?? '')
  if (!isCutOff || BROKEN_OFF.has(own.at(-1)?.finishReason ?? '')) return
  const index = own.length
  const step = stepKey(run.id, index)
  add(step, endedAt, { type: 'step', run, index, isOptional: true }, before(index))
  if (run.stopReason === 'MODEL_FAILED')
    add(answerKey(run.id, index), String(run.finishedAt), { type: 'answer', run, index, isOptional: true }, [step])
}

/** Returns the messages that the calls of a step have begun, or that show these calls. */
function postedBy({ calls, messages }: Recording, run: Recorded<Run>, index: number): string[] {
  const own = calls.filter(({ runId, stepIndex }) => runId === run.id && stepIndex === index)
  return messages
    .filter(({ id, runId, runPostKey }) => {
      const begins = (call: Recorded<ToolCall>) => call.id === runPostKey || call.messageId === id
      return runId === run.id && own.some(begins)
    })
    .map(messageKey)
}

/** Returns the messages that a cycle has read before this step as urgent events, or at its beginning. */
function urgentIn({ messages, outcomes }: Recording, run: Recorded<Run>, step: Recorded<Step>): string[] {
  if (!showsUrgent(step)) return []
  const read = new Set(outcomes.filter(({ runId }) => runId === run.id).map(({ messageId }) => messageId))
  return messages
    .filter(({ id, createdAt }) => read.has(id) && Date.parse(createdAt) <= Date.parse(step.startedAt))
    .map(messageKey)
}

/** Returns when the last call of the previous step was settled, if this was before the step. */
function settledBy({ calls }: Recording, { runId, index, startedAt }: Recorded<Step>): number {
  const times = calls
    .filter((call) => call.runId === runId && call.stepIndex === index - 1 && call.settledAt !== null)
    .map(({ settledAt }) => Date.parse(String(settledAt)))
    .filter((at) => at <= Date.parse(startedAt))
  return Math.max(0, ...times)
}

/** Adds the execution of a call that is not the first one of its step. The calls of a step are executed in order. */
function addExecution(calls: readonly Recorded<ToolCall>[], call: Recorded<ToolCall>, add: Add): void {
  const { id, runId, stepIndex, createdAt, settledAt } = call
  if (isRefused(call)) return
  const at = settledAt === null || waitsOutside(call) || isOutside(call) ? createdAt : settledAt
  const previous = calls.findLast((one) => one.runId === runId && one.stepIndex === stepIndex && one.id < id)
  const after = previous === undefined ? [] : [executionKey(calls, previous), settleKey(previous.id)]
  add(callKey(id), at, { type: 'call', call }, [answerKey(runId, stepIndex), ...after])
}

/** Whether the call was journaled as failed, so that it was never executed. */
const isRefused = ({ status, settledAt, createdAt }: Recorded<ToolCall>): boolean =>
  status === 'FAILED' && settledAt === createdAt

/** The finish reasons after which the model is not called again. */
export const BROKEN_OFF: ReadonlySet<string> = new Set(['error', 'interrupted', 'length', 'content-filter'])

function addCalls({ calls, decisions, steps }: Recording, add: Add): void {
  for (const call of calls) {
    const { id, runId, stepIndex, settledAt, status } = call
    const before = [answerKey(runId, stepIndex), executionKey(calls, call)]
    if (executionKey(calls, call) === callKey(id)) addExecution(calls, call, add)
    const own = decisions
      .filter(({ toolCallId }) => toolCallId === id)
      .toSorted((a, b) => Date.parse(a.at) - Date.parse(b.at))
    let isEdited = false
    for (const decision of own) {
      const input: JsonObject | null = isEdited || !decision.approve ? null : editOf(call, decision)
      isEdited ||= input !== null
      add(
        `decide ${id} ${decision.humanId} ${decision.inputDigest}`,
        decision.at,
        { type: 'decide', call, decision, input },
        before,
      )
    }
    const decided = own.map(({ humanId, inputDigest }) => `decide ${id} ${humanId} ${inputDigest}`)
    if (settledAt === null) continue
    if (call.approvalState === 'EXPIRED' || status === 'TIMED_OUT')
      add(settleKey(id), settledAt, { type: 'expire', call }, before)
    else if (call.answeredById !== null || call.answeredByService !== null)
      add(settleKey(id), settledAt, { type: 'submit', call }, [...before, ...decided])
    else if (isOutside(call) && isAnsweredCall(status))
      add(settleKey(id), settledAt, { type: 'result', call }, [...before, ...decided])
  }

  /**
   * Returns the input to which people changed a call before they approved it. Returns null if they did not change it,
   * or if the approved input is not the one that they changed.
   */
  function editOf(call: Recorded<ToolCall>, { inputDigest }: Recorded<Decision>): JsonObject | null {
    if (digestOf(call.input as JsonObject) !== inputDigest) return null
    const step = steps.find(({ runId, index }) => runId === call.runId && index === call.stepIndex)
    const content = (step?.assistant as { content?: unknown } | null)?.content
    const part = Array.isArray(content)
      ? (content as { type: string; toolCallId?: string; input?: unknown }[]).find(
          ({ type, toolCallId }) => type === 'tool-call' && toolCallId === call.modelCallId,
        )
      : undefined
    return part === undefined || isDeepStrictEqual(part.input, call.input) ? null : (call.input as JsonObject)
  }
}

function addCauses(recording: Recording, add: Add): void {
  const { joined, left } = firstMembers(recording)
  for (const { entityId, at } of joined) add(`join ${entityId} ${at}`, at, { type: 'join', entityId })
  for (const { entityId, at } of left) add(`leave ${entityId} ${at}`, at, { type: 'leave', entityId })
  const begun = beginOf(recording)
  for (const { at, input } of spaceChanges(recording, begun).changes)
    add(`update-space ${at}`, at, { type: 'update-space', input })
  for (const { at, agentId, paused } of pausesOf(recording, begun))
    add(`pause ${agentId} ${at}`, at, { type: 'pause', agentId, paused })
  for (const memory of memoriesWritten(recording, begun))
    add(`remember ${memory.id}`, memory.updatedAt, { type: 'remember', memory })
  addGrants(recording, add)
  for (const { id, action, at, targetId: runId } of recording.audit)
    if (action === 'retryRun' && recording.runs.some((run) => run.id === runId && run.triggerType === 'INBOX'))
      add(`retry ${id}`, at, { type: 'retry', runId: String(runId) })
  for (const version of recording.versions)
    if (Date.parse(version.createdAt) > begun)
      add(`version ${version.id}`, version.createdAt, { type: 'version', version })
  addPlans(recording, add)
  addServices(recording, add)
}

/** Adds proposals of standing grants, decisions on them and revocations. */
function addGrants(recording: Recording, add: Add): void {
  const begun = beginOf(recording)
  for (const { id: grantId, createdAt } of recording.grants)
    if (Date.parse(createdAt) > begun) add(`propose-grant ${grantId}`, createdAt, { type: 'propose-grant', grantId })
  for (const decision of recording.grantDecisions) {
    const { grantId, humanId, at } = decision
    if (Date.parse(at) > begun)
      add(`decide-grant ${grantId} ${humanId}`, at, { type: 'decide-grant', decision }, [`propose-grant ${grantId}`])
  }
  for (const { id: grantId, revokedAt, revokedById: humanId } of recording.grants)
    if (revokedAt !== null && Date.parse(revokedAt) > begun)
      add(`revoke-grant ${grantId}`, revokedAt, { type: 'revoke-grant', grantId, humanId })
}

/** Adds the plans that people created, and those firings that woke an agent for this space. */
function addPlans(recording: Recording, add: Add): void {
  const { firings, plans, inboxEvents, runs, calls } = recording
  const made = madeByTools(calls)
  const roots = new Set([...runs, ...inboxEvents].map(({ rootId }) => rootId))
  const ofRoom = firings.filter(({ rootId }) => roots.has(rootId))
  for (const plan of plans) {
    if (made.has(plan.id)) continue
    const slot = ofRoom.find((one) => one.planId === plan.id && one.slot !== one.firedAt)?.slot
    const at = Math.max(Date.parse(plan.createdAt), beginOf(recording))
    add(`make-plan ${plan.id}`, at, { type: 'make-plan', plan, nextRunAt: slot ?? plan.nextRunAt })
  }
  for (const firing of ofRoom) {
    const plan = plans.find(({ id }) => id === firing.planId)
    if (plan === undefined)
      throw new UnusableRecordingError(`The plan ${firing.planId}, which fired at ${firing.firedAt}, no longer exists.`)
    add(`fire ${firing.id}`, firing.firedAt, { type: 'fire', firing, plan }, [`make-plan ${plan.id}`])
  }
}

/** Adds the triggers by services: runs of stateless agents, and inbox events of persistent agents. */
function addServices({ inboxEvents, runs }: Recording, add: Add): void {
  for (const { id, agentId, triggerType, triggerName, triggerPayload: payload, depth, retryOfId, queuedAt } of runs) {
    if (triggerType !== 'SERVICE' || depth !== 0 || retryOfId !== null) continue
    add(`service ${id}`, queuedAt, { type: 'service', agentId, name: triggerName ?? '', payload, urgent: false })
  }
  for (const { id, type, agentId, payload: event, depth, urgent, createdAt } of inboxEvents) {
    if (type !== 'SERVICE' || depth !== 0) continue
    const { name, payload } = event as { name: string; payload: unknown }
    add(`service ${id}`, createdAt, { type: 'service', agentId, name, payload, urgent })
  }
}

/** Returns the ids of plans that agents created with their tools. */
function madeByTools(calls: readonly Recorded<ToolCall>[]): Set<string> {
  const ids = calls.flatMap(({ output }) => JSON.stringify(output ?? null).match(/pln_[0-9a-f]{32}/g) ?? [])
  return new Set(ids)
}

/** Returns when the space began. Older rows exist before the first action. */
export function beginOf({ messages, space, runs }: Recording): number {
  const first = [messages[0]?.createdAt, runs[0]?.queuedAt].flatMap((at) => (at === undefined ? [] : [Date.parse(at)]))
  return first.length === 0 ? Date.parse(space.createdAt) : Math.min(...first)
}

/**
 * Replaces the key `settled <run> <step>` with the keys of the actions that settled the calls of that step. A
 * persistent agent does not wait for people and services, because their results are added to its inbox.
 */
function expandSettled({ runs }: Recording, nodes: Nodes): void {
  const cycles = new Set(runs.filter(({ triggerType }) => triggerType === 'INBOX').map(({ id }) => id))
  const settling = Map.groupBy(
    [...nodes.values()].flatMap((node) => ('call' in node.action ? [{ key: node.key, call: node.action.call }] : [])),
    ({ call }) => `settled ${call.runId} ${call.stepIndex}`,
  )
  for (const node of nodes.values())
    node.after = node.after.flatMap((key) =>
      key.startsWith('settled ')
        ? (settling.get(key) ?? [])
            .filter(({ call }) => !(cycles.has(call.runId) && waitsOutside(call)))
            .map((one) => one.key)
            .filter((one) => (nodes.get(one)?.at ?? 0) <= node.at + CLOCKS_MS)
        : [key],
    )
}
