import type { Answer } from './answer.ts'

/** Where the answers of one subscription leave. */
export interface Sink {
  send(answers: readonly Answer[]): void
  /** It takes no more until it calls who asked to be told. What it is given nevertheless waits. */
  isBusy(): boolean
  /** Calls whenever it takes more again; answers with the way to stop. */
  whenReady(listener: () => void): () => void
}
