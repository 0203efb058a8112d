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

/** What the end of a run means for others. */
export interface RunEnd {
  /** In the transaction that ends the run: its outcome, a handoff, its chain. */
  onRunEnded(tx: Tx, run: Run, ending: RunEnding): Promise<{ afterCommit(): Promise<void> }>
  /** A condition on a row of "Run": nothing of that is to be done where it completes without a skip. */
  endsAlone: Prisma.Sql
  /** The turn in a chain of who can take it no more. Null: it had none. */
  onTurnLost(tx: Tx, turn: ChainTurn, outcomes: OutcomeChanges): Promise<{ afterCommit(): Promise<void> } | null>
}

export function createRunEnd(platform: Platform, parts: { runs: Runs; inbox: Inbox }): RunEnd {
  const handoff = createHandoff(platform, parts)
  const chaining = createChaining(platform, { ...parts, handoff })

  /** A delegation outside of any chain: nothing of the delegator shows. */
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

/** A run that called `skip` leaves the outcome SKIPPED with the message that triggered it, unless it had said something. */
async function noteSkip(tx: Tx, run: Run, ending: RunEnding, outcomes: OutcomeChanges): Promise<void> {
  if (ending.status !== 'COMPLETED' || ending.skipped === undefined || run.triggerMessageId === null) return
  if ((await tx.message.count({ where: { runId: run.id } })) > 0) return
  const { triggerMessageId: messageId, agentId } = run
  const runId = run.triggerType === 'INBOX' ? null : run.id // a cycle that skips leaves no run
  await outcomes.set({ messageId, agentId, kind: 'SKIPPED', reason: ending.skipped.reason, runId })
}

/** Nobody will read what it was to read. */
async function noteGone({ id: runId, triggerMessageId: messageId, agentId }: Run, outcomes: OutcomeChanges) {
  if (messageId !== null) await noteDropped(outcomes, { messageId, agentId, runId })
}

/** Whoever sees the message that woke a run which FAILED sees that it did, and the first line of why. */
async function noteFailure(run: Run, ending: RunEnding, outcomes: OutcomeChanges): Promise<void> {
  if (ending.status !== 'FAILED' || ending.isTriedAgain === true || run.triggerMessageId === null) return
  const { id: runId, triggerMessageId: messageId, agentId } = run
  await outcomes.set({ messageId, agentId, kind: 'FAILED', reason: null, error: toldOf(run, ending), runId })
}

/** What a provider says may quote what it was sent: of a run that knows something in confidence only the class is told. */
const toldOf = ({ label }: Run, { error, stopReason }: Extract<RunEnding, { status: 'FAILED' }>) =>
  label.length > 0 ? stopReason : firstLine(error)

const firstLine = (text: string): string => text.split('\n', 1)[0] ?? ''
