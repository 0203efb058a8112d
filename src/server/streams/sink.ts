import type { Answer } from './answer.ts'

/** Where the answers of one subscription leave. */
export interface Sink {
  send(answers: readonly Answer[]): void
  /** It takes no more until it calls who asked to be told. What it is given nevertheless waits. */
  isBusy(): boolean
  /** Calls whenever it takes more again; answers with the way to stop. */
  whenReady(listener: () => void): () => void
  /** Ends the whole connection in a way that has clients come back and resume. Absent: a subscription alone ends, with an error. */
  giveUp?(): void
}
