import { marksOf, type Provenance } from '../confidentiality/marks.ts'
import type { InboxEvent } from '../generated/prisma/client.ts'
import type { Json, JsonObject } from '../lib/json.ts'
import type { Tx } from '../platform/db.ts'
import type { ClaimedRun } from '../runs/claiming.ts'
import { loadMessageTrigger, type Trigger } from './wake.ts'

/**
 * Returns the trigger of a run or think cycle. For a cycle, this is its only event. Returns null if there is nothing
 * to delegate.
 */
export async function triggerOf(tx: Tx, run: ClaimedRun): Promise<Trigger | null> {
  const provenance = provenanceFrom(run)
  if (run.triggerType === 'INBOX') {
    const events = await tx.inboxEvent.findMany({ where: { runId: run.id }, take: 2 })
    const [event] = events
    return event === undefined || events.length > 1 ? null : triggerOfEvent(tx, event, provenance)
  }
  const { triggerName: name, triggerSummary: summary, triggerPayload, triggerServiceId: serviceId, dedupKey } = run
  const payload = triggerPayload as Json
  if (run.triggerType === 'PLAN') {
    const planId = dedupKey?.split(':').find((part) => part.startsWith('pln_')) ?? null
    const instruction = (payload as JsonObject)?.instruction ?? payload
    return { type: 'PLAN', name: name ?? '', summary, planId, instruction, provenance }
  }
  if (run.triggerType === 'SERVICE')
    return { type: 'SERVICE', name: name ?? '', summary, serviceId, payload, provenance }
  return messageTrigger(tx, {
    spaceId: run.triggerSpaceId,
    messageId: run.triggerMessageId,
    threadRootId: run.threadRootId,
    senderId: run.triggerSenderId,
    seq: run.activeSpaceId === run.triggerSpaceId ? run.enteredSeq : null,
  })
}

async function triggerOfEvent(
  tx: Tx,
  { type, payload, spaceId, messageId }: InboxEvent,
  provenance: Provenance,
): Promise<Trigger | null> {
  const told = payload as JsonObject
  const name = String(told.name ?? '')
  if (type === 'PLAN') {
    const planId = typeof told.planId === 'string' ? told.planId : null
    return { type, name, summary: `The plan "${name}"`, planId, instruction: told.instruction ?? null, provenance }
  }
  if (type === 'SERVICE') {
    const serviceId = typeof told.serviceId === 'string' ? told.serviceId : null
    return { type, name, summary: `The service "${name}"`, serviceId, payload: told.payload ?? null, provenance }
  }
  if (type === 'TOOL_RESULT') return null
  const threadRootId = typeof told.threadRootId === 'string' ? told.threadRootId : null
  return messageTrigger(tx, { spaceId, messageId, threadRootId, senderId: String(told.senderId ?? ''), seq: null })
}

async function messageTrigger(
  tx: Tx,
  {
    spaceId,
    senderId,
    ...source
  }: {
    spaceId: string | null
    messageId: string | null
    threadRootId: string | null
    senderId: string | null
    seq: number | null
  },
): Promise<Trigger | null> {
  if (spaceId === null) return null
  return loadMessageTrigger(tx, { ...source, spaceId, senderId: senderId ?? '' })
}

/** Returns the delegating run's provenance, which becomes that of a plan's instruction or a service's payload. */
function provenanceFrom(delegator: ClaimedRun): Provenance {
  const { places, askers } = delegator
  return { places, label: marksOf(delegator), askers }
}
