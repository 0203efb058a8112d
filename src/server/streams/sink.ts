import type { Answer } from './answer.ts'

/** The output of one subscription. */
export interface Sink {
  send(answers: readonly Answer[]): void
  /**
   * Whether the client must read before the sink should get more; `whenReady` announces that. The sink
   * buffers what it is sent nevertheless.
   */
  isBusy(): boolean
  /** Calls the listener each time the sink can take more. Returns a function that stops it. */
  whenReady(listener: () => void): () => void
  /**
   * Closes the whole connection in such a way that clients reconnect and resume. Absent: only the
   * subscription ends, with an error.
   */
  giveUp?(): void
}
