import type { Run } from '../generated/prisma/client.ts'

/** What a run asks before it hands on. */
export interface HandingOnQuestion {
  run: Run
  /** Where it acts. */
  spaceId: string | null
  targetId: string
}

/** Whether a run may hand on, and why not: asked by the tools, decided by the routing. */
export interface HandingOn {
  /** Where a run acts that names its spaces rather than entering them: where it said something last; else `activeSpaceId`. */
  placeOf(run: Run, activeSpaceId: string | null): Promise<string | null>
  /** Why the run may not mention that agent in that space, which must be one of MENTION_CHAIN routing. */
  refuseMention(question: HandingOnQuestion & { expectReply: boolean }): Promise<Refusal | null>
  /**
   * Why the run may not hand its trigger to that agent of the space. `inChain`: only where MENTION_CHAIN routing holds. The target
   * must belong to the trigger's space too, or it could be shown nothing.
   */
  refuseDelegation(question: HandingOnQuestion & { inChain: boolean }): Promise<Refusal | null>
  /** Why the run may not stay silent any more. */
  refuseSkip(run: Run): Promise<Refusal | null>
}

/** Why something is not done, for a model to act on. */
export interface Refusal {
  code: string
  message: string
}
