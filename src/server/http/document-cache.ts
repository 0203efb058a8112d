import { type DocumentNode, type GraphQLError, type ParseOptions, specifiedRules, validate } from 'graphql'
import type { Plugin } from 'graphql-yoga'

const MOST_DOCUMENTS = 1000
/** Longer documents are parsed each time: they are rare, and would fill the memory. */
const LONGEST_DOCUMENT = 16 * 1024
/** Tokens of one document: bounds what parsing and validating it may cost. */
const MOST_TOKENS = 5000

/** The documents seen last, at most MOST_DOCUMENTS. */
function createDocumentCache() {
  const documents = new Map<string, DocumentNode>()
  return {
    get(text: string) {
      const document = documents.get(text)
      if (document === undefined) return undefined
      documents.delete(text)
      documents.set(text, document)
      return document
    },
    set(text: string, document: DocumentNode) {
      if (text.length > LONGEST_DOCUMENT) return
      documents.set(text, document)
      const [oldest] = documents.keys()
      if (documents.size > MOST_DOCUMENTS && oldest !== undefined) documents.delete(oldest)
    },
  }
}

/** For the server's own cache of parsed and validated documents: once a process for each, whatever they come by. */
export const documentCaching = {
  documentCache: createDocumentCache() as never,
  errorCache: { get: () => undefined, set: () => {} } as never,
}

/** Bounds documents, and names neither fields nor types that the client did not name itself. */
export function useDocumentLimits(): Plugin {
  return {
    onParse({ parseFn, setParseFn }) {
      const limits: ParseOptions = { maxTokens: MOST_TOKENS }
      setParseFn((source, options) => parseFn(source, { ...options, ...limits }))
      return ({ result }) => {
        if (result instanceof Error) markRequestError(result as GraphQLError, 'GRAPHQL_PARSE_FAILED')
      }
    },
    onValidate({ setValidationFn }) {
      setValidationFn(((schema: never, document: never, rules = specifiedRules, options?: object) =>
        validate(schema, document, rules, { ...options, hideSuggestions: true })) as typeof validate)
      return ({ result }) => {
        for (const error of result) markRequestError(error as GraphQLError, 'GRAPHQL_VALIDATION_FAILED')
      }
    },
  }
}

function markRequestError(error: GraphQLError, code: string): void {
  error.extensions['code'] ??= code
}
