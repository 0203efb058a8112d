import type { ServerResponse } from 'node:http'
import type { GraphQLSchema } from 'graphql'
import { createYoga, type Plugin, useExecutionCancellation, type YogaServerInstance } from 'graphql-yoga'
import type { SignIns } from '../../access/sign-ins.ts'
import type { Viewer } from '../../access/viewer.ts'
import { type Context, createContext } from '../../schema/context.ts'
import type { Domain } from '../../schema/domain.ts'
import type { Streams } from '../../schema/streams.ts'
import { createResponsesInFlight, type Sending } from '../responses-in-flight.ts'
import type { Sink } from '../streams/sink.ts'
import type { Subscribe } from '../streams/subscribe.ts'
import { useAdmission } from './admission.ts'
import { useAuthentication } from './authentication.ts'
import { type BodyReader, usePostedBody } from './body.ts'
import { type DocumentContext, useDocuments } from './document-cache.ts'
import { useGraphqlResponseJson, useJsonOnly } from './json-only.ts'
import type { MaskError } from './masking.ts'
import { useDeliverable, useMultipartSubscriptions } from './multipart.ts'
import { REQUEST_ID_HEADER } from './request-ids.ts'
import { createWork } from './work.ts'

export const GRAPHQL_PATH = '/graphql'

/** Bytes of a request's body, and of a frame on a socket. */
export const LARGEST_REQUEST_BYTES = 1024 * 1024

export interface GraphqlOptions {
  domain: Domain
  signIns: SignIns
  schema: GraphQLSchema
  streams: Streams
  maskError: MaskError
  subscribe: Subscribe
  allowedOrigins: readonly string[]
  /** Bytes that the response of one operation may have. */
  maxResponseBytes: number
  bodies: BodyReader
}

/** What comes with an operation: over HTTP the server's own, over a socket what its session says. */
export interface OperationContext extends DocumentContext {
  viewer?: Viewer
  /** The response of an operation that came by HTTP. */
  res?: ServerResponse
  /** Called when the client cannot keep up with a subscription. */
  onSlow?: () => void
  /** Aborts when nobody waits for the answer any more; over HTTP the request's own does. */
  signal?: AbortSignal
  /** Where a socket's subscription is answered. */
  sink?: Sink
  /** How the operation's response goes out, where that is not by an HTTP response of its own. */
  sending?: Sending
}

export type Graphql = YogaServerInstance<OperationContext, Context>

/**
 * The one pipeline that every operation goes through, by POST, GET, SSE and, through `getEnveloped`, by socket: who asks,
 * parsing and validation (once a process for each document), limits, execution, masking.
 */
export function createGraphql(options: GraphqlOptions): Graphql {
  const { domain, signIns, schema, streams, maskError, subscribe, allowedOrigins, bodies, maxResponseBytes } = options
  return createYoga<OperationContext, Context>({
    schema,
    graphqlEndpoint: GRAPHQL_PATH,
    context: ({ viewer, res, onSlow, takesCursors = false }) => {
      if (viewer === undefined) throw new Error('the operation has no viewer')
      return createContext({
        domain,
        streams,
        viewer,
        takesCursors,
        onSlow: onSlow ?? (() => res?.destroy()),
      })
    },
    plugins: [
      useAuthentication(signIns) as never,
      useJsonOnly(),
      usePostedBody(bodies, maskError, LARGEST_REQUEST_BYTES) as never,
      useGraphqlResponseJson(),
      useMultipartSubscriptions(),
      useDeliverable(),
      useDocuments({ maskError, rates: domain.rates }),
      useAdmission({
        maskError,
        rates: domain.rates,
        work: createWork(),
        maxResponseBytes,
        inFlight: createResponsesInFlight(maxResponseBytes),
      }),
      useExecutionCancellation(),
      useNoStore(),
      useSubscribe(subscribe),
    ],
    cors: (request) => corsOf(request, allowedOrigins),
    maskedErrors: { maskError: (error) => maskError(error), errorMessage: '' },
    // Ours: see document-cache.ts.
    parserAndValidationCache: false,
    // Ours: see body.ts.
    maxRequestBodySize: false,
    multipart: false,
    batching: false,
    // Ours: see pages.ts.
    graphiql: false,
    landingPage: false,
    // What must be logged, masking.ts logs.
    logging: false,
  })
}

/** What somebody may see is kept by nobody on the way. */
function useNoStore(): Plugin {
  return { onResponse: ({ response }) => void response.headers.set('cache-control', 'no-store') }
}

/** Has all subscriptions delivered in one way, whatever they come by. */
function useSubscribe(subscribe: Subscribe): Plugin {
  return { onSubscribe: ({ setSubscribeFn }) => setSubscribeFn(subscribe as never) }
}

/** Headers for origins that are allowed; nothing for others, whose browsers then keep the answer from them. */
function corsOf(request: Request, allowedOrigins: readonly string[]) {
  const origin = request.headers.get('origin')
  if (origin === null || !allowedOrigins.includes(origin)) return false
  return {
    origin: [origin, 'null'],
    methods: ['GET', 'POST', 'PUT', 'DELETE'],
    allowedHeaders: ['authorization', 'content-type', 'accept', 'x-graphql-event-stream-token', REQUEST_ID_HEADER],
    exposedHeaders: [REQUEST_ID_HEADER],
    credentials: false,
    maxAge: 3600,
  }
}
