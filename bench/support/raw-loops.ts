import { fork } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'

/** How many `streamText` loops to run against which model. */
export interface RawLoopsOrder {
  baseUrl: string
  model: string
  loops: number
  atOnce: number
  /** So many before they are measured; 5 otherwise. */
  warmUp?: number
  /** Their streams are led through the SDK as Parley leads them: what belongs together as one part. */
  areJoined?: boolean
  /** It is noted when each token arrives: work that the loops do not have otherwise. */
  areNoted?: boolean
}

export interface RawLoopsResult {
  seconds: number
  /** User and system time of the process that ran them. */
  cpuSeconds: number
  /** From the call of streamText to its first piece of tool input, by loop. */
  firstDeltaMs: number[]
  /** When each token reached who reads the loops, by `<n>.<index>`; of the loop before them too. */
  arrivedAt: Map<string, number>
}

/** Runs bare AI SDK tool loops in a process of their own; some before them warm the process up. */
export async function runRawLoops(order: RawLoopsOrder): Promise<RawLoopsResult> {
  const child = fork(path.join(import.meta.dirname, 'raw-loops-process.ts'), { serialization: 'advanced' })
  try {
    const { warmUp = 5, atOnce } = order
    child.send({ ...order, loops: warmUp, atOnce: Math.min(warmUp, atOnce) })
    await once(child, 'message')
    child.send(order)
    const [result] = (await once(child, 'message')) as [RawLoopsResult]
    return result
  } finally {
    child.kill()
  }
}
