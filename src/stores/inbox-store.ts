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

// Contains the statements that write the table "InboxEvent". An event first waits (it has no run and is not done). A
// think cycle then claims it (`runId`), and finally the event is done (`doneAt`). A waiting event can be postponed to
// the next day (`waitsUntil`). If a cycle fails because of an outage, its events stay with that cycle until
// `retryAt`, and then wait again.

/**
 * An inbox event for a persistent agent. The row's label contains those marks that are confidential when the event
 * arrives.
 */
export interface NewInboxEvent extends Provenance {
  agentId: string
  type: InboxEventType
  /** The key for deduplication. An agent receives only one event with the same key. */
  dedupKey: string
  payload: Json
  urgent?: boolean
  /**
   * Whether the event is quiet. A quiet event starts no think cycle; the next cycle that starts for another reason
   * claims it.
   */
  quiet?: boolean
  spaceId?: string | null
  messageId?: string | null
  /** The author of the event. The event is urgent if the agent's `urgentFrom` contains the author or the space. */
  senderId?: string | null
  rootId: string
  depth: number
  parentRunId?: string | null
  chainId?: string | null
  /** The mention or delegation by another agent that woke this agent. The cycle's run stores it as `wokenBy`. */
  wokenBy?: Json
}

/**
 * SQL condition on an event, given as JSON `e` and as the row `r`: the agent's `urgentFrom` contains the author or
 * the space.
 */
const COMES_FROM_URGENT = Prisma.sql`EXISTS (SELECT 1 FROM "Agent" a
  WHERE a.id = r."agentId" AND a.cycle->'urgentFrom' ?| array_remove(ARRAY[given.e->>'senderId', r."spaceId"], NULL))`

/**
 * Returns a statement, or a part of one, that writes one or more events. Skips events whose key the agent has already
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

/** The numbers of inbox events that arrive and wait while a cycle is running. */
export interface WaitingCounts {
  total: number
  /** The number of urgent events that the running cycle may claim. */
  urgent: number
}

/** The maximum number of events that one cycle claims. */
const MOST_EVENTS_A_CYCLE = 100
/** The maximum number of quiet events that a cycle claims in addition to its other events. */
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
 * SQL condition: the event must be the only one in its cycle. One reason is that it belongs to a chain, or to a space
 * with ADMIN or MENTION_CHAIN routing, where delegations, mentions and the reply stack refer to a single event. The
 * other reason is that a model provider refused a cycle that contained the event.
 */
const ALONE = Prisma.sql`(e.suspect OR e."chainId" IS NOT NULL OR coalesce(s.routing IN ('ADMIN', 'MENTION_CHAIN'), false))`
const UNCLAIMED = Prisma.sql`e."doneAt" IS NULL AND e."runId" IS NULL AND e."waitsUntil" IS NULL`
/** SQL condition: no cycle is working on the event. This includes events that wait for a budget or a retry. */
const OPEN = Prisma.sql`e."doneAt" IS NULL AND (e."runId" IS NULL OR e."retryAt" IS NOT NULL)`
const WAITING = Prisma.sql`${UNCLAIMED} AND NOT e.quiet`
/** The confidentiality label of an event. All events of a cycle have the same label. */
const LABEL = confidentialAmong(Prisma.sql`e.places || e.label`)
/** SQL condition: the event has the same label as the events that the cycle has already claimed. */
const isLike = (runId: string) => Prisma.sql`(${LABEL}) = (
  SELECT ${confidentialAmong(Prisma.sql`t.places || t.label`)} FROM "InboxEvent" t WHERE t."runId" = ${runId} ORDER BY t.id LIMIT 1)`

/**
 * SQL condition: the event belongs to no space, or to a space of which the agent is a member. All other events are
 * dropped.
 */
const BELONGS = Prisma.sql`(e."spaceId" IS NULL OR EXISTS (
  SELECT 1 FROM "Membership" m WHERE m."spaceId" = e."spaceId" AND m."entityId" = e."agentId"))`

/**
 * Claims an agent's next events for a cycle. Urgent events come first. Then the requesters take turns, so that many
 * events of one requester do not delay those of others. The events of one requester are claimed in the order of
 * arrival. Claims only events that may share a cycle: at most 100, with at most `mostCharacters` of content in total,
 * unless the first event alone exceeds this. Returns the events in the order of arrival. The caller has locked the
 * agent's row.
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

/** Compares two events by arrival, but puts urgent events first. */
function byArrival(one: InboxEvent, other: InboxEvent): number {
  if (one.urgent !== other.urgent) return one.urgent ? -1 : 1
  return one.id < other.id ? -1 : 1
}

/** SQL for the requester of a cycle that contains only the event `e`. See `REQUESTER_OF_NEW` in run-store.ts. */
const REQUESTER = Prisma.sql`coalesce((SELECT nullif(p."requesterId", '') FROM "Run" p WHERE p.id = e."parentRunId"),
  CASE WHEN cardinality(e.askers) = 1 THEN e.askers[1] END, e.payload->>'serviceId', e."agentId")`

/** The maximum number of waiting events that are considered when requesters take turns. */
const MOST_COMPARED_EVENTS = 2000
/** The number of an agent's latest runs that are considered when requesters take turns. */
const MOST_RECENT_RUNS = 100

/**
 * Selects the next waiting events. `turn` is the position of an event among the events of its requester. `since` is
 * the time from which the event has been waiting for its turn, encoded as in ids. Usually, it is the event's arrival.
 * If the requester has several waiting events and had a run after this arrival, it is the time of the last such run.
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

/**
 * Returns the quiet events that a cycle with these events also claims: quiet events with the same label, at most 20.
 */
function quietEvents(tx: Tx, agentId: string, [first]: Candidate[]): Promise<InboxEvent[]> {
  return tx.$queryRaw<InboxEvent[]>`
    SELECT e.* FROM "InboxEvent" e WHERE e."agentId" = ${agentId} AND ${UNCLAIMED} AND ${BELONGS} AND e.quiet
      AND (${LABEL}) = ${first?.labelNow ?? []}::text[] ORDER BY e.id LIMIT ${MOST_QUIET_EVENTS}`
}

/** Claims the waiting urgent events in the order of arrival, except events that must be alone in a cycle. */
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

/** Assigns events to a run. Returns the events that could be assigned; others may have been removed in the meantime. */
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

/** Counts the waiting events that the cycle is allowed to read. */
export async function countWaiting(tx: Tx, agentId: string, runId: string): Promise<WaitingCounts> {
  const [row] = await tx.$queryRaw<WaitingCounts[]>`
    SELECT count(*)::int AS total, (count(*) FILTER (WHERE e.urgent AND NOT ${ALONE}))::int AS urgent
    FROM "InboxEvent" e LEFT JOIN "Space" s ON s.id = e."spaceId"
    WHERE e."agentId" = ${agentId} AND ${WAITING} AND ${BELONGS} AND ${isLike(runId)}`
  return row ?? { total: 0, urgent: 0 }
}

/** Returns the oldest waiting events that the cycle is allowed to read, without claiming them. */
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
 * SQL condition: the row is not one that `finishAnsweredEvent` wrote for a reply which a waiting cycle has already
 * received.
 */
const IS_NO_ANSWER = Prisma.sql`e.payload <> '{}'`

/**
 * Returns the events that cycles have claimed, grouped by run and in the order of arrival, at most `most` per cycle.
 */
export async function claimedEvents(tx: Tx, runIds: string[], most: number): Promise<Map<string | null, InboxEvent[]>> {
  if (runIds.length === 0) return new Map()
  const rows = await tx.$queryRaw<InboxEvent[]>`
    SELECT e.* FROM unnest(${runIds}::text[]) AS run(id) CROSS JOIN LATERAL (
      SELECT * FROM "InboxEvent" e WHERE e."runId" = run.id AND ${IS_NO_ANSWER} ORDER BY e.id LIMIT ${most}
    ) e ORDER BY e.id`
  return Map.groupBy(rows, ({ runId }) => runId)
}

// Budgets. Events that would exceed a budget wait for the next day.

const NEXT_DAY = Prisma.sql`((date_trunc('day', now() AT TIME ZONE 'UTC') + interval '1 day') AT TIME ZONE 'UTC')`

/**
 * An event that no cycle may claim today because a budget is exhausted. If it is the budget of the event's root, no
 * cycle may ever claim the event.
 */
export interface PutOff {
  event: InboxEvent
  over: OverBudget
}

/**
 * Postpones events to the next day (UTC), when the budgets of agents and spaces are renewed. If the budget of an
 * event's root is exhausted, marks the event as done.
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

/** Selects the postponed events (`id`) with the times at which they are due (`at`). */
export const POSTPONED_SQL = Prisma.sql`SELECT id, "waitsUntil" AS at FROM "InboxEvent" WHERE "waitsUntil" IS NOT NULL`

/** Makes postponed events wait in the inbox again. */
export async function returnPostponed(prisma: PrismaClient, ids: string[]): Promise<void> {
  await prisma.inboxEvent.updateMany({ where: { id: { in: ids } }, data: { waitsUntil: null } })
}

// Outages. If a cycle fails because of a provider's outage, its events are retried.

/** Selects the events to retry (`id`) with the times at which they are due (`at`). */
export const RETRIED_SQL = Prisma.sql`SELECT id, "retryAt" AS at FROM "InboxEvent" WHERE "retryAt" IS NOT NULL`

/** Assignments that make an event wait for the next cycle. */
const REQUEUED = Prisma.sql`"runId" = NULL, "retryAt" = NULL`

/** Makes events wait in the inbox again once their delay is over. */
export async function returnRetried(prisma: PrismaClient, ids: string[]): Promise<void> {
  await prisma.$executeRaw`
    UPDATE "InboxEvent" SET ${REQUEUED} WHERE id = ANY(${ids}::text[]) AND "retryAt" <= clock_timestamp()`
}

/**
 * Returns a CTE. If `condition` is true, the CTE ends the delay of the agent's events that wait for a
 * retry.
 */
export const retryNowSql = (agentId: string, condition: boolean): Prisma.Sql => Prisma.sql`
  UPDATE "InboxEvent" SET ${REQUEUED} WHERE "agentId" = ${agentId} AND "retryAt" IS NOT NULL AND ${condition}::boolean`

/**
 * Returns the events of a failed cycle to the inbox, with the full number of retries. Excludes replies that the cycle
 * received while it was waiting.
 * @returns the events
 */
export function requeueFailed(tx: Tx, runId: string): Promise<Pick<InboxEvent, 'messageId'>[]> {
  return tx.$queryRaw<Pick<InboxEvent, 'messageId'>[]>`
    UPDATE "InboxEvent" e SET ${REQUEUED}, "doneAt" = NULL, outages = 0
    WHERE e."runId" = ${runId} AND ${IS_NO_ANSWER} RETURNING e."messageId"`
}

// The end of a think cycle.

/**
 * Selects the events of an ending cycle that are not done.
 * @param forgets the spaces that the agent must forget
 */
export const claimedEventsSql = (runId: string, forgets: string[]): Prisma.Sql => Prisma.sql`(
  SELECT coalesce(jsonb_agg(jsonb_build_object('id', e.id, 'messageId', e."messageId", 'outages', e.outages, 'over', ${OVER},
    'isGone', ${IS_GONE_SQL} OR coalesce(e."spaceId" = ANY(${forgets}::text[]), false)) ORDER BY e.id), '[]')
  FROM "InboxEvent" e WHERE e."runId" = ${runId} AND e."doneAt" IS NULL)`

/** Applies the decisions of `rules/run-end.ts` to the events of an ending cycle. */
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
 * Marks a message as handled, because a waiting cycle received it as its reply. The row that this function writes has
 * no payload. It prevents an event for this message in any other cycle, even if the event arrives later.
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
 * Writes the new text of an edited message into the message's events, except events that a cycle is working on.
 * `mention`: the text that explains the mention, if there is one.
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
 * Marks the events of a deleted message as done, except events that a cycle is working on, and removes the message's
 * text from them.
 * @returns the changed events
 */
export function dropWaiting(tx: Tx, messageId: string): Promise<InboxEvent[]> {
  return tx.$queryRaw<InboxEvent[]>`
    UPDATE "InboxEvent" e SET "doneAt" = now(), "retryAt" = NULL, payload = jsonb_set(e.payload, '{content}', '""') - 'mention'
    FROM "Outcome" o WHERE o."messageId" = ${messageId} AND e."agentId" = o."agentId" AND e."messageId" = o."messageId"
      AND ${OPEN} RETURNING e.*`
}

/**
 * Returns the agents in the message's space that have read the message in a think cycle, if the cycle is active or
 * remembered.
 */
export async function readersOf(tx: Tx, messageId: string): Promise<string[]> {
  const rows = await tx.$queryRaw<{ agentId: string }[]>`
    SELECT DISTINCT e."agentId" FROM "Outcome" o
    JOIN "InboxEvent" e ON e."agentId" = o."agentId" AND e."messageId" = o."messageId" AND e."runId" IS NOT NULL AND e."retryAt" IS NULL
    JOIN "Agent" a ON a.id = e."agentId" AND a.mind = 'PERSISTENT' JOIN "Message" m ON m.id = o."messageId"
    JOIN "Membership" s ON s."spaceId" = m."spaceId" AND s."entityId" = e."agentId"
    WHERE o."messageId" = ${messageId} ORDER BY 1`
  return rows.map(({ agentId }) => agentId)
}

/** The prefix of the keys of events about changes to a message. The number of the change follows the prefix. */
const changeKey = (messageId: string) => `changed:${messageId}:`

/**
 * Notifies agents of a change to a message that they have read. Each agent receives a quiet event. The event replaces
 * earlier events about the same message, except those that a cycle is working on.
 */
export async function tellChange(
  tx: Tx,
  change: Provenance & {
    messageId: string
    /** The number of the change. A deletion, after which no change can follow, has the number 0. */
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

// Removal. When an event is removed without having been read in a cycle, its row remains, so that the same event
// cannot arrive again.

/** Marks a waiting event as done. Returns null if there is no such waiting event. */
export async function dropEvent(tx: Tx, id: string): Promise<InboxEvent | null> {
  const [event] = await tx.inboxEvent.updateManyAndReturn({
    where: { id, doneAt: null, OR: [{ runId: null }, { retryAt: { not: null } }] },
    data: { doneAt: new Date(), retryAt: null },
  })
  return event ?? null
}

/** An agent that has left the space `spaceId`. Without `spaceId`, an agent that was deleted or has left spaces. */
export interface FormerMember {
  agentId: string
  spaceId?: string
}

/** SQL condition on an event `e`: no cycle may claim the event, because its agent was deleted or has left the space. */
const IS_STRANDED_SQL = Prisma.sql`(NOT ${BELONGS} OR NOT EXISTS (SELECT 1 FROM "Agent" a WHERE a.id = e."agentId"))`

/**
 * Marks up to `most` events of a former member as done. If the agent was deleted, deletes the events instead.
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

/** Returns up to 500 agents that have events which no cycle may claim. */
export async function readStrandedAgents(tx: Tx): Promise<string[]> {
  const rows = await tx.$queryRaw<{ agentId: string }[]>`
    SELECT DISTINCT e."agentId" FROM (
      SELECT "agentId", "spaceId" FROM "InboxEvent" WHERE "doneAt" IS NULL AND "runId" IS NULL
      UNION ALL SELECT "agentId", "spaceId" FROM "InboxEvent" WHERE "retryAt" IS NOT NULL
    ) e WHERE ${IS_STRANDED_SQL} LIMIT 500`
  return rows.map(({ agentId }) => agentId)
}

// Deletion of events.

/** SQL condition on an event `e`: its agent or its space was deleted. */
export const IS_GONE_SQL = Prisma.sql`(NOT EXISTS (SELECT 1 FROM "Agent" a WHERE a.id = e."agentId")
  OR (e."spaceId" IS NOT NULL AND NOT EXISTS (SELECT 1 FROM "Space" s WHERE s.id = e."spaceId" AND s."deletedAt" IS NULL)))`

/** Deletes the events of a cycle whose agent or space was deleted, and the cycle's events from the given spaces. */
export async function deleteGoneEvents(tx: Tx, runId: string, spaceIds: string[]): Promise<void> {
  await tx.$executeRaw`
    DELETE FROM "InboxEvent" e WHERE e."runId" = ${runId} AND (${IS_GONE_SQL} OR e."spaceId" = ANY(${spaceIds}::text[]))`
}

/** Deletes the events of an agent that are done. Other events are deleted with their cycle, or by `dropStranded`. */
export async function deleteDoneEvents(tx: Tx, agentId: string): Promise<void> {
  await tx.inboxEvent.deleteMany({ where: { agentId, doneAt: { not: null } } })
}

/**
 * SQL condition on an event `e`: one of the agents received the event in the space, or the event's content comes from
 * the space.
 */
const isOfSpace = (agentIds: readonly string[], spaceId: string) =>
  Prisma.sql`e."agentId" = ANY(${[...agentIds]}::text[]) AND (e."spaceId" = ${spaceId} OR ${spaceId} = ANY(e.places))`

/**
 * Deletes events that agents received in a space, except events that a cycle is working on. Deletes at most `most` of
 * them, or all if `most` is null.
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

/** Deletes the events that agents received in a space and that are done or were read in a cycle that has ended. */
export async function deleteDoneEventsOfSpace(tx: Tx, agentIds: readonly string[], spaceId: string): Promise<void> {
  await tx.$executeRaw`
    DELETE FROM "InboxEvent" e WHERE ${isOfSpace(agentIds, spaceId)} AND NOT (${OPEN})
      AND NOT EXISTS (SELECT 1 FROM "Run" r WHERE r.id = e."runId" AND ${IS_ACTIVE_CYCLE_SQL})`
}

/** Returns a CTE that deletes the events of deleted runs. */
export const deleteEventsOfRunsSql = (runIds: Prisma.Sql): Prisma.Sql => Prisma.sql`
  DELETE FROM "InboxEvent" WHERE "runId" IN (${runIds})`
