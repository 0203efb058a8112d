import type { Run } from '../generated/prisma/client.ts'

/** A run and the agent to which it wants to pass the turn. */
export interface HandingOnQuestion {
  run: Run
  /** The space in which it acts. */
  spaceId: string | null
  targetId: string
}

/** Checks whether a run may mention or delegate: called by the tools, implemented by `routing/`. */
export interface HandingOn {
  /**
   * For a run that names its spaces instead of entering them: the space of its last message; else
   * `activeSpaceId`.
   */
  placeOf(run: Run, activeSpaceId: string | null): Promise<string | null>
  /** Why the run may not mention that agent in that space, which must use MENTION_CHAIN routing; null if it may. */
  refuseMention(question: HandingOnQuestion & { expectReply: boolean }): Promise<Refusal | null>
  /**
   * Why the run may not delegate its trigger to that agent of the space; null if it may. `inChain`:
   * allowed only under MENTION_CHAIN routing. The target must also be a member of the trigger's
   * space, or it could not read the trigger.
   */
  refuseDelegation(question: HandingOnQuestion & { inChain: boolean }): Promise<Refusal | null>
  /** Why the run may no longer skip; null if it may. */
  refuseSkip(run: Run): Promise<Refusal | null>
}

/** An error for the model. */
export interface Refusal {
  code: string
  message: string
}
