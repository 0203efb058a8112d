import type { CycleSettings } from '../agents/cycle-settings.ts'
import { spaceTopic } from '../broker/topics.ts'
import { together } from '../confidentiality/marks.ts'
import { loseTurns } from '../flows/chain.ts'
import type { InboxEvent, Prisma, Run } from '../generated/prisma/client.ts'
import { WHY_OVER_BUDGET } from '../lib/budget.ts'
import { newId } from '../lib/ids.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { ACTIVE_RUN_STATUSES } from '../rules/statuses.ts'
import { type Claim, claimNew, MAY_THINK } from '../runs/claiming.ts'
import { takeEvents } from '../stores/inbox-store.ts'
import { linkCycle, markOverBudget } from '../stores/outcome-store.ts'
import { insertCycleRun } from '../stores/run-store.ts'
import type { Lineage } from '../tools/run-context.ts'
import type { CycleState } from './cycle-state.ts'
import { inboxMessage } from './inbox-message.ts'

/** The think cycles of persistent agents. Each is a run with an INBOX trigger. */
export interface Cycles {
  /**
   * Claims events for the agent's next cycle, creates its run and claims the run. Returns null if the inbox is empty,
   * if the agent is paused, or if a cycle is active, whose end will check for new events. Also returns null if another
   * process holds the lock of the agent's row, because that process will do this check.
   */
  claim(agentId: string): Promise<Claim | null>
}

/**
 * How many characters of inbox events a cycle gets per token of the consciousness budget. At four characters per token,
 * this is half of the budget.
 */
export const INBOX_CHARACTERS_A_TOKEN = 2

export function createCycles(platform: Platform): Cycles {
  const { db, clock } = platform
  return {
    async claim(agentId) {
      const begun = await db.transaction(async (tx) => {
        const cycle = await writeCycle(tx, platform, agentId, clock.now())
        if (cycle === null) return null
        const { runId, ...begun } = cycle
        return { claim: runId === null ? null : await claimNew(tx, platform, runId), ...begun }
      })
      if (begun === null) return null
      await announceTaken(platform, begun.changed)
      await begun.lost.afterCommit()
      return begun.claim
    },
  }
}

interface BegunCycle {
  /** The run of the cycle; null if no waiting event can be processed now. */
  runId: string | null
  /** The events that were claimed, and those that were postponed. */
  changed: InboxEvent[]
  /** Ends the turns of dropped events after the commit. */
  lost: { afterCommit(): Promise<void> }
}

interface AgentRow {
  id: string
  cycle: CycleSettings
  cycleCount: number
}

/**
 * Claims events and writes the cycle while the agent's row is locked. The end of a cycle takes the same lock, so either
 * this code or the end of the cycle sees each new event. The end takes the run's lock first. This different order
 * cannot cause a deadlock, because the lock here is taken without waiting.
 */
async function writeCycle(tx: Tx, platform: Platform, agentId: string, now: number): Promise<BegunCycle | null> {
  const [agent] = await tx.$queryRaw<AgentRow[]>`
    SELECT id, cycle, "cycleCount" FROM "Agent" a WHERE id = ${agentId} AND mind = 'PERSISTENT' AND ${MAY_THINK}
    FOR NO KEY UPDATE SKIP LOCKED`
  if (agent === undefined) return null
  const living = await tx.run.findFirst({
    where: { agentId, triggerType: 'INBOX', status: { in: [...ACTIVE_RUN_STATUSES] } },
    select: { id: true },
  })
  return living === null ? beginCycle(tx, platform, agent, now) : null
}

async function beginCycle(tx: Tx, platform: Platform, agent: AgentRow, now: number): Promise<BegunCycle | null> {
  const id = newId('run')
  const mostCharacters = agent.cycle.maxConsciousnessTokens * INBOX_CHARACTERS_A_TOKEN
  const { events, alone, put } = await takeEvents(tx, agent.id, id, mostCharacters)
  for (const [over, events] of Map.groupBy(put, ({ over }) => over)) {
    const messageIds = events.flatMap(({ event: { messageId } }) => messageId ?? [])
    await markOverBudget(tx, agent.id, messageIds, WHY_OVER_BUDGET[over])
  }
  const lost = await loseTurns(
    tx,
    platform,
    put.flatMap(({ event, over }) => (over === 'ROOT' ? [event] : [])),
  )
  const changed = [...events, ...put.map(({ event }) => event)]
  if (events.length === 0) return changed.length === 0 ? null : { runId: null, changed, lost }
  const state: CycleState = {
    cycle: agent.cycleCount,
    inbox: inboxMessage(events, new Date(now)),
    inboxSize: events.length,
    spaceMessages: events.filter(isNewMessage).length,
    alone,
    recall: null,
    consciousnessTokens: 0,
    injections: [],
  }
  await insertCycleRun(tx, { ...runOf(events, id, agent.id), state })
  await showInOutcomes(tx, events, agent.id, id)
  return { runId: id, changed, lost }
}

/**
 * Whether an event is a message to which the agent may respond. A change to a message that the agent has already read
 * is not one.
 */
export const isNewMessage = ({ type, quiet }: InboxEvent): boolean => type === 'SPACE_MESSAGE' && !quiet

/**
 * Returns the run of a cycle. Its root and depth are those of the deepest event. Its trigger contains the values on
 * which all of the cycle's first events agree.
 */
function runOf(all: InboxEvent[], id: string, agentId: string) {
  const events = all.filter(({ quiet }) => !quiet)
  const { rootId, depth, deepestSpaceId } = deepest(events.map(lineageOf))
  const lineage = { rootId, depth, deepestSpaceId, ...together(all) }
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
    threadRootId: agreed(events, ({ payload }) => textIn(payload, 'threadRootId')),
    triggerSenderId: agreed(events, ({ payload }) => textIn(payload, 'senderId')),
    triggerServiceId: agreed(events, ({ payload }) => textIn(payload, 'serviceId')),
    parentRunId: agreed(events, ({ parentRunId }) => parentRunId),
    chainId: agreed(events, ({ chainId }) => chainId),
    wokenBy: wokenBy === null ? null : JSON.parse(wokenBy),
    ...lineage,
  } satisfies Partial<Record<keyof Run, unknown>>
}

export function lineageOf({ rootId, depth, spaceId: deepestSpaceId, places, label, askers }: InboxEvent): Lineage {
  return { rootId, depth, deepestSpaceId, places, label, askers }
}

export function deepest(lineages: Lineage[]) {
  const { rootId, depth, deepestSpaceId } = lineages.reduce((most, one) => (one.depth > most.depth ? one : most))
  return { rootId, depth, deepestSpaceId, ...together(lineages) }
}

/** Returns the value on which all events agree; null if they differ. */
function agreed(events: InboxEvent[], said: (event: InboxEvent) => string | null): string | null {
  const [value = null, ...others] = new Set(events.map(said))
  return others.length === 0 ? value : null
}

function textIn(payload: Prisma.JsonValue, field: string): string | null {
  const value = (payload as Record<string, unknown> | null)?.[field]
  return typeof value === 'string' ? value : null
}

/** Links the outcomes of messages to the run of the cycle that reads the messages. */
export async function showInOutcomes(tx: Tx, events: InboxEvent[], agentId: string, runId: string): Promise<void> {
  const messageIds = events.flatMap(({ messageId }) => messageId ?? [])
  await linkCycle(tx, agentId, messageIds, runId)
}

/** Publishes the changed outcomes. The caller calls this after the commit. */
export async function announceTaken({ log }: Pick<Platform, 'log'>, events: InboxEvent[]): Promise<void> {
  await Promise.all(
    events.map(async ({ spaceId, messageId }) => {
      if (spaceId !== null && messageId !== null)
        await log.append(spaceTopic(spaceId), { type: 'MessageUpdated', messageId })
    }),
  )
}
