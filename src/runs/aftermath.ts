import type { Run } from '../generated/prisma/client.ts'
import type { RunLogEvent } from '../realtime/topics.ts'

/**
 * Cleanup after a run has ended or was taken over. `runs/` calls it; `speech/` implements it,
 * because it ends the run's messages.
 */
export interface Aftermath {
  /**
   * Seals the run's topic, so that its worker publishes nothing more; saves the streamed text of
   * its unfinished messages as INTERRUPTED; publishes the end of each message; appends the run's
   * one end event.
   */
  settle(run: Run, end: RunLogEvent): Promise<void>
  /**
   * After a takeover: everything that the dead worker was streaming from a generation that is not in the
   * journal becomes INTERRUPTED, and the call shown by it CANCELED. A message begun by a journaled
   * call is left for that call to finish. Announces messages that were committed and not announced.
   * Stops if another worker takes the run over in turn.
   */
  takeOver(run: Run): Promise<void>
  /** Settles ended runs with open messages: their process died in between. */
  sweep(): Promise<void>
}

/** The event for a run's end. */
export function endEventOf(run: Run): RunLogEvent {
  if (run.status === 'COMPLETED') return { type: 'RunCompleted' }
  // The error of a run with a confidentiality label is for admins only, on the run itself.
  const error = (run.label.length > 0 ? run.stopReason : run.error) ?? ''
  return run.status === 'FAILED' ? { type: 'RunFailed', error } : { type: 'RunCanceled' }
}
