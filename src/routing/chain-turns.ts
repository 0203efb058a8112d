import type { Provenance } from '../confidence/marks.ts'
import { Prisma, type Run } from '../generated/prisma/client.ts'
import { newId } from '../lib/ids.ts'
import type { JsonObject } from '../lib/json.ts'
import type { Tx } from '../platform/db.ts'
import { type Chain, chainOfRow, type TurnOutcome } from '../runs/chains.ts'
import type { RunEnding } from '../runs/lifecycle.ts'
import { type Delegation, type Mention, NEW_CHAIN } from './chain-rules.ts'

/** A run whose turn it is, or what waited to become one. */
export type ChainTurn = Pick<Run, 'id' | 'agentId' | 'chainId' | 'rootId' | 'depth' | keyof Provenance>

/** How a run's turn in a chain ended: what it handed on, if anything, and what it is to who waits. */
export interface TurnEnd {
  run: Run
  handingOn: Mention | Delegation | null
  /** `responded` where it said something in the space of who waits; else this. */
  silent: Exclude<TurnOutcome, 'responded'>
  /** Why it skipped. */
  reason: string | null
}

/** What a run's end is to the chain. A run that did not come to its own end hands nothing on. */
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

/** A condition on a row of "Run": it is in no chain, and asks for none to begin with its end. */
export const HAS_NO_TURN = Prisma.sql`(
  "Run"."chainId" IS NULL
  AND NOT EXISTS (SELECT 1 FROM "ToolCall" c
    WHERE c."runId" = "Run".id AND c."toolName" = 'mentionAgent' AND c.execution IS NULL AND c.status = 'DONE')
  AND NOT EXISTS (SELECT 1 FROM "Message" m WHERE m."runId" = "Run".id AND m."mentionedAgentId" IS NOT NULL))`

/** The request that mentionAgent left in the journal; else the last mention that a message of the run carries. */
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

/** As mentionAgent's result says it. */
function mentionIn({ targetAgentEntityId, spaceId, reason, expectReply }: JsonObject): Mention {
  return {
    type: 'mention',
    targetId: String(targetAgentEntityId),
    spaceId: String(spaceId),
    reason: typeof reason === 'string' ? reason : null,
    expectReply: expectReply === true,
  }
}

/** The last whole message of a run in a space. */
export async function lastWordOf(tx: Tx, runId: string, spaceId: string): Promise<string | null> {
  const message = await tx.message.findFirst({
    where: { runId, spaceId, status: { in: ['COMPLETE', 'REQUIRES_ACTION'] } },
    orderBy: { seq: 'desc' },
    select: { id: true },
  })
  return message?.id ?? null
}

/**
 * The chain in which a run has its turn, its row locked: null where the turn is another's, or where nothing is handed on that
 * would begin one. Outside a chain, a mention begins one, and a delegation does in a MENTION_CHAIN space.
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

/** Who has the turn now, and what the chain remembers. */
export async function saveChain(tx: Tx, { id, replyStack, ...chain }: Chain): Promise<void> {
  const stack = replyStack.map((waiter) => ({ ...waiter }))
  await tx.chain.update({ where: { id }, data: { ...chain, replyStack: stack } })
}
