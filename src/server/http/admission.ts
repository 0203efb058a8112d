import type { ServerResponse } from 'node:http'
import {
  type ExecutionArgs,
  type ExecutionResult,
  type GraphQLError,
  getNamedType,
  getOperationAST,
  isUnionType,
  Kind,
  OperationTypeNode,
} from 'graphql'
import type { Plugin } from 'graphql-yoga'
import type { Rates } from '../../access/rates.ts'
import { type ExecuteOnce, executeBounded } from '../../graphql/bounded-execution.ts'
import type { Context } from '../../graphql/context.ts'
import { type MaskError, topLevelError } from '../../graphql/masking.ts'
import { RateLimitedError } from '../../lib/errors.ts'
import { forRequester } from '../../lib/requester-context.ts'
import type { RequestBytes } from '../request-bytes.ts'
import { type ResponsesInFlight, type Sending, SHORT_RESPONSE_BYTES, sendingBy } from '../responses-in-flight.ts'
import { complexityOf, excessOf, pointsOf, weightOf } from './complexity.ts'
import { createWithdrawals } from './withdrawals.ts'
import type { Work } from './work.ts'

/**
 * How long a subscription waits at most while its viewer exceeds the rate. Subscriptions wait instead of failing,
 * because clients often start many at once.
 */
const LONGEST_TURN_MS = 60_000

/** After this time, an operation starts no further mutation fields. */
const LONGEST_OPERATION_MS = 30_000

/**
 * Each time a response has this many bytes beyond those that the cost of its fields covers, it counts as one more
 * request.
 */
const BYTES_A_REQUEST = 64 * 1024

export interface AdmissionParts {
  maskError: MaskError
  rates: Rates
  work: Work
  /** The maximum size of a response. */
  maxResponseBytes: number
  inFlight: ResponsesInFlight
  requestBytes: RequestBytes
}

interface Admitted {
  weight: number
  release(): void
}

interface Hook {
  args: ExecutionArgs & { signal?: AbortSignal; contextValue: Context & OfTransport }
  setResultAndStopExecution(result: { errors: readonly GraphQLError[] }): void
}

interface ExecuteHook extends Hook {
  executeFn(args: unknown): unknown
  setExecuteFn(execute: (args: unknown) => Promise<unknown>): void
}

interface SubscribeHook extends Hook {
  subscribeFn(args: unknown): unknown
  setSubscribeFn(subscribe: (args: unknown) => unknown): void
}

/** The context fields that the transport sets. See OperationContext. */
interface OfTransport {
  request?: Request
  res?: ServerResponse
  signal?: AbortSignal
  sending?: Sending
  /** The size of the request. */
  requestBytes?: number
  /** Called when a subscription has ended. */
  onEnd?(): void
  maxResponseBytes?: number
}

/**
 * Admits operations. Checks their complexity and their viewer's rate, and limits how many run at once. Also limits
 * the size of responses, and delays long responses while too many bytes are in flight to clients.
 */
export function useAdmission(parts: AdmissionParts): Plugin {
  const { maskError, rates, work, maxResponseBytes, inFlight, requestBytes } = parts
  const withdrawals = createWithdrawals()

  /**
   * Refuses an operation. Does not throw if the operation is a withdrawal (see withdrawals.ts), which may still
   * run, or if its mutation can return the refusal as a result.
   * @throws the reason for the refusal
   */
  async function refuse(args: Hook['args'], error: unknown): Promise<void> {
    const isPastRate = error instanceof RateLimitedError
    if (!(isPastRate && (await withdrawals.admits(args, args.contextValue.viewer)))) answerItself(args, error)
  }

  /**
   * Returns the weight of the operation and a function that must be called when the operation has ended. Returns
   * null if the operation was refused.
   */
  async function admit({ args, setResultAndStopExecution }: Hook): Promise<Admitted | null> {
    const { contextValue: context } = args
    const { request, signal = request?.signal } = context
    let release = () => {}
    try {
      release = requestBytes.hold(context.viewer, context.requestBytes ?? 0)
      const isSubscription = operationOf(args)?.operation === OperationTypeNode.SUBSCRIPTION
      const refusal = isSubscription ? null : rates.refusal('requests', context.viewer)
      if (refusal !== null) await refuse(args, refusal)
      const cost = complexityOf(args)
      const excess = excessOf(cost)
      if (excess !== null) throw excess
      const points = pointsOf(cost)
      context.weight = cost.complexity
      if (isSubscription)
        await rates.takeInTurn('requests', context.viewer, points, { longestMs: LONGEST_TURN_MS, signal })
      else if (refusal === null)
        await rates.take('requests', context.viewer, points).catch((error) => refuse(args, error))
      return { weight: weightOf(cost), release }
    } catch (error) {
      release()
      setResultAndStopExecution({ errors: [signal?.aborted ? NOBODY_WAITS : maskError(error)] })
      return null
    }
  }

  async function onExecute(hook: ExecuteHook): Promise<void> {
    const { args, executeFn, setExecuteFn } = hook
    const admitted = await admit(hook)
    if (admitted === null) return
    const { weight, release } = admitted
    const { viewer, request, signal = request?.signal } = args.contextValue
    setExecuteFn((given) => forRequester(viewer.id, () => executeInTurn(given, weight).finally(release)))

    async function executeInTurn(given: unknown, weight: number): Promise<unknown> {
      try {
        const end = await work.begin(viewer.id, weight, signal).catch((error) => {
          answerItself(args, error)
          return () => {}
        })
        args.contextValue.endsAt = performance.now() + LONGEST_OPERATION_MS
        const execute: ExecuteOnce = async (contextValue, fieldResolver) =>
          executeFn({ ...(given as object), contextValue, fieldResolver, signal }) as Promise<ExecutionResult>
        try {
          const { result, bytes } = await executeBounded(
            execute,
            (given as Hook['args']).contextValue,
            args.contextValue.maxResponseBytes ?? maxResponseBytes,
          )
          await chargeBytes(args.contextValue, bytes)
          await holdUntilSent(args.contextValue, bytes, operationOf(args)?.operation)
          return result
        } finally {
          // The operation counts as running until this point. This also limits the number of results that wait to
          // be sent.
          end()
        }
      } catch (error) {
        return { errors: [signal?.aborted ? NOBODY_WAITS : maskError(error)] }
      }
    }
  }

  async function onSubscribe(hook: SubscribeHook): Promise<void> {
    const { args, subscribeFn, setSubscribeFn } = hook
    const admitted = await admit(hook)
    if (admitted === null) return
    args.contextValue.onEnd = admitted.release
    setSubscribeFn((given) => forRequester(args.contextValue.viewer.id, () => subscribeFn(given)))
  }

  /**
   * Counts the bytes of a response towards its viewer's rate, except those that the cost of its fields covers. This
   * affects only later operations.
   */
  async function chargeBytes({ viewer, weight = 0 }: Context, bytes: number): Promise<void> {
    const points = Math.floor(bytes / BYTES_A_REQUEST) - pointsOf({ complexity: weight })
    if (points > 0) await rates.take('requests', viewer, points).catch(() => {})
  }

  async function holdUntilSent(
    context: Hook['args']['contextValue'],
    bytes: number,
    operation: OperationTypeNode | undefined,
  ): Promise<void> {
    if (bytes < SHORT_RESPONSE_BYTES) return
    const { viewer, res, request, signal = request?.signal, sending = res && sendingBy(res) } = context
    if (sending === undefined) return
    await inFlight.hold(viewer.id, bytes, sending, signal).catch((error) => {
      // A mutation has already taken effect, so its response is sent even if too many bytes are in flight.
      if (operation !== OperationTypeNode.MUTATION) throw error
      inFlight.watch(sending)
    })
  }

  return { onExecute: onExecute as never, onSubscribe: onSubscribe as never }
}

/** The result of an operation whose client has disconnected. It is never sent. */
const NOBODY_WAITS = topLevelError('BAD_USER_INPUT', 'The client closed the connection.')

const operationOf = ({ document, operationName }: ExecutionArgs) => getOperationAST(document, operationName)

/**
 * Makes a mutation return `error` as its result.
 * @throws `error` if it is not a RateLimitedError, or if the mutation's result union does not contain
 * RateLimitedError
 */
function answerItself(args: Hook['args'], error: unknown): void {
  const { schema, contextValue } = args
  const operation = operationOf(args)
  const fields = operation?.operation === 'mutation' ? operation.selectionSet.selections : []
  const canAnswer = fields.every((field) => {
    const name = field.kind === Kind.FIELD ? field.name.value : ''
    const result = schema.getMutationType()?.getFields()[name]?.type
    const type = result === undefined ? undefined : getNamedType(result)
    return isUnionType(type) && type.getTypes().some((member) => member.name === RateLimitedError.name)
  })
  if (!(error instanceof RateLimitedError) || fields.length === 0 || !canAnswer) throw error
  contextValue.overRate = error
}
