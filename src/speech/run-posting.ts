import { type EntityKind, Prisma } from '../generated/prisma/client.ts'
import { newId } from '../lib/ids.ts'
import { isUniqueViolation } from '../platform/database-errors.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { runTopic, spaceChannel } from '../realtime/topics.ts'
import { createCallNews } from '../runs/call-news.ts'
import { type Changes, HELD, type HowHeld, holdOf } from '../runs/hold.ts'
import * as calls from '../runs/tool-calls.ts'
import type { Announcer } from '../spaces/announcer.ts'
import { type Message, type MessageOrigin, type MessagePart, messageOfRow } from '../spaces/message.ts'
import { createMessageNews } from '../spaces/message-news.ts'
import { change, insertion, type MessageRow } from '../spaces/message-statements.ts'
import type { PostingHooks } from '../spaces/posting.ts'
import { type RunInHand, ToolFailure } from '../tools/tool.ts'

/** What comes to a message, or ends it. `parts` are always all of its whole parts; the new one stands last. */
export interface Step {
  /** The part that is new: a text that is whole, or a call that shows. Absent when the parts were there before. */
  adds?: { type: 'text' } | { type: 'call'; shown: calls.ShownCall }
  /** The call that is settled by it: a crash cannot separate the two. */
  result?: ToolResult
  /** The call that goes on to wait for a reply; with `people`, of people too. */
  asks?: calls.AskingCall & { people: boolean }
  /** No more parts will come. While a call that it shows waits it is REQUIRES_ACTION; else it is whole now. Routed once whole, or at once where it mentions somebody or asks. */
  ends?: { mention: string | null }
}

export interface ToolResult extends calls.Settlement {
  toolCallId: string
}

/** A message that is to begin: without parts, or with a call as the first. */
export interface Beginning {
  spaceId: string
  /** What of the run posts it: the same key posts once. */
  postKey: string
  composite: boolean
  shown?: calls.ShownCall
}

type Begun = Pick<Message, 'id' | 'spaceId'>

/** The messages of one run, from their first character on: written under its hold. All throw RunLostError. */
export interface RunPosting {
  /** Begins one: it has its `seq`, and status STREAMING, or REQUIRES_ACTION where its call waits. Null: the agent is not a member. */
  begin(beginning: Beginning): Promise<Message | null>
  /** What is kept of a message should this process die: its draft is in the live log only. */
  save(message: Begun, parts: MessagePart[]): Promise<void>
  /** Takes a message one step further. @throws MESSAGE_ENDED; BadInputError where the one mentioned has left */
  grow(message: Begun, parts: MessagePart[], step: Step): Promise<void>
  /** What a shown call came to, of a message that goes on; or only that it changed. */
  callChanged(message: Begun, partIndex: number, result: ToolResult | null): Promise<void>
  /** The message will not become whole: what was written of it stays. Settles its call, also where somebody else has ended it. */
  interrupt(message: Begun, parts: MessagePart[], result: ToolResult | null): Promise<void>
  /** All that the run has begun, oldest first. */
  begun(): Promise<Message[]>
  /** Whether the agent may write in a space, and mention another there; and the last message there now. */
  mayWrite(spaceId: string, mention: string | null): Promise<MayWrite>
}

export type MayWrite = { type: 'yes'; lastSeq: number } | { type: 'not-a-member' } | { type: 'mentions-no-agent' }

const MESSAGE_ENDED = 'MESSAGE_ENDED'

/** Somebody else has ended the message that a call goes on with. The run goes on: it is not lost. */
function messageEnded(): ToolFailure {
  return new ToolFailure(
    MESSAGE_ENDED,
    'Your message was ended before it was whole: people see what had come of it. Say it again, as far as it still matters.',
  )
}

export function isMessageEnded(error: unknown): boolean {
  return error instanceof ToolFailure && error.code === MESSAGE_ENDED
}

export interface RunPostingParts {
  announcer: Announcer
  route: PostingHooks<unknown>['route']
}

/** Why the run posts in a space: null where what triggered it came from there. */
export type OriginIn = (spaceId: string) => MessageOrigin | null

interface Voice {
  run: Pick<RunInHand, 'claim' | 'agent'>
  originIn: OriginIn
}

export function createRunPosting(platform: Platform, { announcer, route }: RunPostingParts, voice: Voice): RunPosting {
  const { db, signals } = platform
  const { claim, agent } = voice.run
  const { id: runId } = claim.run
  const hold = holdOf(db, claim)
  const messageNews = createMessageNews(platform)
  const callNews = createCallNews(platform)
  const inNews = ({ id, spaceId }: Begun) => ({ id, spaceId, guard: runTopic(runId) })

  async function tellIfWaits(
    spaceId: string,
    shown: Pick<calls.ShownCall, 'toolCallId' | 'waitMs'> | undefined,
  ): Promise<void> {
    if (shown?.waitMs) await callNews.waits({ id: shown.toolCallId, agentId: agent.id, spaceId })
  }

  /** In one statement: the space's counter for a member, the space as one that the run wrote in, the message, its call. */
  async function insert({ spaceId, postKey, composite, shown }: Beginning): Promise<Message | null> {
    // As it is now: a think cycle's root and depth change with the events that it takes.
    const { rootId, depth } = claim.run
    const inserted = insertion(
      {
        ...{
          id: newId('msg'),
          spaceId,
          senderId: agent.id,
          runId,
          runPostKey: postKey,
          composite,
          mentionedAgentId: null,
        },
        status: shown?.waitMs ? 'REQUIRES_ACTION' : 'STREAMING',
        parts: shown === undefined ? [] : [{ type: 'tool', toolCallId: shown.toolCallId }],
        rootId,
        depth: depth + 1,
        origin: voice.originIn(spaceId),
      },
      HELD,
    )
    const changes: Changes = {
      ...inserted,
      written: Prisma.sql`INSERT INTO "RunSpace" ("runId", "spaceId") SELECT ${runId}, id FROM counter ON CONFLICT DO NOTHING`,
      ...(shown === undefined ? {} : { call: calls.shown(shown) }),
    }
    const row = await hold.write<MessageRow>(changes, { returning: 'message' })
    return row === null ? null : messageOfRow(row)
  }

  /** What the run posted under the key before, when posting it again was refused for that. */
  async function postedBefore(error: unknown, runPostKey: string): Promise<Message> {
    const row = isUniqueViolation(error) ? await db.prisma.message.findFirst({ where: { runId, runPostKey } }) : null
    if (row === null) throw error
    return messageOfRow(row)
  }

  /** The message, and with it all that belongs to the step, in one statement; and what follows from that, in its transaction. */
  async function write({ id }: Begun, parts: MessagePart[], step: Step) {
    const { adds, result, asks, ends } = step
    const shown = adds?.type === 'call' ? adds.shown : undefined
    const showsCalls = parts.some(({ type }) => type === 'tool')
    const waits = shown?.waitMs ? Prisma.sql`true` : showsCalls ? calls.showsWaiting(id) : Prisma.sql`false`
    const end = ends && endOf(ends.mention, asks, waits)
    const changes: Changes = {
      message: change(id, { parts, ...(end && { end }) }, HELD),
      ...(shown === undefined ? {} : { shown: calls.shown(shown) }),
      ...(result === undefined ? {} : { result: calls.settled(result.toolCallId, result, 'message') }),
      ...(asks === undefined ? {} : { asks: calls.asked(asks) }),
    }
    const how: HowHeld = { returning: 'message', isProgress: result !== undefined }
    const then = async (tx: Tx, row: MessageRow | null) => {
      if (row === null) throw messageEnded()
      const message = messageOfRow(row)
      return { message, routed: message.routedAt === null ? null : await route(tx, message) }
    }
    if (ends === undefined) return then(db.prisma, await hold.write<MessageRow>(changes, how))
    // Answers that come while the run is waited for must be seen: they are given to calls that it shows.
    if (showsCalls)
      return hold.transaction(async (tx) => then(tx, await hold.write<MessageRow>(changes, { ...how, tx })))
    return hold.writeThen<MessageRow, Awaited<ReturnType<typeof then>>>(changes, how, then)
  }

  async function tellStep(message: Begun, parts: MessagePart[], { adds, result, ends }: Step, isWhole: boolean) {
    const news = inNews(message)
    const last = parts.length - 1
    if (adds?.type === 'call') await messageNews.partChanged(news, last)
    else if (adds === undefined && result !== undefined)
      await messageNews.partChanged(news, indexOfCall(parts, result.toolCallId))
    if (isWhole) return messageNews.ended(news, adds?.type === 'text' ? last : null)
    if (adds?.type === 'text') await messageNews.partWhole(news, last)
    if (ends !== undefined) await messageNews.updated(news)
  }

  return {
    async begin(beginning) {
      const { shown, postKey } = beginning
      const message = await insert(beginning).catch((error) => postedBefore(error, postKey))
      if (message === null) return null
      await announcer.announce(message)
      await signals.publish(spaceChannel(message.spaceId), { type: 'message' })
      if (shown?.waitMs) await messageNews.waiting(inNews(message), 0)
      await tellIfWaits(message.spaceId, shown)
      return message
    },
    async save({ id }, parts) {
      await hold.write({ message: change(id, { parts }, HELD) })
    },
    async grow(message, parts, step) {
      const { message: written, routed } = await write(message, parts, step)
      await tellStep(message, parts, step, written.status === 'COMPLETE')
      await tellIfWaits(message.spaceId, step.adds?.type === 'call' ? step.adds.shown : step.asks)
      await routed?.afterCommit()
    },
    async callChanged(message, partIndex, result) {
      if (result !== null) await hold.write({ result: calls.settled(result.toolCallId, result) }, { isProgress: true })
      if (partIndex >= 0) await messageNews.partChanged(inNews(message), partIndex)
    },
    async interrupt(message, parts, result) {
      const end = { status: 'INTERRUPTED' as const }
      const settled: Changes = result === null ? {} : { result: calls.settled(result.toolCallId, result) }
      const changes = { message: change(message.id, { parts, end }, HELD), ...settled }
      const row = await hold.write(changes, { returning: 'message', isProgress: result !== null })
      if (row !== null) await messageNews.ended(inNews(message), parts.length === 0 ? null : parts.length - 1)
    },
    async begun() {
      const rows = await db.prisma.message.findMany({ where: { runId }, orderBy: { seq: 'asc' } })
      return rows.map(messageOfRow)
    },
    async mayWrite(spaceId, mention) {
      const [place] = await db.prisma.$queryRaw<{ lastSeq: number; mentionedKind: EntityKind | null }[]>`
        SELECT s."lastSeq", e.kind AS "mentionedKind" FROM "Space" s
        JOIN "Membership" m ON m."spaceId" = s.id AND m."entityId" = ${agent.id}
        LEFT JOIN "Membership" o ON o."spaceId" = s.id AND o."entityId" = ${mention}
        LEFT JOIN "Entity" e ON e.id = o."entityId"
        WHERE s.id = ${spaceId}`
      if (place === undefined) return { type: 'not-a-member' }
      if (mention !== null && place.mentionedKind !== 'AGENT') return { type: 'mentions-no-agent' }
      return { type: 'yes', lastSeq: place.lastSeq }
    },
  }
}

function endOf(mentionedAgentId: string | null, asks: Step['asks'], waits: Prisma.Sql) {
  const status = asks?.people === true ? ('REQUIRES_ACTION' as const) : ('COMPLETE' as const)
  return { status, mentionedAgentId, waits, asks: asks !== undefined }
}

/** Where among the parts a call shows; negative where it does not. */
export function indexOfCall(parts: readonly MessagePart[], callId: string): number {
  return parts.findIndex((part) => part.type === 'tool' && part.toolCallId === callId)
}
