import { buildSchema, parse } from 'graphql'
import type { Viewer } from '../../src/access/viewer.ts'
import { type Answers, type AnswersParts, createAnswers } from '../../src/delivery/answers.ts'

/** Returns the payloads of an operation that selects one text field of its events, without an application. */
export function answersOfField(field: string, anyViewer: Viewer): Answers {
  return createAnswers({
    operation: {
      schema: buildSchema(`type Query { no: Int } type Subscription { ${field}: String }`),
      document: parse(`subscription { ${field} }`),
    },
    anyViewer,
    domain: {},
    streams: {},
    takesCursors: false,
    shownIn: null,
    maskError: (error: unknown) => error,
    maxResponseBytes: 8 * 1024 * 1024,
  } as unknown as AnswersParts)
}
