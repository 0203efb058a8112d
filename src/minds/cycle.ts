import type { CycleSettings } from '../agents/cycle-settings.ts'
import { takeEvents } from '../agents/inbox-taking.ts'
import { type InboxEvent, Prisma, type Run } from '../generated/prisma/client.ts'
import { newId } from '../lib/ids.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { spaceTopic } from '../realtime/topics.ts'
import { type Claim, claimNew, MAY_THINK } from '../runs/claiming.ts'
import { ACTIVE_STATUSES } from '../runs/runs.ts'
import type { CycleState, Lineage } from './cycle-state.ts'
import { inboxMessage } from './inbox-message.ts'

/** The think cycles of persistent agents: each is a run, triggered by the inbox. */
export interface Cycles {
  /**
   * Begins the agent's next cycle, with the events that it takes, and claims it. Null while one lives (on its end it sees to what
   * has come meanwhile), when the inbox is empty or the agent rests, and when somebody else has the agent's row in hand, who sees to it.
   */
  claim(agentId: string): Promise<Claim | null>
}

/** Of a budget for the consciousness, the characters of inbox that one cycle takes: about half, at four characters a token. */
export const INBOX_CHARACTERS_A_TOKEN = 2

export function createCycles(platform: Platform): Cycles {
  const { db, clock } = platform
  return {
    async claim(agentId) {
      const begun = await db.transaction(async (tx) => {
        const cycle = await writeCycle(tx, agentId, clock.now())
        return cycle && { claim: await claimNew(tx, platform, cycle.runId), events: cycle.events }
      })
      if (begun === null) return null
      await announceTaken(platform, begun.events)
      return begun.claim
    },
  }
}

interface BegunCycle {
  runId: string
  events: InboxEvent[]
}

interface AgentRow {
  id: string
  cycle: CycleSettings
  cycleCount: number
}

/**
 * Under the agent's row lock, which the end of a cycle takes too, after its run's: what arrives is seen by the one or by the
 * other. This waits for nobody, so that the two orders of locks cannot meet.
 */
async function writeCycle(tx: Tx, agentId: string, now: number): Promise<BegunCycle | null> {
  const [agent] = await tx.$queryRaw<AgentRow[]>`
    SELECT id, cycle, "cycleCount" FROM "Agent" a WHERE id = ${agentId} AND mind = 'PERSISTENT' AND ${MAY_THINK}
    FOR NO KEY UPDATE SKIP LOCKED`
  if (agent === undefined) return null
  const living = await tx.run.findFirst({
    where: { agentId, triggerType: 'INBOX', status: { in: ACTIVE_STATUSES } },
    select: { id: true },
  })
  return living === null ? beginCycle(tx, agent, now) : null
}

async function beginCycle(tx: Tx, agent: AgentRow, now: number): Promise<BegunCycle | null> {
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
  return { runId: id, events }
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

/** Once that is committed: tells whoever sees the messages. */
export async function announceTaken({ log }: Pick<Platform, 'log'>, events: InboxEvent[]): Promise<void> {
  await Promise.all(
    events.map(async ({ spaceId, messageId }) => {
      if (spaceId !== null && messageId !== null)
        await log.append(spaceTopic(spaceId), { type: 'MessageUpdated', messageId })
    }),
  )
}
