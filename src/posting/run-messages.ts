import { runTopic, spaceChannel, spaceTopic } from '../broker/topics.ts'
import type { Discretion } from '../confidentiality/discretion.ts'
import { type Marks, setsOf } from '../confidentiality/marks.ts'
import type { Expected, Post, Written } from '../flows/post.ts'
import { Prisma } from '../generated/prisma/client.ts'
import { newId } from '../lib/ids.ts'
import type { JsonObject } from '../lib/json.ts'
import type { Changes } from '../platform/changes.ts'
import { isUniqueViolation } from '../platform/database-errors.ts'
import type { Database, Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { indexOfCall, type Message, type MessageOrigin, type MessagePart, messageOfRow } from '../rules/message.ts'
import { NO_REPLY, type ReplyPlace } from '../rules/threads.ts'
import { createCallPublisher } from '../runs/call-publisher.ts'
import { HELD, type HowHeld, holdOf, writeHeld } from '../runs/hold.ts'
import type { Announcer } from '../spaces/announcer.ts'
import { createMessagePublisher, type MessagePublisher, type PublishedMessage } from '../spaces/message-publisher.ts'
import { waitNoticesSql } from '../stores/call-notices.ts'
import * as calls from '../stores/call-store.ts'
import { insertSentFileSql, type NewFile } from '../stores/file-store.ts'
import { isMemberSql } from '../stores/membership-store.ts'
import { changeMessageSql, insertMessageSql, type MessageRow } from '../stores/message-store.ts'
import { notifyOfDecisionsSql } from '../stores/notice-store.ts'
import { insertRunSpaceSql } from '../stores/run-store.ts'
import { countMessageSql, isVersionSql, RAISE_VERSION_SQL } from '../stores/space-store.ts'
import { findReplyPlace, isThreadRoot } from '../stores/thread-store.ts'
import type { RunExecution } from '../tools/run-context.ts'
import { ToolFailure } from '../tools/tool.ts'
import type { Guard } from './guard.ts'

/**
 * A new message, without parts or with a call as its first part. In a composite message, the input of that call is
 * still streaming.
 */
export interface Beginning {
  spaceId: string
  /** The idempotency key of the message within the run. */
  postKey: string
  composite: boolean
  /** The `replyTo` of the call. If absent, the message goes to the run's default thread in the space. */
  replyTo?: string
  /** Whether the message is the run's closing text. */
  fromPlainText?: boolean
  shown?: calls.ShownCall
}

type Begun = Pick<Message, 'id' | 'spaceId'>

/**
 * Writes the messages of one run, from their first character on, under the run's hold. All methods throw RunLostError.
 */
export interface RunMessages {
  /**
   * Begins a message and assigns its `seq`. Its status is STREAMING, or REQUIRES_ACTION if its call waits. Returns null
   * if the agent is not a member.
   * @throws ToolFailure if the message to reply to does not exist
   */
  begin(beginning: Beginning): Promise<Message | null>
  /**
   * Saves the draft in the database, because the event log could lose it. Returns false if the message has ended, or if
   * the guard refuses.
   */
  save(message: Begun, parts: MessagePart[]): Promise<boolean>
  /**
   * Applies a step to a message. @throws an error with the code MESSAGE_ENDED; BadInputError if the mentioned agent has
   * left
   */
  grow(message: Message, parts: MessagePart[], step: Step): Promise<void>
  /** Updates the streamed input of the call that a message shows as its last part. */
  inputGrown(message: Begun, partIndex: number, call: { toolCallId: string; input: JsonObject }): Promise<void>
  /**
   * Stores the result of a call that the message shows. The message can get more parts. If `result` is null, only
   * publishes that the call changed.
   */
  callChanged(message: Begun, partIndex: number, result: ToolResult | null): Promise<void>
  /**
   * Ends a message as INTERRUPTED. It keeps the text so far. Settles its call, even if somebody else has ended the
   * message.
   */
  interrupt(message: Begun, parts: MessagePart[], result: ToolResult | null): Promise<void>
  /** Ends a message as INTERRUPTED and removes the content of its call, which members may not see. */
  withdraw(message: Begun, parts: MessagePart[], result: ToolResult): Promise<void>
  /** Returns all messages that the run has begun, oldest first. */
  begun(): Promise<Message[]>
  /**
   * Whether the run has begun a message other than its closing text. Considers the messages of this attempt and those
   * that `begun` has read.
   */
  hasPosted(): boolean
  /**
   * Checks whether the agent may post in a space and mention another agent there. The result contains the `seq` of the
   * space's last message.
   */
  mayWrite(spaceId: string, mention: string | null): Promise<MayWrite>
  /**
   * Returns the thread for a message in a space. This is the thread in the message's call or, without one, the run's
   * default thread.
   * @throws ToolFailure
   */
  placeOf(spaceId: string, replyTo: string | undefined): Promise<ReplyPlace>
  /** Whether a message has replies. */
  hasReplies(message: Begun): Promise<boolean>
  /**
   * Checks that the members of the space may read the content of the run. @throws ToolFailure with the code
   * CONFIDENTIAL
   */
  checkHeard(spaceId: string): Promise<void>
}

const MESSAGE_ENDED = 'MESSAGE_ENDED'

/** Returns the failure of a call whose message somebody else has ended. The run itself continues. */
function messageEnded(): ToolFailure {
  return new ToolFailure(
    MESSAGE_ENDED,
    'Your message was cut off before it was complete, and people see the part that was written. Post the message again if it still matters.',
  )
}

export function isMessageEnded(error: unknown): boolean {
  return error instanceof ToolFailure && error.code === MESSAGE_ENDED
}

export interface RunMessagesParts extends Pick<Post, 'post'> {
  announcer: Announcer
  discretion: Pick<Discretion, 'toSpeak'>
}

/** Returns why the run posts in a space; null if its trigger came from that space. */
export type OriginIn = (spaceId: string) => MessageOrigin | null

/** Returns the default thread of the run's messages in a space. */
export type PlaceIn = (spaceId: string) => ReplyPlace

interface Author {
  run: Pick<RunExecution, 'context' | 'apply'>
  originIn: OriginIn
  placeIn: PlaceIn
  guard: Guard
}

export function createRunMessages(
  platform: Platform,
  { announcer, post }: RunMessagesParts,
  author: Author,
): RunMessages {
  const { db, signals } = platform
  const { run, guard } = author
  const { id: runId, agentId } = run.context.run
  const hold = holdOf(db, run.context)
  const messagePublisher = createMessagePublisher(platform)
  const callPublisher = createCallPublisher(platform)
  const published = ({ id, spaceId }: Begun) => ({ id, spaceId, unlessSealed: runTopic(runId) })
  const messageMarks = createMessageMarks(() => run.context.run, guard)
  let hasPosted = false

  async function publishWait(
    spaceId: string,
    shown: Pick<calls.ShownCall, 'toolCallId' | 'waitMs' | 'approval'> | undefined,
  ): Promise<void> {
    if (!shown?.waitMs) return
    const { toolCallId: id, approval } = shown
    const call = { id, agentId, spaceId, approverIds: approval?.approverIds ?? [] }
    await callPublisher.waits(call, approval === undefined ? 'answerers' : 'deciders')
  }

  /** If a shown call waits, adds its space to the run's sources. Returns the changes to the run's row. */
  function applyShown(spaceId: string, shown: calls.ShownCall | undefined): Pick<HowHeld, 'sets'> {
    if (!shown?.waitMs) return {}
    // People answer a waiting call in its space, so the space becomes a source of the run.
    run.apply({ learned: { places: [spaceId] } })
    return { sets: setsOf(run.context.run) }
  }

  async function placeOf(spaceId: string, replyTo: string | undefined): Promise<ReplyPlace> {
    if (replyTo === undefined) return author.placeIn(spaceId)
    if (replyTo === OUTSIDE_OF_THREADS) return NO_REPLY
    const found = await findReplyPlace(db, { spaceId, entityId: agentId, replyToId: replyTo })
    if (found.type === 'place') return found.place
    throw found.type === 'deleted' ? repliedMessageDeleted() : noRepliedMessage()
  }

  /**
   * If the agent is a member, increments the space's counter, records that the run posted in the space, and writes the
   * message and its call, all in one statement.
   */
  async function insert({
    spaceId,
    postKey,
    composite,
    replyTo,
    fromPlainText = false,
    shown,
  }: Beginning): Promise<Message | null> {
    await platform.conductor?.reached({ type: 'post', runId })
    const place = await placeOf(spaceId, replyTo)
    // These values are read as late as possible, because a think cycle's root and depth change when it claims events.
    const { rootId, depth, places, label, askers } = run.context.run
    const isMember = isMemberSql({ spaceId, entityId: agentId })
    const changes: Changes = {
      counter: countMessageSql(spaceId, Prisma.sql`${HELD} AND ${guard.onSpace(spaceId)} AND ${isMember}`),
      message: insertMessageSql({
        id: newId('msg'),
        spaceId,
        senderId: agentId,
        runId,
        runPostKey: postKey,
        composite,
        fromPlainText,
        mentionedAgentId: null,
        status: shown?.waitMs ? 'REQUIRES_ACTION' : 'STREAMING',
        parts: shown === undefined ? [] : [callPart(shown.toolCallId, { isUnfinished: composite })],
        rootId,
        depth: depth + 1,
        origin: author.originIn(spaceId),
        ...place,
        provenance: { places, label, askers },
      }),
      written: insertRunSpaceSql(runId, 'counter'),
      ...showing(shown),
    }
    const row = await hold.write<MessageRow>(changes, { returning: 'message', ...applyShown(spaceId, shown) })
    if (row === null) return null
    hasPosted ||= !fromPlainText
    return messageOfRow(row)
  }

  /**
   * Writes the message and the other changes of the step in one statement. If the step finishes the message, also posts
   * it, with its effects.
   */
  async function writeStep(message: Message, parts: MessagePart[], step: Step) {
    const { id, spaceId } = message
    const { adds, result, asks, ends, moves } = step
    const { marks, isHeard } = messageMarks.by(message, { isEnd: isEnd(step) })
    const shown = adds?.type === 'call' ? adds.shown : undefined
    const showsCalls = parts.some(isCall)
    const waits = shown?.waitMs ? Prisma.sql`true` : showsCalls ? calls.showsWaitingCallSql(id) : Prisma.sql`false`
    const end = ends && endOf(ends.mention, asks, waits)
    const change = { parts, marks, ...(end && { end }), ...(moves && { place: moves }) }
    const answered = applyShown(spaceId, shown)

    async function write(how: { expected?: Expected; tx?: Tx } = {}): Promise<Written | null> {
      const { expected, tx } = how
      const isExpected =
        expected && Prisma.sql` AND ${isVersionSql(spaceId, expected.version)} AND ${expected.isAsCached}`
      const condition = Prisma.sql`${HELD}${isExpected ?? Prisma.empty} AND ${isHeard}`
      const changes: Changes = {
        message: changeMessageSql(id, change, condition),
        ...addedWith(adds),
        ...(result === undefined ? {} : calls.settleCall(result.toolCallId, result, 'message')),
        ...(asks === undefined ? {} : { asks: calls.awaitReplySql(asks), room: RAISE_VERSION_SQL }),
        ...expected?.effects,
      }
      // The run is locked first, so that answers to calls in this message cannot arrive during the write.
      if (tx !== undefined && showsCalls) await writeHeld(tx, run.context)
      const row = await hold.write<MessageRow & { came?: unknown }>(changes, {
        returning: expected === undefined ? 'message' : 'routed',
        isProgress: result !== undefined,
        ...answered,
        ...(tx && { tx }),
      })
      return row === null ? null : { message: messageOfRow(row), came: row.came }
    }

    if (ends === undefined) {
      const written = await write()
      if (written === null) throw messageEnded()
      return { message: written.message, routed: null }
    }
    const finished = { ...message, ...marks, ...moves, parts, mentionedAgentId: ends.mention }
    return post(finished, { write, refused: messageEnded, needsLock: asks !== undefined || showsCalls })
  }

  async function interrupt(message: Begun, parts: MessagePart[], settled: Changes): Promise<void> {
    const end = { status: 'INTERRUPTED' as const }
    const changes = { message: changeMessageSql(message.id, { parts, marks: run.context.run, end }, HELD), ...settled }
    const row = await hold.write(changes, { returning: 'message', isProgress: 'result' in settled })
    if (row !== null) await messagePublisher.ended(published(message), parts.length === 0 ? null : parts.length - 1)
  }

  return {
    async begin(beginning) {
      const { shown, postKey } = beginning
      const message = await insert(beginning).catch((error) => postedBefore(db, error, { runId, runPostKey: postKey }))
      if (message === null) return null
      const { spaceId } = message
      await Promise.all([
        announcer.announce(message),
        signals.publish(spaceChannel(spaceId), { type: 'message' }, spaceTopic(spaceId)),
      ])
      if (shown?.waitMs) await messagePublisher.waiting(published(message), 0)
      await publishWait(message.spaceId, shown)
      return message
    },
    async save({ id, spaceId }, parts) {
      const condition = Prisma.sql`${HELD} AND ${guard.inSpace(spaceId)}`
      const row = await hold.write({ message: changeMessageSql(id, { parts, marks: run.context.run }, condition) })
      if (row !== null) messageMarks.writtenOn(id)
      return row !== null
    },
    async grow(message, parts, step) {
      const { message: written, routed } = await writeStep(message, parts, step)
      if (!isEnd(step)) messageMarks.writtenOn(message.id)
      const isWhole = written.status === 'COMPLETE'
      await publishStep(messagePublisher, { message: published(message), parts, step, isWhole })
      await publishWait(message.spaceId, step.adds?.type === 'call' ? step.adds.shown : step.asks)
      await routed?.afterCommit()
    },
    async inputGrown(message, partIndex, { toolCallId, input }) {
      const row = await hold.write({ call: calls.writeInputSql(toolCallId, input) })
      if (row !== null) await messagePublisher.partChanged(published(message), partIndex)
    },
    async callChanged(message, partIndex, result) {
      if (result !== null) await hold.write(calls.settleCall(result.toolCallId, result), { isProgress: true })
      if (partIndex >= 0) await messagePublisher.partChanged(published(message), partIndex)
    },
    interrupt: (message, parts, result) =>
      interrupt(message, parts, result === null ? {} : calls.settleCall(result.toolCallId, result)),
    withdraw: (message, parts, result) => interrupt(message, parts, calls.withdrawCall(result.toolCallId, result)),
    async begun() {
      const rows = await db.prisma.message.findMany({ where: { runId }, orderBy: { seq: 'asc' } })
      hasPosted ||= rows.some(({ fromPlainText }) => !fromPlainText)
      return rows.map(messageOfRow)
    },
    hasPosted: () => hasPosted,
    mayWrite: (spaceId, mention) => mayWrite(db, agentId, { spaceId, mention }),
    placeOf,
    hasReplies: (message) => isThreadRoot(db, message.id),
    checkHeard: guard.clearIfMarked,
  }
}

/** The value of `replyTo` with which a message leaves the run's thread. */
export const OUTSIDE_OF_THREADS = 'none'

const noRepliedMessage = () =>
  new ToolFailure(
    'NOT_FOUND',
    'There is no message with the id in replyTo in that space. Use the id of a message that you have read, or omit replyTo to answer where you were addressed.',
  )
const repliedMessageDeleted = () =>
  new ToolFailure('BAD_INPUT', 'The message in replyTo was deleted: reply to another message, or omit replyTo.')

const isCall = ({ type }: MessagePart): boolean => type === 'tool'

/** Returns the part that shows a call. */
export function callPart(toolCallId: string, { isUnfinished }: { isUnfinished: boolean }): MessagePart {
  return { type: 'tool', toolCallId, ...(isUnfinished ? { unfinished: true } : {}) }
}

/**
 * A change to a message, or its end. It is written together with all finished parts of the message, of which the new
 * part is the last.
 */
export interface Step {
  /** The new part: a complete text, a shown call, or a file. Absent if the step adds none. */
  adds?: { type: 'text' } | { type: 'call'; shown: calls.ShownCall } | { type: 'file'; file: NewFile }
  /**
   * The thread to which the message moves, if it was begun in another thread before the model had written its
   * `replyTo`.
   */
  moves?: ReplyPlace
  /** The result of a call that is settled in the same write, so that a crash cannot separate the two. */
  result?: ToolResult
  /** The call that waits for a reply after the step. With `people`, people may reply too. */
  asks?: calls.AskingCall & { people: boolean }
  /**
   * Set if the message gets no more parts. Its status is REQUIRES_ACTION while a call that it shows is waiting, and
   * otherwise COMPLETE. The message is routed when it is complete, or immediately if it mentions an agent or asks for a
   * reply.
   */
  ends?: { mention: string | null }
}

export interface ToolResult extends calls.Settlement {
  toolCallId: string
}

/** Whether the step adds no content. */
export const isEnd = ({ adds, result }: Step): boolean => adds === undefined && result === undefined

interface WrittenStep {
  message: PublishedMessage
  parts: MessagePart[]
  step: Step
  isWhole: boolean
}

/** Publishes the changes of a step to viewers of the message after the step was written. */
export async function publishStep(
  messagePublisher: MessagePublisher,
  { message, parts, step, isWhole }: WrittenStep,
): Promise<void> {
  const { adds, result, ends } = step
  const last = parts.length - 1
  if (adds?.type === 'call' || adds?.type === 'file') await messagePublisher.partChanged(message, last)
  else if (adds === undefined && result !== undefined)
    await messagePublisher.partChanged(message, indexOfCall(parts, result.toolCallId))
  if (isWhole) return messagePublisher.ended(message, adds?.type === 'text' ? last : null)
  if (adds?.type === 'text') await messagePublisher.partWhole(message, last)
  if (ends !== undefined) await messagePublisher.updated(message)
}

/** Tracks the marks of a run's messages while the run extends them. */
export interface MessageMarks {
  /**
   * Returns the marks of a message after a step, and the condition that all members of the space may read content with
   * these marks. A step that only ends the message changes no marks, because it adds no content.
   */
  by(message: Message, step: { isEnd: boolean }): { marks: Marks; isHeard: Prisma.Sql }
  /** The caller calls this when content was added to the message. */
  writtenOn(messageId: string): void
}

/** @param run returns the run's current marks */
export function createMessageMarks(run: () => Marks, guard: Guard): MessageMarks {
  const known = new Map<string, Marks>()
  const now = (): Marks => {
    const { places, label } = run()
    return { places, label }
  }
  return {
    by({ id, spaceId, places, label }, { isEnd }) {
      if (isEnd) return { marks: known.get(id) ?? { places, label }, isHeard: Prisma.sql`true` }
      return { marks: now(), isHeard: guard.inSpace(spaceId) }
    },
    writtenOn: (messageId) => void known.set(messageId, now()),
  }
}

export type MayWrite =
  | { type: 'yes'; lastSeq: number }
  | { type: 'not-a-member' }
  | { type: 'mentions-no-agent' }
  | { type: 'mentions-paused' }

/**
 * Checks whether an agent may post in a space and mention another agent there. The result contains the `seq` of the
 * space's last message.
 */
export async function mayWrite(
  db: Database,
  agentId: string,
  { spaceId, mention }: { spaceId: string; mention: string | null },
): Promise<MayWrite> {
  const [place] = await db.prisma.$queryRaw<{ lastSeq: number; paused: boolean | null }[]>`
      SELECT s."lastSeq", a.paused FROM "Space" s
      JOIN "Membership" m ON m."spaceId" = s.id AND m."entityId" = ${agentId}
      LEFT JOIN "Membership" o ON o."spaceId" = s.id AND o."entityId" = ${mention}
      LEFT JOIN "Agent" a ON a.id = o."entityId"
      WHERE s.id = ${spaceId}`
  if (place === undefined) return { type: 'not-a-member' }
  if (mention !== null && place.paused !== false)
    return { type: place.paused === null ? 'mentions-no-agent' : 'mentions-paused' }
  return { type: 'yes', lastSeq: place.lastSeq }
}

/**
 * Returns the end of a message. `asks` is set if the message asks for a reply. `waits` is the condition that the
 * message shows a waiting call.
 */
export function endOf(mentionedAgentId: string | null, asks: { people: boolean } | undefined, waits: Prisma.Sql) {
  const status = asks?.people === true ? ('REQUIRES_ACTION' as const) : ('COMPLETE' as const)
  return { status, mentionedAgentId, waits, asks: asks !== undefined }
}

/** Returns the changes for a new part. */
function addedWith(adds: Step['adds']): Changes {
  if (adds?.type === 'file') return insertSentFileSql(adds.file, 'message')
  return showing(adds?.type === 'call' ? adds.shown : undefined)
}

/** Returns the changes for a newly shown call: the call itself and, if it waits, its notification. */
export function showing(shown: calls.ShownCall | undefined): Changes {
  if (shown === undefined) return {}
  return {
    shown: calls.showCallSql(shown),
    ...(shown.waitMs ? { notice: waitNoticesSql('shown') } : {}),
    ...(shown.waitMs && shown.approval !== undefined ? { decisions: notifyOfDecisionsSql('shown') } : {}),
  }
}

/** Returns the message that the run posted earlier with the same key, if the error says that the key exists already. */
export async function postedBefore(
  { prisma }: Database,
  error: unknown,
  posted: { runId: string; runPostKey: string },
): Promise<Message> {
  const row = isUniqueViolation(error) ? await prisma.message.findFirst({ where: posted }) : null
  if (row === null) throw error
  return messageOfRow(row)
}

/** The maximum number of attempts for a write that conflicts with changes to the space. */
const MOST_ATTEMPTS = 5

/**
 * Wraps posting methods whose statements include the conditions of the guard. If a statement wrote nothing because a
 * condition was false, checks the condition again. If it is still false, throws the reason; otherwise retries.
 */
export function withConfidentialityGuard(
  posting: RunMessages,
  guard: Guard,
  isOpen: (messageId: string) => Promise<boolean>,
): RunMessages {
  return {
    ...posting,
    async begin(beginning) {
      await guard.clearIfMarked(beginning.spaceId)
      for (let attempts = 1; ; attempts++) {
        const message = await posting.begin(beginning)
        if (message !== null || attempts >= MOST_ATTEMPTS) return message
        const may = await posting.mayWrite(beginning.spaceId, null)
        if (may.type === 'not-a-member') return null
        await guard.clear(beginning.spaceId)
      }
    },
    async grow(message, parts, step) {
      if (isEnd(step)) return posting.grow(message, parts, step)
      await guard.clearIfMarked(message.spaceId)
      for (let attempts = 1; ; attempts++) {
        try {
          return await posting.grow(message, parts, step)
        } catch (error) {
          if (!isMessageEnded(error) || attempts >= MOST_ATTEMPTS || !(await isOpen(message.id))) throw error
          await guard.clear(message.spaceId)
        }
      }
    },
    async save(message, parts) {
      await guard.clearIfMarked(message.spaceId)
      const isSaved = await posting.save(message, parts)
      if (!isSaved) await guard.clear(message.spaceId)
      return isSaved
    },
    async inputGrown(message, partIndex, call) {
      await guard.clearIfMarked(message.spaceId)
      await posting.inputGrown(message, partIndex, call)
    },
  }
}
