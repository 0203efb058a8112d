import { buildSchema, parse } from 'graphql'
import type { Viewer } from '../../src/access/viewer.ts'
import { type Answers, type AnswersParts, createAnswers } from '../../src/server/streams/answers.ts'

/** The answers of an operation that asks for one text of its events, with no application behind it. */
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
