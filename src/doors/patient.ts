import { sleep } from '../lib/async.ts'
import { type Caller, DoorError } from './exchange.ts'

const LEAST_MS = 500
const IDLE_MS = 12_000

/**
 * Returns a caller whose queries wait while the viewer's rate limit is exceeded. If the queries did not wait,
 * frequent messages from others could end a stream.
 * @param onIdle is called at intervals while a query waits
 */
export function patient(caller: Caller, onIdle: () => void): Caller {
  async function wait(ms: number): Promise<void> {
    for (let left = Math.max(LEAST_MS, ms); left > 0; left -= IDLE_MS) {
      await sleep(Math.min(left, IDLE_MS), caller.signal)
      caller.signal.throwIfAborted()
      onIdle()
    }
  }
  return {
    ...caller,
    async ask<Data>(query: string, variables: object): Promise<Data> {
      for (;;) {
        try {
          return await caller.ask<Data>(query, variables)
        } catch (error) {
          if (!(error instanceof DoorError && error.code === 'RATE_LIMITED')) throw error
          await wait(error.retryAfterMs ?? 0)
        }
      }
    },
  }
}
