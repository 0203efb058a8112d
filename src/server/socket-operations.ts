import { type ExecutionArgs, type ExecutionResult, GraphQLError, getOperationAST } from 'graphql'
import type { ServerOptions, SubscribePayload } from 'graphql-ws'
import type { Viewer } from '../access/viewer.ts'
import { UnauthenticatedError } from '../lib/errors.ts'
import type { Context } from '../schema/context.ts'
import type { Streams } from '../schema/streams.ts'
import type { Graphql } from './graphql.ts'
import { formatError, type MaskError, topLevelError } from './masking.ts'
import { shapeOf } from './sharing/document-shape.ts'
import type { Outlet } from './sharing/outlet.ts'
import type { Result, SharedSubscription, Sharing } from './sharing/sharing.ts'

/** What a socket is from its acknowledgement on. */
export interface Session {
  viewer: Viewer | null
  /** The viewer's token is no longer good: nothing new is begun. */
  ended: boolean
  /** The subscriptions that run on it, or have just been ended, by id: each by the message that began it. */
  subscriptions: Map<string, SubscribePayload>
  outlet: Outlet
}

/** An operation with the executor that its pipeline made for it. */
interface OperationArgs extends ExecutionArgs {
  run(args: ExecutionArgs): Promise<Result> | Result
}

const MOST_SUBSCRIPTIONS = 100

/** Errors that are an operation's whole answer. */
class OperationFailed extends Error {
  readonly errors: readonly GraphQLError[]
  constructor(errors: readonly GraphQLError[]) {
    super('the operation failed')
    this.errors = errors
  }
}

/** An answer that comes as an `error` message, which ends the operation. */
async function* failing(errors: readonly GraphQLError[]): AsyncGenerator<ExecutionResult> {
  yield* []
  throw new OperationFailed(errors)
}

type AllHooks = ServerOptions<Record<string, unknown>, { session: Session }>
type Hooks = Pick<AllHooks, 'onSubscribe' | 'onNext' | 'onError' | 'onComplete' | 'execute' | 'subscribe'>
type SessionHooks = { [Name in keyof Hooks]-?: NonNullable<Hooks[Name]> }

/**
 * How the operations of sockets go through the pipeline that HTTP uses. A fault in one is the answer to that one: nothing
 * here throws, for that would close the socket.
 */
export function socketOperations(graphql: Graphql, maskError: MaskError, sharing: Sharing | null): SessionHooks {
  async function begin(session: Session, isOpen: (id: string) => boolean, id: string, payload: SubscribePayload) {
    const { viewer, outlet } = session
    if (viewer === null || session.ended) throw new UnauthenticatedError('Your token is no longer good.')
    const { query, operationName, variables } = payload
    const params = { query, operationName: operationName ?? undefined, variables: variables ?? undefined }
    const enveloped = graphql.getEnveloped({ viewer, onSlow: outlet.giveUp, params } as never)
    const document = enveloped.parse(query)
    const errors = enveloped.validate(enveloped.schema, document)
    if (errors.length > 0) throw new OperationFailed(errors)
    const operation = getOperationAST(document, operationName)
    if (operation == null) throw topLevelError('BAD_USER_INPUT', 'There is no such operation in the document.')
    const isSubscription = operation.operation === 'subscription'
    if (isSubscription) {
      if ([...session.subscriptions.keys()].filter(isOpen).length >= MOST_SUBSCRIPTIONS) {
        throw topLevelError('RATE_LIMITED', `A socket carries at most ${MOST_SUBSCRIPTIONS} subscriptions.`)
      }
      session.subscriptions.set(id, payload)
    }
    const args: OperationArgs = {
      schema: enveloped.schema,
      document,
      operationName,
      variableValues: variables,
      contextValue: await enveloped.contextFactory(),
      run: isSubscription ? enveloped.subscribe : enveloped.execute,
    }
    return isSubscription ? sharedIfPossible(args, { id, viewer, outlet, params }) : args
  }

  /** The same subscription, shared with those who get the same answers where it is one of those that are. */
  function sharedIfPossible(
    args: OperationArgs,
    own: Pick<SharedSubscription, 'id' | 'viewer' | 'outlet'> & { params: object },
  ): OperationArgs {
    const shape = sharing && shapeOf(args.document, args.operationName)
    if (sharing === null || shape === null) return args
    const { params, ...subscriber } = own
    const { viewer } = subscriber
    const run = () =>
      sharing.subscribe({
        ...subscriber,
        key: shape.keyOf(viewer, args.variableValues),
        runOwn: (spaceMessages) => args.run(withSource(args, spaceMessages)),
        async runFor(other, spaceMessages) {
          const enveloped = graphql.getEnveloped({ viewer: other, onSlow: () => {}, params } as never)
          const contextValue = await enveloped.contextFactory()
          return enveloped.subscribe(withSource({ ...args, contextValue }, spaceMessages))
        },
      })
    return { ...args, run }
  }

  const errorsOf = (error: unknown) => (error instanceof OperationFailed ? error.errors : [error]).map(maskError)

  async function run(args: ExecutionArgs): Promise<Result> {
    try {
      const result = await (args as OperationArgs).run(args)
      if (Symbol.asyncIterator in result || result.data != null) return result
      const isRequestError = !('data' in result) || isSubscription(args)
      return isRequestError ? failing(result.errors ?? []) : result
    } catch (error) {
      return failing(errorsOf(error))
    }
  }

  return {
    async onSubscribe({ extra, subscriptions }, id, payload) {
      try {
        return await begin(extra.session, (open) => open in subscriptions, id, payload)
      } catch (error) {
        return errorsOf(error)
      }
    },
    execute: run as never,
    subscribe: run as never,
    onNext: (_context, _id, _payload, _args, result) => wireOf(result as ExecutionResult) as never,
    onError: (_context, _id, _payload, errors) => errors.flatMap((error) => wireErrorsOf(error, maskError)) as never,
    onComplete({ extra: { session } }, id, payload) {
      if (session.subscriptions.get(id) === payload) session.subscriptions.delete(id)
    },
  }
}

/** An answer as it goes over the wire. */
export function wireOf(result: ExecutionResult): object {
  return result.errors === undefined ? result : { ...result, errors: result.errors.map(formatError) }
}

/** The same operation, which gets a space's events from somewhere else. */
function withSource(args: ExecutionArgs, spaceMessages: Streams['spaceMessages']): ExecutionArgs {
  const context = args.contextValue as Context
  context.streams = { ...context.streams, spaceMessages }
  return args
}

function isSubscription({ document, operationName }: ExecutionArgs): boolean {
  return getOperationAST(document, operationName)?.operation === 'subscription'
}

/** graphql-ws wraps what an iteration throws; what is inside is final already, or has still to be masked. */
function wireErrorsOf(error: GraphQLError, maskError: MaskError): object[] {
  const inner = error.originalError ?? error
  if (inner instanceof OperationFailed) return inner.errors.map(formatError)
  const isFinal = inner instanceof GraphQLError && typeof inner.extensions['code'] === 'string'
  return [formatError(isFinal ? inner : maskError(inner))]
}
