import type { Run } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import type { WokenBy } from '../rules/chain.ts'
import type { ClaimedRun } from '../runs/claiming.ts'
import { triggerOf } from './delegated-trigger.ts'
import { allowance } from './loop-limits.ts'
import type { OutcomeChanges } from './outcome-changes.ts'
import { agentMember, isOverBudget, type Trigger, type Woken, wake } from './wake.ts'

export interface HandOn {
  targetId: string
  /** The space of the delegation. The target must be a member of this space and of the trigger's space. */
  spaceId: string
  reason: string | null
  /**
   * The chain of the delegation. Null for a delegation outside a chain, in which the target does not see who
   * delegated.
   */
  chainId: string | null
}

/** The result of a wake-up. */
export type Woke =
  | { type: 'woken'; woken: Woken }
  /** The agent is no longer a member of the space, is paused, or was already woken under the same key. */
  | { type: 'gone' }
  /** A loop limit prevented the wake-up. */
  | { type: 'limit'; reason: string }

/**
 * Passes a run's trigger to another agent, as if the trigger had woken that agent directly. In the transaction that
 * ends the delegating run, writes the target's run or inbox event, with the same trigger, root and depth, and the
 * outcomes of both agents. Returns `gone` if the trigger has already woken the target.
 */
export async function delegate(
  tx: Tx,
  platform: Pick<Platform, 'config'>,
  run: Run,
  to: HandOn,
  outcomes: OutcomeChanges,
): Promise<Woke> {
  const trigger = await triggerOf(tx, run)
  if (trigger === null) return { type: 'gone' }
  const woke = await wakeTarget(tx, platform, run, to, trigger, outcomes)
  const messageId = messageIn(trigger)
  if (messageId === null || woke.type === 'gone') return woke
  if (woke.type === 'limit') {
    await outcomes.set({ messageId, agentId: to.targetId, kind: 'LOOP_LIMIT', reason: woke.reason, runId: null })
  } else await noteHandedOn(outcomes, messageId, run, to, woke.woken.runs[0]?.id ?? null)
  return woke
}

async function wakeTarget(
  tx: Tx,
  { config }: Pick<Platform, 'config'>,
  run: Run,
  { targetId, spaceId, reason, chainId }: HandOn,
  trigger: Trigger,
  outcomes: OutcomeChanges,
): Promise<Woke> {
  const found = await agentMember(tx, { spaceId, agentId: targetId, rootId: run.rootId })
  const target = (await mayKnow(tx, trigger, targetId)) ? found : null
  if (target === null || (await hadTrigger(tx, run, targetId))) return { type: 'gone' }
  const { rootId, depth, activeSpaceId, enteredSeq } = run
  const messageId = messageIn(trigger)
  if (await isOverBudget(outcomes, target, messageId)) return { type: 'gone' }
  const allowed = await allowance(tx, { rootId, depth }, config.limits)
  if (allowed.count === 0) return { type: 'limit', reason: allowed.reason }
  const wokenBy = chainId === null ? null : await delegationBy(tx, run, reason)
  const woken = await wake(tx, target, {
    trigger,
    key: messageId === null ? { once: `delegation:${run.id}` } : { messageId },
    lineage: { rootId, depth, parentRunId: run.id, chainId, wokenBy },
    by: run,
    place: { activeSpaceId, enteredSeq },
  })
  return woken === null ? { type: 'gone' } : { type: 'woken', woken }
}

/** Returns the id of the trigger's message. A message wakes an agent at most once. */
const messageIn = (trigger: Trigger): string | null => (trigger.type === 'SPACE_MESSAGE' ? trigger.messageId : null)

/** Records the outcomes of a delegated message for both agents. */
async function noteHandedOn(
  outcomes: OutcomeChanges,
  messageId: string,
  { agentId }: Run,
  { targetId, reason }: HandOn,
  runId: string | null,
): Promise<void> {
  const because = reason === null ? '' : ` ${reason}`
  await outcomes.set({
    messageId,
    agentId,
    runId: null,
    kind: 'NOT_ROUTED',
    reason: `The agent delegated the message.${because}`,
  })
  await outcomes.set({
    messageId,
    agentId: targetId,
    runId,
    kind: runId === null ? 'INBOX' : 'RUN',
    reason: 'Another agent delegated the message to this agent.',
  })
}

async function delegationBy(tx: Tx, { agentId }: Run, reason: string | null): Promise<WokenBy> {
  const { name: agentName } = await tx.entity.findUniqueOrThrow({ where: { id: agentId } })
  return { type: 'delegation', agentId, agentName, reason }
}

/** Whether an entity may see a trigger. Only members of a message's space may see the message. */
async function mayKnow(tx: Tx, trigger: Trigger, entityId: string): Promise<boolean> {
  if (trigger.type !== 'SPACE_MESSAGE') return true
  return (await tx.membership.count({ where: { entityId, spaceId: trigger.space.id } })) > 0
}

/**
 * Whether an agent has already received the trigger of a run. For a message, the agent wrote the message or was woken
 * by it. For any other trigger, the agent is one of the delegators.
 */
export async function hadTrigger(tx: Tx, run: ClaimedRun, agentId: string): Promise<boolean> {
  if (run.triggerMessageId === null) return handedBy(tx, run, agentId)
  const [row] = await tx.$queryRaw<{ had: boolean }[]>`
    SELECT (EXISTS (SELECT 1 FROM "Run" WHERE "agentId" = ${agentId} AND "triggerMessageId" = ${run.triggerMessageId})
      OR EXISTS (SELECT 1 FROM "InboxEvent" WHERE "agentId" = ${agentId} AND "messageId" = ${run.triggerMessageId})
      OR EXISTS (SELECT 1 FROM "Message" WHERE id = ${run.triggerMessageId} AND "senderId" = ${agentId})) AS had`
  return row?.had === true
}

/**
 * Whether the agent is one of the delegators. A delegator's run ended as CANCELED, and is the parent of the run to
 * which it delegated.
 */
async function handedBy(tx: Tx, run: ClaimedRun, agentId: string): Promise<boolean> {
  const rows = await tx.$queryRaw<unknown[]>`
    WITH RECURSIVE line AS (
      SELECT id, "agentId", "parentRunId" FROM "Run" WHERE id = ${run.id}
      UNION SELECT r.id, r."agentId", r."parentRunId" FROM "Run" r JOIN line l ON r.id = l."parentRunId"
      WHERE r.status = 'CANCELED' AND r."triggerMessageId" IS NULL
    )
    SELECT 1 FROM line WHERE "agentId" = ${agentId}`
  return rows.length > 0
}
