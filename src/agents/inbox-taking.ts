import { confidentialAmong } from '../confidence/marks.ts'
import { RULES } from '../confidence/rules.ts'
import { type InboxEvent, Prisma } from '../generated/prisma/client.ts'
import { type OverBudget, overBudget } from '../platform/budget-state.ts'
import type { Tx } from '../platform/db.ts'

/** Numbers of waiting inbox events during a cycle. */
export interface WaitingCounts {
  total: number
  /** Urgent events that the running cycle may claim. */
  urgent: number
}

/** The most events that one cycle claims. */
const MOST_EVENTS_A_CYCLE = 100

type Candidate = InboxEvent & {
  /**
   * The event must be alone in its cycle: it belongs to a chain, or to an ADMIN or MENTION_CHAIN space, where
   * delegation, mention and reply stack refer to one event; or a provider refused a cycle with it.
   */
  alone: boolean
  /** The exhausted budget that forbids the event. */
  over: OverBudget | null
  labelNow: string[]
}

const OVER = overBudget({
  agentId: Prisma.sql`e."agentId"`,
  spaceId: Prisma.sql`e."spaceId"`,
  rootId: Prisma.sql`e."rootId"`,
})
const ALONE = Prisma.sql`(e.suspect OR e."chainId" IS NOT NULL OR coalesce(s.routing IN ('ADMIN', 'MENTION_CHAIN'), false))`
const WAITING = Prisma.sql`e."doneAt" IS NULL AND e."runId" IS NULL AND e."waitsUntil" IS NULL`
/** The confidentiality label of an event. All events of a cycle have the same label. */
const LABEL = confidentialAmong(Prisma.sql`e.places || e.label`)
/** The event has the same label as the events that the cycle has claimed. */
const isLike = (runId: string) => Prisma.sql`(${LABEL}) = (
  SELECT ${confidentialAmong(Prisma.sql`t.places || t.label`)} FROM "InboxEvent" t WHERE t."runId" = ${runId} ORDER BY t.id LIMIT 1)`

/** The event comes from no space, or from a space of the agent. Other events are dropped. */
const BELONGS = Prisma.sql`(e."spaceId" IS NULL OR EXISTS (
  SELECT 1 FROM "Membership" m WHERE m."spaceId" = e."spaceId" AND m."entityId" = e."agentId"))`

/**
 * Claims an agent's next events for a cycle, urgent ones first, then by arrival: those that may share a cycle, at most
 * 100, and at most `mostCharacters` of content unless the first event alone has more. The caller holds the lock of the
 * agent's row.
 */
export async function takeEvents(
  tx: Tx,
  agentId: string,
  runId: string,
  mostCharacters: number,
): Promise<{ events: InboxEvent[]; alone: boolean; put: PutOff[] }> {
  const waiting = await tx.$queryRaw<Candidate[]>`
    SELECT e.*, ${ALONE} AS alone, ${OVER} AS over, ${LABEL} AS "labelNow" FROM "InboxEvent" e LEFT JOIN "Space" s ON s.id = e."spaceId"
    WHERE e."agentId" = ${agentId} AND ${WAITING} AND ${BELONGS}
    ORDER BY e.urgent DESC, e.id LIMIT ${MOST_EVENTS_A_CYCLE}`
  const candidates = waiting.filter(({ over }) => over === null)
  const put = await putOff(
    tx,
    waiting.flatMap((event) => (event.over === null ? [] : [{ event, over: event.over }])),
  )
  const events = await assign(tx, together(candidates, mostCharacters), runId)
  return { events, alone: candidates[0]?.alone === true, put }
}

/** An event that no cycle may claim today, or, if the budget of its root is exhausted, ever. */
export interface PutOff {
  event: InboxEvent
  over: OverBudget
}

/**
 * Postpones events to the next day (UTC), when the budgets of agents and spaces start again. Events of a root whose
 * budget is exhausted are marked as done.
 */
export async function putOff(tx: Tx, events: PutOff[]): Promise<PutOff[]> {
  if (events.length === 0) return []
  const ids = events.map(({ event }) => event.id)
  const done = events.flatMap(({ event, over }) => (over === 'ROOT' ? [event.id] : []))
  await tx.$executeRaw`
    UPDATE "InboxEvent" SET "runId" = NULL, "doneAt" = CASE WHEN id = ANY(${done}::text[]) THEN now() END,
      "waitsUntil" = CASE WHEN id <> ALL(${done}::text[]) THEN (date_trunc('day', now() AT TIME ZONE 'UTC') + interval '1 day') AT TIME ZONE 'UTC' END
    WHERE id = ANY(${ids}::text[]) AND "doneAt" IS NULL`
  return events
}

/** Returns the events of a cycle with the budget, if any, that is exhausted. */
export function overBudgetAmong(tx: Tx, runId: string): Promise<(InboxEvent & { over: OverBudget | null })[]> {
  return tx.$queryRaw`SELECT e.*, ${OVER} AS over FROM "InboxEvent" e WHERE e."runId" = ${runId} AND e."doneAt" IS NULL`
}

/** Makes postponed events due for a new check after a change of a budget. */
export async function askAgain(tx: Tx, { agentId, spaceId }: { agentId?: string; spaceId?: string }): Promise<void> {
  await tx.inboxEvent.updateMany({
    where: { waitsUntil: { not: null }, doneAt: null, ...(agentId && { agentId }), ...(spaceId && { spaceId }) },
    data: { waitsUntil: null },
  })
}

/** Postponed events and when they are due. */
export const PUT_OFF = Prisma.sql`SELECT id, "waitsUntil" AS at FROM "InboxEvent" WHERE "waitsUntil" IS NOT NULL`

/** Claims the waiting urgent events in order, except those that must be alone in a cycle. */
export async function takeUrgentEvents(
  tx: Tx,
  agentId: string,
  runId: string,
  mostCharacters: number,
): Promise<InboxEvent[]> {
  const candidates = await tx.$queryRaw<Candidate[]>`
    SELECT e.*, false AS alone, NULL AS over, '{}'::text[] AS "labelNow" FROM "InboxEvent" e LEFT JOIN "Space" s ON s.id = e."spaceId"
    WHERE e."agentId" = ${agentId} AND ${WAITING} AND ${BELONGS} AND e.urgent AND NOT ${ALONE} AND ${OVER} IS NULL AND ${isLike(runId)} ORDER BY e.id LIMIT ${MOST_EVENTS_A_CYCLE}`
  return assign(tx, together(candidates, mostCharacters), runId)
}

/** Counts only events that the cycle may know of. */
export async function countWaiting(tx: Tx, agentId: string, runId: string): Promise<WaitingCounts> {
  const [row] = await tx.$queryRaw<WaitingCounts[]>`
    SELECT count(*)::int AS total, (count(*) FILTER (WHERE e.urgent AND NOT ${ALONE}))::int AS urgent
    FROM "InboxEvent" e LEFT JOIN "Space" s ON s.id = e."spaceId"
    WHERE e."agentId" = ${agentId} AND ${WAITING} AND ${BELONGS} AND ${isLike(runId)}`
  return row ?? { total: 0, urgent: 0 }
}

/** Returns the first waiting events without claiming them. */
export function firstWaiting(tx: Tx, agentId: string, runId: string, most: number): Promise<InboxEvent[]> {
  return tx.$queryRaw`
    SELECT e.* FROM "InboxEvent" e WHERE e."agentId" = ${agentId} AND ${WAITING} AND ${BELONGS}
      AND ${isLike(runId)} ORDER BY e.id LIMIT ${most}`
}

/** Whether the agent has an event that no cycle has claimed and that is due. */
export async function hasWaiting(tx: Tx, agentId: string): Promise<boolean> {
  return (
    (await tx.inboxEvent.findFirst({
      where: { agentId, doneAt: null, runId: null, waitsUntil: null },
      select: { id: true },
    })) !== null
  )
}

/** Returns the events from the first on that may share a cycle. */
function together(candidates: Candidate[], mostCharacters: number): InboxEvent[] {
  const [first] = candidates
  if (first === undefined) return []
  if (first.alone) return [first]
  let characters = 0
  const end = candidates.findIndex((event, index) => {
    characters += JSON.stringify(event.payload).length
    return (
      event.alone || (index > 0 && characters > mostCharacters) || !RULES.belongTogether(event.labelNow, first.labelNow)
    )
  })
  return end === -1 ? candidates : candidates.slice(0, end)
}

/** Returns the events that were not removed in the meantime. */
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
