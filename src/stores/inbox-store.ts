import { confidentialAmong, type Provenance } from '../confidentiality/marks.ts'
import { type InboxEvent, type InboxEventType, Prisma, type PrismaClient } from '../generated/prisma/client.ts'
import type { OverBudget } from '../lib/budget.ts'
import { newId } from '../lib/ids.ts'
import type { Json } from '../lib/json.ts'
import { overBudget } from '../platform/budget-state.ts'
import type { Tx } from '../platform/db.ts'
import { insertionOf } from '../platform/insertion.ts'
import { type ClaimableEvent, shareableEvents } from '../rules/cycle-events.ts'
import { type EventFate, RETRY_MINUTES } from '../rules/run-end.ts'
import { IS_ACTIVE_CYCLE_SQL } from './status-sql.ts'

// The only writer of InboxEvent. An event waits (no run, not done), is claimed by a think cycle (`runId`), and is
// finally done (`doneAt`). A waiting event may be postponed to the next day (`waitsUntil`). If a cycle fails because
// of an outage, its events stay with that cycle until `retryAt`, and then wait again.

/**
 * An inbox event for a persistent agent. The label of the row contains the marks that are confidential when the event
 * arrives.
 */
export interface NewInboxEvent extends Provenance {
  agentId: string
  type: InboxEventType
  /** The key for deduplication: an agent gets an event with the same key only once. */
  dedupKey: string
  payload: Json
  urgent?: boolean
  /** A quiet event starts no cycle. It is claimed by the next cycle that starts for another reason. */
  quiet?: boolean
  spaceId?: string | null
  messageId?: string | null
  /** The author. The event is urgent if the agent's `urgentFrom` contains the author or the space. */
  senderId?: string | null
  rootId: string
  depth: number
  parentRunId?: string | null
  chainId?: string | null
  /** The mention or delegation by another agent that woke this agent; stored as `wokenBy` of the cycle's run. */
  wokenBy?: Json
}

/** A condition on an event `e` (JSON) and its row `r`: the source is in the agent's `urgentFrom`. */
const COMES_FROM_URGENT = Prisma.sql`EXISTS (SELECT 1 FROM "Agent" a
  WHERE a.id = r."agentId" AND a.cycle->'urgentFrom' ?| array_remove(ARRAY[given.e->>'senderId', r."spaceId"], NULL))`

/**
 * A statement, or a part of one, that writes one or more events. Skips events whose key the agent has already
 * received.
 */
export function insertEventsSql(events: NewInboxEvent[], within: { from?: string } = {}): Prisma.Sql {
  const rows = events.map((event) => ({ ...event, id: newId('inb') }))
  const urgent = Prisma.sql`(coalesce(r.urgent, false) OR (NOT coalesce(r.quiet, false) AND ${COMES_FROM_URGENT}))`
  return insertionOf('InboxEvent', rows, {
    ...within,
    computed: { urgent, label: confidentialAmong(Prisma.sql`r.places || r.label`) },
    beside: ['senderId'],
  })
}

/** Writes events. @returns the agents that received a new event */
export async function insertEvents(tx: Tx, events: NewInboxEvent[]): Promise<Set<string>> {
  if (events.length === 0) return new Set()
  const rows = await tx.$queryRaw<{ agentId: string }[]>(insertEventsSql(events))
  return new Set(rows.map(({ agentId }) => agentId))
}

/** The numbers of inbox events that wait during a cycle. */
export interface WaitingCounts {
  total: number
  /** Urgent events that the running cycle may claim. */
  urgent: number
}

/** The maximum number of events that one cycle claims. */
const MOST_EVENTS_A_CYCLE = 100
/** The maximum number of quiet events that a cycle claims in addition. */
const MOST_QUIET_EVENTS = 20

type Candidate = InboxEvent &
  ClaimableEvent & {
    /** The exhausted budget that makes the event wait. */
    over: OverBudget | null
  }

const OVER = overBudget({
  agentId: Prisma.sql`e."agentId"`,
  spaceId: Prisma.sql`e."spaceId"`,
  rootId: Prisma.sql`e."rootId"`,
  requesters: Prisma.sql`e.askers`,
})
/**
 * Condition: the event must be the only one in its cycle, because it belongs to a chain, or to an ADMIN or
 * MENTION_CHAIN space, where delegation, mention and reply stack refer to a single event; or because a model
 * provider refused a cycle that contained it.
 */
const ALONE = Prisma.sql`(e.suspect OR e."chainId" IS NOT NULL OR coalesce(s.routing IN ('ADMIN', 'MENTION_CHAIN'), false))`
const UNCLAIMED = Prisma.sql`e."doneAt" IS NULL AND e."runId" IS NULL AND e."waitsUntil" IS NULL`
/** Condition: no cycle is working on the event. This includes events that wait for a budget or a retry. */
const OPEN = Prisma.sql`e."doneAt" IS NULL AND (e."runId" IS NULL OR e."retryAt" IS NOT NULL)`
const WAITING = Prisma.sql`${UNCLAIMED} AND NOT e.quiet`
/** The confidentiality label of an event. All events of a cycle have the same label. */
const LABEL = confidentialAmong(Prisma.sql`e.places || e.label`)
/** Condition: the event has the same label as the events that the cycle has claimed. */
const isLike = (runId: string) => Prisma.sql`(${LABEL}) = (
  SELECT ${confidentialAmong(Prisma.sql`t.places || t.label`)} FROM "InboxEvent" t WHERE t."runId" = ${runId} ORDER BY t.id LIMIT 1)`

/**
 * Condition: the event belongs to no space, or comes from a space of which the agent is a member. Other events are
 * dropped.
 */
const BELONGS = Prisma.sql`(e."spaceId" IS NULL OR EXISTS (
  SELECT 1 FROM "Membership" m WHERE m."spaceId" = e."spaceId" AND m."entityId" = e."agentId"))`

/**
 * Claims an agent's next events for a cycle, urgent ones first, then in turns of requesters, so that many events of one requester
 * do not delay those of others, and of one requester by arrival. Claims only events that may share a cycle, at most 100, with at
 * most `mostCharacters` of content together unless the first event alone has more. Returns them by arrival. The caller holds the
 * lock of the agent's row.
 */
export async function takeEvents(
  tx: Tx,
  agentId: string,
  runId: string,
  mostCharacters: number,
): Promise<{ events: InboxEvent[]; alone: boolean; put: PutOff[] }> {
  const waiting = await tx.$queryRaw<Candidate[]>`
    SELECT e.*, ${ALONE} AS alone, ${OVER} AS over, ${LABEL} AS "labelNow"
    FROM (${nextTurnsSql(agentId)}) t JOIN "InboxEvent" e ON e.id = t.id LEFT JOIN "Space" s ON s.id = e."spaceId"
    ORDER BY e.urgent DESC, t.turn, t.since, e.id`
  const candidates = waiting.filter(({ over }) => over === null)
  const put = await postponeEvents(
    tx,
    waiting.flatMap((event) => (event.over === null ? [] : [{ event, over: event.over }])),
  )
  const reasons = shareableEvents(candidates, mostCharacters).toSorted(byArrival)
  const along = reasons.length === 0 ? [] : await quietEvents(tx, agentId, reasons)
  const events = await assign(tx, [...along, ...reasons], runId)
  const isReason = events.some(({ quiet }) => !quiet)
  return { events: isReason ? events : [], alone: candidates[0]?.alone === true, put }
}

/** Urgent events first. */
function byArrival(one: InboxEvent, other: InboxEvent): number {
  if (one.urgent !== other.urgent) return one.urgent ? -1 : 1
  return one.id < other.id ? -1 : 1
}

/** Returns the requester of a cycle that the event `e` alone would start: see `REQUESTER_OF_NEW` of run-store.ts. */
const REQUESTER = Prisma.sql`coalesce((SELECT nullif(p."requesterId", '') FROM "Run" p WHERE p.id = e."parentRunId"),
  CASE WHEN cardinality(e.askers) = 1 THEN e.askers[1] END, e.payload->>'serviceId', e."agentId")`

/** The number of waiting events among which requesters take turns. */
const MOST_COMPARED_EVENTS = 2000
/** The number of an agent's last runs whose requesters are compared. */
const MOST_RECENT_RUNS = 100

/**
 * Selects the next waiting events. `turn`: the place of an event among those of its requester. `since`: the time from which it has
 * waited for its turn, as part of an id: its arrival, or the last run of its requester if that has several waiting events.
 */
const nextTurnsSql = (agentId: string) => Prisma.sql`
  SELECT w.id, w.turn, greatest(substr(w.id, 5), CASE WHEN w.count > 1 THEN substr(last."lastRunId", 5) END) AS since FROM (
    SELECT given.*, count(*) OVER (PARTITION BY given."requesterId") AS count,
      row_number() OVER (PARTITION BY given."requesterId" ORDER BY given.urgent DESC, given.id) AS turn FROM (
      SELECT e.id, e.urgent, ${REQUESTER} AS "requesterId" FROM "InboxEvent" e
      WHERE e."agentId" = ${agentId} AND ${WAITING} AND ${BELONGS}
      ORDER BY e.urgent DESC, e.id LIMIT ${MOST_COMPARED_EVENTS}) given
  ) w LEFT JOIN (
    SELECT r."requesterId", max(r.id) AS "lastRunId" FROM (
      SELECT id, "requesterId" FROM "Run" WHERE "agentId" = ${agentId} ORDER BY id DESC LIMIT ${MOST_RECENT_RUNS}) r
    GROUP BY r."requesterId"
  ) last ON last."requesterId" = w."requesterId"
  ORDER BY w.urgent DESC, w.turn, since, w.id LIMIT ${MOST_EVENTS_A_CYCLE}`

/** The quiet events that a cycle with these events also claims: those with the same label, at most 20. */
function quietEvents(tx: Tx, agentId: string, [first]: Candidate[]): Promise<InboxEvent[]> {
  return tx.$queryRaw<InboxEvent[]>`
    SELECT e.* FROM "InboxEvent" e WHERE e."agentId" = ${agentId} AND ${UNCLAIMED} AND ${BELONGS} AND e.quiet
      AND (${LABEL}) = ${first?.labelNow ?? []}::text[] ORDER BY e.id LIMIT ${MOST_QUIET_EVENTS}`
}

/** Claims the waiting urgent events in order, except events that must be alone in a cycle. */
export async function takeUrgentEvents(
  tx: Tx,
  agentId: string,
  runId: string,
  mostCharacters: number,
): Promise<InboxEvent[]> {
  const candidates = await tx.$queryRaw<Candidate[]>`
    SELECT e.*, false AS alone, NULL AS over, '{}'::text[] AS "labelNow" FROM "InboxEvent" e LEFT JOIN "Space" s ON s.id = e."spaceId"
    WHERE e."agentId" = ${agentId} AND ${WAITING} AND ${BELONGS} AND e.urgent AND NOT ${ALONE} AND ${OVER} IS NULL AND ${isLike(runId)} ORDER BY e.id LIMIT ${MOST_EVENTS_A_CYCLE}`
  return assign(tx, shareableEvents(candidates, mostCharacters), runId)
}

/** Assigns events to a run. Returns those that were not removed in the meantime. */
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

/** Counts the waiting events that the cycle may read. */
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

/** Whether the agent has a due event that no cycle has claimed. */
export async function hasWaiting(tx: Tx, agentId: string): Promise<boolean> {
  return (
    (await tx.inboxEvent.findFirst({
      where: { agentId, doneAt: null, runId: null, waitsUntil: null, quiet: false },
      select: { id: true },
    })) !== null
  )
}

/**
 * Condition: the event does not represent a reply that a waiting cycle has already received (`finishAnsweredEvent`).
 */
const IS_NO_ANSWER = Prisma.sql`e.payload <> '{}'`

/** Returns the events that cycles have claimed, by run, in order; at most `most` events of each cycle. */
export async function claimedEvents(tx: Tx, runIds: string[], most: number): Promise<Map<string | null, InboxEvent[]>> {
  if (runIds.length === 0) return new Map()
  const rows = await tx.$queryRaw<InboxEvent[]>`
    SELECT e.* FROM unnest(${runIds}::text[]) AS run(id) CROSS JOIN LATERAL (
      SELECT * FROM "InboxEvent" e WHERE e."runId" = run.id AND ${IS_NO_ANSWER} ORDER BY e.id LIMIT ${most}
    ) e ORDER BY e.id`
  return Map.groupBy(rows, ({ runId }) => runId)
}

// Budgets: events that exceed one wait for the next day.

const NEXT_DAY = Prisma.sql`((date_trunc('day', now() AT TIME ZONE 'UTC') + interval '1 day') AT TIME ZONE 'UTC')`

/** An event that no cycle may claim today or, if the budget of its root is exhausted, at any time. */
export interface PutOff {
  event: InboxEvent
  over: OverBudget
}

/**
 * Postpones events to the next day (UTC), when the budgets of agents and spaces are renewed. Events of a root whose
 * budget is exhausted are marked as done.
 */
export async function postponeEvents(tx: Tx, events: PutOff[]): Promise<PutOff[]> {
  if (events.length === 0) return []
  const ids = events.map(({ event }) => event.id)
  const done = events.flatMap(({ event, over }) => (over === 'ROOT' ? [event.id] : []))
  await tx.$executeRaw`
    UPDATE "InboxEvent" SET "runId" = NULL, "doneAt" = CASE WHEN id = ANY(${done}::text[]) THEN now() END,
      "waitsUntil" = CASE WHEN id <> ALL(${done}::text[]) THEN ${NEXT_DAY} END
    WHERE id = ANY(${ids}::text[]) AND "doneAt" IS NULL`
  return events
}

/** Makes postponed events due again after a budget was changed. */
export async function recheckPostponed(
  tx: Tx,
  { agentId, spaceId, humanId }: { agentId?: string; spaceId?: string; humanId?: string },
) {
  const owned = {
    ...(agentId && { agentId }),
    ...(spaceId && { spaceId }),
    ...(humanId && { askers: { has: humanId } }),
  }
  await tx.inboxEvent.updateMany({
    where: { waitsUntil: { not: null }, doneAt: null, ...owned },
    data: { waitsUntil: null },
  })
}

/** Postponed events and when they are due: a SELECT of `id` and `at`. */
export const POSTPONED_SQL = Prisma.sql`SELECT id, "waitsUntil" AS at FROM "InboxEvent" WHERE "waitsUntil" IS NOT NULL`

/** Requeues postponed events in the inbox. */
export async function returnPostponed(prisma: PrismaClient, ids: string[]): Promise<void> {
  await prisma.inboxEvent.updateMany({ where: { id: { in: ids } }, data: { waitsUntil: null } })
}

// Outages: the events of a cycle that failed because of a provider's outage are retried.

/** The events to retry and when they are due: a SELECT of `id` and `at`. */
export const RETRIED_SQL = Prisma.sql`SELECT id, "retryAt" AS at FROM "InboxEvent" WHERE "retryAt" IS NOT NULL`

/** The assignments that make an event wait for the next cycle. */
const REQUEUED = Prisma.sql`"runId" = NULL, "retryAt" = NULL`

/** Requeues events in the inbox once their delay is over. */
export async function returnRetried(prisma: PrismaClient, ids: string[]): Promise<void> {
  await prisma.$executeRaw`
    UPDATE "InboxEvent" SET ${REQUEUED} WHERE id = ANY(${ids}::text[]) AND "retryAt" <= clock_timestamp()`
}

/** Part of a WITH clause: if `condition` holds, makes an agent's events that wait for a retry due now. */
export const retryNowSql = (agentId: string, condition: boolean): Prisma.Sql => Prisma.sql`
  UPDATE "InboxEvent" SET ${REQUEUED} WHERE "agentId" = ${agentId} AND "retryAt" IS NOT NULL AND ${condition}::boolean`

/**
 * Requeues the events of a failed cycle with the full number of retries, except replies that the cycle received
 * while waiting.
 * @returns the events
 */
export function requeueFailed(tx: Tx, runId: string): Promise<Pick<InboxEvent, 'messageId'>[]> {
  return tx.$queryRaw<Pick<InboxEvent, 'messageId'>[]>`
    UPDATE "InboxEvent" e SET ${REQUEUED}, "doneAt" = NULL, outages = 0
    WHERE e."runId" = ${runId} AND ${IS_NO_ANSWER} RETURNING e."messageId"`
}

// The end of a cycle.

/** Selects the events of an ending cycle that are not done. @param forgets spaces that the agent must forget */
export const claimedEventsSql = (runId: string, forgets: string[]): Prisma.Sql => Prisma.sql`(
  SELECT coalesce(jsonb_agg(jsonb_build_object('id', e.id, 'messageId', e."messageId", 'outages', e.outages, 'over', ${OVER},
    'isGone', ${IS_GONE_SQL} OR coalesce(e."spaceId" = ANY(${forgets}::text[]), false)) ORDER BY e.id), '[]')
  FROM "InboxEvent" e WHERE e."runId" = ${runId} AND e."doneAt" IS NULL)`

/** Writes what happens to the events of a cycle at its end. */
export async function settleEvents(tx: Tx, fates: readonly { id: string; fate: EventFate }[]): Promise<void> {
  if (fates.length === 0) return
  const is = (...names: EventFate[]) => Prisma.sql`f.fate = ANY(${names}::text[])`
  await tx.$executeRaw`
    UPDATE "InboxEvent" e SET "runId" = CASE WHEN ${is('finish', 'retry')} THEN e."runId" END,
      "doneAt" = CASE WHEN ${is('finish')} OR (${is('close')} AND NOT e.quiet) THEN now() END, suspect = e.suspect OR ${is('isolate')},
      outages = e.outages + CASE WHEN ${is('retry')} THEN 1 ELSE 0 END,
      "retryAt" = CASE WHEN ${is('retry')} THEN clock_timestamp() + (${RETRY_MINUTES}::int[])[e.outages + 1] * interval '1 minute' END,
      "waitsUntil" = CASE WHEN ${is('postpone')} THEN ${NEXT_DAY} END
    FROM unnest(${fates.map(({ id }) => id)}::text[], ${fates.map(({ fate }) => fate)}::text[]) AS f(id, fate)
    WHERE e.id = f.id AND e."doneAt" IS NULL`
}

/**
 * Marks a message as handled because a waiting cycle received it as its reply. No other cycle gets an event for this
 * message, even if the event arrives later. The event's row, which prevents this, has no payload.
 */
export async function finishAnsweredEvent(
  tx: Tx,
  { id: runId, agentId, rootId, depth }: { id: string; agentId: string; rootId: string; depth: number },
  messageId: string,
): Promise<void> {
  await tx.$executeRaw`
    INSERT INTO "InboxEvent" (id, "agentId", type, payload, "dedupKey", "messageId", "rootId", depth, "runId", "doneAt")
    VALUES (${newId('inb')}, ${agentId}, 'SPACE_MESSAGE', '{}', ${messageId}, ${messageId}, ${rootId}, ${depth}, ${runId}, now())
    ON CONFLICT ("agentId", "dedupKey") DO UPDATE SET "runId" = excluded."runId", "doneAt" = excluded."doneAt", "retryAt" = NULL,
      payload = excluded.payload
    WHERE ("InboxEvent"."runId" IS NULL OR "InboxEvent"."retryAt" IS NOT NULL) AND "InboxEvent"."doneAt" IS NULL`
}

// Edited and deleted messages.

/**
 * Writes the new text of an edited message to its events, except events that a cycle is working on. `mention`: the
 * reason of the mention, if there is one.
 */
export async function rewriteWaiting(
  tx: Tx,
  { messageId, content, mention }: { messageId: string; content: string; mention: string },
): Promise<void> {
  await tx.$executeRaw`
    UPDATE "InboxEvent" e SET payload = jsonb_set(jsonb_set(e.payload, '{content}', to_jsonb(${content}::text)), '{mention,mentionReason}', to_jsonb(${mention}::text), false)
    FROM "Outcome" o WHERE o."messageId" = ${messageId} AND e."agentId" = o."agentId" AND e."messageId" = o."messageId" AND ${OPEN}`
}

/**
 * Removes the events of a deleted message, except events that a cycle is working on.
 * @returns the removed events without the text of the message
 */
export function dropWaiting(tx: Tx, messageId: string): Promise<InboxEvent[]> {
  return tx.$queryRaw<InboxEvent[]>`
    UPDATE "InboxEvent" e SET "doneAt" = now(), "retryAt" = NULL, payload = jsonb_set(e.payload, '{content}', '""') - 'mention'
    FROM "Outcome" o WHERE o."messageId" = ${messageId} AND e."agentId" = o."agentId" AND e."messageId" = o."messageId"
      AND ${OPEN} RETURNING e.*`
}

/** Returns the agents in the space of a message that have read it in a think cycle which is active or remembered. */
export async function readersOf(tx: Tx, messageId: string): Promise<string[]> {
  const rows = await tx.$queryRaw<{ agentId: string }[]>`
    SELECT DISTINCT e."agentId" FROM "Outcome" o
    JOIN "InboxEvent" e ON e."agentId" = o."agentId" AND e."messageId" = o."messageId" AND e."runId" IS NOT NULL AND e."retryAt" IS NULL
    JOIN "Agent" a ON a.id = e."agentId" AND a.mind = 'PERSISTENT' JOIN "Message" m ON m.id = o."messageId"
    JOIN "Membership" s ON s."spaceId" = m."spaceId" AND s."entityId" = e."agentId"
    WHERE o."messageId" = ${messageId} ORDER BY 1`
  return rows.map(({ agentId }) => agentId)
}

/** The key of the events about changes of a message, without the number of the change. */
const changeKey = (messageId: string) => `changed:${messageId}:`

/**
 * Notifies agents that a message which they have read was changed. Each gets a quiet event, which replaces earlier
 * events about the same message, except events that a cycle is working on.
 */
export async function tellChange(
  tx: Tx,
  change: Provenance & {
    messageId: string
    /** The number of the change; 0 for the deletion, which is the last one. */
    number: number
    spaceId: string
    payload: Json
    rootId: string
    depth: number
    agentIds: readonly string[]
  },
): Promise<void> {
  const { messageId, number, agentIds, ...event } = change
  if (agentIds.length === 0) return
  await tx.$executeRaw`
    DELETE FROM "InboxEvent" e WHERE e."agentId" = ANY(${[...agentIds]}::text[]) AND starts_with(e."dedupKey", ${changeKey(messageId)})
      AND e.quiet AND ${OPEN}`
  await insertEvents(
    tx,
    agentIds.map((agentId) => ({
      ...event,
      agentId,
      type: 'SPACE_MESSAGE',
      quiet: true,
      dedupKey: `${changeKey(messageId)}${number}`,
    })),
  )
}

// Removal: the row of an event that is done without a cycle remains, so that the same event cannot arrive again.

/** Marks a waiting event as done. Returns null if there is no such waiting event. */
export async function dropEvent(tx: Tx, id: string): Promise<InboxEvent | null> {
  const [event] = await tx.inboxEvent.updateManyAndReturn({
    where: { id, doneAt: null, OR: [{ runId: null }, { retryAt: { not: null } }] },
    data: { doneAt: new Date(), retryAt: null },
  })
  return event ?? null
}

/** An agent, or, with `spaceId`, an agent in a space that it has left. */
export interface FormerMember {
  agentId: string
  spaceId?: string
}

/** Condition on an event `e`: no cycle may claim it, because its agent was deleted or has left the space. */
const IS_STRANDED_SQL = Prisma.sql`(NOT ${BELONGS} OR NOT EXISTS (SELECT 1 FROM "Agent" a WHERE a.id = e."agentId"))`

/**
 * Marks up to `most` events of a former member as done. Deletes them if the agent was deleted.
 * @returns the events
 */
export function dropStranded(tx: Tx, { agentId, spaceId }: FormerMember, most: number): Promise<InboxEvent[]> {
  return tx.$queryRaw<InboxEvent[]>`
    WITH stranded AS (
      SELECT e.id FROM "InboxEvent" e WHERE e."agentId" = ${agentId} AND ${OPEN} AND ${IS_STRANDED_SQL}
        AND (${spaceId ?? null}::text IS NULL OR e."spaceId" = ${spaceId ?? null}) ORDER BY e.id LIMIT ${most} FOR UPDATE
    ), agent AS (
      SELECT 1 FROM "Agent" WHERE id = ${agentId}
    ), kept AS (
      UPDATE "InboxEvent" e SET "doneAt" = now(), "retryAt" = NULL
      WHERE e.id IN (SELECT id FROM stranded) AND ${OPEN} AND EXISTS (SELECT 1 FROM agent) RETURNING e.*
    ), deleted AS (
      DELETE FROM "InboxEvent" WHERE id IN (SELECT id FROM stranded) AND NOT EXISTS (SELECT 1 FROM agent) RETURNING *
    )
    SELECT * FROM kept UNION ALL SELECT * FROM deleted ORDER BY id`
}

/** Returns agents with events that no cycle may claim, at most 500. */
export async function readStrandedAgents(tx: Tx): Promise<string[]> {
  const rows = await tx.$queryRaw<{ agentId: string }[]>`
    SELECT DISTINCT e."agentId" FROM (
      SELECT "agentId", "spaceId" FROM "InboxEvent" WHERE "doneAt" IS NULL AND "runId" IS NULL
      UNION ALL SELECT "agentId", "spaceId" FROM "InboxEvent" WHERE "retryAt" IS NOT NULL
    ) e WHERE ${IS_STRANDED_SQL} LIMIT 500`
  return rows.map(({ agentId }) => agentId)
}

// Deletion.

/** A condition on an event `e`: its agent or its space was deleted. */
export const IS_GONE_SQL = Prisma.sql`(NOT EXISTS (SELECT 1 FROM "Agent" a WHERE a.id = e."agentId")
  OR (e."spaceId" IS NOT NULL AND NOT EXISTS (SELECT 1 FROM "Space" s WHERE s.id = e."spaceId" AND s."deletedAt" IS NULL)))`

/** Deletes the events of a cycle whose agent or space was deleted, and its events from the given spaces. */
export async function deleteGoneEvents(tx: Tx, runId: string, spaceIds: string[]): Promise<void> {
  await tx.$executeRaw`
    DELETE FROM "InboxEvent" e WHERE e."runId" = ${runId} AND (${IS_GONE_SQL} OR e."spaceId" = ANY(${spaceIds}::text[]))`
}

/** Deletes the events that an agent has processed. Open events are deleted with their cycle, or by `dropStranded`. */
export async function deleteDoneEvents(tx: Tx, agentId: string): Promise<void> {
  await tx.inboxEvent.deleteMany({ where: { agentId, doneAt: { not: null } } })
}

/** Condition on an event `e`: agents received it in the space, or it comes from the space. */
const isOfSpace = (agentIds: readonly string[], spaceId: string) =>
  Prisma.sql`e."agentId" = ANY(${[...agentIds]}::text[]) AND (e."spaceId" = ${spaceId} OR ${spaceId} = ANY(e.places))`

/**
 * Deletes events that agents received in a space, except events that a cycle is working on: up to `most`, or all of
 * them.
 * @returns the deleted events
 */
export function deleteOpenEvents(
  tx: Tx,
  { agentIds, spaceId, most = null }: { agentIds: readonly string[]; spaceId: string; most?: number | null },
): Promise<InboxEvent[]> {
  return tx.$queryRaw<InboxEvent[]>`
    DELETE FROM "InboxEvent" WHERE id IN (
      SELECT e.id FROM "InboxEvent" e WHERE ${isOfSpace(agentIds, spaceId)} AND ${OPEN}
      ORDER BY e.id LIMIT ${most}::int FOR UPDATE
    ) RETURNING *`
}

/** Deletes the events that agents received in a space and that a cycle has processed. */
export async function deleteDoneEventsOfSpace(tx: Tx, agentIds: readonly string[], spaceId: string): Promise<void> {
  await tx.$executeRaw`
    DELETE FROM "InboxEvent" e WHERE ${isOfSpace(agentIds, spaceId)} AND NOT (${OPEN})
      AND NOT EXISTS (SELECT 1 FROM "Run" r WHERE r.id = e."runId" AND ${IS_ACTIVE_CYCLE_SQL})`
}

/** Part of a WITH clause: deletes the events of deleted runs. */
export const deleteEventsOfRunsSql = (runIds: Prisma.Sql): Prisma.Sql => Prisma.sql`
  DELETE FROM "InboxEvent" WHERE "runId" IN (${runIds})`
