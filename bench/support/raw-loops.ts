import { fork } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'

/** The number of `streamText` loops, and their model. */
export interface RawLoopsOrder {
  baseUrl: string
  model: string
  loops: number
  atOnce: number
  /** Warm-up loops; 5 by default. */
  warmUp?: number
  /** Processes the streams as Parley does: merges consecutive parts of one kind. */
  areJoined?: boolean
  /** Whether to record the arrival of each token. By default, the loops do not record it. */
  areNoted?: boolean
}

export interface RawLoopsResult {
  seconds: number
  /** User and system CPU time of the process that ran the loops. */
  cpuSeconds: number
  /** The time from the call of streamText to the first piece of tool input, for each loop. */
  firstDeltaMs: number[]
  /** When each token arrived at the reader of the loops, by `<n>.<index>`, including the warm-up loops. */
  arrivedAt: Map<string, number>
}

/** Runs bare AI SDK tool loops in a separate process, after some loops that warm up the process. */
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
