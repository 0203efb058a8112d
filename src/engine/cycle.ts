import type { CycleSettings } from '../agents/cycle-settings.ts'
import { takeEvents } from '../agents/inbox-taking.ts'
import { type InboxEvent, Prisma, type Run } from '../generated/prisma/client.ts'
import { newId } from '../lib/ids.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import type { ClaimResult, Lifecycle } from '../runs/lifecycle.ts'
import { ACTIVE_STATUSES } from '../runs/runs.ts'
import type { CycleState, Lineage } from './cycle-state.ts'
import { inboxMessage } from './inbox-message.ts'

/** The think cycles of persistent agents: each is a run, triggered by the inbox. */
export interface Cycles {
  /**
   * What a wake-up of the agent comes to: its next cycle, with the events that it takes, claimed for this job; or the cycle
   * that this job, or a job that is gone, has begun before. `nothing` while another job executes one (on its end it sees to
   * what has come meanwhile), and when the inbox is empty.
   */
  claim(agentId: string, jobId: string): Promise<ClaimResult>
}

/** A cycle that still stands as running so long after its time has no worker and no job any more. */
const LOST_AFTER_MS = 60_000
/** Of a budget for the consciousness, the characters of inbox that one cycle takes: about half, at four characters a token. */
export const INBOX_CHARACTERS_A_TOKEN = 2

export function createCycles(platform: Platform, { lifecycle }: { lifecycle: Pick<Lifecycle, 'claim'> }): Cycles {
  const { db, clock, config } = platform
  const longestMs = config.limits.maxRunSeconds * 1000 + LOST_AFTER_MS
  return {
    async claim(agentId, jobId) {
      const runId = await db.transaction((tx) => writeCycle(tx, agentId, jobId, { now: clock.now(), longestMs }))
      return runId === null ? { type: 'nothing' } : lifecycle.claim(runId, jobId)
    },
  }
}

interface AgentRow {
  id: string
  cycle: CycleSettings
  cycleCount: number
}

/** Under the agent's row lock, which the end of a cycle takes too: what arrives is seen by the one or by the other. */
async function writeCycle(
  tx: Tx,
  agentId: string,
  jobId: string,
  { now, longestMs }: { now: number; longestMs: number },
): Promise<string | null> {
  const [agent] = await tx.$queryRaw<AgentRow[]>`
    SELECT id, cycle, "cycleCount" FROM "Agent" WHERE id = ${agentId} AND mind = 'PERSISTENT' FOR NO KEY UPDATE`
  if (agent === undefined) return null
  const living = await tx.run.findFirst({
    where: { agentId, triggerType: 'INBOX', status: { in: ACTIVE_STATUSES } },
    select: { id: true, status: true, jobId: true, startedAt: true },
  })
  if (living === null) return beginCycle(tx, agent, now)
  const isLost = living.startedAt !== null && living.startedAt.getTime() < now - longestMs
  if (isLost) await tx.run.update({ where: { id: living.id }, data: { jobId } })
  return isLost || living.status === 'QUEUED' || living.jobId === jobId ? living.id : null
}

async function beginCycle(tx: Tx, agent: AgentRow, now: number): Promise<string | null> {
  const id = newId('run')
  const mostCharacters = agent.cycle.maxConsciousnessTokens * INBOX_CHARACTERS_A_TOKEN
  const { events, alone } = await takeEvents(tx, agent.id, id, mostCharacters)
  if (events.length === 0) return null
  const state: CycleState = {
    cycle: agent.cycleCount,
    inbox: inboxMessage(events, new Date(now)),
    inboxSize: events.length,
    spaceMessages: events.filter(({ type }) => type === 'SPACE_MESSAGE').length,
    alone,
    recall: null,
    consciousnessTokens: 0,
    injections: [],
  }
  await tx.run.create({ data: { ...runOf(events, id, agent.id), state: state as unknown as Prisma.InputJsonValue } })
  await showInOutcomes(tx, events, agent.id, id)
  return id
}

/** Root and depth are the deepest event's; what the events have in common is the cycle's trigger. */
function runOf(events: InboxEvent[], id: string, agentId: string) {
  const { rootId, depth } = deepest(events)
  const wokenBy = agreed(events, ({ wokenBy }) => (wokenBy === null ? null : JSON.stringify(wokenBy)))
  return {
    id,
    agentId,
    status: 'QUEUED' as const,
    triggerType: 'INBOX' as const,
    triggerName: agreed(events, ({ payload }) => textIn(payload, 'name')),
    triggerSummary: events.length === 1 ? '1 inbox event' : `${events.length} inbox events`,
    triggerSpaceId: agreed(events, ({ spaceId }) => spaceId),
    triggerMessageId: agreed(events, ({ messageId }) => messageId),
    triggerSenderId: agreed(events, ({ payload }) => textIn(payload, 'senderId')),
    triggerServiceId: agreed(events, ({ payload }) => textIn(payload, 'serviceId')),
    parentRunId: agreed(events, ({ parentRunId }) => parentRunId),
    chainId: agreed(events, ({ chainId }) => chainId),
    wokenBy: wokenBy === null ? Prisma.DbNull : (JSON.parse(wokenBy) as Prisma.InputJsonValue),
    rootId,
    depth,
  } satisfies Partial<Record<keyof Run, unknown>>
}

export function deepest(events: Lineage[]): Lineage {
  const { rootId, depth } = events.reduce((most, event) => (event.depth > most.depth ? event : most))
  return { rootId, depth }
}

/** What all events say; null where they differ. */
function agreed(events: InboxEvent[], said: (event: InboxEvent) => string | null): string | null {
  const [value = null, ...others] = new Set(events.map(said))
  return others.length === 0 ? value : null
}

function textIn(payload: Prisma.JsonValue, field: string): string | null {
  const value = (payload as Record<string, unknown> | null)?.[field]
  return typeof value === 'string' ? value : null
}

/** Whoever sees why the message reached the agent can follow the cycle that read it. */
export async function showInOutcomes(tx: Tx, events: InboxEvent[], agentId: string, runId: string): Promise<void> {
  const messageIds = events.flatMap(({ messageId }) => (messageId === null ? [] : [messageId]))
  if (messageIds.length === 0) return
  await tx.outcome.updateMany({ where: { messageId: { in: messageIds }, agentId, kind: 'INBOX' }, data: { runId } })
}
