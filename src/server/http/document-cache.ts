import {
  type ASTNode,
  BREAK,
  type DocumentNode,
  GraphQLError,
  type ParseOptions,
  specifiedRules,
  validate,
  visit,
} from 'graphql'
import type { Plugin } from 'graphql-yoga'
import type { Rates } from '../../access/rates.ts'
import type { Viewer } from '../../access/viewer.ts'
import { FairCache } from '../../lib/fair-cache.ts'
import { type MaskError, topLevelError } from './masking.ts'

/** Tokens of one document: bounds what parsing and validating it may cost. */
const MOST_TOKENS = 5000
/** What is kept of documents in all, in nodes of their trees: one is some 200 bytes, with its share of the text. */
const MOST_NODES = 100_000

/**
 * The valid documents seen last, each without its places in the text, counted by what it weighs for the viewer who sent it first: sending
 * many documents does not make other viewers pay for reading theirs again.
 */
function createValidDocuments() {
  const documents = new FairCache<DocumentNode>(MOST_NODES)
  return {
    get: (text: string) => documents.get(text),
    /** Takes a document's places in its text away: they are most of what it weighs. */
    keep: (text: string, document: DocumentNode, owner: string) =>
      documents.set(text, document, { size: dropPlaces(document) + Math.ceil(text.length / 100), owner }),
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

/** What is read from an operation's document, for its context. */
export interface DocumentContext {
  /** Whether it asks for a resume point anywhere. */
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

/** Characters of a document that nobody has sent before which count as one request. */
const CHARACTERS_A_REQUEST = 100
/** Ignored characters cost next to nothing: a document has tokens for so much. */
const MOST_POINTS = 150
/** What is so short is read past the rate too: a mutation may then say that itself. */
const SHORT = 1000

/** Counts what it costs to read a document. @throws RateLimitedError where its viewer is past the rate already */
function countReading(text: string, rates: Rates, { viewer }: { viewer?: Viewer }): void {
  const points = Math.min(MOST_POINTS, Math.floor(text.length / CHARACTERS_A_REQUEST))
  if (viewer === undefined || points === 0) return
  const refusal = text.length > SHORT ? rates.refusal('requests', viewer) : null
  if (refusal !== null) throw refusal
  rates.take('requests', viewer, points).catch(() => {})
}

/**
 * Parses and validates each document once a process, whatever it comes by; bounds documents, and names neither fields nor
 * types that the client did not name itself. What is refused is not kept, and so counts each time.
 */
export function useDocuments({ rates, maskError }: { rates: Rates; maskError: MaskError }): Plugin {
  const valid = createValidDocuments()
  /** Of documents on their way from parsing to validation. */
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
      setValidationFn(((schema: never, ast: never, rules = specifiedRules, options?: object) =>
        validate(schema, ast, rules, { ...options, hideSuggestions: true })) as typeof validate)
      return ({ result }) => {
        for (const error of result) markRequestError(error as GraphQLError, 'GRAPHQL_VALIDATION_FAILED')
        if (result.length === 0 && text !== undefined)
          valid.keep(text, document, (context as { viewer?: Viewer }).viewer?.id ?? '')
      }
    },
  }
}

/** What is nested so deep that its reading comes to no end: a list literal in a list literal, some thousand times. */
function tooDeep(): GraphQLError {
  return topLevelError('GRAPHQL_PARSE_FAILED', 'The document is nested too deeply.', { status: 400, spec: true })
}

function markRequestError(error: GraphQLError, code: string): void {
  error.extensions['code'] ??= code
}
