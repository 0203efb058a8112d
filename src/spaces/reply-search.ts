import { type Marks, marksOf } from '../confidentiality/marks.ts'
import { type EntityKind, type MessageStatus, Prisma } from '../generated/prisma/client.ts'
import type { Database } from '../platform/db.ts'
import { isUnfinished, type MessagePart, mentionsOf } from '../rules/message.ts'
import { isPostedMessage } from '../rules/statuses.ts'
import { type AskingMessage, isWhereAsked } from '../rules/threads.ts'

/** The senders whose messages satisfy a wait. */
export type WaitCondition = { type: 'any' | 'agent' | 'human' } | { type: 'entity'; entityId: string }

/** A message that satisfies a wait. */
export interface Reply {
  messageId: string
  /** The first text of the message. In search results, it is empty if the message contains only tool calls. */
  text: string
  entityId: string
  entityName: string
  entityType: 'human' | 'agent'
  /** Whether the message also wakes the waiting agent. */
  mentionsWaiter: boolean
  /** The confidential spaces, other than the message's own, from which the text may come. */
  marks: string[]
}

/**
 * The composite messages that were unfinished when a wait began. Maps the message id to the number of finished parts at
 * that time. Only later parts count as replies.
 */
export type UnderWay = Map<string, number>

export interface SearchedWait {
  spaceId: string
  /**
   * The message to which the agent awaits a reply. Replies are expected in its thread, or in the thread that it
   * starts.
   */
  asking: AskingMessage
  /** The `seq` of the waiting agent's own message. Only later messages count as replies. */
  afterSeq: number
  /**
   * The waiting agent. Its own messages do not count as replies, and no message counts after the agent has left the
   * space.
   */
  waiterId: string
  conditions: WaitCondition[]
  /** The unfinished messages. A search removes messages that have finished. */
  underWay: UnderWay
  /** The `seq` up to which messages have been searched. Each search advances it. */
  from: number
}

/** Searches the database for messages that satisfy waits. */
export interface ReplySearch {
  /** Returns the waits that have a reply, each with the space's first message that matches. */
  first<W extends SearchedWait>(waits: W[]): Promise<Map<W, Reply>>
  /** Returns the unfinished messages of other senders in a space. */
  underWay(spaceId: string, waiterId: string): Promise<UnderWay>
}

interface Sent extends Marks {
  id: string
  senderId: string
  name: string
  kind: EntityKind
  threadRootId: string | null
  status: MessageStatus
  mentionedAgentId: string | null
  mentionedIds: string[]
  /** The waiting agents that are members of the message's space. */
  heardBy: string[]
}

interface Candidate extends Sent {
  spaceId: string
  seq: number
  composite: boolean
  firstText: { text: string; unfinished?: true } | null
}

interface Growing extends Sent {
  parts: MessagePart[]
}

const MOST_AT_ONCE = 500

const heardBy = (spaceId: Prisma.Sql, waits: SearchedWait[]) => Prisma.sql`
  ARRAY(SELECT "entityId" FROM "Membership" WHERE "spaceId" = ${spaceId} AND "entityId" = ANY(${waits.map(({ waiterId }) => waiterId)}::text[]))`

export function createReplySearch({ prisma }: Database): ReplySearch {
  /** Returns the messages after the given `seq` in each space, at most 500 per space. */
  async function after(places: Map<string, number>, waits: SearchedWait[]): Promise<Candidate[]> {
    return prisma.$queryRaw<Candidate[]>`
      SELECT m.id, m."spaceId", m.seq, m."senderId", e.name, e.kind, m.status, m.composite, m."mentionedAgentId", m."mentionedIds", m."firstText", "heardBy", m."threadRootId", m.places, m.label
      FROM unnest(${[...places.keys()]}::text[], ${[...places.values()]}::int[]) AS place("spaceId", seq)
      CROSS JOIN LATERAL (SELECT ${heardBy(Prisma.sql`place."spaceId"`, waits)} AS "heardBy") h
      CROSS JOIN LATERAL (
        SELECT id, "spaceId", seq, "senderId", status, composite, "mentionedAgentId", "mentionedIds", "threadRootId", places, label,
          jsonb_path_query_first(parts, '$[*] ? (@.type == "text")') AS "firstText"
        FROM "Message" WHERE "spaceId" = place."spaceId" AND seq > place.seq ORDER BY seq LIMIT ${MOST_AT_ONCE}
      ) m JOIN "Entity" e ON e.id = m."senderId"
      ORDER BY m."spaceId", m.seq`
  }

  async function growing(ids: string[], waits: SearchedWait[]): Promise<Map<string, Growing>> {
    if (ids.length === 0) return new Map()
    const rows = await prisma.$queryRaw<Growing[]>`
      SELECT m.id, m."senderId", e.name, e.kind, m.status, m."mentionedAgentId", m."mentionedIds", m."threadRootId", m.parts, m.places, m.label, ${heardBy(Prisma.sql`m."spaceId"`, waits)} AS "heardBy"
      FROM "Message" m JOIN "Entity" e ON e.id = m."senderId"
      WHERE m.id = ANY(${ids})`
    return new Map(rows.map((row) => [row.id, row]))
  }

  /** Finds replies in the new parts of unfinished messages. */
  async function grown<W extends SearchedWait>(waits: W[]): Promise<Map<W, Reply>> {
    const messages = await growing([...new Set(waits.flatMap(({ underWay }) => [...underWay.keys()]))], waits)
    const replies = waits.map((wait) => [wait, laterPart(wait, messages)] as const)
    return new Map(replies.flatMap(([wait, reply]) => (reply === null ? [] : [[wait, reply]])))
  }

  async function firstOf<W extends SearchedWait>(waits: W[], found: Map<W, Reply>): Promise<Map<W, Reply>> {
    const places = new Map<string, number>()
    for (const { spaceId, from } of waits) places.set(spaceId, Math.min(from, places.get(spaceId) ?? from))
    const candidates = Map.groupBy(await after(places, waits), ({ spaceId }) => spaceId)
    const more: W[] = []
    for (const wait of waits) {
      const list = candidates.get(wait.spaceId) ?? []
      const reply = advance(wait, list)
      if (reply !== null) found.set(wait, reply)
      else if (list.length === MOST_AT_ONCE && wait.from >= (list.at(-1)?.seq ?? 0)) more.push(wait)
    }
    return more.length === 0 ? found : firstOf(more, found)
  }

  return {
    async first(waits) {
      const found = await grown(waits)
      const others = waits.filter((wait) => !found.has(wait))
      return others.length === 0 ? found : firstOf(others, found)
    },
    async underWay(spaceId, waiterId) {
      const rows = await prisma.$queryRaw<{ id: string; count: number }[]>`
        SELECT id, jsonb_array_length(jsonb_path_query_array(parts, '$[*] ? (!exists(@.unfinished))')) AS count FROM "Message"
        WHERE "spaceId" = ${spaceId} AND "senderId" <> ${waiterId} AND status = 'STREAMING' AND composite`
      return new Map(rows.map(({ id, count }) => [id, count]))
    },
  }
}

/** Returns the first new text of an unfinished message if it matches the wait. */
function laterPart(
  { underWay, asking, conditions, waiterId }: SearchedWait,
  messages: Map<string, Growing>,
): Reply | null {
  for (const [id, count] of underWay) {
    const message = messages.get(id)
    const isHere = message?.heardBy.includes(waiterId) && isWhereAsked(asking, message.threadRootId)
    if (message !== undefined && isHere && conditions.some((one) => isMet(one, message))) {
      const part = message.parts.slice(count).find((one) => one.type === 'text' && !isUnfinished(one))
      if (part?.type === 'text') return replyOf(message, part.text, waiterId)
    }
    if (message?.status !== 'STREAMING') underWay.delete(id)
  }
  return null
}

/** Returns the first message that matches the wait, and advances the wait past messages that can no longer match. */
function advance(wait: SearchedWait, candidates: Candidate[]): Reply | null {
  let decided = true
  for (const candidate of candidates) {
    if (candidate.seq <= wait.from) continue
    const isHeard = candidate.senderId !== wait.waiterId && candidate.heardBy.includes(wait.waiterId)
    const isHere = isHeard && isWhereAsked(wait.asking, candidate.threadRootId)
    const matches = isHere && wait.conditions.some((one) => isMet(one, candidate))
    if (matches && hasAnswer(candidate)) return replyOf(candidate, candidate.firstText?.text ?? '', wait.waiterId)
    // An unfinished message can still be moved into the thread.
    const mayMatch = isHeard && wait.conditions.some((one) => isMet(one, candidate))
    if (mayMatch && candidate.status === 'STREAMING') decided = false
    if (decided) wait.from = candidate.seq
  }
  return null
}

/** Whether a message of this sender satisfies the condition. */
export function isMet(condition: WaitCondition, { senderId, kind }: Pick<Sent, 'senderId' | 'kind'>): boolean {
  if (condition.type === 'any') return true
  if (condition.type === 'entity') return condition.entityId === senderId
  return condition.type === (kind === 'AGENT' ? 'agent' : 'human')
}

/**
 * Whether the message can be returned as a reply. A composite message can have a finished text before the whole message
 * is finished. A finished message without text is returned with the tool calls that it shows.
 */
function hasAnswer({ status, composite, firstText }: Candidate): boolean {
  const isShown = isPostedMessage(status)
  if (firstText === null) return isShown
  return firstText.unfinished !== true && (composite || isShown)
}

function replyOf(
  { id, senderId, name, kind, mentionedAgentId, mentionedIds, ...marks }: Omit<Sent, 'threadRootId'>,
  text: string,
  waiterId: string,
): Reply {
  return {
    messageId: id,
    text,
    entityId: senderId,
    entityName: name,
    entityType: kind === 'AGENT' ? 'agent' : 'human',
    mentionsWaiter: mentionsOf({ mentionedAgentId, mentionedIds }).includes(waiterId),
    marks: marksOf(marks),
  }
}
