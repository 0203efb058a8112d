// The answer to an event, shared by subscribers or made for each viewer, and the sink that receives a subscriber's answers.
import type { GraphQLError } from 'graphql'
import type { Viewer } from '../access/viewer.ts'

/** The result of executing a subscription's operation on one event: the serialized selection, as it is sent to clients. */
export interface Answer {
  text: string
  /** Errors with internal details masked, as clients receive them. */
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
 * The versions, by a logical clock, between which the data of an answer was read. An answer that read nothing
 * is valid at any version.
 */
export interface VersionSpan {
  from: number
  to: number
}

/** The answers to an event that differ per viewer, by identity. An error ends that viewer's subscription. */
export type PersonalAnswers = ReadonlyMap<string, Answer | Error>

/** One answer for all viewers, or one for each. */
export type EventAnswer = Answer | PersonalAnswers

/** Viewers of one scope with the same identity get the same answers. */
export const identityOf = ({ id, tokenId }: Viewer): string => `${id} ${tokenId}`

export function isPersonal(answer: EventAnswer): answer is PersonalAnswers {
  return answer instanceof Map
}

/** The output of one subscription. */
export interface Sink {
  send(answers: readonly Answer[]): void
  /**
   * Whether the client has not read enough for the sink to take more answers. `whenReady` reports when it has. A busy
   * sink buffers answers.
   */
  isBusy(): boolean
  /** Calls the listener each time the sink can take more. Returns a function that stops it. */
  whenReady(listener: () => void): () => void
  /**
   * Closes the whole connection with a code after which clients reconnect and resume. If absent, only the subscription
   * ends, with an error.
   */
  giveUp?(): void
}
