import { type Provenance, UNMARKED } from '../confidence/marks.ts'
import type { Mind, Run } from '../generated/prisma/client.ts'
import { cut, type Json, type JsonObject, oneLine } from '../lib/json.ts'
import type { Tx } from '../platform/db.ts'
import type { Inbox, NewInboxEvent } from './inbox.ts'

/** What wakes an agent other than a message. */
export type Trigger = PlanTrigger | ServiceTrigger

interface AnyTrigger {
  /** The plan's or the service's. */
  name: string
  /** The same key wakes the agent once; null: nothing to deduplicate. */
  dedupKey: string | null
  /** What the chain of triggers that it begins is known by, `trg_…`. */
  rootId: string
}

export interface PlanTrigger extends AnyTrigger {
  type: 'PLAN'
  planId: string
  instruction: string
  /** The plan's. */
  provenance: Provenance
}

export interface ServiceTrigger extends AnyTrigger {
  type: 'SERVICE'
  /** The service token's or the webhook's; null for an admin. */
  serviceId: string | null
  payload: Json
  urgent: boolean
}

export interface WokenAgent {
  id: string
  mind: Mind
}

export interface Woken {
  /** The run, also the one that an earlier trigger with the same key started; null for a persistent agent. */
  run: Run | null
  /** False where the key had woken the agent before. */
  isNew: boolean
  afterCommit(): Promise<void>
}

export interface WakingHooks {
  inbox: Inbox
  /** Writes runs as QUEUED; those whose key is known are left out. */
  startRuns(tx: Tx, runs: TriggeredRun[]): Promise<{ runs: Run[]; afterCommit(): Promise<void> }>
}

/** A run of its own root, in no space. */
export interface TriggeredRun extends Provenance {
  agent: WokenAgent
  dedupKey: string | null
  triggerType: 'PLAN' | 'SERVICE'
  triggerName: string
  triggerServiceId: string | null
  triggerSummary: string
  triggerPayload: Json
  depth: 0
  rootId: string
}

/** How plans and services reach an agent: a run for a stateless one, an inbox event for a persistent one. */
export interface Waking {
  /** In the caller's transaction. */
  wake(tx: Tx, agent: WokenAgent, trigger: Trigger): Promise<Woken>
  /** What an earlier trigger with the same key came to; null for none. */
  repeatOf(tx: Tx, agent: WokenAgent, dedupKey: string | null): Promise<Woken | null>
}

const LONGEST_SUBJECT = 120

export function createWaking({ inbox, startRuns }: WakingHooks): Waking {
  async function start(tx: Tx, agent: WokenAgent, trigger: Trigger): Promise<Woken> {
    const started = await startRuns(tx, [runFor(agent, trigger)])
    const [run] = started.runs
    if (run !== undefined) return { run, isNew: true, afterCommit: started.afterCommit }
    const earlier = await tx.run.findUnique({ where: { dedupKey: trigger.dedupKey ?? '' } })
    return { run: earlier, isNew: false, async afterCommit() {} }
  }

  async function deliver(tx: Tx, agent: WokenAgent, trigger: Trigger): Promise<Woken> {
    const delivered = await inbox.deliver(tx, [inboxEventFor(agent, trigger)])
    const isNew = delivered.agentIds.has(agent.id)
    return { run: null, isNew, afterCommit: isNew ? delivered.afterCommit : async () => {} }
  }

  return {
    wake: (tx, agent, trigger) => (agent.mind === 'STATELESS' ? start : deliver)(tx, agent, trigger),
    async repeatOf(tx, agent, dedupKey) {
      if (dedupKey === null) return null
      const run = agent.mind === 'STATELESS' ? await tx.run.findUnique({ where: { dedupKey } }) : null
      const isKnown = run !== null || (await tx.inboxEvent.count({ where: { agentId: agent.id, dedupKey } })) > 0
      return isKnown ? { run, isNew: false, async afterCommit() {} } : null
    },
  }
}

function runFor(agent: WokenAgent, trigger: Trigger): TriggeredRun {
  const { type, name, dedupKey, rootId } = trigger
  return {
    agent,
    dedupKey,
    triggerType: type,
    triggerName: name,
    triggerServiceId: type === 'SERVICE' ? trigger.serviceId : null,
    triggerSummary: summaryOf(trigger),
    triggerPayload: type === 'PLAN' ? { instruction: trigger.instruction } : trigger.payload,
    depth: 0,
    rootId,
    ...provenanceOf(trigger),
  }
}

/** A service's payload comes from no space, and a service is nobody. */
function provenanceOf(trigger: Trigger): Provenance {
  return trigger.type === 'PLAN' ? trigger.provenance : UNMARKED
}

function inboxEventFor(agent: WokenAgent, trigger: Trigger): NewInboxEvent {
  const { type, rootId, dedupKey } = trigger
  return {
    agentId: agent.id,
    type,
    dedupKey: dedupKey ?? rootId,
    payload: inboxPayloadOf(trigger),
    urgent: type === 'SERVICE' && trigger.urgent,
    rootId,
    depth: 0,
    ...provenanceOf(trigger),
  }
}

/** What an inbox event says of the plan or the service that it comes from. */
export function inboxPayloadOf(
  trigger:
    | { type: 'PLAN'; name: string; planId: string | null; instruction: Json }
    | { type: 'SERVICE'; name: string; serviceId: string | null; payload: Json },
): JsonObject {
  const { name } = trigger
  return trigger.type === 'PLAN'
    ? { planId: trigger.planId, name, instruction: trigger.instruction }
    : { serviceId: trigger.serviceId, name, payload: trigger.payload }
}

/** Who, and about what, in one line. */
function summaryOf(trigger: Trigger): string {
  const name = oneLine(trigger.name)
  if (trigger.type === 'PLAN') return `The plan "${name}": "${subject(trigger.instruction)}"`
  return `The service "${name}": ${subject(JSON.stringify(trigger.payload))}`
}

function subject(text: string): string {
  return cut(oneLine(cut(text, 10 * LONGEST_SUBJECT)), LONGEST_SUBJECT)
}
