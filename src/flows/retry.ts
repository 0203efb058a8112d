import type { Viewer } from '../access/viewer.ts'
import type { Visibility } from '../access/visibility.ts'
import { JOBS_CHANNEL } from '../broker/topics.ts'
import type { Run } from '../generated/prisma/client.ts'
import { type OverBudget, WHY_OVER_BUDGET } from '../lib/budget.ts'
import { ConflictError, ForbiddenError, LimitExceededError, NotFoundError } from '../lib/errors.ts'
import { overBudget, payerOf } from '../platform/budget-state.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { isAdmin } from '../rules/permissions.ts'
import type { Runs } from '../runs/runs.ts'
import { reopenChain } from '../stores/chain-store.ts'
import { allowance } from './loop-limits.ts'
import { collectOutcomeChanges, type OutcomeChanges } from './outcome-changes.ts'
import { publishWoken, type Woken, wakeAgain } from './wake.ts'

/** Retries failed runs. */
export interface Retrying {
  /**
   * Retries a FAILED run as a new run with the same trigger, root and depth. For a failed think cycle, returns its
   * events to the inbox instead, and returns null as `run`. Only admins, human members of the trigger's space, and
   * the service that triggered the run may do this.
   * @throws NotFoundError, ForbiddenError, ConflictError, LimitExceededError
   */
  retryRun(viewer: Viewer, input: { runId: string }): Promise<{ run: Run | null }>
}

interface RetryingParts {
  visibility: Visibility
  runs: Runs
}

export function createRetrying(platform: Platform, { visibility, runs }: RetryingParts): Retrying {
  const { db, signals, config } = platform

  async function mayRetry(viewer: Viewer, { triggerSpaceId }: Run): Promise<boolean> {
    if (isAdmin(viewer) || viewer.scope !== 'HUMAN') return true
    return triggerSpaceId !== null && visibility.isMember(triggerSpaceId, viewer.id)
  }

  /** @returns the `seq` of the last message that the new run will read */
  async function checkRun(tx: Tx, run: Run): Promise<number | null> {
    if (run.triggerType === 'INBOX') return null
    if (await isRetried(tx, run.id)) throw new ConflictError(RETRIED.RUN)
    const allowed = await allowance(tx, run, config.limits)
    if (allowed.count === 0) throw new LimitExceededError(allowed.reason)
    return lastSeqFor(tx, run)
  }

  async function retry(tx: Tx, run: Run, outcomes: OutcomeChanges): Promise<Woken> {
    const woken = await wakeAgain(tx, run, await checkRun(tx, run))
    if (woken === null) throw new ConflictError(run.triggerType === 'INBOX' ? RETRIED.CYCLE : RETRIED.RUN)
    const [again] = woken.runs
    if (run.chainId !== null && again !== undefined) await takeChainUp(tx, run, run.chainId, again.id)
    const change = { agentId: run.agentId, reason: 'The failed run was retried.', runId: again?.id ?? null }
    const kind = again === undefined ? 'INBOX' : 'RUN'
    for (const messageId of woken.messageIds) await outcomes.set({ ...change, messageId, kind })
    return woken
  }

  return {
    async retryRun(viewer, { runId }) {
      const [seen] = await runs.getMany([runId])
      if (seen == null || !(await visibility.runs(viewer, [seen])).has(seen.id))
        throw new NotFoundError('There is no such run.')
      if (!(await mayRetry(viewer, seen)))
        throw new ForbiddenError(
          "Only human members of the trigger's space, the service that triggered the run, and admins can retry it.",
        )
      const { woken, outcomes } = await db.transaction(async (tx) => {
        const [run] = await tx.$queryRaw<Run[]>`SELECT * FROM "Run" WHERE id = ${runId} FOR UPDATE`
        if (run?.status !== 'FAILED') throw new ConflictError('Only a FAILED run can be retried.')
        await checkAwake(tx, run)
        const outcomes = collectOutcomeChanges(tx, platform, { withJob: true })
        return { woken: await retry(tx, run, outcomes), outcomes }
      })
      await outcomes.announce()
      if (woken.runs.length > 0) await publishWoken(platform, woken)
      else await signals.publish(JOBS_CHANNEL, {})
      return { run: woken.runs[0] ?? null }
    },
  }
}

const RETRIED = {
  RUN: 'This run has already been retried.',
  CYCLE: 'The events of this think cycle are already back in the inbox.',
}

/** @throws ConflictError if the agent is paused or was deleted; LimitExceededError if a budget is exhausted */
async function checkAwake(tx: Tx, run: Run): Promise<void> {
  const [agent] = await tx.$queryRaw<{ paused: boolean; over: OverBudget | null }[]>`
    SELECT paused, ${overBudget(payerOf(run))} AS over FROM "Agent" WHERE id = ${run.agentId} FOR KEY SHARE`
  if (agent === undefined) throw new ConflictError('The agent was deleted.')
  if (agent.paused) throw new ConflictError('The agent is paused: resume the agent first, then retry the run.')
  if (agent.over !== null) throw new LimitExceededError(WHY_OVER_BUDGET[agent.over])
}

async function isRetried(tx: Tx, retryOfId: string): Promise<boolean> {
  return (await tx.run.findFirst({ where: { retryOfId }, select: { id: true } })) !== null
}

/**
 * Returns the `seq` of the last message in the space. The new run reads the messages up to this number.
 * @throws ConflictError if the agent is no longer a member
 */
async function lastSeqFor(tx: Tx, { agentId, triggerSpaceId }: Run): Promise<number | null> {
  if (triggerSpaceId === null) return null
  const [space] = await tx.$queryRaw<{ lastSeq: number }[]>`
    SELECT s."lastSeq" FROM "Space" s JOIN "Membership" m ON m."spaceId" = s.id
    WHERE s.id = ${triggerSpaceId} AND m."entityId" = ${agentId}`
  if (space === undefined) throw new ConflictError("The agent is no longer a member of the trigger's space.")
  return space.lastSeq
}

/**
 * Reopens a chain that ended with the run.
 * @throws ConflictError if the chain has continued without the run
 */
async function takeChainUp(tx: Tx, run: Run, chainId: string, holderRunId: string): Promise<void> {
  const [chain] = await tx.$queryRaw<{ isFree: boolean }[]>`
    SELECT "holderId" IS NULL AND NOT EXISTS (
      SELECT 1 FROM "Run" later WHERE later."chainId" = ${chainId} AND later.id > ${run.id} AND later.id <> ${holderRunId}
    ) AS "isFree" FROM "Chain" WHERE id = ${chainId} FOR UPDATE`
  if (chain?.isFree !== true)
    throw new ConflictError('The chain has continued without this run: mention the agent again instead.')
  await reopenChain(tx, chainId, { holderId: run.agentId, holderRunId })
}
