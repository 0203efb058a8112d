import { isUrgent } from '../context/inbox-message.ts'
import { WHILE_YOU_WAITED } from '../context/prompt.ts'
import type { InboxEvent, Message, Run, Step, ToolCall } from '../generated/prisma/client.ts'
import { isObject } from '../lib/json.ts'
import { isAnsweredOutside } from '../rules/call-answers.ts'
import {
  addAfter,
  answerKey,
  beginKey,
  callKey,
  editKey,
  messageKey,
  type Nodes,
  settleKey,
  stepKey,
  stopKey,
} from './order.ts'
import type { Recorded, Recording } from './recording.ts'

// The prompts and tool results of a run show which messages were finished at that time. A replay keeps this order, so
// that concurrent agents read each other's messages at the same points as in the recording.

/** The messages of the space that a run read at one point. */
interface Reading {
  run: Recorded<Run>
  /** The key of the action in which the run read the messages. */
  key: string
  /** The approximate time, in milliseconds since 1970. */
  at: number
  /** The texts that the run read, by the message's id. */
  texts: ReadonlyMap<string, string>
  /** Whether the run would have read this message if it had been finished. */
  isMeant(message: Recorded<Message>): boolean
  /** Set if the run read messages only up to this number. Later messages were posted after the action `key`. */
  upTo: { seq: number; key: string } | null
}

/** A part of a message becomes readable. Without a text, the whole message becomes readable. */
interface Growth {
  key: string
  text: string | null
}

/**
 * If a message was finished or begun longer than this before or after a reading, the order of the two follows from
 * their times.
 */
const NEAR_MS = 5000

/** Orders the actions that finish messages or wake agents according to what the runs read. */
export function orderReadings(recording: Recording, nodes: Nodes): void {
  const growths = new Map(recording.messages.map((message) => [message.id, growthOf(recording, nodes, message)]))
  const endOf = (message: Recorded<Message>) =>
    answerKeyOf(recording, nodes, message) ?? endKeyOf(recording, message, growths.get(message.id) ?? [])
  orderWakeUps(recording, nodes, endOf)
  orderEvents(recording, nodes, endOf)
  orderWaits(recording, nodes, endOf)
  const readings = recording.runs.flatMap((run) => readingsOf(recording, run, endOf))
  for (const { upTo } of readings) {
    if (upTo === null) continue
    addAfter(nodes, upTo.key, messageKey(upTo))
    addAfter(nodes, messageKey({ seq: upTo.seq + 1 }), upTo.key)
  }
  const pairs = readings.flatMap((reading) =>
    near(recording, reading).map((message) => ({ reading, message, growth: growths.get(message.id) ?? [] })),
  )
  for (const pair of pairs) orderRead(recording, nodes, pair)
  // These pairs come last, because a message could also have been omitted for another reason.
  for (const pair of pairs) orderUnread(nodes, pair)
}

interface Pair {
  reading: Reading
  message: Recorded<Message>
  growth: readonly Growth[]
}

/** Makes a reading follow the parts of a message that it showed, and precede the remaining parts. */
function orderRead(recording: Recording, nodes: Nodes, { reading: { key, texts }, message, growth }: Pair): void {
  const text = texts.get(message.id)
  if (text === undefined) return
  for (const part of growth)
    if (part.text === null || text.includes(part.text)) addAfter(nodes, key, part.key)
    else addAfter(nodes, part.key, key)
  orderEdits(recording, nodes, { key, message, text })
}

/** Makes a reading precede the end of a message that it did not show. */
function orderUnread(nodes: Nodes, { reading: { key, texts, isMeant, upTo }, message, growth: [first] }: Pair): void {
  if (first === undefined || texts.has(message.id) || !isMeant(message)) return
  if (upTo === null || message.seq <= upTo.seq) addAfter(nodes, first.key, key)
}

/** Returns messages of other senders that were finished, or still unfinished, near the time of a reading. */
function near({ messages }: Recording, { run, at }: Reading): Recorded<Message>[] {
  return messages.filter(
    ({ runId, createdAt, routedAt, editedAt }) =>
      runId !== run.id &&
      Date.parse(createdAt) <= at + NEAR_MS &&
      Date.parse(editedAt ?? routedAt ?? createdAt) >= at - NEAR_MS,
  )
}

/**
 * Returns the key of the action in which a call is executed. For the first call of a step, this is the model's answer.
 */
export function executionKey(calls: readonly Recorded<ToolCall>[], call: Recorded<ToolCall>): string {
  const first = calls.find(({ runId, stepIndex }) => runId === call.runId && stepIndex === call.stepIndex)
  return first === undefined || first.id === call.id ? answerKey(call.runId, call.stepIndex) : callKey(call.id)
}

/** Tools whose calls post a message at their execution, because nothing of it is streamed earlier. */
const NEVER_STREAMED = new Set(['send_file', 'sendFile'])

/** Whether a message began while the model wrote the call. If not, it began when the call was executed. */
export function wasStreamed(
  { createdAt }: Recorded<Message>,
  call: Recorded<ToolCall>,
  calls: readonly Recorded<ToolCall>[],
): boolean {
  if (NEVER_STREAMED.has(call.toolName)) return false
  const isFirst = executionKey(calls, call) === answerKey(call.runId, call.stepIndex)
  return isFirst || Date.parse(createdAt) < Date.parse(call.createdAt)
}

/** Returns the calls that posted the message or that the message shows. */
export function callsIn({ calls }: Recording, { id, runId, runPostKey }: Recorded<Message>): Recorded<ToolCall>[] {
  return calls.filter(
    (call) =>
      call.runId === runId &&
      (call.id === runPostKey ||
        call.messageId === id ||
        (isObject(call.output) && call.output['messageId'] === id && POSTING.has(call.toolName))),
  )
}

const POSTING = new Set(['send_message', 'sendSpaceMessage'])

/** Returns the actions in which a message becomes readable: either the whole message at once, or part by part. */
function growthOf(recording: Recording, nodes: Nodes, message: Recorded<Message>): Growth[] {
  const { runId, composite, status } = message
  if (runId === null) return [{ key: messageKey(message), text: null }]
  const calls = callsIn(recording, message)
  if (composite) return calls.map((call) => ({ key: executionKey(recording.calls, call), text: textOfCall(call) }))
  if (status === 'INTERRUPTED' && nodes.has(stopKey(runId))) return [{ key: stopKey(runId), text: null }]
  const [call] = calls
  const isLate = call === undefined || !wasStreamed(message, call, recording.calls)
  return [{ key: isLate ? messageKey(message) : executionKey(recording.calls, call), text: null }]
}

const textOfCall = ({ input }: Recorded<ToolCall>): string | null =>
  isObject(input) && typeof input['text'] === 'string' ? input['text'].trim() : null

/**
 * Returns the key of the action that finished a message by answering the last of its calls that waited for people or
 * services. Returns null if no call waited. A think cycle does not wait, so for its messages, also returns null if the
 * call was answered before the message had all its parts.
 */
function answerKeyOf(recording: Recording, nodes: Nodes, message: Recorded<Message>): string | null {
  const waited = callsIn(recording, message)
    .filter((call) => (call.approvalState !== null || isAnsweredOutside(call)) && nodes.has(settleKey(call.id)))
    .toSorted((a, b) => Date.parse(String(a.settledAt)) - Date.parse(String(b.settledAt)))
  const last = waited.at(-1)
  const run = recording.runs.find(({ id }) => id === message.runId)
  if (last === undefined || run === undefined) return null
  const isOver = run.triggerType !== 'INBOX' || Date.parse(String(last.settledAt)) > Date.parse(String(run.finishedAt))
  return isOver ? settleKey(last.id) : null
}

/**
 * Returns the key of the action that finished a message and so woke agents; null if the recording does not show this.
 */
function endKeyOf(
  { calls, steps }: Recording,
  { runId, composite }: Recorded<Message>,
  growth: readonly Growth[],
): string | null {
  const last = growth.at(-1)
  if (!composite || runId === null) return last?.key ?? null
  const call = calls.find((one) => one.runId === runId && executionKey(calls, one) === last?.key)
  const isLast = isObject(call?.input) && (call.input['mention'] != null || call.input['wait'] != null)
  if (isLast) return last?.key ?? null
  const closing = steps.findLast((step) => step.runId === runId)
  return closing === undefined ? null : answerKey(runId, closing.index)
}

type EndOf = (message: Recorded<Message>) => string | null

/** Makes runs begin after the end of the message that woke them, and makes prompts list these runs only after that. */
function orderWakeUps(recording: Recording, nodes: Nodes, endOf: EndOf): void {
  const { messages, outcomes, runs, steps } = recording
  const triggers = new Map(messages.map((message) => [message.id, message]))
  const wakerOf = (run: Recorded<Run> | undefined) => {
    const trigger = triggers.get(run?.triggerMessageId ?? '')
    return trigger === undefined ? null : endOf(trigger)
  }
  for (const { runId } of outcomes) {
    const run = runs.find(({ id, triggerType }) => id === runId && triggerType !== 'INBOX')
    const waker = wakerOf(run)
    if (run !== undefined && waker !== null) addAfter(nodes, beginKey(run.id), waker)
  }
  for (const { runId, index, instructions } of steps)
    for (const id of new Set(instructions?.match(/\brun_[0-9a-f]{32}\b/g) ?? [])) {
      const waker = id === runId ? null : wakerOf(runs.find((run) => run.id === id))
      if (waker !== null) addAfter(nodes, index === 0 ? beginKey(runId) : stepKey(runId, index), waker)
    }
}

/**
 * Keeps the order in which messages were finished relative to the waiting call of a run. The prompt after a wait shows
 * the messages that were finished since that call was made.
 */
function orderWaits(recording: Recording, nodes: Nodes, endOf: EndOf): void {
  const cycles = new Set(recording.runs.filter(({ triggerType }) => triggerType === 'INBOX').map(({ id }) => id))
  for (const call of recording.calls) {
    const { runId, stepIndex, createdAt, approvalState } = call
    if (cycles.has(runId) || (approvalState === null && !isAnsweredOutside(call))) continue
    const madeAt = Date.parse(createdAt)
    const next = recording.steps.find((step) => step.runId === runId && step.index === stepIndex + 1)
    const shown = next === undefined ? new Map() : textsIn(next, (content) => content.startsWith(WHILE_YOU_WAITED))
    for (const message of recording.messages) {
      const end = endOf(message)
      const finishedAt = finishTimeOf(message)
      if (message.runId === runId || end === null || Math.abs(finishedAt - madeAt) > NEAR_MS) continue
      if (shown.has(message.id)) addAfter(nodes, end, answerKey(runId, stepIndex))
      else if (finishedAt <= madeAt) addAfter(nodes, answerKey(runId, stepIndex), end)
    }
  }
}

/**
 * Returns when a message was finished. A person's message is finished when it is posted. Returns Infinity if the
 * message was never finished.
 */
const finishTimeOf = ({ runId, createdAt, routedAt }: Recorded<Message>): number => {
  if (runId === null) return Date.parse(createdAt)
  return routedAt === null ? Number.POSITIVE_INFINITY : Date.parse(routedAt)
}

/**
 * Makes think cycles begin after the events that their inbox contained, and before the events that it did not contain
 * yet.
 */
function orderEvents(recording: Recording, nodes: Nodes, endOf: EndOf): void {
  const { inboxEvents, runs } = recording
  for (const [agentId, events] of Map.groupBy(inboxEvents, (event) => event.agentId)) {
    const cycles = runs
      .filter((run) => run.agentId === agentId && run.triggerType === 'INBOX' && run.startedAt !== null)
      .toSorted((a, b) => Date.parse(String(a.startedAt)) - Date.parse(String(b.startedAt)))
    let before: string | null = null
    for (const event of events.toSorted((a, b) => (a.id < b.id ? -1 : 1))) {
      const cause = causeOf(recording, event, endOf)
      const index = cycles.findIndex(({ id }) => id === event.runId)
      const cycle = cycles[index]
      if (cause === null || cycle === undefined) continue
      orderEvent(nodes, cause, { event, cycle, previous: cycles[index - 1] })
      // The events of an inbox are in the order in which they arrived.
      if (before !== null) addAfter(nodes, cause, before)
      before = cause
    }
  }
}

function orderEvent(
  nodes: Nodes,
  cause: string,
  {
    event,
    cycle,
    previous,
  }: { event: Recorded<InboxEvent>; cycle: Recorded<Run>; previous: Recorded<Run> | undefined },
): void {
  const [injected] = event.urgent ? injectionsOf(cycle) : []
  if (injected !== undefined) {
    addAfter(nodes, stepKey(cycle.id, injected), cause)
    addAfter(nodes, cause, beginKey(cycle.id))
    return
  }
  addAfter(nodes, beginKey(cycle.id), cause)
  if (previous !== undefined) addAfter(nodes, cause, beginKey(previous.id))
}

/** Returns the key of the action that added an event to an inbox; null unless the event is a message or a result. */
function causeOf({ calls, messages }: Recording, event: Recorded<InboxEvent>, endOf: EndOf): string | null {
  const { toolCallId, change } = event.payload as { toolCallId?: string; change?: string }
  if (event.type === 'TOOL_RESULT')
    return calls.some(({ id }) => id === toolCallId) ? settleKey(String(toolCallId)) : null
  const message = change === undefined ? messages.find(({ id }) => id === event.messageId) : undefined
  return message === undefined ? null : endOf(message)
}

/** Returns the steps before which urgent events were shown to a cycle. */
function injectionsOf({ state }: Recorded<Run>): number[] {
  const { injections = [] } = (state ?? {}) as { injections?: { step: number }[] }
  return injections.map(({ step }) => step)
}

function readingsOf(recording: Recording, run: Recorded<Run>, endOf: EndOf): Reading[] {
  const steps = recording.steps.filter(({ runId }) => runId === run.id)
  const [first] = steps
  return [
    ...(first === undefined || run.triggerType === 'INBOX' ? [] : [firstReading(recording, run, { first, endOf })]),
    ...steps.flatMap((step) => readingAfterWait(recording, run, step)),
    ...recording.calls.filter(({ runId }) => runId === run.id).flatMap((call) => readingOf(recording, run, call)),
  ]
}

/**
 * Returns the messages in the first prompt of a run: those of the space or thread of its trigger, up to the time when
 * the run was woken.
 */
function firstReading(
  recording: Recording,
  run: Recorded<Run>,
  { first, endOf }: { first: Recorded<Step>; endOf: EndOf },
): Reading {
  const { messages, outcomes } = recording
  const texts = textsIn(first, () => true)
  const trigger = messages.find(({ id }) => id === run.triggerMessageId)
  const isOutcome = outcomes.some(({ messageId, runId }) => messageId === trigger?.id && runId === run.id)
  // In a chain, the end of a run wakes the next agent. A retry is started by a person. In all other cases, the end of
  // the message wakes the agent.
  const isRouted = isOutcome && run.wokenBy === null && run.retryOfId === null
  const waker = trigger === undefined || !isRouted ? null : endOf(trigger)
  const isAfterOldest = beginningOf(messages, texts)
  return {
    run,
    key: beginKey(run.id),
    at: Date.parse(String(run.startedAt)),
    texts,
    isMeant: (message) => isAfterOldest(message) && message.threadRootId === run.threadRootId,
    upTo:
      trigger === undefined || waker === null
        ? null
        : { seq: enteredSeqOf(recording, run, { first, trigger, texts }), key: waker },
  }
}

/**
 * Returns the `seq` of the last message at the time when a run was woken. Steps before release 0.3 do not contain it,
 * and the run's row contains it only until the run enters a space. After that, it is estimated.
 */
function enteredSeqOf(
  { calls, messages }: Recording,
  run: Recorded<Run>,
  { first, trigger, texts }: { first: Recorded<Step>; trigger: Recorded<Message>; texts: ReadonlyMap<string, string> },
): number {
  const hasMoved = calls.some(
    ({ runId, toolName, execution }) => runId === run.id && (toolName === 'enter_space' || execution !== null),
  )
  const known = first.enteredSeq ?? (hasMoved ? null : run.enteredSeq)
  if (known !== null) return known
  const wokenAt = Date.parse(trigger.routedAt ?? trigger.createdAt)
  const newest = messages.filter(({ id, createdAt }) => texts.has(id) || Date.parse(createdAt) <= wokenAt)
  return Math.max(...newest.map(({ seq }) => seq))
}

/**
 * Returns the messages that a prompt shows after a wait: those that other senders have finished since the call that
 * waited.
 */
function readingAfterWait({ calls, messages }: Recording, run: Recorded<Run>, step: Recorded<Step>): Reading[] {
  const { index, startedAt } = step
  const texts = textsIn(step, (content) => content.startsWith(WHILE_YOU_WAITED))
  if (texts.size === 0) return []
  const asking = calls.filter(({ runId, stepIndex }) => runId === run.id && stepIndex === index - 1)
  const since = Math.min(...asking.map(({ createdAt }) => Date.parse(createdAt)))
  const isAfterOldest = beginningOf(messages, texts)
  return [
    {
      run,
      key: stepKey(run.id, index),
      at: Date.parse(startedAt),
      texts,
      isMeant: (message) =>
        isAfterOldest(message) && Date.parse(message.createdAt) > since && message.threadRootId === run.threadRootId,
      upTo: null,
    },
  ]
}

/** The names of the tools that return messages of a space. */
const READING = new Set(['enter_space', 'read_messages', 'readSpaceMessages'])

/** Returns the messages in the result of a call. */
function readingOf({ calls, entities, messages }: Recording, run: Recorded<Run>, call: Recorded<ToolCall>): Reading[] {
  const { toolName, output, settledAt, status, input } = call
  if (status !== 'DONE' || settledAt === null || !READING.has(toolName)) return []
  const { history = output, totalMessages } = (isObject(output) ? output : {}) as Record<string, unknown>
  const lines = (Array.isArray(history) ? history : []) as Record<'id' | 'sender' | 'text' | 'timestamp', string>[]
  const nameOf = new Map(entities.map(({ id, name }) => [id, name]))
  const texts = new Map(
    lines.flatMap(({ id, sender, text, timestamp }) => {
      const isIt = (one: Recorded<Message>) =>
        id === undefined
          ? Date.parse(one.createdAt) === Date.parse(timestamp) && nameOf.get(one.senderId) === sender
          : one.id === id
      const message = messages.find(isIt)
      return message === undefined ? [] : [[message.id, text] as const]
    }),
  )
  if (texts.size === 0) return []
  const key = executionKey(calls, call)
  const isAfterOldest = beginningOf(messages, texts)
  const newest = Math.max(...messages.flatMap(({ id, seq }) => (texts.has(id) ? [seq] : [])))
  // `read_messages` reads backwards, starting with the messages that existed when the agent entered the space.
  const mayLack = toolName === 'read_messages' || (isObject(input) && Number(input['offset'] ?? 0) > 0)
  return [
    {
      run,
      key,
      at: Date.parse(settledAt),
      texts,
      isMeant: (message) => isAfterOldest(message) && (!mayLack || message.seq < newest),
      upTo: typeof totalMessages === 'number' ? { seq: totalMessages, key } : null,
    },
  ]
}

/**
 * Returns a function that tells whether a message is newer than the oldest message that was read. Older messages may
 * have been omitted because of the size limit.
 */
function beginningOf(messages: readonly Recorded<Message>[], texts: ReadonlyMap<string, string>) {
  const oldest = Math.min(...messages.flatMap(({ id, seq }) => (texts.has(id) ? [seq] : [])))
  return ({ seq }: Recorded<Message>) => seq > oldest
}

/** Returns the messages that are quoted in the user messages of a step, one JSON object per line. */
function textsIn({ messagesAdded }: Recorded<Step>, isMeant: (content: string) => boolean): Map<string, string> {
  const contents = (messagesAdded as { role: string; content: unknown }[]).flatMap(({ role, content }) => {
    if (role !== 'user') return []
    const parts = typeof content === 'string' ? [{ text: content }] : (content as { text?: string }[])
    return parts.flatMap(({ text }) => (text === undefined ? [] : [text]))
  })
  const lines = contents
    .filter((content) => isMeant(content) && !isUrgent(content))
    .flatMap((content) => content.split('\n').filter((line) => line.startsWith('{"id":"msg_')))
  return new Map(
    lines.flatMap((line) => {
      try {
        const { id, text } = JSON.parse(line) as { id: string; text: string }
        return [[id, text] as const]
      } catch {
        return []
      }
    }),
  )
}

/** Orders the edits of a message according to the text that was read. */
function orderEdits(
  { messageVersions }: Recording,
  nodes: Nodes,
  { key, message: { id }, text }: { key: string; message: Recorded<Message>; text: string },
): void {
  const versions = messageVersions.filter(({ messageId }) => messageId === id)
  const found = versions.findIndex((version) => version.text === text)
  const index = found === -1 ? versions.length : found
  const [earlier, later] = [versions[index - 1], versions[index]]
  if (earlier !== undefined) addAfter(nodes, key, editKey(id, earlier.number))
  if (later !== undefined) addAfter(nodes, editKey(id, later.number), key)
}
