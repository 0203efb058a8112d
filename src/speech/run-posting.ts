import type { Discretion } from '../confidence/discretion.ts'
import { Prisma } from '../generated/prisma/client.ts'
import { newId } from '../lib/ids.ts'
import type { JsonObject } from '../lib/json.ts'
import type { Changes } from '../platform/changes.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { runTopic, spaceChannel, spaceTopic } from '../realtime/topics.ts'
import { createCallPublisher } from '../runs/call-publisher.ts'
import { HELD, type HowHeld, holdOf } from '../runs/hold.ts'
import * as calls from '../runs/tool-calls.ts'
import type { Announcer } from '../spaces/announcer.ts'
import { type Message, type MessageOrigin, type MessagePart, messageOfRow } from '../spaces/message.ts'
import { createMessagePublisher } from '../spaces/message-publisher.ts'
import { change, insertion, type MessageRow, ROOM_OF_WAIT } from '../spaces/message-statements.ts'
import type { PostingHooks } from '../spaces/posting.ts'
import { type RunInHand, ToolFailure } from '../tools/tool.ts'
import type { Guard } from './guard.ts'
import { createMessageMarks } from './message-marks.ts'
import {
  answeredIn,
  changesForeseen,
  endOf,
  type MayWrite,
  mayWrite,
  postedBefore,
  showing,
} from './posting-changes.ts'
import { isEnd, type Step, type ToolResult, tellStep } from './step.ts'

/**
 * A new message: without parts, or with a call as its first part; for a composite one, the input of
 * that call is still streaming.
 */
export interface Beginning {
  spaceId: string
  /** Idempotency key within the run. */
  postKey: string
  composite: boolean
  shown?: calls.ShownCall
}

type Begun = Pick<Message, 'id' | 'spaceId'>

/** The messages of one run, from their first character on, written under its hold. All methods throw RunLostError. */
export interface RunPosting {
  /**
   * Begins a message: assigns its `seq`, and status STREAMING, or REQUIRES_ACTION if its call
   * waits. Null: the agent is not a member.
   */
  begin(beginning: Beginning): Promise<Message | null>
  /**
   * Saves the draft, which is otherwise only in the event log, in case this process dies. False:
   * the message has ended, or the guard refuses.
   */
  save(message: Begun, parts: MessagePart[]): Promise<boolean>
  /** Applies a step to a message. @throws MESSAGE_ENDED; BadInputError if the mentioned agent has left */
  grow(message: Message, parts: MessagePart[], step: Step): Promise<void>
  /** Updates the streamed input of the call that a message shows as its last part. */
  inputGrown(message: Begun, partIndex: number, call: { toolCallId: string; input: JsonObject }): Promise<void>
  /** Stores the result of a shown call, in a message that continues; null: only publishes that the call changed. */
  callChanged(message: Begun, partIndex: number, result: ToolResult | null): Promise<void>
  /**
   * Ends a message as INTERRUPTED, with what was written of it. Settles its call, even if somebody
   * else has ended the message.
   */
  interrupt(message: Begun, parts: MessagePart[], result: ToolResult | null): Promise<void>
  /** The same if members may not learn of the call: its content is removed from the message. */
  withdraw(message: Begun, parts: MessagePart[], result: ToolResult): Promise<void>
  /** All messages that the run has begun, oldest first. */
  begun(): Promise<Message[]>
  /** Whether the agent may post in a space, and mention another one there; with the last message of the space. */
  mayWrite(spaceId: string, mention: string | null): Promise<MayWrite>
  /** Checks that the members of the space may read what the run knows. @throws ToolFailure with CONFIDENTIAL */
  checkHeard(spaceId: string): Promise<void>
}

const MESSAGE_ENDED = 'MESSAGE_ENDED'

/** Somebody else has ended the message to which a call adds. The run itself continues. */
function messageEnded(): ToolFailure {
  return new ToolFailure(
    MESSAGE_ENDED,
    'Your message was ended before it was whole: people see what had come of it. Say it again, as far as it still matters.',
  )
}

export function isMessageEnded(error: unknown): boolean {
  return error instanceof ToolFailure && error.code === MESSAGE_ENDED
}

export interface RunPostingParts extends Pick<PostingHooks<unknown>, 'route' | 'foresee'> {
  announcer: Announcer
  discretion: Pick<Discretion, 'toSpeak'>
}

/** Why the run posts in a space: null if its trigger came from that space. */
export type OriginIn = (spaceId: string) => MessageOrigin | null

interface Voice {
  run: Pick<RunInHand, 'claim' | 'agent'>
  originIn: OriginIn
  guard: Guard
}

export function createRunPosting(
  platform: Platform,
  { announcer, route, foresee }: RunPostingParts,
  voice: Voice,
): RunPosting {
  const { db, signals } = platform
  const { claim, agent } = voice.run
  const { guard } = voice
  const { id: runId } = claim.run
  const hold = holdOf(db, claim)
  const messagePublisher = createMessagePublisher(platform)
  const callPublisher = createCallPublisher(platform)
  const published = ({ id, spaceId }: Begun) => ({ id, spaceId, unlessSealed: runTopic(runId) })
  const messageMarks = createMessageMarks(claim.run, guard)

  async function tellIfWaits(
    spaceId: string,
    shown: Pick<calls.ShownCall, 'toolCallId' | 'waitMs' | 'approval'> | undefined,
  ): Promise<void> {
    if (!shown?.waitMs) return
    const { toolCallId: id, approval } = shown
    const call = { id, agentId: agent.id, spaceId, approverIds: approval?.approverIds ?? [] }
    await callPublisher.waits(call, approval === undefined ? 'answerers' : 'deciders')
  }

  /**
   * Writes in one statement the space's counter if the agent is a member, the space as one in which
   * the run posted, the message and its call.
   */
  async function insert({ spaceId, postKey, composite, shown }: Beginning): Promise<Message | null> {
    // Read when it is needed: a think cycle's root and depth change with the events that it takes.
    const { rootId, depth, places, label, askers } = claim.run
    const inserted = insertion(
      {
        ...{ id: newId('msg'), spaceId, senderId: agent.id, runId, runPostKey: postKey, composite },
        mentionedAgentId: null,
        status: shown?.waitMs ? 'REQUIRES_ACTION' : 'STREAMING',
        parts: shown === undefined ? [] : [callPart(shown.toolCallId, { isUnfinished: composite })],
        rootId,
        depth: depth + 1,
        origin: voice.originIn(spaceId),
        provenance: { places, label, askers },
      },
      Prisma.sql`${HELD} AND ${guard.onSpace(spaceId)}`,
    )
    const changes: Changes = {
      ...inserted,
      written: Prisma.sql`INSERT INTO "RunSpace" ("runId", "spaceId") SELECT ${runId}, id FROM counter ON CONFLICT DO NOTHING`,
      ...showing(shown),
    }
    const row = await hold.write<MessageRow>(changes, {
      returning: 'message',
      ...answeredIn(claim.run, spaceId, shown),
    })
    return row === null ? null : messageOfRow(row)
  }

  /**
   * Finishes a text message with all effects in one statement, with an optimistic routing decision.
   * Null: nothing was written, and only a transaction can decide.
   */
  async function writeForeseen(message: Message, parts: MessagePart[], step: Step) {
    const { result, asks, ends } = step
    if (ends === undefined || asks !== undefined || parts.some(isCall)) return null
    const { marks, isHeard } = messageMarks.by(message, { isEnd: isEnd(step) })
    const { id, spaceId } = message
    const foreseen = await foresee({ ...message, ...marks, parts, mentionedAgentId: ends.mention })
    if (foreseen === null) return null
    const changes = changesForeseen(
      { id, spaceId, parts, ...marks },
      { result, mention: ends.mention },
      foreseen,
      isHeard,
    )
    const row = await hold.write<MessageRow & { came: unknown }>(changes, {
      returning: 'routed',
      isProgress: result !== undefined,
    })
    if (row !== null) return { message: { status: row.status }, routed: foreseen.routedOf(row.came, null) }
    foreseen.refused()
    return null
  }

  /**
   * Writes the message and everything that belongs to the step in one statement; routes the message
   * in the same transaction.
   */
  async function write(message: Message, parts: MessagePart[], step: Step) {
    const { id, spaceId } = message
    const { adds, result, asks, ends } = step
    const { marks, isHeard } = messageMarks.by(message, { isEnd: isEnd(step) })
    const shown = adds?.type === 'call' ? adds.shown : undefined
    const showsCalls = parts.some(isCall)
    const waits = shown?.waitMs ? Prisma.sql`true` : showsCalls ? calls.showsWaiting(id) : Prisma.sql`false`
    const end = ends && endOf(ends.mention, asks, waits)
    const changes: Changes = {
      message: change(id, { parts, marks, ...(end && { end }) }, Prisma.sql`${HELD} AND ${isHeard}`),
      ...showing(shown),
      ...(result === undefined ? {} : { result: calls.settled(result.toolCallId, result, 'message') }),
      ...(asks === undefined ? {} : { asks: calls.asked(asks), room: ROOM_OF_WAIT }),
    }
    const answered = answeredIn(claim.run, spaceId, shown)
    const how: HowHeld = { returning: 'message', isProgress: result !== undefined, ...answered }
    const then = async (tx: Tx, row: MessageRow | null) => {
      if (row === null) throw messageEnded()
      const message = messageOfRow(row)
      return { message, routed: message.routedAt === null ? null : await route(tx, message) }
    }
    if (ends === undefined) return then(db.prisma, await hold.write<MessageRow>(changes, how))
    // Lock the run first, so that answers that arrive in the meantime are seen: they may be for
    // calls in this message.
    if (showsCalls)
      return hold.transaction(async (tx) => then(tx, await hold.write<MessageRow>(changes, { ...how, tx })))
    return hold.writeThen<MessageRow, Awaited<ReturnType<typeof then>>>(changes, how, then)
  }

  async function interrupt(message: Begun, parts: MessagePart[], settled: Changes): Promise<void> {
    const end = { status: 'INTERRUPTED' as const }
    const changes = { message: change(message.id, { parts, marks: claim.run, end }, HELD), ...settled }
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
      await tellIfWaits(message.spaceId, shown)
      return message
    },
    async save({ id, spaceId }, parts) {
      const condition = Prisma.sql`${HELD} AND ${guard.inSpace(spaceId)}`
      const row = await hold.write({ message: change(id, { parts, marks: claim.run }, condition) })
      if (row !== null) messageMarks.writtenOn(id)
      return row !== null
    },
    async grow(message, parts, step) {
      const foreseen = await writeForeseen(message, parts, step)
      const { message: written, routed } = foreseen ?? (await write(message, parts, step))
      if (!isEnd(step)) messageMarks.writtenOn(message.id)
      const isWhole = written.status === 'COMPLETE'
      await tellStep(messagePublisher, { message: published(message), parts, step, isWhole })
      await tellIfWaits(message.spaceId, step.adds?.type === 'call' ? step.adds.shown : step.asks)
      await routed?.afterCommit()
    },
    async inputGrown(message, partIndex, { toolCallId, input }) {
      const row = await hold.write({ call: calls.written(toolCallId, input) })
      if (row !== null) await messagePublisher.partChanged(published(message), partIndex)
    },
    async callChanged(message, partIndex, result) {
      if (result !== null) await hold.write({ result: calls.settled(result.toolCallId, result) }, { isProgress: true })
      if (partIndex >= 0) await messagePublisher.partChanged(published(message), partIndex)
    },
    interrupt: (message, parts, result) =>
      interrupt(message, parts, result === null ? {} : { result: calls.settled(result.toolCallId, result) }),
    withdraw: (message, parts, result) =>
      interrupt(message, parts, { result: calls.withdrawn(result.toolCallId, result) }),
    async begun() {
      const rows = await db.prisma.message.findMany({ where: { runId }, orderBy: { seq: 'asc' } })
      return rows.map(messageOfRow)
    },
    mayWrite: (spaceId, mention) => mayWrite(db, agent.id, { spaceId, mention }),
    checkHeard: guard.clearIfMarked,
  }
}

const isCall = ({ type }: MessagePart): boolean => type === 'tool'

/** A call as a part. */
export function callPart(toolCallId: string, { isUnfinished }: { isUnfinished: boolean }): MessagePart {
  return { type: 'tool', toolCallId, ...(isUnfinished ? { unfinished: true } : {}) }
}
