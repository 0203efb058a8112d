import type { NewInboxEvent } from '../agents/inbox.ts'
import { inboxPayloadOf } from '../agents/waking.ts'
import { marksOf, type Provenance } from '../confidence/marks.ts'
import type { InboxEvent, Run } from '../generated/prisma/client.ts'
import type { Json, JsonObject } from '../lib/json.ts'
import type { Tx } from '../platform/db.ts'
import type { NewRun } from '../runs/runs.ts'
import { inboxEventOf, type Lineage, type MessageTrigger, runOf } from './message-trigger.ts'
import { loadMessageTrigger, type Wakeable } from './wake.ts'

/** The trigger of a run or cycle, as it is delegated. */
export type HandedTrigger =
  | { type: 'SPACE_MESSAGE'; message: MessageTrigger }
  | { type: 'PLAN'; name: string; summary: string; planId: string | null; instruction: Json }
  | { type: 'SERVICE'; name: string; summary: string; serviceId: string | null; payload: Json }

/** The trigger of a run or cycle. A cycle's trigger is its only event. Null: there is nothing to delegate. */
export async function triggerOf(tx: Tx, run: Run): Promise<HandedTrigger | null> {
  if (run.triggerType === 'INBOX') {
    const events = await tx.inboxEvent.findMany({ where: { runId: run.id }, take: 2 })
    const [event] = events
    return event === undefined || events.length > 1 ? null : triggerOfEvent(tx, event)
  }
  const { triggerName: name, triggerSummary: summary, triggerPayload, triggerServiceId: serviceId, dedupKey } = run
  const payload = triggerPayload as Json
  if (run.triggerType === 'PLAN') {
    const planId = dedupKey?.split(':').find((part) => part.startsWith('pln_')) ?? null
    return {
      type: 'PLAN',
      name: name ?? '',
      summary,
      planId,
      instruction: (payload as JsonObject)?.instruction ?? payload,
    }
  }
  if (run.triggerType === 'SERVICE') return { type: 'SERVICE', name: name ?? '', summary, serviceId, payload }
  return messageTrigger(tx, {
    spaceId: run.triggerSpaceId,
    messageId: run.triggerMessageId,
    senderId: run.triggerSenderId,
    seq: run.activeSpaceId === run.triggerSpaceId ? run.enteredSeq : null,
  })
}

async function triggerOfEvent(
  tx: Tx,
  { type, payload, spaceId, messageId }: InboxEvent,
): Promise<HandedTrigger | null> {
  const told = payload as JsonObject
  const name = String(told.name ?? '')
  if (type === 'PLAN') {
    const planId = typeof told.planId === 'string' ? told.planId : null
    return { type, name, summary: `The plan "${name}"`, planId, instruction: told.instruction ?? null }
  }
  if (type === 'SERVICE') {
    const serviceId = typeof told.serviceId === 'string' ? told.serviceId : null
    return { type, name, summary: `The service "${name}"`, serviceId, payload: told.payload ?? null }
  }
  if (type === 'TOOL_RESULT') return null
  return messageTrigger(tx, { spaceId, messageId, senderId: String(told.senderId ?? ''), seq: null })
}

async function messageTrigger(
  tx: Tx,
  {
    spaceId,
    senderId,
    ...source
  }: { spaceId: string | null; messageId: string | null; senderId: string | null; seq: number | null },
): Promise<HandedTrigger | null> {
  if (spaceId === null) return null
  return {
    type: 'SPACE_MESSAGE',
    message: await loadMessageTrigger(tx, { ...source, spaceId, senderId: senderId ?? '' }),
  }
}

/** The message id, by which an agent is woken at most once. */
function messageIn(trigger: HandedTrigger): string | null {
  return trigger.type === 'SPACE_MESSAGE' ? trigger.message.messageId : null
}

/** The run of a stateless target. */
export function runFor(agent: Wakeable, delegator: Run, trigger: HandedTrigger, lineage: Lineage): NewRun {
  const messageId = messageIn(trigger)
  const dedupKey = messageId === null ? `delegation:${delegator.id}` : `${agent.id}:${messageId}`
  if (trigger.type === 'SPACE_MESSAGE') return runOf(agent, trigger.message, { ...lineage, dedupKey })
  const { by: _, ...place } = lineage
  return {
    ...provenanceFrom(delegator),
    agent,
    dedupKey,
    triggerType: trigger.type,
    triggerName: trigger.name,
    triggerServiceId: trigger.type === 'SERVICE' ? trigger.serviceId : null,
    triggerSummary: trigger.summary,
    triggerPayload: trigger.type === 'SERVICE' ? trigger.payload : { instruction: trigger.instruction },
    activeSpaceId: delegator.activeSpaceId,
    enteredSeq: delegator.enteredSeq,
    ...place,
  }
}

/** The inbox event of a persistent target. */
export function eventFor(agent: Wakeable, delegator: Run, trigger: HandedTrigger, lineage: Lineage): NewInboxEvent {
  const dedupKey = messageIn(trigger) ?? `delegation:${delegator.id}`
  if (trigger.type === 'SPACE_MESSAGE') return inboxEventOf(agent, trigger.message, { ...lineage, dedupKey })
  const { by: _, ...place } = lineage
  const payload = inboxPayloadOf(trigger)
  return { ...provenanceFrom(delegator), agentId: agent.id, type: trigger.type, dedupKey, payload, ...place }
}

/** A plan's instruction and a service's payload get the provenance of the delegating run. */
function provenanceFrom(delegator: Run): Provenance {
  const { places, askers } = delegator
  return { places, label: marksOf(delegator), askers }
}
