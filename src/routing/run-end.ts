import type { Inbox } from '../agents/inbox.ts'
import type { Prisma, Run } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import type { RunEnding } from '../runs/lifecycle.ts'
import type { Runs } from '../runs/runs.ts'
import { createChaining } from './chain.ts'
import { type ChainTurn, HAS_NO_TURN } from './chain-turns.ts'
import { createHandoff } from './handoff.ts'
import { collectOutcomeChanges, noteDropped, type OutcomeChanges } from './outcome-changes.ts'

/** The effects of a run's end on other runs and messages. */
export interface RunEnd {
  /** In the transaction that ends the run: writes its outcome, its handoff and its chain. */
  onRunEnded(tx: Tx, run: Run, ending: RunEnding): Promise<{ afterCommit(): Promise<void> }>
  /** Condition on a row of "Run": completing it without a skip has no such effects. */
  endsAlone: Prisma.Sql
  /** Ends the turn of an agent that can no longer take it. Null: it had no turn. */
  onTurnLost(tx: Tx, turn: ChainTurn, outcomes: OutcomeChanges): Promise<{ afterCommit(): Promise<void> } | null>
}

export function createRunEnd(platform: Platform, parts: { runs: Runs; inbox: Inbox }): RunEnd {
  const handoff = createHandoff(platform, parts)
  const chaining = createChaining(platform, { ...parts, handoff })

  /** A delegation outside of a chain: the target does not learn of the delegator. */
  async function handSilently(tx: Tx, run: Run, ending: RunEnding, outcomes: OutcomeChanges) {
    if (ending.stopReason !== 'HANDED_ON') return null
    const { targetAgentId: targetId, ...delegated } = ending.delegated
    const woke = await handoff.handOn(tx, run, { ...delegated, targetId, chainId: null }, outcomes)
    return woke.type === 'woken' ? woke : null
  }

  return {
    async onRunEnded(tx, run, ending) {
      const outcomes = collectOutcomeChanges(tx, platform.log)
      await noteSkip(tx, run, ending, outcomes)
      await noteFailure(run, ending, outcomes)
      if (ending.stopReason === 'GONE') await noteGone(run, outcomes)
      const isTriedAgain = ending.status === 'FAILED' && ending.isTriedAgain === true
      const followed = isTriedAgain ? null : await chaining.turnEnded(tx, run, ending, outcomes)
      const woken = followed ?? (await handSilently(tx, run, ending, outcomes))
      return {
        async afterCommit() {
          await outcomes.announce()
          await woken?.afterCommit()
        },
      }
    },
    endsAlone: HAS_NO_TURN,
    onTurnLost: chaining.turnLost,
  }
}

/** Sets the outcome SKIPPED for the triggering message if the run called `skip`, unless it has posted something. */
async function noteSkip(tx: Tx, run: Run, ending: RunEnding, outcomes: OutcomeChanges): Promise<void> {
  if (ending.status !== 'COMPLETED' || ending.skipped === undefined || run.triggerMessageId === null) return
  if ((await tx.message.count({ where: { runId: run.id } })) > 0) return
  const { triggerMessageId: messageId, agentId } = run
  const runId = run.triggerType === 'INBOX' ? null : run.id // a cycle that skips leaves no run
  await outcomes.set({ messageId, agentId, kind: 'SKIPPED', reason: ending.skipped.reason, runId })
}

/** Sets the outcome DROPPED for the message that triggered the run: nobody will read it. */
async function noteGone({ id: runId, triggerMessageId: messageId, agentId }: Run, outcomes: OutcomeChanges) {
  if (messageId !== null) await noteDropped(outcomes, { messageId, agentId, runId })
}

/** Shows the failure of a run, with the first line of its error, on the message that triggered it. */
async function noteFailure(run: Run, ending: RunEnding, outcomes: OutcomeChanges): Promise<void> {
  if (ending.status !== 'FAILED' || ending.isTriedAgain === true || run.triggerMessageId === null) return
  const { id: runId, triggerMessageId: messageId, agentId } = run
  await outcomes.set({ messageId, agentId, kind: 'FAILED', reason: null, error: toldOf(run, ending), runId })
}

/** A provider's error may quote the prompt: for a run with a confidentiality label only its class is shown. */
const toldOf = ({ label }: Run, { error, stopReason }: Extract<RunEnding, { status: 'FAILED' }>) =>
  label.length > 0 ? stopReason : firstLine(error)

const firstLine = (text: string): string => text.split('\n', 1)[0] ?? ''
