import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

// Test files that use this belong to the project `heap`, because after many tests a collection takes seconds.
setFlagsFromString('--expose-gc')
const gc = runInNewContext('gc') as () => void

/** Frees all collectable memory: the first round frees objects that the next ones find. */
export function collectGarbage(): void {
  for (let times = 0; times < 3; times++) gc()
}

/** The bytes of the heap in use after a full collection. */
export function heapUsed(): number {
  collectGarbage()
  return process.memoryUsage().heapUsed
}
