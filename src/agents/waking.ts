import { type Provenance, UNMARKED } from '../confidence/marks.ts'
import type { Mind, Run } from '../generated/prisma/client.ts'
import { cut, type Json, type JsonObject, oneLine } from '../lib/json.ts'
import type { Tx } from '../platform/db.ts'
import type { Inbox, NewInboxEvent } from './inbox.ts'

/** A cause, other than a message, that wakes an agent. */
export type Trigger = PlanTrigger | ServiceTrigger

interface AnyTrigger {
  /** The name of the plan or service. */
  name: string
  /** Deduplicates: the same key wakes the agent once. Null disables deduplication. */
  dedupKey: string | null
  /** The id of the new root, `trg_…`. */
  rootId: string
}

export interface PlanTrigger extends AnyTrigger {
  type: 'PLAN'
  planId: string
  instruction: string
  /** The marks and requesters of the plan. */
  provenance: Provenance
}

export interface ServiceTrigger extends AnyTrigger {
  type: 'SERVICE'
  /** The id of the service token or webhook; null for an admin. */
  serviceId: string | null
  payload: Json
  urgent: boolean
}

export interface WokenAgent {
  id: string
  mind: Mind
}

export interface Woken {
  /** The run, possibly of an earlier trigger with the same key; null for a persistent agent. */
  run: Run | null
  /** False if the key had already woken the agent. */
  isNew: boolean
  afterCommit(): Promise<void>
}

export interface WakingHooks {
  inbox: Inbox
  /** Writes runs as QUEUED. Runs whose key is already used are left out. */
  startRuns(tx: Tx, runs: TriggeredRun[]): Promise<{ runs: Run[]; afterCommit(): Promise<void> }>
}

/** A run that starts its own root, in no space. */
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

/** Delivers triggers of plans and services: a run for a stateless agent, an inbox event for a persistent one. */
export interface Waking {
  /** In the caller's transaction. */
  wake(tx: Tx, agent: WokenAgent, trigger: Trigger): Promise<Woken>
  /** Returns the result of an earlier trigger with the same key; null if there is none. */
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

/** A service's payload has no source space and no requester. */
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

/** Returns the payload of the inbox event for a trigger. */
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

/** Describes the source and subject of a trigger in one line. */
function summaryOf(trigger: Trigger): string {
  const name = oneLine(trigger.name)
  if (trigger.type === 'PLAN') return `The plan "${name}": "${subject(trigger.instruction)}"`
  return `The service "${name}": ${subject(JSON.stringify(trigger.payload))}`
}

function subject(text: string): string {
  return cut(oneLine(cut(text, 10 * LONGEST_SUBJECT)), LONGEST_SUBJECT)
}
