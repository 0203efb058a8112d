import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

// Test files that use this belong to the project `heap`, because a collection takes seconds after many tests.
setFlagsFromString('--expose-gc')
const gc = runInNewContext('gc') as () => void

/** Frees all memory that can be collected. The first round frees objects that later rounds find. */
export function collectGarbage(): void {
  for (let times = 0; times < 3; times++) gc()
}

/** Returns the bytes of the heap in use after a full collection. */
export function heapUsed(): number {
  collectGarbage()
  return process.memoryUsage().heapUsed
}
