import { fork } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'

/** One generation of a send_message call, as the model's process recorded it. Times are from `now()`. */
export interface Generation {
  /** The tokens of this generation read `<n>.<index> `. */
  n: number
  arrivedAt: number
  /** When each token was written to the socket. One more entry is the end of the input. */
  sentAt: number[]
}

/** A local model that writes numbered tokens at an even pace, in a separate process. */
export interface Model {
  baseUrl: string
  /** Returns the generations since the last call. */
  generations(): Promise<Generation[]>
  stop(): Promise<void>
}

/** Returns the milliseconds since 1970 with fractions, comparable between processes of one machine. */
export function now(): number {
  return performance.timeOrigin + performance.now()
}

/**
 * Returns the name of a model that writes `count` tokens, one every `everyMs`; 0 writes as fast as possible. The tokens are
 * numbers, or words of a Markdown text.
 */
export function modelName(count: number, everyMs: number, what: 'tokens' | 'prose' = 'tokens'): string {
  return `${what}-${count}-${everyMs}`
}

export async function startModel(): Promise<Model> {
  const child = fork(path.join(import.meta.dirname, 'model-process.ts'), { serialization: 'advanced' })
  const [{ baseUrl }] = (await once(child, 'message')) as [{ baseUrl: string }]
  return {
    baseUrl,
    async generations() {
      child.send('generations')
      const [{ generations }] = (await once(child, 'message')) as [{ generations: Generation[] }]
      return generations
    },
    async stop() {
      const ended = once(child, 'exit')
      child.kill()
      await ended
    },
  }
}
