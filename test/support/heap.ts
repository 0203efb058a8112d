import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

// Files that use this belong to the project `heap`: a collection takes seconds where much was tested before.
setFlagsFromString('--expose-gc')
const gc = runInNewContext('gc') as () => void

/** Gives up everything that can be given up: the first round frees what the next ones find. */
export function collectGarbage(): void {
  for (let times = 0; times < 3; times++) gc()
}

/** Bytes of the heap that are in use, after everything that can be given up is. */
export function heapUsed(): number {
  collectGarbage()
  return process.memoryUsage().heapUsed
}
