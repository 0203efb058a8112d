import type { Connection } from './connection.ts'
import { type ParleyError, payloadOf } from './errors.ts'
import { createObservable, type Observable } from './observable.ts'
import { RUN_EVENTS, STOP_RUN } from './operations.ts'
import { EMPTY_RECORD, type RunEvent, type RunRecord, withRunEvent } from './run-record.ts'

/**
 * The current state of a run. Its status is `ended` when the run has ended, or when the viewer may not see the run; in
 * the latter case, `error` has the reason.
 */
export interface RunState extends RunRecord {
  status: 'loading' | 'live' | 'ended'
  error: ParleyError | null
}

/** A run that is followed from its start to its end while there are listeners. */
export interface LiveRun extends Observable<RunState> {
  /** Stops the run and, with `cascade`, also every run that it started. @throws ParleyError */
  stop(options?: { cascade?: boolean }): Promise<void>
}

export function liveRun(connection: Connection, { runId }: { runId: string }): LiveRun {
  let record = EMPTY_RECORD
  let state: Pick<RunState, 'status' | 'error'> = { status: 'loading', error: null }
  const variables: { runId: string; after: string | null } = { runId, after: null }
  // Deltas of runs have no offset, so repeated events must be detected by key. All recorded events of an old run have
  // the same cursor.
  const seen = new Set<string>()
  const observable = createObservable<RunState>({
    read: () => ({ ...record, ...state }),
    start: () => (state.status === 'ended' ? () => {} : watch()),
  })

  function watch(): () => void {
    return connection.watch(RUN_EVENTS, variables, {
      onData({ runEvents: event }) {
        variables.after = event.cursor
        const key = keyOf(event)
        if (seen.has(key)) return
        seen.add(key)
        record = withRunEvent(record, event)
        state = { status: 'live', error: null }
        observable.changed()
      },
      onEnd(error) {
        state = { status: 'ended', error }
        observable.changed()
      },
    })
  }

  return {
    getState: observable.getState,
    subscribe: observable.subscribe,
    async stop({ cascade = false } = {}) {
      const { stopRun } = await connection.ask(STOP_RUN, { runId, cascade })
      payloadOf(stopRun, 'StopRunPayload')
    },
  }
}

/** Returns a key that identifies an event among those with the same cursor. */
function keyOf(event: RunEvent): string {
  const step = 'step' in event ? event.step : null
  const callId = 'toolCall' in event ? event.toolCall.id : 'toolCallId' in event ? event.toolCallId : null
  return JSON.stringify([event.cursor, event.__typename, step, callId])
}
