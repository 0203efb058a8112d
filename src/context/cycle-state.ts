import type { Recall, Recalling, StoredMessage } from '../agents/recall.ts'
import { setsOf } from '../confidentiality/marks.ts'
import { Prisma, type Run } from '../generated/prisma/client.ts'
import { jsonbText } from '../lib/json.ts'
import type { Tx } from '../platform/db.ts'
import type { Claim } from '../runs/claiming.ts'
import type { CycleInput } from '../runs/cycle-transcript.ts'
import { writeHeld } from '../runs/hold.ts'
import type { Lineage } from '../tools/run-context.ts'

/** The state of a think cycle that survives a crash, in `Run.state`. */
export interface CycleState extends CycleInput {
  /** The number of the cycle, counted from 0 without skipped cycles. */
  cycle: number
  /** How many of the events claimed so far are messages from spaces. */
  spaceMessages: number
  /**
   * Whether the cycle processes only one event and claims no others, because its delegation, mention and reply stack
   * belong to this event.
   */
  alone: boolean
  /** The part of the consciousness that was shown to the cycle; null if it has not been chosen yet. */
  recall: Recall | null
  /** The estimated number of tokens of the recalled part and the inbox message. */
  consciousnessTokens: number
}

export function cycleStateOf({ state }: Pick<Run, 'state'>): CycleState {
  return state as unknown as CycleState
}

/**
 * Returns the recalled parts of cycles, by run. The map has no entry for a cycle whose part has not been chosen yet.
 */
export function recalledOf(
  recalling: Recalling,
  runs: Pick<Run, 'id' | 'agentId' | 'state'>[],
): Promise<Map<string, StoredMessage[]>> {
  return recalling.againMany(
    runs.flatMap(({ id: key, agentId, state }) => {
      const recall = (state as unknown as Partial<CycleState>).recall ?? null
      return recall === null ? [] : [{ key, agentId, recall }]
    }),
  )
}

/** Writes the state and lineage of a cycle under this claim. @throws RunLostError */
export async function saveCycleState(
  tx: Tx,
  claim: Claim,
  state: CycleState,
  { rootId, depth, deepestSpaceId, askers, ...marks }: Lineage,
): Promise<void> {
  const sets = Prisma.sql`${setsOf(marks)}, askers = ${askers}::text[], state = ${jsonbText(state)}::jsonb, "rootId" = ${rootId}, depth = ${depth}, "deepestSpaceId" = ${deepestSpaceId}`
  await writeHeld(tx, claim, {}, { sets })
}
