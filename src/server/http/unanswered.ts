import { setImmediate } from 'node:timers/promises'
import { createDeferred, sleep } from '../../lib/async.ts'

/**
 * Tracks the queries and mutations that are running on long-lived connections. Any object can identify an
 * operation.
 */
export interface Unanswered {
  isDraining(): boolean
  add(operation: object): void
  delete(operation: object): void
  /** Sets `isDraining`. Resolves once no operation is running, or after `timeoutMs`. */
  drain(timeoutMs: number): Promise<void>
}

export function createUnanswered(): Unanswered {
  const operations = new Set<object>()
  const { promise: answered, resolve: tellAnswered } = createDeferred()
  let draining = false
  return {
    isDraining: () => draining,
    add: (operation) => void operations.add(operation),
    delete(operation) {
      operations.delete(operation)
      if (draining && operations.size === 0) tellAnswered()
    },
    async drain(timeoutMs) {
      draining = true
      if (operations.size > 0) await Promise.race([answered, sleep(timeoutMs)])
      // The last response is written to its connection before this turn of the event loop ends.
      await setImmediate()
    },
  }
}
