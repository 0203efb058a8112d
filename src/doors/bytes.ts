// Keeps responses within the size limit by shortening long lists, as GraphQL's connections do.
import { jsonBytes } from '../lib/json.ts'

/** Returns the first values whose JSON has at most `maxBytes` together. */
export function firstInBytes<T>(values: readonly T[], maxBytes: number): T[] {
  let left = maxBytes
  const end = values.findIndex((value) => {
    // Plus 1 for the comma after the value.
    left -= jsonBytes(value) + 1
    return left < 0
  })
  return end === -1 ? [...values] : values.slice(0, end)
}

/** Returns the last values whose JSON has at most `maxBytes` together, in their order. */
export const lastInBytes = <T>(values: readonly T[], maxBytes: number): T[] =>
  firstInBytes(values.toReversed(), maxBytes).toReversed()
