import { type InboxEvent, Prisma } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'

/** What waits in an inbox while a cycle thinks. */
export interface WaitingCounts {
  /** All that waits. */
  total: number
  /** Of those, the urgent ones that a cycle may take in between. */
  urgent: number
}

/** Events for one cycle at most. */
export const MOST_EVENTS_A_CYCLE = 100

type Candidate = InboxEvent & {
  /**
   * An event of a chain, or of an ADMIN or MENTION_CHAIN space: delegation, mention and reply stack act on it alone; or one of
   * several of which a provider refused something.
   */
  alone: boolean
}

const ALONE = Prisma.sql`(e.suspect OR e."chainId" IS NOT NULL OR coalesce(s.routing IN ('ADMIN', 'MENTION_CHAIN'), false))`
const WAITING = Prisma.sql`e."doneAt" IS NULL AND e."runId" IS NULL`

/**
 * Takes an agent's next events for a cycle, urgent ones first, else in the order in which they came: as many as belong into one
 * cycle, at most 100, and no more than `mostCharacters` of content unless the first alone has more. To be called under the agent's row lock.
 */
export async function takeEvents(
  tx: Tx,
  agentId: string,
  runId: string,
  mostCharacters: number,
): Promise<{ events: InboxEvent[]; alone: boolean }> {
  const candidates = await tx.$queryRaw<Candidate[]>`
    SELECT e.*, ${ALONE} AS alone FROM "InboxEvent" e LEFT JOIN "Space" s ON s.id = e."spaceId"
    WHERE e."agentId" = ${agentId} AND ${WAITING}
    ORDER BY e.urgent DESC, e.id LIMIT ${MOST_EVENTS_A_CYCLE}`
  const events = await assign(tx, together(candidates, mostCharacters), runId)
  return { events, alone: candidates[0]?.alone === true }
}

/** Takes the urgent events that wait, other than those that must be alone in a cycle, in order. */
export async function takeUrgentEvents(
  tx: Tx,
  agentId: string,
  runId: string,
  mostCharacters: number,
): Promise<InboxEvent[]> {
  const candidates = await tx.$queryRaw<Candidate[]>`
    SELECT e.*, false AS alone FROM "InboxEvent" e LEFT JOIN "Space" s ON s.id = e."spaceId"
    WHERE e."agentId" = ${agentId} AND ${WAITING} AND e.urgent AND NOT ${ALONE} ORDER BY e.id LIMIT ${MOST_EVENTS_A_CYCLE}`
  return assign(tx, together(candidates, mostCharacters), runId)
}

export async function countWaiting(tx: Tx, agentId: string): Promise<WaitingCounts> {
  const [row] = await tx.$queryRaw<WaitingCounts[]>`
    SELECT count(*)::int AS total, (count(*) FILTER (WHERE e.urgent AND NOT ${ALONE}))::int AS urgent
    FROM "InboxEvent" e LEFT JOIN "Space" s ON s.id = e."spaceId" WHERE e."agentId" = ${agentId} AND ${WAITING}`
  return row ?? { total: 0, urgent: 0 }
}

/** The first events that wait, left where they are. */
export function firstWaiting(tx: Tx, agentId: string, most: number): Promise<InboxEvent[]> {
  return tx.inboxEvent.findMany({ where: { agentId, doneAt: null, runId: null }, orderBy: { id: 'asc' }, take: most })
}

/** Whether the agent has something to think about that no cycle has taken. */
export async function hasWaiting(tx: Tx, agentId: string): Promise<boolean> {
  return (
    (await tx.inboxEvent.findFirst({ where: { agentId, doneAt: null, runId: null }, select: { id: true } })) !== null
  )
}

/** From the first on, while they may share a cycle. */
function together(candidates: Candidate[], mostCharacters: number): InboxEvent[] {
  const [first] = candidates
  if (first === undefined) return []
  if (first.alone) return [first]
  let characters = 0
  const end = candidates.findIndex((event, index) => {
    characters += JSON.stringify(event.payload).length
    return event.alone || (index > 0 && characters > mostCharacters)
  })
  return end === -1 ? candidates : candidates.slice(0, end)
}

/** Those that no admin has removed meanwhile. */
async function assign(tx: Tx, events: InboxEvent[], runId: string): Promise<InboxEvent[]> {
  if (events.length === 0) return []
  const rows = await tx.inboxEvent.updateManyAndReturn({
    where: { id: { in: events.map(({ id }) => id) }, doneAt: null, runId: null },
    data: { runId },
    select: { id: true },
  })
  const taken = new Set(rows.map(({ id }) => id))
  return events.filter(({ id }) => taken.has(id))
}
