import type { IncomingMessage, ServerResponse } from 'node:http'
import { type GraphQLSchema, getOperationAST, OperationTypeNode } from 'graphql'
import { createYoga, type Plugin, useExecutionCancellation, type YogaServerInstance } from 'graphql-yoga'
import type { Viewer } from '../../access/viewer.ts'
import type { Sink } from '../../delivery/answer.ts'
import type { Subscribe } from '../../delivery/subscribe.ts'
import { type Context, createContext } from '../../graphql/context.ts'
import type { Domain } from '../../graphql/domain.ts'
import type { MaskError } from '../../graphql/masking.ts'
import type { Streams } from '../../graphql/streams.ts'
import type { RequestBytes } from '../request-bytes.ts'
import type { ResponsesInFlight, Sending } from '../responses-in-flight.ts'
import { useAdmission } from './admission.ts'
import { askedOriginOf } from './asked-origin.ts'
import { type Authentication, useAuthentication } from './authentication.ts'
import { type BodyReader, usePostedBody } from './body.ts'
import { type DocumentContext, useDocuments } from './document-cache.ts'
import { useGraphqlResponseJson, useJsonOnly } from './json-only.ts'
import { useDeliverable, useMultipartSubscriptions } from './multipart.ts'
import { REQUEST_ID_HEADER } from './request-ids.ts'
import { STREAM_HEADERS } from './stream-headers.ts'
import { createWork } from './work.ts'

export const GRAPHQL_PATH = '/graphql'

/** The maximum size of a request body, and of a WebSocket frame. */
export const LARGEST_REQUEST_BYTES = 1024 * 1024

export interface GraphqlOptions {
  domain: Domain
  authentication: Authentication
  schema: GraphQLSchema
  streams: Streams
  maskError: MaskError
  subscribe: Subscribe
  allowedOrigins: readonly string[]
  /** The maximum size of an operation's response. */
  maxResponseBytes: number
  inFlight: ResponsesInFlight
  bodies: BodyReader
  requestBytes: RequestBytes
}

/**
 * The context that a transport passes to an operation. Over HTTP, this is Yoga's context; over a socket, it is the
 * context of the session.
 */
export interface OperationContext extends DocumentContext {
  viewer?: Viewer
  /** The request and response of an operation sent over HTTP. */
  req?: IncomingMessage
  res?: ServerResponse
  /** The origin to which the client sent an operation over a socket or event stream. */
  askedOrigin?: string | null
  /** Called when the client cannot keep up with a subscription. */
  onSlow?: () => void
  /** Aborts when no client waits for the response any more. Absent over HTTP, where the request has its own signal. */
  signal?: AbortSignal
  /** The sink of a subscription over a socket or event stream. */
  sink?: Sink
  /** The size of the request if it arrived over a socket or event stream. */
  requestBytes?: number
  /** Reports how far the response has been sent, if the operation does not have its own HTTP response. */
  sending?: Sending
  /** The maximum size of the response, if it is lower than the general limit. */
  maxResponseBytes?: number
}

export type Graphql = YogaServerInstance<OperationContext, Context>

/**
 * Creates the pipeline for every operation: authentication, parsing and validation (cached per process), limits,
 * execution, and masking of errors. Operations arrive over POST, GET, server-sent events or, through
 * `getEnveloped`, sockets.
 */
export function createGraphql(options: GraphqlOptions): Graphql {
  const { domain, authentication, schema, streams, maskError, subscribe, allowedOrigins, bodies } = options
  const { requestBytes, maxResponseBytes, inFlight } = options
  return createYoga<OperationContext, Context>({
    schema,
    graphqlEndpoint: GRAPHQL_PATH,
    context: ({ viewer, req, res, onSlow, takesCursors = false, askedOrigin }) => {
      if (viewer === undefined) throw new Error('the operation has no viewer')
      return createContext({
        domain,
        streams,
        viewer,
        takesCursors,
        onSlow: onSlow ?? (() => res?.destroy()),
        askedOrigin: askedOrigin ?? (req === undefined ? null : askedOriginOf(req.headers)),
      })
    },
    plugins: [
      useAuthentication(authentication) as never,
      useJsonOnly(),
      usePostedBody({ bodies, requestBytes, maskError, mostBytes: LARGEST_REQUEST_BYTES }) as never,
      useGraphqlResponseJson(),
      useMultipartSubscriptions(),
      useDeliverable(),
      useDocuments({ maskError, rates: domain.rates }),
      useAdmission({
        maskError,
        rates: domain.rates,
        work: createWork(),
        maxResponseBytes,
        inFlight,
        requestBytes,
      }),
      useExecutionCancellation(),
      useProxyHeaders(),
      useSubscribe(subscribe),
      useSignsOfLife(domain.presence),
    ],
    cors: (request) => corsOf(request, allowedOrigins),
    maskedErrors: { maskError: (error) => maskError(error), errorMessage: '' },
    // Yoga's own cache is not used, because document-cache.ts caches documents.
    parserAndValidationCache: false,
    // Yoga's own limit is not used, because body.ts limits bodies.
    maxRequestBodySize: false,
    multipart: false,
    batching: false,
    // Yoga's own page is not used, because pages.ts serves GraphiQL.
    graphiql: false,
    landingPage: false,
    // Yoga does not log, because masking.ts logs unexpected errors.
    logging: false,
  })
}

/** Responses depend on the viewer, so proxies and browsers must not cache them. Proxies must not buffer streams. */
function useProxyHeaders(): Plugin {
  return {
    onResponse({ response: { headers } }) {
      headers.set('cache-control', 'no-store')
      if (!/^(text\/event-stream|multipart\/mixed)/.test(headers.get('content-type') ?? '')) return
      for (const [name, value] of Object.entries(STREAM_HEADERS)) headers.set(name, value)
      // Yoga sets `none`, which is not a valid content coding.
      headers.delete('content-encoding')
    },
  }
}

/** Counts a mutation as activity of the human who sent it. */
function useSignsOfLife(presence: Domain['presence']): Plugin<Context> {
  return {
    onExecute({ args: { document, operationName, contextValue } }) {
      const isMutation = getOperationAST(document, operationName)?.operation === OperationTypeNode.MUTATION
      if (isMutation) presence.noteActive(contextValue.viewer)
    },
  }
}

/** Makes all transports deliver subscriptions through the same function. */
function useSubscribe(subscribe: Subscribe): Plugin {
  return { onSubscribe: ({ setSubscribeFn }) => setSubscribeFn(subscribe as never) }
}

/**
 * Returns CORS headers for allowed origins. They allow every header that the page requests, because client
 * libraries add headers of their own, for example for tracing. Without CORS headers, browsers hide the response
 * from the page.
 */
function corsOf(request: Request, allowedOrigins: readonly string[]) {
  const origin = request.headers.get('origin')
  if (origin === null || !allowedOrigins.includes(origin)) return false
  return {
    origin: [origin, 'null'],
    methods: ['GET', 'POST', 'PUT', 'DELETE'],
    exposedHeaders: [REQUEST_ID_HEADER],
    credentials: false,
    maxAge: 3600,
  }
}
