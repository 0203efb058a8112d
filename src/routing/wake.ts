import type { Inbox, NewInboxEvent } from '../agents/inbox.ts'
import { UNMARKED } from '../confidence/marks.ts'
import { type EntityKind, type Mind, Prisma, type Run } from '../generated/prisma/client.ts'
import { type OverBudget, overBudget, WHY_OVER_BUDGET } from '../platform/budget-state.ts'
import type { Tx } from '../platform/db.ts'
import { loadReadableText } from '../runs/readable-calls.ts'
import type { NewRun, Runs } from '../runs/runs.ts'
import { messageOfRow, textOf } from '../spaces/message.ts'
import { type MessageTrigger, provenanceOfMessage } from './message-trigger.ts'
import type { OutcomeChanges } from './outcome-changes.ts'
import { overBudgetOf } from './route.ts'

/** The outcome of waking one agent. */
export type Woke =
  /** `run` is null for a persistent agent. */
  | { type: 'woken'; run: Run | null; afterCommit(): Promise<void> }
  /** Not an agent member of the space any more, paused, or already woken by the same key. */
  | { type: 'gone' }
  /** A loop limit prevented it. */
  | { type: 'limit'; reason: string }

/** An agent that can be woken in a space. */
export interface Wakeable {
  id: string
  name: string
  mind: Mind
  /** The exhausted budget, if there is one. */
  over: OverBudget | null
}

/** Null: no such agent member, or it is paused. */
export async function agentMember(
  tx: Tx,
  { spaceId, agentId, rootId }: { spaceId: string; agentId: string; rootId: string },
): Promise<Wakeable | null> {
  const [agent] = await tx.$queryRaw<Wakeable[]>`
    SELECT e.id, e.name, a.mind, ${overBudget({ agentId: Prisma.sql`a.id`, spaceId, rootId })} AS over FROM "Membership" m
    JOIN "Entity" e ON e.id = m."entityId" JOIN "Agent" a ON a.id = e.id
    WHERE m."spaceId" = ${spaceId} AND m."entityId" = ${agentId} AND NOT a.paused`
  return agent ?? null
}

/** Whether a budget prevents waking the agent; records it with the message, if there is one. */
export async function isOverBudget(
  outcomes: OutcomeChanges,
  agent: Wakeable,
  messageId: string | null,
): Promise<boolean> {
  const over = overBudgetOf(agent)
  if (over === null) return false
  const reason = WHY_OVER_BUDGET[over]
  if (messageId !== null) await outcomes.set({ messageId, agentId: agent.id, kind: 'OVER_BUDGET', reason, runId: null })
  return true
}

/** Wakes an agent by its memory mode: with a run, or with an event in its inbox. */
export async function wake(
  tx: Tx,
  { runs, inbox }: { runs: Runs; inbox: Inbox },
  agent: Wakeable,
  { run, event }: { run: NewRun; event: NewInboxEvent },
): Promise<Woke> {
  if (agent.mind === 'PERSISTENT') {
    const { agentIds, afterCommit } = await inbox.deliver(tx, [event])
    return agentIds.has(agent.id) ? { type: 'woken', run: null, afterCommit } : { type: 'gone' }
  }
  const started = await runs.start(tx, [run])
  const [first] = started.runs
  return first === undefined ? { type: 'gone' } : { type: 'woken', run: first, afterCommit: started.afterCommit }
}

interface TriggerSource {
  spaceId: string
  messageId: string | null
  senderId: string
  /** The last message that the agent sees when it wakes; null: the last one of the space. */
  seq: number | null
}

/** Loads the trigger for an agent that is woken by a message, or by an agent that ended its turn without one. */
export async function loadMessageTrigger(
  tx: Tx,
  { spaceId, messageId, senderId, seq }: TriggerSource,
): Promise<MessageTrigger> {
  const [row] = await tx.$queryRaw<
    { spaceName: string; lastSeq: number; name: string | null; kind: EntityKind | null }[]
  >`
    SELECT s.name AS "spaceName", s."lastSeq", e.name, e.kind FROM "Space" s LEFT JOIN "Entity" e ON e.id = ${senderId}
    WHERE s.id = ${spaceId}`
  const message = messageId === null ? null : await tx.message.findUnique({ where: { id: messageId } })
  const parts = message === null ? [] : messageOfRow(message).parts
  const content = await loadReadableText(tx, parts)
  const kind = row?.kind ?? 'AGENT'
  const mentionedId = message?.mentionedAgentId ?? null
  const mentioned = mentionedId === null ? null : await tx.entity.findUnique({ where: { id: mentionedId } })
  return {
    mentioned,
    space: { id: spaceId, name: row?.spaceName ?? '' },
    seq: seq ?? row?.lastSeq ?? 0,
    messageId: message?.id ?? null,
    text: textOf(parts) || content,
    content,
    sender: { id: senderId, name: row?.name ?? '', kind },
    provenance: provenanceOfMessage(message ?? { ...UNMARKED, spaceId, senderId }, kind),
  }
}
