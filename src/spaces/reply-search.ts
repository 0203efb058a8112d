import type { EntityKind, MessageStatus } from '../generated/prisma/client.ts'
import type { Database } from '../platform/db.ts'

/** Whose message answers a wait. */
export type WaitCondition = { type: 'any' | 'agent' | 'human' } | { type: 'entity'; entityId: string }

/** A message that answers a wait, with its first text. */
export interface Reply {
  messageId: string
  text: string
  entityId: string
  entityName: string
  entityType: 'human' | 'agent'
}

export interface SearchedWait {
  spaceId: string
  /** Only messages after this one count: the waiter's own. */
  afterSeq: number
  /** The waiting agent: its own messages never count. */
  waiterId: string
  conditions: WaitCondition[]
  /** Up to here nothing can answer any more; moved on by every search. */
  from: number
}

/** Looks in the database for what answers waits. */
export interface ReplySearch {
  /** Those of the waits that are answered now, each by the first message that matches, in the order of the space. */
  first<W extends SearchedWait>(waits: W[]): Promise<Map<W, Reply>>
}

interface Candidate {
  id: string
  spaceId: string
  seq: number
  senderId: string
  name: string
  kind: EntityKind
  status: MessageStatus
  composite: boolean
  firstText: { text: string; unfinished?: true } | null
}

const MOST_AT_ONCE = 500

export function createReplySearch({ prisma }: Database): ReplySearch {
  /** The messages after the given place of each space, at most 500 of each. */
  async function after(places: Map<string, number>): Promise<Candidate[]> {
    return prisma.$queryRaw<Candidate[]>`
      SELECT m.id, m."spaceId", m.seq, m."senderId", e.name, e.kind, m.status, m.composite, m."firstText"
      FROM unnest(${[...places.keys()]}::text[], ${[...places.values()]}::int[]) AS place("spaceId", seq)
      CROSS JOIN LATERAL (
        SELECT id, "spaceId", seq, "senderId", status, coalesce("runPostKey" LIKE "spaceId" || ':%', false) AS composite,
          jsonb_path_query_first(parts, '$[*] ? (@.type == "text")') AS "firstText"
        FROM "Message" WHERE "spaceId" = place."spaceId" AND seq > place.seq ORDER BY seq LIMIT ${MOST_AT_ONCE}
      ) m JOIN "Entity" e ON e.id = m."senderId"
      ORDER BY m."spaceId", m.seq`
  }

  async function firstOf<W extends SearchedWait>(waits: W[], found: Map<W, Reply>): Promise<Map<W, Reply>> {
    const places = new Map<string, number>()
    for (const { spaceId, from } of waits) places.set(spaceId, Math.min(from, places.get(spaceId) ?? from))
    const candidates = Map.groupBy(await after(places), ({ spaceId }) => spaceId)
    const more: W[] = []
    for (const wait of waits) {
      const list = candidates.get(wait.spaceId) ?? []
      const reply = advance(wait, list)
      if (reply !== null) found.set(wait, reply)
      else if (list.length === MOST_AT_ONCE && wait.from >= (list.at(-1)?.seq ?? 0)) more.push(wait)
    }
    return more.length === 0 ? found : firstOf(more, found)
  }

  return { first: async (waits) => (waits.length === 0 ? new Map() : firstOf(waits, new Map())) }
}

/** The first of the messages that answers the wait; moves the wait on behind those that never will. */
function advance(wait: SearchedWait, candidates: Candidate[]): Reply | null {
  let decided = true
  for (const candidate of candidates) {
    if (candidate.seq <= wait.from) continue
    const matches = candidate.senderId !== wait.waiterId && wait.conditions.some((one) => isMet(one, candidate))
    if (matches && hasWholeText(candidate)) return replyOf(candidate)
    if (matches && candidate.status === 'STREAMING') decided = false
    if (decided) wait.from = candidate.seq
  }
  return null
}

function isMet(condition: WaitCondition, { senderId, kind }: Candidate): boolean {
  if (condition.type === 'any') return true
  if (condition.type === 'entity') return condition.entityId === senderId
  return condition.type === (kind === 'AGENT' ? 'agent' : 'human')
}

/** A message with several parts has a text that is whole before it is whole itself. */
function hasWholeText({ status, composite, firstText }: Candidate): boolean {
  if (firstText === null || firstText.unfinished === true) return false
  return composite || status === 'COMPLETE' || status === 'REQUIRES_ACTION'
}

function replyOf({ id, firstText, senderId, name, kind }: Candidate): Reply {
  return {
    messageId: id,
    text: firstText?.text ?? '',
    entityId: senderId,
    entityName: name,
    entityType: kind === 'AGENT' ? 'agent' : 'human',
  }
}
