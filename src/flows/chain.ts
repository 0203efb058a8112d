import { marksOf, type Provenance, union } from '../confidentiality/marks.ts'
import { type InboxEvent, Prisma, type Run } from '../generated/prisma/client.ts'
import { newId } from '../lib/ids.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import {
  afterTurn,
  agentOf,
  type Chain,
  callBack,
  cutShort,
  type Mention,
  NEW_CHAIN,
  type NextTurn,
  refuseMention,
  type Step,
  type TurnEnd,
  type TurnOutcome,
  type Waiter,
  type WokenBy,
} from '../rules/chain.ts'
import { WAS_MENTIONED } from '../rules/routing.ts'
import { POSTED_MESSAGE_STATUSES } from '../rules/statuses.ts'
import { wayToWake } from '../rules/wake.ts'
import { insertChains, lockChain, saveChain, unendedChains } from '../stores/chain-store.ts'
import { addMention } from '../stores/message-store.ts'
import { setChain } from '../stores/run-store.ts'
import { delegate, type Woke } from './delegate.ts'
import { allowance } from './loop-limits.ts'
import { collectOutcomeChanges, type OutcomeChanges } from './outcome-changes.ts'
import { agentMember, isOverBudget, loadMessageTrigger, publishWoken, wake } from './wake.ts'

// Passes the turn of a chain from one run to the next.

export type ChainPlatform = Pick<Platform, 'config' | 'jobs' | 'log' | 'signals'>

interface AfterCommit {
  afterCommit(): Promise<void>
}

/**
 * The run that holds a turn. For an inbox event that was removed before a cycle processed it, the same fields
 * describe the event.
 */
type ChainTurn = Pick<Run, 'id' | 'agentId' | 'chainId' | 'rootId' | 'depth' | keyof Provenance>

/** A turn that has ended. */
interface EndedTurn extends TurnEnd {
  run: Run
}

/**
 * Wakes the next agent of a chain, or ends the chain, in the transaction that ends a run. Locks the chain's row.
 * Returns null if the run does not hold a turn in a chain.
 */
export async function passTurn(
  tx: Tx,
  platform: ChainPlatform,
  end: EndedTurn,
  outcomes: OutcomeChanges,
): Promise<AfterCommit | null> {
  const chain = await chainOf(tx, end)
  return chain === null ? null : pass(tx, platform, chain, end, outcomes)
}

/**
 * Ends the turns of inbox events in their chains. The same transaction removes the events, because no cycle will
 * process them.
 */
export async function loseTurns(tx: Tx, platform: ChainPlatform, events: readonly InboxEvent[]): Promise<AfterCommit> {
  const outcomes = collectOutcomeChanges(tx, platform, { withJob: true })
  const follow: AfterCommit[] = []
  const chainIds = await unendedChains(
    tx,
    events.flatMap(({ chainId }) => chainId ?? []),
  )
  for (const event of events.filter(({ chainId }) => chainId !== null && chainIds.has(chainId))) {
    // A turn without a run delegates to nobody, so only the fields of ChainTurn are read.
    const run = turnOf(event) as Run
    const end: EndedTurn = { run, handingOn: null, silent: 'stopped', reason: null }
    const followed = await passTurn(tx, platform, end, outcomes)
    if (followed !== null) follow.push(followed)
  }
  return {
    async afterCommit() {
      await outcomes.announce()
      for (const { afterCommit } of follow) await afterCommit()
    },
  }
}

/** Returns the turn of an inbox event, as the cycle that processes the event would have it. */
function turnOf({ id, agentId, chainId, rootId, depth, parentRunId, spaceId, places, label, askers }: InboxEvent) {
  const turn = { id: parentRunId ?? id, agentId, chainId, rootId, depth, places, label, askers } satisfies ChainTurn
  return { ...turn, triggerSpaceId: spaceId }
}

/** SQL condition on a row of "Run": the run does not belong to a chain, and its end does not start one. */
export const HAS_NO_TURN_SQL = Prisma.sql`(
  "Run"."chainId" IS NULL
  AND NOT EXISTS (SELECT 1 FROM "ToolCall" c
    WHERE c."runId" = "Run".id AND c."toolName" = 'mentionAgent' AND c.execution IS NULL AND c.status = 'DONE')
  AND NOT EXISTS (SELECT 1 FROM "Message" m WHERE m."runId" = "Run".id AND m."mentionedAgentId" IS NOT NULL))`

/**
 * Returns SQL for the mention that a run made: the call of mentionAgent in the journal or, if there is none, the last
 * mention in a message of the run.
 */
export const mentionSql = (runId: string): Prisma.Sql => Prisma.sql`coalesce((
    SELECT output FROM "ToolCall" WHERE "runId" = ${runId} AND "toolName" = 'mentionAgent' AND execution IS NULL AND status = 'DONE'
    ORDER BY id LIMIT 1
  ), (
    SELECT jsonb_build_object('spaceId', m."spaceId", 'targetAgentEntityId', m."mentionedAgentId")
    FROM "Message" m JOIN "Space" s ON s.id = m."spaceId"
    WHERE m."runId" = ${runId} AND m."mentionedAgentId" IS NOT NULL AND s.routing = 'MENTION_CHAIN' ORDER BY m.id DESC LIMIT 1
  ))`

/** The facts about the previous turn that the prompt of a called-back agent contains. */
interface Before {
  agentId: string
  /** Null if the run posted no message in the space where the agent waits. */
  messageId: string | null
  ended: TurnOutcome
  reason: string | null
}

/** A turn that is being passed on: the state of the chain, and the previous turn as the next agent sees it. */
interface Giving {
  chain: Chain
  end: EndedTurn
  before: Before
  outcomes: OutcomeChanges
}

/**
 * The wake-up of an agent in a space by a mention or a call-back. The last message of the previous run in that space,
 * if any, becomes the trigger.
 */
interface Call {
  type: 'mention' | 'callback'
  agentId: string
  spaceId: string
  threadRootId: string | null
  messageId: string | null
  senderId: string
  /** Returns the cause of the wake-up. `agentName`: the name of the agent that passes the turn. */
  wokenBy(agentName: string): WokenBy
}

const WHY = {
  mention: WAS_MENTIONED,
  callback: 'This agent was called back with the reply that it waited for.',
}

async function call(
  tx: Tx,
  platform: ChainPlatform,
  { chain, end: { run }, outcomes }: Giving,
  given: Call,
): Promise<Woke> {
  const { agentId, spaceId, threadRootId, messageId, senderId } = given
  const agent = await agentMember(tx, { spaceId, agentId, rootId: run.rootId })
  if (agent === null || (await isOverBudget(outcomes, agent, messageId))) return { type: 'gone' }
  const lineage = { rootId: run.rootId, depth: run.depth + 1, parentRunId: run.id, chainId: chain.id }
  const allowed = await allowance(tx, lineage, platform.config.limits)
  if (allowed.count === 0) return { type: 'limit', reason: allowed.reason }
  const trigger = await loadMessageTrigger(tx, { spaceId, messageId, threadRootId, senderId, seq: null })
  const step = { once: `chain:${chain.id}:${chain.depth + 1}` }
  const woken = await wake(tx, agent, {
    trigger,
    key: given.type === 'mention' && messageId !== null ? { messageId } : step,
    lineage: { ...lineage, wokenBy: given.wokenBy(trigger.sender.name) },
    by: { ...run, label: union(run.label, chain.label) },
  })
  if (woken === null) return { type: 'gone' }
  if (messageId === null) return { type: 'woken', woken }
  const runId = woken.runs[0]?.id ?? null
  await outcomes.set({ messageId, agentId, kind: wayToWake(agent), reason: WHY[given.type], runId })
  if (given.type === 'mention') await addMention(tx, messageId, agentId)
  return { type: 'woken', woken }
}

async function give(tx: Tx, platform: ChainPlatform, giving: Giving, turn: NextTurn): Promise<Woke> {
  const { chain, end, before, outcomes } = giving
  if (turn.type === 'delegation') return delegate(tx, platform, end.run, { ...turn, chainId: chain.id }, outcomes)
  return call(
    tx,
    platform,
    giving,
    turn.type === 'mention' ? await mentionCall(tx, end, turn) : callBackCall(turn.waiter, before),
  )
}

/**
 * Adds the thread to a mention: the thread of the run's last message in the space or, if the run posted none there,
 * the thread of the run. If the agent is called back later, it continues in the thread of its run, where its task is
 * unfinished, even if it asked its question in another thread.
 */
async function inItsThread(tx: Tx, { run, handingOn }: EndedTurn): Promise<EndedTurn['handingOn']> {
  if (handingOn?.type !== 'mention') return handingOn
  const { spaceId } = handingOn
  const word = await lastWordOf(tx, run.id, spaceId)
  const ofMention = word?.threadRootId ?? null
  const isOfRun = run.triggerSpaceId === spaceId
  return {
    ...handingOn,
    threadRootId: word === null && isOfRun ? run.threadRootId : ofMention,
    callBackThreadId: isOfRun ? run.threadRootId : ofMention,
  }
}

/** Passes the turn to the first agent that can take it. Agents that cannot take it are skipped. */
async function pass(
  tx: Tx,
  platform: ChainPlatform,
  begun: Chain,
  ended: EndedTurn,
  outcomes: OutcomeChanges,
): Promise<AfterCommit> {
  const end = { ...ended, handingOn: await inItsThread(tx, ended) }
  const { limits } = platform.config
  await noteRefusal(tx, platform, begun, end, outcomes)
  let step = afterTurn(begun, end.run.agentId, end.handingOn, limits)
  let unreachable: Before | null = null
  while (step.next !== null) {
    const { next } = step
    const chain = { ...begun, ...step.state }
    const before = unreachable ?? (await turnBefore(tx, end, next))
    const woke = await give(tx, platform, { chain, end, before, outcomes }, next)
    if (woke.type === 'woken') {
      const holderRunId = woke.woken.runs[0]?.id ?? null
      const label = union(chain.label, marksOf(end.run))
      await saveChain(tx, { ...chain, label, depth: chain.depth + 1, holderId: agentOf(next), holderRunId })
      return { afterCommit: () => publishWoken(platform, woke.woken) }
    }
    unreachable ??=
      next.type === 'callback' ? null : { agentId: next.targetId, messageId: null, ended: 'unreachable', reason: null }
    step = woke.type === 'limit' ? cutShort(step) : callBack(step.state, limits)
  }
  if (step.forbidden !== undefined) await noteLimit(tx, end, step.forbidden, outcomes)
  await saveChain(tx, { ...begun, ...step.state, holderId: null, holderRunId: null })
  return { async afterCommit() {} }
}

/**
 * Records, as an outcome of the run's last message, why the mention does not wake the agent. Mentions in messages are
 * not checked earlier, when the messages are posted.
 */
async function noteRefusal(
  tx: Tx,
  { config }: ChainPlatform,
  chain: Chain,
  { run, handingOn }: EndedTurn,
  outcomes: OutcomeChanges,
): Promise<void> {
  if (handingOn?.type !== 'mention') return
  const refusal = refuseMention(chain, run.agentId, handingOn, config.limits)
  const messageId = refusal === null ? null : ((await lastWordOf(tx, run.id, handingOn.spaceId))?.id ?? null)
  if (refusal === null || messageId === null || handingOn.targetId === run.agentId) return
  const kind = refusal.code === 'LOOP_LIMIT' ? 'LOOP_LIMIT' : 'NOT_ROUTED'
  await outcomes.set({ messageId, agentId: handingOn.targetId, kind, reason: refusal.message, runId: null })
}

async function turnBefore(tx: Tx, { run, silent, reason }: EndedTurn, next: NextTurn): Promise<Before> {
  const spoke = next.type === 'callback' && silent === 'skipped'
  const messageId = spoke ? await answerOf(tx, run.id, next.waiter) : null
  if (messageId !== null) return { agentId: run.agentId, messageId, ended: 'responded', reason: null }
  return { agentId: run.agentId, messageId, ended: silent, reason }
}

/**
 * Returns the run's last message for a waiting agent: in the agent's thread or, if there is none, anywhere in its
 * space.
 */
async function answerOf(tx: Tx, runId: string, { spaceId, threadRootId = null }: Waiter): Promise<string | null> {
  const word = (await lastWordOf(tx, runId, spaceId, threadRootId)) ?? (await lastWordOf(tx, runId, spaceId))
  return word?.id ?? null
}

async function mentionCall(
  tx: Tx,
  { run }: EndedTurn,
  { targetId, spaceId, threadRootId = null, reason, expectReply }: Mention,
): Promise<Call> {
  const messageId = (await lastWordOf(tx, run.id, spaceId))?.id ?? null
  const { agentId } = run
  const wokenBy = (agentName: string) => ({ type: 'mention' as const, agentId, agentName, reason, expectReply })
  return { type: 'mention', agentId: targetId, spaceId, threadRootId, messageId, senderId: agentId, wokenBy }
}

function callBackCall(waiter: Waiter, before: Before): Call {
  const { entityId, spaceId, threadRootId = null, reason: askedFor } = waiter
  const { agentId, messageId, ended, reason } = before
  const wokenBy = (agentName: string) => ({ type: 'callback' as const, agentId, agentName, askedFor, ended, reason })
  return { type: 'callback', agentId: entityId, spaceId, threadRootId, messageId, senderId: agentId, wokenBy }
}

/** Records as an outcome of the run's last message that a limit prevented the next turn. */
async function noteLimit(
  tx: Tx,
  { run }: EndedTurn,
  turn: Step['forbidden'] & object,
  outcomes: OutcomeChanges,
): Promise<void> {
  if (turn.type === 'delegation') return
  const word = await lastWordOf(tx, run.id, turn.type === 'callback' ? turn.waiter.spaceId : turn.spaceId)
  if (word === null) return
  const messageId = word.id
  const reason = 'The chain has reached its maximum number of runs, so no further agent is woken.'
  await outcomes.set({ messageId, agentId: agentOf(turn), kind: 'LOOP_LIMIT', reason, runId: null })
}

/**
 * Returns the last finished message of a run in a space. If `threadRootId` is undefined, considers all messages; if
 * it is null, only messages outside of threads. For any other value, considers only messages of that thread.
 */
function lastWordOf(
  tx: Tx,
  runId: string,
  spaceId: string,
  threadRootId?: string | null,
): Promise<{ id: string; threadRootId: string | null } | null> {
  const ofThread = threadRootId === undefined ? {} : { threadRootId }
  return tx.message.findFirst({
    where: { runId, spaceId, ...ofThread, status: { in: [...POSTED_MESSAGE_STATUSES] } },
    orderBy: { seq: 'desc' },
    select: { id: true, threadRootId: true },
  })
}

/**
 * Returns the chain in which a run holds the turn, and locks its row. If a run without a chain has mentioned an agent
 * or delegated to one in a MENTION_CHAIN space, starts a new chain. Returns null if another run holds the turn, or if
 * the run has no chain and does not start one.
 */
async function chainOf(tx: Tx, { run, handingOn }: EndedTurn): Promise<Chain | null> {
  if (run.chainId !== null) {
    const chain = await lockChain(tx, run.chainId)
    const isItsTurn = chain !== null && chain.holderId === run.agentId && (chain.holderRunId ?? run.id) === run.id
    return isItsTurn ? chain : null
  }
  if (handingOn === null) return null
  const space = await tx.space.findUnique({ where: { id: handingOn.spaceId } })
  if (space?.routing !== 'MENTION_CHAIN') return null
  const chain = {
    id: newId('chn'),
    spaceId: space.id,
    ...NEW_CHAIN,
    label: [],
    holderId: run.agentId,
    holderRunId: run.id,
  }
  const { replyStack, mentionedPairs, ...row } = chain
  await insertChains(tx, [row])
  await setChain(tx, run.id, chain.id)
  return chain
}
