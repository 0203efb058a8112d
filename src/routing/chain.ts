import type { Inbox } from '../agents/inbox.ts'
import { marksOf, union } from '../confidence/marks.ts'
import type { Run } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import type { Chain, TurnOutcome, Waiter, WokenBy } from '../runs/chains.ts'
import type { RunEnding } from '../runs/lifecycle.ts'
import type { Runs } from '../runs/runs.ts'
import {
  afterTurn,
  agentOf,
  callBack,
  cutShort,
  type Mention,
  type NextTurn,
  refuseMention,
  type Step,
} from './chain-rules.ts'
import { type ChainTurn, chainOf, lastWordOf, saveChain, type TurnEnd, turnEndOf } from './chain-turns.ts'
import type { Handoff } from './handoff.ts'
import { allowance } from './loop-limits.ts'
import { inboxEventOf, runOf } from './message-trigger.ts'
import type { OutcomeChanges } from './outcome-changes.ts'
import { agentMember, isOverBudget, loadMessageTrigger, type Woke, wake } from './wake.ts'

/** Passes the turn of a chain from run to run. */
export interface Chaining {
  /**
   * In the transaction that ends a run, under the chain's row lock: wakes the next agent, or ends
   * the chain. Null if the run has no turn in a chain.
   */
  turnEnded(
    tx: Tx,
    run: Run,
    ending: RunEnding,
    outcomes: OutcomeChanges,
  ): Promise<{ afterCommit(): Promise<void> } | null>
  /** The same for the turn of an inbox event that no cycle will process. */
  turnLost(tx: Tx, turn: ChainTurn, outcomes: OutcomeChanges): Promise<{ afterCommit(): Promise<void> } | null>
}

/** What an agent that is called back learns about the previous turn. */
interface Before {
  agentId: string
  /** Null: no message was posted in the space where it waits. */
  messageId: string | null
  ended: TurnOutcome
  reason: string | null
}

/** A turn to give: the chain at this point, and the previous turn as the called-back agent sees it. */
interface Giving {
  chain: Chain
  end: TurnEnd
  before: Before
  outcomes: OutcomeChanges
}

/** A mention or call-back: wakes an agent in a space by the last message there, or by none. */
interface Call {
  type: 'mention' | 'callback'
  agentId: string
  spaceId: string
  messageId: string | null
  senderId: string
  /** Takes the name of the agent that passes the turn. */
  wokenBy(agentName: string): WokenBy
}

const WHY = {
  mention: 'This agent was mentioned.',
  callback: 'This agent was called back with the reply that it waited for.',
}

interface ChainingParts {
  runs: Runs
  inbox: Inbox
  handoff: Handoff
}

export function createChaining({ config }: Platform, { handoff, ...wakers }: ChainingParts): Chaining {
  const { limits } = config

  async function call(tx: Tx, { chain, end: { run }, outcomes }: Giving, given: Call): Promise<Woke> {
    const { agentId, spaceId, messageId, senderId } = given
    const agent = await agentMember(tx, { spaceId, agentId, rootId: run.rootId })
    if (agent === null || (await isOverBudget(outcomes, agent, messageId))) return { type: 'gone' }
    const by = { ...run, label: union(run.label, chain.label) }
    const lineage = { rootId: run.rootId, depth: run.depth + 1, parentRunId: run.id, chainId: chain.id, by }
    const allowed = await allowance(tx, lineage, limits)
    if (allowed.count === 0) return { type: 'limit', reason: allowed.reason }
    const trigger = await loadMessageTrigger(tx, { spaceId, messageId, senderId, seq: null })
    const step = `chain:${chain.id}:${chain.depth + 1}`
    const key = given.type === 'mention' ? messageId : null
    const wokenBy = given.wokenBy(trigger.sender.name)
    const woke = await wake(tx, wakers, agent, {
      run: runOf(agent, trigger, { ...lineage, wokenBy, dedupKey: key === null ? step : `${agentId}:${key}` }),
      event: inboxEventOf(agent, trigger, { ...lineage, wokenBy, dedupKey: key ?? step }),
    })
    if (woke.type !== 'woken' || messageId === null) return woke
    const runId = woke.run?.id ?? null
    await outcomes.set({ messageId, agentId, kind: runId === null ? 'INBOX' : 'RUN', reason: WHY[given.type], runId })
    if (given.type === 'mention') await markMention(tx, messageId, agentId)
    return woke
  }

  async function give(tx: Tx, giving: Giving, turn: NextTurn): Promise<Woke> {
    const { chain, end, before, outcomes } = giving
    if (turn.type === 'delegation') return handoff.handOn(tx, end.run, { ...turn, chainId: chain.id }, outcomes)
    return call(
      tx,
      giving,
      turn.type === 'mention' ? await mentionCall(tx, end, turn) : callBackCall(turn.waiter, before),
    )
  }

  /** Gives the turn to the first agent that can take it; an agent that cannot counts as skipped. */
  async function pass(
    tx: Tx,
    begun: Chain,
    end: TurnEnd,
    outcomes: OutcomeChanges,
  ): Promise<{ afterCommit(): Promise<void> }> {
    await noteRefusal(tx, begun, end, outcomes)
    let step = afterTurn(begun, end.run.agentId, end.handingOn, limits)
    let unreachable: Before | null = null
    while (step.next !== null) {
      const { next } = step
      const chain = { ...begun, ...step.state }
      const before = unreachable ?? (await turnBefore(tx, end, next))
      const woke = await give(tx, { chain, end, before, outcomes }, next)
      if (woke.type === 'woken') {
        const { id: holderRunId = null } = woke.run ?? {}
        const label = union(chain.label, marksOf(end.run))
        await saveChain(tx, { ...chain, label, depth: chain.depth + 1, holderId: agentOf(next), holderRunId })
        return woke
      }
      unreachable ??=
        next.type === 'callback'
          ? null
          : { agentId: next.targetId, messageId: null, ended: 'unreachable', reason: null }
      step = woke.type === 'limit' ? cutShort(step) : callBack(step.state, limits)
    }
    if (step.forbidden !== undefined) await noteLimit(tx, end, step.forbidden, outcomes)
    await saveChain(tx, { ...begun, ...step.state, holderId: null, holderRunId: null })
    return { async afterCommit() {} }
  }

  /** A mention in a message was not checked when it was posted: records with the message why it wakes nobody. */
  async function noteRefusal(
    tx: Tx,
    chain: Chain,
    { run, handingOn }: TurnEnd,
    outcomes: OutcomeChanges,
  ): Promise<void> {
    if (handingOn?.type !== 'mention') return
    const refusal = refuseMention(chain, run.agentId, handingOn, limits)
    const messageId = refusal === null ? null : await lastWordOf(tx, run.id, handingOn.spaceId)
    if (refusal === null || messageId === null || handingOn.targetId === run.agentId) return
    const kind = refusal.code === 'LOOP_LIMIT' ? 'LOOP_LIMIT' : 'NOT_ROUTED'
    await outcomes.set({ messageId, agentId: handingOn.targetId, kind, reason: refusal.message, runId: null })
  }

  return {
    async turnEnded(tx, run, ending, outcomes) {
      const end = await turnEndOf(tx, run, ending)
      const chain = await chainOf(tx, end)
      return chain === null ? null : pass(tx, chain, end, outcomes)
    },
    async turnLost(tx, turn, outcomes) {
      // A turn without a run passes nothing on, so only the fields of ChainTurn are read.
      const end: TurnEnd = { run: turn as Run, handingOn: null, silent: 'stopped', reason: null }
      const chain = await chainOf(tx, end)
      return chain === null ? null : pass(tx, chain, end, outcomes)
    },
  }
}

async function turnBefore(tx: Tx, { run, silent, reason }: TurnEnd, next: NextTurn): Promise<Before> {
  const spoke = next.type === 'callback' && silent === 'skipped'
  const messageId = spoke ? await lastWordOf(tx, run.id, next.waiter.spaceId) : null
  if (messageId !== null) return { agentId: run.agentId, messageId, ended: 'responded', reason: null }
  return { agentId: run.agentId, messageId, ended: silent, reason }
}

/** Sets the mention on the run's last message, if it has none. */
async function markMention(tx: Tx, id: string, mentionedAgentId: string): Promise<void> {
  await tx.message.updateMany({ where: { id, mentionedAgentId: null }, data: { mentionedAgentId } })
}

async function mentionCall(
  tx: Tx,
  { run }: TurnEnd,
  { targetId, spaceId, reason, expectReply }: Mention,
): Promise<Call> {
  const messageId = await lastWordOf(tx, run.id, spaceId)
  const { agentId } = run
  const wokenBy = (agentName: string) => ({ type: 'mention' as const, agentId, agentName, reason, expectReply })
  return { type: 'mention', agentId: targetId, spaceId, messageId, senderId: agentId, wokenBy }
}

function callBackCall({ entityId, spaceId, reason: askedFor }: Waiter, before: Before): Call {
  const { agentId, messageId, ended, reason } = before
  const wokenBy = (agentName: string) => ({ type: 'callback' as const, agentId, agentName, askedFor, ended, reason })
  return { type: 'callback', agentId: entityId, spaceId, messageId, senderId: agentId, wokenBy }
}

/** Records with the run's last message that a limit prevented the next turn. */
async function noteLimit(
  tx: Tx,
  { run }: TurnEnd,
  turn: Step['forbidden'] & object,
  outcomes: OutcomeChanges,
): Promise<void> {
  if (turn.type === 'delegation') return
  const messageId = await lastWordOf(tx, run.id, turn.type === 'callback' ? turn.waiter.spaceId : turn.spaceId)
  if (messageId === null) return
  const reason = 'The chain has reached its limit of runs, so no further agent is woken.'
  await outcomes.set({ messageId, agentId: agentOf(turn), kind: 'LOOP_LIMIT', reason, runId: null })
}
