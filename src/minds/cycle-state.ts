import type { Recall, Recalling, StoredMessage } from '../agents/recall.ts'
import { type Provenance, setsOf } from '../confidence/marks.ts'
import { Prisma, type Run } from '../generated/prisma/client.ts'
import { jsonbText } from '../lib/json.ts'
import type { Tx } from '../platform/db.ts'
import { writeHeld } from '../runs/hold.ts'
import type { Claim } from '../runs/lifecycle.ts'
import type { Blame } from './model-error.ts'

/** What a think cycle must remember between its steps, over a crash: in `Run.state`. */
export interface CycleState {
  /** Counted from 0, skipped ones left out. */
  cycle: number
  /** The inbox message, as the model was shown it. */
  inbox: string
  inboxSize: number
  /** How many of the events taken so far are messages of spaces. */
  spaceMessages: number
  /** It has one event, on which delegation, mention and reply stack act: nothing else is taken into it. */
  alone: boolean
  /** What of the consciousness it was shown; null until that is decided. */
  recall: Recall | null
  /** About how many tokens that has, with the inbox message. */
  consciousnessTokens: number
  /** Why the model failed, once it has. */
  failure?: Blame
  /** The text of urgent events, and the step before which they were shown. */
  injections: { step: number; text: string }[]
}

export function cycleStateOf({ state }: Pick<Run, 'state'>): CycleState {
  return state as unknown as CycleState
}

/** What cycles were shown of their consciousness, by run; nothing for one that has not come so far. */
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

/** Deepest of what a cycle thinks about: what it posts is one hop further, and what it uses counts for that space. */
export interface Lineage extends Provenance {
  rootId: string
  depth: number
  deepestSpaceId: string | null
}

/** Writes the state of a cycle that this claim executes, and what it stands for now. @throws RunLostError */
export async function saveCycleState(
  tx: Tx,
  claim: Claim,
  state: CycleState,
  { rootId, depth, deepestSpaceId, askers, ...marks }: Lineage,
): Promise<void> {
  const sets = Prisma.sql`${setsOf(marks)}, askers = ${askers}::text[], state = ${jsonbText(state)}::jsonb, "rootId" = ${rootId}, depth = ${depth}, "deepestSpaceId" = ${deepestSpaceId}`
  await writeHeld(tx, claim, {}, { sets })
}
