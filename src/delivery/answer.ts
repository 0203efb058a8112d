// The answer to an event, which subscribers share or which is created for each viewer, and the sink that receives a
// subscriber's answers.
import type { GraphQLError } from 'graphql'
import type { Viewer } from '../access/viewer.ts'

/** The result of executing a subscription's operation on one event, serialized as it is sent to clients. */
export interface Answer {
  text: string
  /** The errors as clients receive them, with internal details masked. */
  errors: readonly GraphQLError[]
  hasData: boolean
  versions: VersionSpan
  /**
   * Bytes that were serialized and then discarded because the event was too large. They count towards the subscriber's
   * pace.
   */
  discardedBytes?: number
}

/**
 * The data of an answer was read between these versions of a logical clock. An answer for which nothing was read is
 * valid at any version.
 */
export interface VersionSpan {
  from: number
  to: number
}

/**
 * The answers to an event that differ per viewer, by the viewer's identity (see `identityOf`). An error ends the
 * viewer's subscription.
 */
export type PersonalAnswers = ReadonlyMap<string, Answer | Error>

/** One answer for all viewers, or a separate answer for each. */
export type EventAnswer = Answer | PersonalAnswers

/** Viewers of one scope that have the same identity get the same answers. */
export const identityOf = ({ id, tokenId }: Viewer): string => `${id} ${tokenId}`

export function isPersonal(answer: EventAnswer): answer is PersonalAnswers {
  return answer instanceof Map
}

/** The output of one subscription. */
export interface Sink {
  send(answers: readonly Answer[]): void
  /**
   * Whether the sink is busy, because the client has to read more before it should get further answers. A busy sink
   * buffers answers. `whenReady` reports when the sink is no longer busy.
   */
  isBusy(): boolean
  /** Calls the listener each time the sink can take more. Returns a function that removes the listener. */
  whenReady(listener: () => void): () => void
  /**
   * Closes the whole connection with a code after which clients reconnect and resume. If this method is absent,
   * only the subscription ends, with an error.
   */
  giveUp?(): void
}
