import { oneLine } from '../lib/json.ts'
import type { Tx } from '../platform/db.ts'
import { rewriteCall } from '../runs/tool-call-ends.ts'
import { ERASED, type ErasedHuman } from './erased-human.ts'

/**
 * What the human decided stays, without the reason that it gave; wherever that was told to an agent, beside its name, it is told no
 * more: of some of its decisions. The names go as all of them do. @returns how many
 */
export async function redactReasons(tx: Tx, { id: humanId, name }: ErasedHuman, most: number): Promise<number> {
  const decisions = await tx.decision.findMany({ where: { humanId, reason: { not: null } }, take: most })
  for (const { toolCallId, reason } of decisions) {
    const [who, why] = [JSON.stringify(oneLine(name)), JSON.stringify(reason)]
    const erased = JSON.stringify(ERASED)
    // As decisions are told, and as a denial is the result of its call: both within the strings of some JSON.
    for (const told of [`${who} (${why})`, `${who}: ${why}`])
      await rewrite(tx, toolCallId, within(told), within(erased))
    await tx.decision.updateMany({ where: { humanId, toolCallId, reason }, data: { reason: null } })
  }
  return decisions.length
}

const within = (text: string): string => JSON.stringify(text).slice(1, -1)

async function rewrite(tx: Tx, toolCallId: string, from: string, to: string): Promise<void> {
  const [call] = await rewriteCall(tx, toolCallId, from, to)
  if (call === undefined) return
  const keys = [toolCallId, `${toolCallId}:approved`, `${toolCallId}:late`]
  await tx.$executeRaw`
    UPDATE "InboxEvent" SET payload = replace(payload::text, ${from}, ${to})::jsonb
    WHERE "agentId" = ${call.agentId} AND "dedupKey" = ANY(${keys}::text[])`
  const runs = await tx.inboxEvent.findMany({
    where: { agentId: call.agentId, dedupKey: { in: keys } },
    select: { runId: true },
  })
  const runIds = [call.runId, ...runs.flatMap(({ runId }) => runId ?? [])]
  await tx.$executeRaw`
    UPDATE "Run" SET state = replace(state::text, ${from}, ${to})::jsonb WHERE id = ANY(${runIds}::text[])`
  await tx.$executeRaw`
    UPDATE "Cycle" SET messages = replace(messages::text, ${from}, ${to})::jsonb
    WHERE "agentId" = ${call.agentId} AND "runId" = ANY(${runIds}::text[])`
}
