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
  /** The number of the cycle, starting at 0. Skipped cycles are not counted. */
  cycle: number
  /** The number of messages from spaces among the events claimed so far. */
  spaceMessages: number
  /**
   * Whether the cycle processes only one event, to which its delegation, mention and reply stack refer. Such a cycle
   * claims no other events.
   */
  alone: boolean
  /** The part of the consciousness that the cycle was shown; null until it is chosen. */
  recall: Recall | null
  /** The estimated number of tokens of the recalled part and the inbox message. */
  consciousnessTokens: number
}

export function cycleStateOf({ state }: Pick<Run, 'state'>): CycleState {
  return state as unknown as CycleState
}

/** Returns the recall of cycles by run; a cycle that has not chosen one yet is missing. */
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
