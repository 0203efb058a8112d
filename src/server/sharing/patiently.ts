import { sleep } from '../../lib/async.ts'
import { LogUnavailableError } from '../../realtime/event-log.ts'

const RETRY_MS = 250

/** Asks the event log until it can be reached; null when the signal aborts. */
export async function patiently<T>(ask: () => Promise<T>, signal: AbortSignal): Promise<T | null> {
  while (!signal.aborted) {
    try {
      return await ask()
    } catch (error) {
      if (!(error instanceof LogUnavailableError)) throw error
      await sleep(RETRY_MS, signal)
    }
  }
  return null
}
