import type { ExecutionResult } from 'graphql'
import { countedFieldResolver } from './bounded.ts'
import type { Context } from './context.ts'
import { jsonOf, topLevelError } from './masking.ts'
import { type EdgeCuts, NO_CUTS, planCuts, ResponseMeter } from './response-meter.ts'

/**
 * Executes an operation once, with a context whose meter counts the response. `fieldResolver` resolves the fields
 * that have no resolver of their own.
 */
export type ExecuteOnce = (
  contextValue: Context,
  fieldResolver: typeof countedFieldResolver,
) => MaybePromise<ExecutionResult>

type MaybePromise<T> = T | Promise<T>

/** A result within the size limit. */
export interface BoundedResult {
  result: ExecutionResult
  /** The number of bytes of JSON that all executions together produced. */
  bytes: number
  /** The number of bytes that were produced by executions whose response did not fit. */
  discardedBytes: number
}

/** The maximum number of further executions that try to produce a response that fits. */
const MOST_ATTEMPTS = 6
/** If more than this share of the bytes of long values is repeated content, the request is refused. */
const REPEATED_SHARE = 0.25
/**
 * The number of counted bytes is an estimate. If the number exceeds this share of the limit, the response is
 * measured exactly.
 */
const EXACT_FROM = 0.5
/** A response with more errors than this is measured exactly too. */
const FEW_ERRORS = 100

/**
 * Executes an operation so that its response has at most `limit` bytes of JSON. If the response would be too large,
 * connections return fewer edges. The result is the error QUERY_TOO_COMPLEX if the request selects the same content
 * repeatedly, or if a single object is too large. Returns synchronously if the first execution is synchronous and
 * its response fits.
 */
export function executeBounded(execute: ExecuteOnce, context: Context, limit: number): MaybePromise<BoundedResult> {
  const meter = new ResponseMeter({ limit })
  const mutationResults = new Map<string, unknown>()
  const first = executeMetered(execute, { ...context, meter, mutationResults })
  const finish = (result: ExecutionResult | null) =>
    result !== null && fits(result, meter)
      ? { result, bytes: meter.bytes, discardedBytes: 0 }
      : shorten(execute, { ...context, mutationResults }, { limit, spentBytes: meter.bytes })
  return first instanceof Promise ? first.then(finish) : finish(first)
}

/**
 * Executes an operation. Returns null if the execution was abandoned because its response exceeds the meter's
 * limit.
 */
function executeMetered(
  execute: ExecuteOnce,
  context: Context & { meter: ResponseMeter },
): MaybePromise<ExecutionResult | null> {
  const result = execute(context, countedFieldResolver)
  if (!(result instanceof Promise)) return result
  return Promise.race([result, context.meter.whenExceeded.then(() => null)])
}

async function shorten(
  execute: ExecuteOnce,
  context: Context,
  { limit, spentBytes }: { limit: number; spentBytes: number },
): Promise<BoundedResult> {
  let discardedBytes = spentBytes
  let cuts: EdgeCuts = NO_CUTS
  for (let attempt = 0; attempt < MOST_ATTEMPTS; attempt++) {
    // Lets other events be handled between two executions.
    await new Promise(setImmediate)
    const meter = new ResponseMeter({ limit, isMeasuring: true, cuts })
    const result = await executeMetered(execute, { ...context, meter })
    if (result !== null && meter.bytes <= limit && fits(result, meter))
      return { result, bytes: discardedBytes + meter.bytes, discardedBytes }
    discardedBytes += meter.bytes
    if (meter.repeatedBytes > meter.longBytes * REPEATED_SHARE) return refused(REPEATS, limit, discardedBytes)
    const planned = planCuts(meter)
    if (planned === null) break
    cuts = planned
  }
  return refused(TOO_LARGE, limit, discardedBytes)
}

function fits(result: ExecutionResult, { isExceeded, bytes, limit }: ResponseMeter): boolean {
  if (isExceeded) return false
  const isEstimateEnough = bytes <= limit * EXACT_FROM && (result.errors?.length ?? 0) <= FEW_ERRORS
  return isEstimateEnough || Buffer.byteLength(jsonOf(result)) <= limit
}

const REPEATS = 'The request selects the same content more than once: select each text under one alias.'
const TOO_LARGE = 'Individual objects are too large: select fewer fields, or fewer objects at a time.'

function refused(reason: string, limit: number, discardedBytes: number): BoundedResult {
  const message = `The response would exceed ${limit} bytes. ${reason}`
  const errors = [topLevelError('QUERY_TOO_COMPLEX', message, { status: 400, spec: true })]
  return { result: { errors }, bytes: discardedBytes, discardedBytes }
}
