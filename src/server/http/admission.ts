import {
  type ExecutionArgs,
  type GraphQLError,
  getNamedType,
  getOperationAST,
  isUnionType,
  Kind,
  OperationTypeNode,
} from 'graphql'
import type { Plugin } from 'graphql-yoga'
import type { Rates } from '../../access/rates.ts'
import { RateLimitedError } from '../../lib/errors.ts'
import type { Context } from '../../schema/context.ts'
import { complexityOf, excessOf, pointsOf } from './complexity.ts'
import { type MaskError, topLevelError } from './masking.ts'
import { createWithdrawals } from './withdrawals.ts'
import type { Work } from './work.ts'

/** A subscription past the rate waits so long for its turn, since clients begin many at once. */
const LONGEST_TURN_MS = 60_000

export interface AdmissionParts {
  maskError: MaskError
  rates: Rates
  work: Work
}

interface Hook {
  args: ExecutionArgs & { signal?: AbortSignal; contextValue: Context & OfTransport }
  setResultAndStopExecution(result: { errors: readonly GraphQLError[] }): void
}

interface ExecuteHook extends Hook {
  executeFn(args: unknown): unknown
  setExecuteFn(execute: (args: unknown) => Promise<unknown>): void
}

/** What says that nobody waits for the answer any more. */
interface OfTransport {
  request?: Request
  signal?: AbortSignal
}

/** Lets operations begin: those that do not cost too much, within their viewer's rate, and as many at once as there is room for. */
export function useAdmission({ maskError, rates, work }: AdmissionParts): Plugin {
  const withdrawals = createWithdrawals()

  /** @throws why the operation is refused, unless it withdraws its viewer from something or gives that answer itself */
  async function refuse(args: Hook['args'], error: unknown): Promise<void> {
    const isPastRate = error instanceof RateLimitedError
    if (!(isPastRate && (await withdrawals.admits(args, args.contextValue.viewer)))) answerItself(args, error)
  }

  /** What the operation weighs; null where it was refused. */
  async function admit({ args, setResultAndStopExecution }: Hook): Promise<number | null> {
    const { contextValue: context } = args
    try {
      const isSubscription = operationOf(args)?.operation === OperationTypeNode.SUBSCRIPTION
      const refusal = isSubscription ? null : rates.refusal('requests', context.viewer)
      if (refusal !== null) await refuse(args, refusal)
      const cost = complexityOf(args)
      const excess = excessOf(cost)
      if (excess !== null) throw excess
      const points = pointsOf(cost)
      context.weight = cost.complexity
      if (isSubscription) await rates.takeInTurn('requests', context.viewer, points, LONGEST_TURN_MS)
      else if (refusal === null)
        await rates.take('requests', context.viewer, points).catch((error) => refuse(args, error))
      return cost.complexity
    } catch (error) {
      setResultAndStopExecution({ errors: [maskError(error)] })
      return null
    }
  }

  async function onExecute(hook: ExecuteHook): Promise<void> {
    const { args, executeFn, setExecuteFn } = hook
    const weight = await admit(hook)
    if (weight === null) return
    const { viewer, request, signal = request?.signal } = args.contextValue
    setExecuteFn(async (given) => {
      try {
        const end = await work.begin(viewer.id, weight, signal)
        const execute = async () => executeFn(signal === undefined ? given : { ...(given as object), signal })
        return await execute().finally(end)
      } catch (error) {
        return { errors: [signal?.aborted ? NOBODY_WAITS : maskError(error)] }
      }
    })
  }

  return { onExecute: onExecute as never, onSubscribe: admit as never }
}

/** What an operation whose client has gone comes to, which nobody reads. */
const NOBODY_WAITS = topLevelError('BAD_USER_INPUT', 'Its client has gone.')

const operationOf = ({ document, operationName }: ExecutionArgs) => getOperationAST(document, operationName)

/** A mutation that has an answer for being past the rate gives it. @throws what is none, or has no such answer */
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
