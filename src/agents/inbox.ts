import type { InboxEventType, Prisma, Run } from '../generated/prisma/client.ts'
import { newId } from '../lib/ids.ts'
import type { Json } from '../lib/json.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { agentChannel, JOBS_CHANNEL } from '../realtime/topics.ts'

/** Something for a persistent agent to think about. */
export interface NewInboxEvent {
  agentId: string
  type: InboxEventType
  /** The same key arrives once at an agent. */
  dedupKey: string
  payload: Json
  urgent?: boolean
  spaceId?: string | null
  messageId?: string | null
  /** Who wrote it: what the agent's `urgentFrom` is compared with, besides the space. */
  senderId?: string | null
  rootId: string
  depth: number
  parentRunId?: string | null
  chainId?: string | null
  /** How an agent of a chain, or a delegation, woke it: becomes the `wokenBy` of the cycle's run. */
  wokenBy?: Json
}

export interface Delivered {
  /** The agents at whose inboxes something new arrived. */
  agentIds: Set<string>
  afterCommit(): Promise<void>
}

/** What waits for the think cycles of persistent agents. */
export interface Inbox {
  /** Writes events, in the caller's transaction: workers begin a cycle for whoever has some. */
  deliver(tx: Tx, events: NewInboxEvent[]): Promise<Delivered>
  /** A message that a cycle waited for has answered it: no other will be shown it, also where it has yet to arrive. */
  answered(cycle: Pick<Run, 'id' | 'agentId' | 'rootId' | 'depth'>, messageId: string): Promise<void>
}

export function createInbox({ db, signals }: Platform): Inbox {
  return {
    async deliver(tx, events) {
      if (events.length === 0) return { agentIds: new Set(), async afterCommit() {} }
      const urgentFrom = await urgentSenders(
        tx,
        events.map(({ agentId }) => agentId),
      )
      const rows = await tx.inboxEvent.createManyAndReturn({
        data: events.map((event) => rowOf(event, urgentFrom.get(event.agentId) ?? [])),
        skipDuplicates: true,
        select: { agentId: true },
      })
      const agentIds = new Set(rows.map(({ agentId }) => agentId))
      return {
        agentIds,
        async afterCommit() {
          await signals.publish(JOBS_CHANNEL, {})
          await Promise.all([...agentIds].map((id) => signals.publish(agentChannel(id), { type: 'run-changed' })))
        },
      }
    },
    async answered({ id: runId, agentId, rootId, depth }, messageId) {
      await db.prisma.$executeRaw`
        INSERT INTO "InboxEvent" (id, "agentId", type, payload, "dedupKey", "messageId", "rootId", depth, "runId", "doneAt")
        VALUES (${newId('inb')}, ${agentId}, 'SPACE_MESSAGE', '{}', ${messageId}, ${messageId}, ${rootId}, ${depth}, ${runId}, now())
        ON CONFLICT ("agentId", "dedupKey") DO UPDATE SET "runId" = excluded."runId", "doneAt" = excluded."doneAt"
        WHERE "InboxEvent"."runId" IS NULL AND "InboxEvent"."doneAt" IS NULL`
    },
  }
}

async function urgentSenders(tx: Tx, agentIds: string[]): Promise<Map<string, string[]>> {
  const agents = await tx.agent.findMany({ where: { id: { in: agentIds } }, select: { id: true, cycle: true } })
  return new Map(agents.map(({ id, cycle }) => [id, (cycle as { urgentFrom?: string[] } | null)?.urgentFrom ?? []]))
}

function rowOf(
  { senderId, urgent, payload, wokenBy, ...event }: NewInboxEvent,
  urgentFrom: string[],
): Prisma.InboxEventCreateManyInput {
  const sources = [senderId, event.spaceId]
  return {
    ...event,
    ...(wokenBy == null ? {} : { wokenBy: wokenBy as Prisma.InputJsonValue }),
    id: newId('inb'),
    payload: payload as Prisma.InputJsonValue,
    urgent: urgent === true || sources.some((source) => source != null && urgentFrom.includes(source)),
  }
}
