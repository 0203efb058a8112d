import type { GraphQLError } from 'graphql'
import type { Viewer } from '../../access/viewer.ts'

/** What an event comes to, as it goes over the wire: of what it was made of only what is asked about it stays. */
export interface Answer {
  text: string
  /** As clients may read them. */
  errors: readonly GraphQLError[]
  hasData: boolean
  asOf: Span
  /** Bytes that were put together in vain, since the event was too large at first. They count towards the subscriber's pace. */
  discardedBytes?: number
}

/** The moments between which something was looked up, by a clock that counts. Where nothing was looked up, it holds at any time. */
export interface Span {
  from: number
  to: number
}

/** What an event comes to for each viewer by itself, by identity; an error is what ends that viewer's subscription. */
export type PersonalAnswers = ReadonlyMap<string, Answer | Error>

/** One answer for all, or one for each. */
export type Outcome = Answer | PersonalAnswers

/** Viewers of one scope with the same identity are the same. */
export const identityOf = ({ id, tokenId }: Viewer): string => `${id} ${tokenId}`

export function isPersonal(answer: Outcome): answer is PersonalAnswers {
  return answer instanceof Map
}
