import { marksOf } from '../confidence/marks.ts'
import { readUnheard } from '../confidence/world.ts'
import type { ToolCall } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'

/** What of a call says who is asked by name to decide on it, and who may hear of it. */
export type NamedCall = Pick<
  ToolCall,
  'id' | 'approvalState' | 'approverIds' | 'escalateToIds' | 'escalatedAt' | 'places' | 'label'
>

/** Whether a human is asked by name to decide on a call: they see it and what goes into it, and nothing else of it. */
function isAskedByName(
  humanId: string,
  call: Pick<NamedCall, 'approverIds' | 'escalateToIds' | 'escalatedAt'>,
): boolean {
  return call.approverIds.includes(humanId) || (call.escalatedAt !== null && call.escalateToIds.includes(humanId))
}

/** Those of the calls that a human is asked by name to decide on, and may hear of; `still`: of those that wait no more only what they decided on. */
export async function heardOf(
  tx: Tx,
  humanId: string,
  calls: readonly NamedCall[],
  when: 'still' | 'ever',
): Promise<Set<string>> {
  const named = calls.filter((call) => isAskedByName(humanId, call))
  const asked = when === 'ever' ? named : await concerning(tx, humanId, named)
  const marks = [...new Set(asked.flatMap(marksOf))]
  const unheard = (
    await readUnheard(
      tx,
      marks.map((spaceId) => ({ humanId, spaceId })),
    )
  ).get(humanId)
  return new Set(asked.flatMap((call) => (marksOf(call).some((id) => unheard?.has(id)) ? [] : [call.id])))
}

/** Those of the calls that wait for a decision, or that the human has decided on. */
async function concerning(tx: Tx, humanId: string, calls: readonly NamedCall[]): Promise<NamedCall[]> {
  const settled = calls.filter(({ approvalState }) => approvalState !== 'PENDING').map(({ id }) => id)
  const where = { humanId, toolCallId: { in: settled } }
  const decided = settled.length === 0 ? [] : await tx.decision.findMany({ where, select: { toolCallId: true } })
  const ids = new Set(decided.map(({ toolCallId }) => toolCallId))
  return calls.filter(({ id, approvalState }) => approvalState === 'PENDING' || ids.has(id))
}
