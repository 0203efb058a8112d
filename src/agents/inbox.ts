import { confidentialAmong, type Provenance } from '../confidence/marks.ts'
import { type InboxEvent, type InboxEventType, Prisma, type Run } from '../generated/prisma/client.ts'
import { newId } from '../lib/ids.ts'
import type { Json } from '../lib/json.ts'
import type { Tx } from '../platform/db.ts'
import { insertionOf } from '../platform/insertion.ts'
import type { Platform } from '../platform/platform.ts'
import { agentChannel, JOBS_CHANNEL } from '../realtime/topics.ts'
import { PUT_OFF } from './inbox-taking.ts'

/**
 * An inbox event for a persistent agent. The row's label holds those of its marks that are confidential when the event
 * arrives.
 */
export interface NewInboxEvent extends Provenance {
  agentId: string
  type: InboxEventType
  /** Deduplicates: the same key is delivered to an agent once. */
  dedupKey: string
  payload: Json
  urgent?: boolean
  spaceId?: string | null
  messageId?: string | null
  /** The author; the event is urgent if the agent's `urgentFrom` contains the author or the space. */
  senderId?: string | null
  rootId: string
  depth: number
  parentRunId?: string | null
  chainId?: string | null
  /** How another agent's mention or delegation woke this agent; stored as `wokenBy` of the cycle's run. */
  wokenBy?: Json
}

export interface Delivered {
  /** The agents that received a new event. */
  agentIds: Set<string>
  afterCommit(): Promise<void>
}

/** The events that wait for the think cycles of persistent agents. */
export interface Inbox {
  /** Writes events in the caller's transaction. Workers start a cycle for each agent with waiting events. */
  deliver(tx: Tx, events: NewInboxEvent[]): Promise<Delivered>
  /** The events that cycles have claimed, by run, in order; at most `most` of each. */
  takenBy(runIds: string[], most: number): Promise<Map<string | null, InboxEvent[]>>
  /** Events postponed to the next day that are due. */
  timed: { what: string; rows: Prisma.Sql; handle(ids: string[]): Promise<void> }
  /**
   * Called after the commit: wakes workers and notifies subscribers of the agents. `beside` is a topic of
   * the event log to which the caller publishes at the same time; the signals are sent together with that.
   */
  announce(agentIds: Iterable<string>, beside?: string): Promise<void>
  /**
   * Marks a message as handled because a waiting cycle received it as its answer; no other cycle gets the event, even
   * if it has yet to arrive.
   */
  answered(cycle: Pick<Run, 'id' | 'agentId' | 'rootId' | 'depth'>, messageId: string): Promise<void>
}

/** A condition on an event `e` (JSON) and its row `r`: the source is in the agent's `urgentFrom`. */
const COMES_FROM_URGENT = Prisma.sql`EXISTS (SELECT 1 FROM "Agent" a
  WHERE a.id = r."agentId" AND a.cycle->'urgentFrom' ?| array_remove(ARRAY[given.e->>'senderId', r."spaceId"], NULL))`

/** The statement, or a part of one, that writes at least one event. */
export function arrived(events: NewInboxEvent[], within: { from?: string } = {}): Prisma.Sql {
  const rows = events.map((event) => ({ ...event, id: newId('inb') }))
  const urgent = Prisma.sql`(coalesce(r.urgent, false) OR ${COMES_FROM_URGENT})`
  return insertionOf('InboxEvent', rows, {
    ...within,
    computed: { urgent, label: confidentialAmong(Prisma.sql`r.places || r.label`) },
    beside: ['senderId'],
  })
}

export function createInbox({ db, signals }: Platform): Inbox {
  async function announce(agentIds: Iterable<string>, beside?: string): Promise<void> {
    await Promise.all([
      signals.publish(JOBS_CHANNEL, {}, beside),
      ...[...agentIds].map((id) => signals.publish(agentChannel(id), { type: 'run-changed' }, beside)),
    ])
  }

  return {
    announce,
    async deliver(tx, events) {
      if (events.length === 0) return { agentIds: new Set(), async afterCommit() {} }
      const rows = await tx.$queryRaw<{ agentId: string }[]>(arrived(events))
      const agentIds = new Set(rows.map(({ agentId }) => agentId))
      return { agentIds, afterCommit: () => announce(agentIds) }
    },
    async takenBy(runIds, most) {
      if (runIds.length === 0) return new Map()
      const rows = await db.prisma.$queryRaw<InboxEvent[]>`
        SELECT e.* FROM unnest(${runIds}::text[]) AS run(id) CROSS JOIN LATERAL (
          SELECT * FROM "InboxEvent" WHERE "runId" = run.id ORDER BY id LIMIT ${most}
        ) e ORDER BY e.id`
      return Map.groupBy(rows, ({ runId }) => runId)
    },
    timed: {
      what: 'an inbox event that waited for the next day',
      rows: PUT_OFF,
      async handle(ids) {
        await db.prisma.inboxEvent.updateMany({ where: { id: { in: ids } }, data: { waitsUntil: null } })
        await signals.publish(JOBS_CHANNEL, {})
      },
    },
    async answered({ id: runId, agentId, rootId, depth }, messageId) {
      await db.prisma.$executeRaw`
        INSERT INTO "InboxEvent" (id, "agentId", type, payload, "dedupKey", "messageId", "rootId", depth, "runId", "doneAt")
        VALUES (${newId('inb')}, ${agentId}, 'SPACE_MESSAGE', '{}', ${messageId}, ${messageId}, ${rootId}, ${depth}, ${runId}, now())
        ON CONFLICT ("agentId", "dedupKey") DO UPDATE SET "runId" = excluded."runId", "doneAt" = excluded."doneAt", "retryAt" = NULL
        WHERE ("InboxEvent"."runId" IS NULL OR "InboxEvent"."retryAt" IS NOT NULL) AND "InboxEvent"."doneAt" IS NULL`
    },
  }
}
