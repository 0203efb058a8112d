import { getOperationAST } from 'graphql'
import type { Plugin } from 'graphql-yoga'
import { topLevelError } from '../../graphql/masking.ts'
import { BadInputError } from '../../lib/errors.ts'
import { parseExactJson } from '../../lib/exact-json.ts'

/** Whether a content type is JSON, with or without parameters. */
function isJson(contentType: string | null): boolean {
  return contentType?.split(';')[0]?.trim().toLowerCase() === 'application/json'
}

function checkParameters({ search, searchParams }: URL): void {
  if (!isUtf8(search)) throw topLevelError('BAD_USER_INPUT', 'The query string is not valid UTF-8.', BAD_REQUEST)
  for (const name of ['variables', 'extensions']) {
    const text = searchParams.get(name)
    const fault = text ? faultOf(text) : null
    if (fault !== null) throw topLevelError('BAD_USER_INPUT', `The parameter ${name} ${fault}`, BAD_REQUEST)
  }
}

const BAD_REQUEST = { status: 400, spec: true }

/**
 * Whether the percent-encoded bytes are valid UTF-8. This is checked because URLSearchParams silently replaces
 * invalid bytes. A lone `%` is taken literally.
 */
function isUtf8(search: string): boolean {
  try {
    decodeURIComponent(search.replace(/%(?![\da-f]{2})/gi, '%25'))
    return true
  } catch {
    return false
  }
}

function faultOf(json: string): string | null {
  try {
    parseExactJson(json)
    return null
  } catch (error) {
    return error instanceof BadInputError ? `is invalid. ${error.message}` : 'must be JSON.'
  }
}

/**
 * Refuses malformed requests that Yoga would accept. Also refuses requests that a page of another origin could send
 * without a CORS preflight (forms, plain text, links): POST accepts only JSON, and GET executes only queries.
 */
export function useJsonOnly(): Plugin {
  return {
    onRequestParse({ request, url }) {
      if (request.method === 'GET') checkParameters(url)
      if (request.method === 'POST' && !isJson(request.headers.get('content-type'))) {
        throw topLevelError('BAD_USER_INPUT', 'Send the operation as JSON, with Content-Type: application/json.', {
          status: 415,
        })
      }
    },
    // Some clients send an operation name although their operation is anonymous.
    onParams({ params, setParams }) {
      const { operationName, ...rest } = params
      if (operationName === '') setParams(rest)
    },
    onSubscribe({ args }) {
      const request = (args.contextValue as { request?: Request }).request
      const operation = getOperationAST(args.document, args.operationName)
      if (request?.method === 'GET' && operation?.operation !== 'query') {
        throw topLevelError('BAD_USER_INPUT', 'A GET request can run only queries.', { status: 405 })
      }
    },
  }
}

const RESPONSE_JSON = 'application/graphql-response+json'

/**
 * Handles requests without a specific `Accept` header. Their responses have the status codes of
 * `application/graphql-response+json`, but the content type `application/json`.
 */
export function useGraphqlResponseJson(): Plugin {
  return {
    onResultProcess({ request, resultProcessor, setResultProcessor }) {
      if (takesAnything(request) && resultProcessor !== undefined) setResultProcessor(resultProcessor, RESPONSE_JSON)
    },
    onResponse({ request, response }) {
      if (!takesAnything(request) || !response.headers.get('content-type')?.startsWith(RESPONSE_JSON)) return
      // Yoga has set this header with different capitalization. If it were not deleted, both headers would be sent.
      response.headers.delete('content-type')
      response.headers.set('content-type', 'application/json; charset=utf-8')
    },
  }
}

function takesAnything(request: Request): boolean {
  const accept = request.headers.get('accept')
  return accept === null || accept.trim() === '*/*'
}
