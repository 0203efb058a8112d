import type { Marks, Provenance } from '../confidentiality/marks.ts'
import type { Prisma } from '../generated/prisma/client.ts'
import type { Claim } from '../runs/claiming.ts'

/** The space that a run has entered. */
export interface ActiveSpace {
  readonly id: string
  /** The last message of the space when the run entered it. */
  readonly seq: number
}

/** An outcome that a tool requests. Its effects on other runs are written in the transaction that ends the run. */
export type RequestedEnding =
  /** Delegates the trigger to another agent of a space without posting: the run is CANCELED. */
  | { type: 'delegate'; targetAgentId: string; spaceId: string; reason: string | null }
  /** The agent has nothing to do. */
  | { type: 'skip'; reason: string | null }

/**
 * An immutable snapshot of a run during its execution. `run` is its row as claimed, with the current marks,
 * lineage and cycle state of the run.
 */
export interface RunContext extends Claim {
  readonly agent: { readonly id: string }
  readonly activeSpace: ActiveSpace | null
  /** The outcome of the run after this step, if a tool requested one. */
  readonly ending: RequestedEnding | null
}

/** The changes to a run's context that its tools return. */
export interface ToolEffects {
  /** The sources of content that the run received. */
  learned?: Partial<Marks>
  /** The run entered this space. */
  entered?: ActiveSpace
  /** Ends the run after this step. */
  ending?: RequestedEnding
}

/** All changes to a run's context. */
export interface Effects extends ToolEffects {
  /** The lineage of a think cycle, with the events that it has claimed since. */
  lineage?: Lineage
  /** The state of a think cycle, as written to its row. */
  state?: Prisma.JsonValue
}

/**
 * The deepest event of a cycle: messages of the cycle are one hop deeper, and its usage counts for this event's space.
 */
export interface Lineage extends Provenance {
  readonly rootId: string
  readonly depth: number
  readonly deepestSpaceId: string | null
}

/** A run that this process executes. */
export interface RunExecution {
  /** The run as of now. Each change replaces the value, so read it again after every await. */
  readonly context: RunContext
  /** Aborts when the run is stopped, out of time, or released to another worker. */
  readonly signal: AbortSignal
  /** Frees this process's slot for another run while it awaits `wait`. */
  standAside<T>(wait: Promise<T>): Promise<T>
  /**
   * Replaces the context. Call it before the next write of the run: rows carry the marks that the run has when they
   * are written.
   */
  apply(effects: Effects): void
}
