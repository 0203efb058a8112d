/**
 * A point at which a replay can make a run wait. `begin`: before anything is read for the run's first attempt. `plan`:
 * before a step's prompt is built. `call`: before a call is executed. `post`: before a message of the run gets its
 * number in the space.
 */
export type ConductedPoint =
  | { type: 'begin'; runId: string; agentId: string }
  | { type: 'plan'; runId: string; step: number }
  | { type: 'call'; runId: string; callId: string }
  | { type: 'post'; runId: string }

/** A think cycle's view of its inbox before a step. `marks` belong to the events in the preview. */
export type InboxSeen =
  | { type: 'nothing' }
  | { type: 'urgent' }
  | { type: 'preview'; text: string; marks: { places: string[]; label: string[]; askers: string[] } }

/**
 * Controls the order of the engine's work in a replay. Outside of replays, there is no conductor and nothing in the
 * engine waits for one.
 */
export interface Conductor {
  /** Whether the inbox of a persistent agent may be claimed now. */
  mayThink(agentId: string): boolean
  /** Resolves when the recorded order allows the run to continue. */
  reached(point: ConductedPoint): Promise<void>
  /** Returns the recorded inbox of a cycle before a step; null if the inbox must be read from the database. */
  inboxAt(runId: string, step: number): InboxSeen | null
}
