import type { Marks, Provenance } from '../confidentiality/marks.ts'
import type { Prisma } from '../generated/prisma/client.ts'
import type { Claim } from '../runs/claiming.ts'

/** The space that a run has entered. */
export interface ActiveSpace {
  readonly id: string
  /** The `seq` of the last message of the space when the run entered it. */
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
  /** The sources of the content that the run has received. */
  learned?: Partial<Marks>
  /** The space that the run has entered. */
  entered?: ActiveSpace
  /** Ends the run after this step. */
  ending?: RequestedEnding
}

/** All changes to a run's context. */
export interface Effects extends ToolEffects {
  /** The lineage of a think cycle, including the events that it has claimed since its start. */
  lineage?: Lineage
  /** The state of a think cycle, as written to its row. */
  state?: Prisma.JsonValue
}

/**
 * The deepest event of a think cycle. Messages of the cycle are one level deeper, and its usage counts towards the
 * space of this event.
 */
export interface Lineage extends Provenance {
  readonly rootId: string
  readonly depth: number
  readonly deepestSpaceId: string | null
}

/** A run that this process executes. */
export interface RunExecution {
  /** The current context of the run. Each change replaces the object, so read it again after every await. */
  readonly context: RunContext
  /** Aborts when the run is stopped, out of time, or released to another worker. */
  readonly signal: AbortSignal
  /** Awaits `wait`, and gives the run's slot in this process to another run in the meantime. */
  standAside<T>(wait: Promise<T>): Promise<T>
  /**
   * Applies effects to the context. Call it before the next write of the run, because rows get the marks that the run
   * has when they are written.
   */
  apply(effects: Effects): void
}
