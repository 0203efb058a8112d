import type { Run } from '../generated/prisma/client.ts'
import type { RunLogEvent } from '../realtime/topics.ts'

/** What must be put in order once a run has ended or was taken over: the lifecycle asks for it, who lets runs be heard does it. */
export interface Aftermath {
  /**
   * Seals the run, so that its worker publishes nothing more; keeps what had streamed of its unfinished messages as
   * INTERRUPTED; announces every message's end; and appends the run's one end event.
   */
  settle(run: Run, end: RunLogEvent): Promise<void>
  /**
   * For a run taken over: what its dead worker was streaming from a generation that is not in the journal becomes INTERRUPTED,
   * the call that it showed CANCELED (a message that a journaled call began is finished by that call); what it committed and
   * did not announce is announced. Does nothing more once somebody else has taken the run over in turn.
   */
  takeOver(run: Run): Promise<void>
  /** Settles ended runs whose messages are still open: their process died in between. */
  sweep(): Promise<void>
}

/** The one event that tells how an ended run ended. */
export function endEventOf(run: Run): RunLogEvent {
  if (run.status === 'COMPLETED') return { type: 'RunCompleted' }
  // The words of what it knows in confidence are for admins: in the run itself.
  const error = (run.label.length > 0 ? run.stopReason : run.error) ?? ''
  return run.status === 'FAILED' ? { type: 'RunFailed', error } : { type: 'RunCanceled' }
}
