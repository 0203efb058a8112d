import { type ASTNode, BREAK, type DocumentNode, GraphQLError, type ParseOptions, validate, visit } from 'graphql'
import type { Plugin } from 'graphql-yoga'
import type { Rates } from '../../access/rates.ts'
import type { Viewer } from '../../access/viewer.ts'
import { type MaskError, topLevelError } from '../../graphql/masking.ts'
import { FairCache } from '../../lib/fair-cache.ts'
import { documentRules } from './document-rules.ts'

/** The maximum number of tokens in a document, which limits the cost of parsing and validation. */
const MOST_TOKENS = 5000
/** The capacity of the cache in AST nodes. A node takes about 160 bytes, including its share of the document's text. */
const MOST_NODES = 50_000

/**
 * Caches the most recently used valid documents without source locations. Each document counts towards the share of
 * the viewer who sent the document first. Thus, a viewer who sends many documents does not evict the documents of
 * others.
 */
function createValidDocuments() {
  const documents = new FairCache<DocumentNode>(MOST_NODES)
  return {
    get: (text: string) => documents.get(text),
    /** Caches a document and deletes its source locations, which take most of its memory. */
    keep: (text: string, document: DocumentNode, owner: string) =>
      documents.set(text, document, { size: dropPlaces(document) + Math.ceil(text.length / 100), owner }),
    has: (document: DocumentNode, text: string) => documents.peek(text) === document,
  }
}

/**
 * Clears the source location of each node. Returns the number of nodes. Deleting the property instead would turn each
 * node into a hash table, which takes 2.5 times as much memory and is slower to read.
 */
function dropPlaces(node: ASTNode): number {
  let nodes = 1
  Object.assign(node, { loc: undefined })
  for (const value of Object.values(node)) {
    for (const child of Array.isArray(value) ? value : [value]) if (isNode(child)) nodes += dropPlaces(child)
  }
  return nodes
}

const isNode = (value: unknown): value is ASTNode => typeof value === 'object' && value !== null && 'kind' in value

/** Facts about a document that are added to the operation's context. */
export interface DocumentContext {
  /** Whether the document selects `streamCursor` anywhere. */
  takesCursors?: boolean
}

const RESUME_POINT = 'streamCursor'
const takesCursors = new WeakMap<DocumentNode, boolean>()

function asksForCursors(document: DocumentNode): boolean {
  const known = takesCursors.get(document)
  if (known !== undefined) return known
  let asks = false
  visit(document, {
    Field({ name }) {
      if (name.value === RESUME_POINT) asks = true
      return asks ? BREAK : undefined
    },
  })
  takesCursors.set(document, asks)
  return asks
}

/** This many characters of an uncached document count as one request. */
const CHARACTERS_A_REQUEST = 100
/**
 * The maximum number of requests that a document counts as. Long documents with few tokens are cheap to parse,
 * because ignored characters cost almost nothing.
 */
const MOST_POINTS = 150
/**
 * Documents shorter than this are parsed even above the viewer's rate, so that a mutation can return its
 * RateLimitedError.
 */
const SHORT = 1000

/**
 * Counts the cost of parsing a document towards the viewer's rate.
 * @throws RateLimitedError if the viewer already exceeds the rate
 */
function countReading(text: string, rates: Rates, { viewer }: { viewer?: Viewer }): void {
  const points = Math.min(MOST_POINTS, Math.floor(text.length / CHARACTERS_A_REQUEST))
  if (viewer === undefined || points === 0) return
  const refusal = text.length > SHORT ? rates.refusal('requests', viewer) : null
  if (refusal !== null) throw refusal
  rates.take('requests', viewer, points).catch(() => {})
}

/**
 * Parses and validates each document once per process, for all transports. Limits the size of documents. The errors
 * never suggest names of fields or types. Invalid documents are not cached, so each request with one is charged
 * again.
 */
export function useDocuments({ rates, maskError }: { rates: Rates; maskError: MaskError }): Plugin {
  const valid = createValidDocuments()
  /** The text of each document that has been parsed but not yet validated. */
  const texts = new WeakMap<DocumentNode, string>()
  return {
    onParse({ context, params, parseFn, setParseFn, setParsedDocument }) {
      const text = String(params.source)
      const take = (document: DocumentNode) => {
        texts.set(document, text)
        ;(context as DocumentContext).takesCursors = asksForCursors(document)
      }
      const known = valid.get(text)
      if (known !== undefined) {
        take(known)
        return setParsedDocument(known)
      }
      const limits: ParseOptions = { maxTokens: MOST_TOKENS }
      setParseFn((source, options) => {
        try {
          countReading(text, rates, context as { viewer?: Viewer })
        } catch (error) {
          throw maskError(error)
        }
        return parseFn(source, { ...options, ...limits })
      })
      return ({ result, replaceParseResult }) => {
        if (result instanceof GraphQLError) markRequestError(result, 'GRAPHQL_PARSE_FAILED')
        else if (result instanceof Error) replaceParseResult(tooDeep())
        else if (result !== null) take(result)
      }
    },
    onValidate({ context, params: { documentAST }, setResult, setValidationFn }) {
      const document = documentAST as DocumentNode
      const text = texts.get(document)
      if (text !== undefined && valid.has(document, text)) return setResult([])
      setValidationFn(((schema: never, ast: never, _rules?: unknown, options?: object) =>
        validate(schema, ast, documentRules, { ...options, hideSuggestions: true })) as typeof validate)
      return ({ result }) => {
        for (const error of result) markRequestError(error as GraphQLError, 'GRAPHQL_VALIDATION_FAILED')
        if (result.length === 0 && text !== undefined)
          valid.keep(text, document, (context as { viewer?: Viewer }).viewer?.id ?? '')
      }
    },
  }
}

/**
 * Returns the error for a document that overflows the parser's stack. A few thousand nested list literals cause
 * such an overflow.
 */
function tooDeep(): GraphQLError {
  return topLevelError('GRAPHQL_PARSE_FAILED', 'The document is nested too deeply.', { status: 400, spec: true })
}

function markRequestError(error: GraphQLError, code: string): void {
  error.extensions['code'] ??= code
}
