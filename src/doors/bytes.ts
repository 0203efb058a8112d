// Keeps responses within the size limit by shortening long lists, as the connections of the GraphQL API do.
import { jsonBytes } from '../lib/json.ts'

/** Returns as many of the first values as fit into `maxBytes` of JSON. */
export function firstInBytes<T>(values: readonly T[], maxBytes: number): T[] {
  let left = maxBytes
  const end = values.findIndex((value) => {
    // The additional byte is for the comma after the value.
    left -= jsonBytes(value) + 1
    return left < 0
  })
  return end === -1 ? [...values] : values.slice(0, end)
}

/** Returns as many of the last values as fit into `maxBytes` of JSON, in their original order. */
export const lastInBytes = <T>(values: readonly T[], maxBytes: number): T[] =>
  firstInBytes(values.toReversed(), maxBytes).toReversed()
