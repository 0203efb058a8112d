import type { Marks, Provenance } from '../confidentiality/marks.ts'
import type { Prisma } from '../generated/prisma/client.ts'
import type { Claim } from '../runs/claiming.ts'

/** The space that a run has entered. */
export interface ActiveSpace {
  readonly id: string
  /** The `seq` of the last message in the space when the run entered it. */
  readonly seq: number
}

/**
 * An outcome of the run that a tool requests. Its effects on other runs are written in the transaction that ends
 * the run.
 */
export type RequestedEnding =
  /** Delegates the trigger to another agent of a space without posting. The run becomes CANCELED. */
  | { type: 'delegate'; targetAgentId: string; spaceId: string; reason: string | null }
  /** The agent has nothing to do. */
  | { type: 'skip'; reason: string | null }

/**
 * An immutable snapshot of a run during its execution. `run` is the row as it was when claimed, but with the
 * current marks, lineage and cycle state.
 */
export interface RunContext extends Claim {
  readonly agent: { readonly id: string }
  readonly activeSpace: ActiveSpace | null
  /** The outcome that the run gets after this step, if a tool has requested one. */
  readonly ending: RequestedEnding | null
}

/** The changes to a run's context that its tools return. */
export interface ToolEffects {
  /** The confidential spaces from which the run has received content. */
  learned?: Partial<Marks>
  /** The space that the run has entered. */
  entered?: ActiveSpace
  /** The run ends after this step. */
  ending?: RequestedEnding
}

/** All possible changes to a run's context. */
export interface Effects extends ToolEffects {
  /** The lineage of a think cycle, including the events that the cycle has claimed since its start. */
  lineage?: Lineage
  /** The state of a think cycle, as written to its row. */
  state?: Prisma.JsonValue
}

/**
 * The deepest event of a think cycle. The messages of the cycle are one level deeper, and the usage of the cycle
 * counts towards the space of this event.
 */
export interface Lineage extends Provenance {
  readonly rootId: string
  readonly depth: number
  readonly deepestSpaceId: string | null
}

/** A run that this process executes. */
export interface RunExecution {
  /**
   * The current context of the run. Each change replaces the object, so code must read this property again after
   * every await.
   */
  readonly context: RunContext
  /** Aborts when the run is stopped, out of time, or released to another worker. */
  readonly signal: AbortSignal
  /** Awaits `wait`, and lends the run's slot in this process to another run in the meantime. */
  standAside<T>(wait: Promise<T>): Promise<T>
  /**
   * Applies effects to the context. Must be called before the next write of the run, because rows get the marks
   * that the run has when they are written.
   */
  apply(effects: Effects): void
}
