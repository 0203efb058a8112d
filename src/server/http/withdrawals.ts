import { type ExecutionArgs, getArgumentValues, getOperationAST, getVariableValues, Kind } from 'graphql'
import { RateLimiterMemory } from 'rate-limiter-flexible'
import type { Viewer } from '../../access/viewer.ts'
import { complexityOf } from './complexity.ts'

/**
 * Admits withdrawals even when the viewer exceeds the rate. Withdrawals are operations that only end something:
 * they leave a space, deny a call, stop a run or release a claim.
 */
export interface Withdrawals {
  /**
   * Counts the operation. Returns false if the operation is not a withdrawal, selects too many fields, or exceeds
   * the limit of withdrawals per minute.
   */
  admits(args: ExecutionArgs, viewer: Viewer): Promise<boolean>
}

export interface WithdrawalsOptions {
  /** The maximum number of withdrawals per viewer and minute in this process. */
  most?: number
}

const MOST_A_MINUTE = 60
const MINUTE_SECONDS = 60
/** The maximum number of selected fields. With this limit, a withdrawal costs no more than a few requests. */
const MOST_FIELDS = 500

type Input = Readonly<Record<string, unknown>>

/** The number of denials in one mutation that count as one withdrawal. */
const DENIALS_AT_ONCE = 10

/**
 * The mutations that can be withdrawals. Each has a function that returns how many withdrawals an input counts as;
 * 0 or false means that the input is not a withdrawal.
 */
const WITHDRAWALS: Readonly<Record<string, (input: Input, viewer: Viewer) => boolean | number>> = {
  removeMember: ({ entityId }, { id }) => entityId === id,
  decideToolCall: ({ approve, input }) => approve === false && input == null,
  decideToolCalls: ({ approve, toolCallIds }) =>
    approve === false && Array.isArray(toolCallIds) && Math.ceil(toolCallIds.length / DENIALS_AT_ONCE),
  stopRun: () => true,
  claimToolCall: ({ release }) => release === true,
}

export function createWithdrawals({ most = MOST_A_MINUTE }: WithdrawalsOptions = {}): Withdrawals {
  const counts = new RateLimiterMemory({ keyPrefix: 'withdrawals', points: most, duration: MINUTE_SECONDS })
  return {
    async admits(args, viewer) {
      const count = withdrawalsOf(args, viewer)
      if (count === 0 || complexityOf(args).complexity > MOST_FIELDS) return false
      return counts.consume(viewer.id, count).then(
        () => true,
        () => false,
      )
    },
  }
}

/** Returns the number of withdrawals in the operation; 0 if the operation contains anything else. */
function withdrawalsOf({ schema, document, operationName, variableValues }: ExecutionArgs, viewer: Viewer): number {
  const operation = getOperationAST(document, operationName)
  const mutation = schema.getMutationType()
  if (operation?.operation !== 'mutation' || mutation == null) return 0
  const { coerced } = getVariableValues(schema, operation.variableDefinitions ?? [], variableValues ?? {})
  const { selections } = operation.selectionSet
  const counts = selections.map((selection): number => {
    if (coerced === undefined || selection.kind !== Kind.FIELD) return 0
    const { value: name } = selection.name
    const field = mutation.getFields()[name]
    const withdraws = Object.hasOwn(WITHDRAWALS, name) ? WITHDRAWALS[name] : undefined
    if (field === undefined || withdraws === undefined) return 0
    const { input } = getArgumentValues(field, selection, coerced) as { input: Input }
    return Number(withdraws(input, viewer))
  })
  return counts.includes(0) ? 0 : counts.reduce((sum, count) => sum + count, 0)
}
