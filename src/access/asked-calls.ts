import { marksOf } from '../confidentiality/marks.ts'
import { readUnheard } from '../confidentiality/world.ts'
import type { ToolCall } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'
import { isAskedByName } from '../rules/approvals.ts'

/** The fields of a tool call that determine its named approvers, and whether they may read the call. */
export type NamedCall = Pick<
  ToolCall,
  'id' | 'approvalState' | 'approverIds' | 'escalateToIds' | 'escalatedAt' | 'places' | 'label'
>

/**
 * Returns the calls that name a human as an approver and that the human may read. With `still`, omits calls that no
 * longer wait, unless the human has decided on them.
 */
export async function heardOf(
  tx: Tx,
  humanId: string,
  calls: readonly NamedCall[],
  when: 'still' | 'ever',
): Promise<Set<string>> {
  const named = calls.filter((call) => isAskedByName(call, humanId))
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

/** Returns the calls that wait for a decision or on which the human has decided. */
async function concerning(tx: Tx, humanId: string, calls: readonly NamedCall[]): Promise<NamedCall[]> {
  const settled = calls.filter(({ approvalState }) => approvalState !== 'PENDING').map(({ id }) => id)
  const where = { humanId, toolCallId: { in: settled } }
  const decided = settled.length === 0 ? [] : await tx.decision.findMany({ where, select: { toolCallId: true } })
  const ids = new Set(decided.map(({ toolCallId }) => toolCallId))
  return calls.filter(({ id, approvalState }) => approvalState === 'PENDING' || ids.has(id))
}
