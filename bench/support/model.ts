import { fork } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'

/** One generation of send_message as the model's process saw it; times are of `now()`. */
export interface Generation {
  /** Its tokens read `<n>.<index> `. */
  n: number
  arrivedAt: number
  /** By token: the time of its write to the socket. One more for the end of the input. */
  sentAt: number[]
}

/** A local model that writes numbered tokens at an even pace, in a separate process. */
export interface Model {
  baseUrl: string
  /** The generations since the last call. */
  generations(): Promise<Generation[]>
  stop(): Promise<void>
}

/** Milliseconds since 1970 with fractions, comparable between processes of one machine. */
export function now(): number {
  return performance.timeOrigin + performance.now()
}

/**
 * The model's name for `count` tokens, numbered ones or those of a text in Markdown, one every `everyMs`; 0 writes
 * as fast as possible.
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
