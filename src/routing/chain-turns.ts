import type { Provenance } from '../confidence/marks.ts'
import { Prisma, type Run } from '../generated/prisma/client.ts'
import { newId } from '../lib/ids.ts'
import type { JsonObject } from '../lib/json.ts'
import type { Tx } from '../platform/db.ts'
import { type Chain, chainOfRow, type TurnOutcome } from '../runs/chains.ts'
import type { RunEnding } from '../runs/lifecycle.ts'
import { type Delegation, type Mention, NEW_CHAIN } from './chain-rules.ts'

/** The run of a turn, or the inbox event that was to become one. */
export type ChainTurn = Pick<Run, 'id' | 'agentId' | 'chainId' | 'rootId' | 'depth' | keyof Provenance>

/** How a run's turn ended: what it passes on, if anything, and its result for a waiting agent. */
export interface TurnEnd {
  run: Run
  handingOn: Mention | Delegation | null
  /** The result for the waiting agent if the run posted nothing in that agent's space. */
  silent: Exclude<TurnOutcome, 'responded'>
  /** Why it skipped. */
  reason: string | null
}

/** Returns how a run's turn ended. A canceled or failed run passes nothing on. */
export async function turnEndOf(tx: Tx, run: Run, ending: RunEnding): Promise<TurnEnd> {
  const end = { run, handingOn: null, reason: null }
  if (ending.status === 'FAILED') return { ...end, silent: 'failed' }
  if (ending.status === 'COMPLETED') {
    return { ...end, handingOn: await mentionOf(tx, run.id), silent: 'skipped', reason: ending.skipped?.reason ?? null }
  }
  if (ending.stopReason !== 'HANDED_ON') return { ...end, silent: 'stopped' }
  const { targetAgentId: targetId, ...delegated } = ending.delegated
  return { ...end, handingOn: { type: 'delegation', targetId, ...delegated }, silent: 'skipped' }
}

/** Condition on a row of "Run": it belongs to no chain, and its end does not begin one. */
export const HAS_NO_TURN = Prisma.sql`(
  "Run"."chainId" IS NULL
  AND NOT EXISTS (SELECT 1 FROM "ToolCall" c
    WHERE c."runId" = "Run".id AND c."toolName" = 'mentionAgent' AND c.execution IS NULL AND c.status = 'DONE')
  AND NOT EXISTS (SELECT 1 FROM "Message" m WHERE m."runId" = "Run".id AND m."mentionedAgentId" IS NOT NULL))`

/** The request that mentionAgent left in the journal; else the last mention in a message of the run. */
async function mentionOf(tx: Tx, runId: string): Promise<Mention | null> {
  const [row] = await tx.$queryRaw<{ asked: JsonObject | null; said: JsonObject | null }[]>`
    SELECT (
      SELECT output FROM "ToolCall" WHERE "runId" = ${runId} AND "toolName" = 'mentionAgent' AND execution IS NULL AND status = 'DONE'
      ORDER BY id LIMIT 1
    ) AS asked, (
      SELECT jsonb_build_object('spaceId', m."spaceId", 'targetAgentEntityId', m."mentionedAgentId")
      FROM "Message" m JOIN "Space" s ON s.id = m."spaceId"
      WHERE m."runId" = ${runId} AND m."mentionedAgentId" IS NOT NULL AND s.routing = 'MENTION_CHAIN' ORDER BY m.id DESC LIMIT 1
    ) AS said`
  const found = row?.asked ?? row?.said ?? null
  return found === null ? null : mentionIn(found)
}

/** Reads a mention from the result of mentionAgent. */
function mentionIn({ targetAgentEntityId, spaceId, reason, expectReply }: JsonObject): Mention {
  return {
    type: 'mention',
    targetId: String(targetAgentEntityId),
    spaceId: String(spaceId),
    reason: typeof reason === 'string' ? reason : null,
    expectReply: expectReply === true,
  }
}

/** The text of the last finished message of a run in a space. */
export async function lastWordOf(tx: Tx, runId: string, spaceId: string): Promise<string | null> {
  const message = await tx.message.findFirst({
    where: { runId, spaceId, status: { in: ['COMPLETE', 'REQUIRES_ACTION'] } },
    orderBy: { seq: 'desc' },
    select: { id: true },
  })
  return message?.id ?? null
}

/**
 * The chain in which a run holds the turn, with its row locked; null if another run holds the turn,
 * or the run is in no chain and begins none. Outside a chain, a mention begins one; a delegation
 * does so only in a MENTION_CHAIN space.
 */
export async function chainOf(tx: Tx, { run, handingOn }: TurnEnd): Promise<Chain | null> {
  if (run.chainId !== null) {
    await tx.$queryRaw`SELECT 1 FROM "Chain" WHERE id = ${run.chainId} FOR UPDATE`
    const row = await tx.chain.findUnique({ where: { id: run.chainId } })
    const isItsTurn = row !== null && row.holderId === run.agentId && (row.holderRunId ?? run.id) === run.id
    return isItsTurn ? chainOfRow(row) : null
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
  await tx.chain.create({ data: row })
  await tx.run.update({ where: { id: run.id }, data: { chainId: chain.id } })
  return chain
}

/** Writes the chain's turn and state. */
export async function saveChain(tx: Tx, { id, replyStack, ...chain }: Chain): Promise<void> {
  const stack = replyStack.map((waiter) => ({ ...waiter }))
  await tx.chain.update({ where: { id }, data: { ...chain, replyStack: stack } })
}
