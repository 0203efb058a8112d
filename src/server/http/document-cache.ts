import {
  type ASTNode,
  type DocumentNode,
  type GraphQLError,
  type ParseOptions,
  specifiedRules,
  validate,
} from 'graphql'
import type { Plugin } from 'graphql-yoga'
import { LRUCache } from 'lru-cache'

/** Tokens of one document: bounds what parsing and validating it may cost. */
const MOST_TOKENS = 5000
/** What is kept of documents in all, in nodes of their trees: one is some 200 bytes, with its share of the text. */
const MOST_NODES = 100_000

/** The valid documents seen last, each without its places in the text, and counted by what it weighs. */
function createValidDocuments() {
  const documents = new LRUCache<string, DocumentNode>({ maxSize: MOST_NODES })
  return {
    get: (text: string) => documents.get(text),
    /** Takes a document's places in its text away: they are most of what it weighs. */
    keep: (text: string, document: DocumentNode) =>
      void documents.set(text, document, { size: dropPlaces(document) + Math.ceil(text.length / 100) }),
    has: (document: DocumentNode, text: string) => documents.peek(text) === document,
  }
}

/** How many nodes there are, each of them without its place from now on. */
function dropPlaces(node: ASTNode): number {
  let nodes = 1
  Reflect.deleteProperty(node, 'loc')
  for (const value of Object.values(node)) {
    for (const child of Array.isArray(value) ? value : [value]) if (isNode(child)) nodes += dropPlaces(child)
  }
  return nodes
}

const isNode = (value: unknown): value is ASTNode => typeof value === 'object' && value !== null && 'kind' in value

/**
 * Parses and validates each document once a process, whatever it comes by; bounds documents, and names neither fields nor
 * types that the client did not name itself. What is refused is not kept.
 */
export function useDocuments(): Plugin {
  const valid = createValidDocuments()
  /** Of documents on their way from parsing to validation. */
  const texts = new WeakMap<DocumentNode, string>()
  return {
    onParse({ params, parseFn, setParseFn, setParsedDocument }) {
      const text = String(params.source)
      const known = valid.get(text)
      if (known !== undefined) {
        texts.set(known, text)
        return setParsedDocument(known)
      }
      const limits: ParseOptions = { maxTokens: MOST_TOKENS }
      setParseFn((source, options) => parseFn(source, { ...options, ...limits }))
      return ({ result }) => {
        if (result instanceof Error) markRequestError(result as GraphQLError, 'GRAPHQL_PARSE_FAILED')
        else if (result !== null) texts.set(result, text)
      }
    },
    onValidate({ params: { documentAST }, setResult, setValidationFn }) {
      const document = documentAST as DocumentNode
      const text = texts.get(document)
      if (text !== undefined && valid.has(document, text)) return setResult([])
      setValidationFn(((schema: never, ast: never, rules = specifiedRules, options?: object) =>
        validate(schema, ast, rules, { ...options, hideSuggestions: true })) as typeof validate)
      return ({ result }) => {
        for (const error of result) markRequestError(error as GraphQLError, 'GRAPHQL_VALIDATION_FAILED')
        if (result.length === 0 && text !== undefined) valid.keep(text, document)
      }
    },
  }
}

function markRequestError(error: GraphQLError, code: string): void {
  error.extensions['code'] ??= code
}
