import type { GraphQLError } from 'graphql'
import type { Viewer } from '../../access/viewer.ts'

/**
 * The result of executing an event, as it is sent to clients: the serialized selection, without the event
 * itself.
 */
export interface Answer {
  text: string
  /** Masked, as clients receive them. */
  errors: readonly GraphQLError[]
  hasData: boolean
  asOf: Span
  /**
   * Bytes that were serialized in vain, since the event was too large at first. They count towards the
   * subscriber's pace.
   */
  discardedBytes?: number
}

/**
 * The versions, by a logical clock, between which the data of an answer was read. An answer that read nothing
 * is valid at any version.
 */
export interface Span {
  from: number
  to: number
}

/** The answers to an event that differ per viewer, by identity. An error ends that viewer's subscription. */
export type PersonalAnswers = ReadonlyMap<string, Answer | Error>

/** One answer for all viewers, or one for each. */
export type Outcome = Answer | PersonalAnswers

/** Viewers of one scope with the same identity get the same answers. */
export const identityOf = ({ id, tokenId }: Viewer): string => `${id} ${tokenId}`

export function isPersonal(answer: Outcome): answer is PersonalAnswers {
  return answer instanceof Map
}
