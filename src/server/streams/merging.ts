import type { Told } from './feed.ts'

/** The fields of an event that merging reads. */
interface Mergeable {
  type?: string
  [field: string]: unknown
}

/** Events that append text, with the fields that must be equal for two of them to be joined. */
const DELTAS: Readonly<Record<string, readonly string[]>> = {
  MessageTextDelta: ['messageId', 'partIndex'],
  RunTextDelta: ['step'],
  RunReasoningDelta: ['step'],
  RunToolInputDelta: ['step', 'toolCallId'],
}

/**
 * Events that name a changed entity, which is read at delivery. Those between the first and the last of a
 * kind add nothing.
 */
const CHANGES: Readonly<Record<string, readonly string[]>> = {
  MessageUpdated: ['messageId'],
  MessagePartChanged: ['messageId', 'partIndex'],
  SpaceUpdated: [],
  RunToolCallChanged: ['toolCallId'],
}

/** The maximum length of a joined delta in UTF-16 units, so that merging creates no large event. */
const MOST_JOINED = 8 * 1024

/**
 * Merges the waiting events of a subscriber that is past its pace. Consecutive deltas of one text become one
 * delta; of several changes of one entity the first and the last stay. Resuming after any merged event loses
 * nothing: a joined delta has the cursor of its last part with nothing in between, and a removed change is
 * followed by the last one of its kind.
 */
export function mergeWaiting<E extends object>(waiting: readonly Told<E>[]): Told<E>[] {
  const merged: Told<E>[] = []
  for (const told of withoutSuperseded(waiting)) {
    const joined = joinedDelta(merged.at(-1), told)
    if (joined === null) merged.push(told)
    else merged[merged.length - 1] = joined
  }
  return merged
}

function withoutSuperseded<E extends object>(waiting: readonly Told<E>[]): Told<E>[] {
  const keys = waiting.map(({ event }) => keyOf(event as Mergeable, CHANGES))
  const first = new Map<string, number>()
  const last = new Map<string, number>()
  for (const [index, key] of keys.entries()) {
    if (key === null) continue
    if (!first.has(key)) first.set(key, index)
    last.set(key, index)
  }
  return waiting.filter((_, index) => {
    const key = keys[index] ?? null
    return key === null || first.get(key) === index || last.get(key) === index
  })
}

/** Returns null unless both are consecutive deltas of one text. */
function joinedDelta<E extends object>(before: Told<E> | undefined, told: Told<E>): Told<E> | null {
  if (before === undefined) return null
  const [first, second] = [before.event as Mergeable, told.event as Mergeable]
  const key = keyOf(second, DELTAS)
  if (key === null || keyOf(first, DELTAS) !== key) return null
  const { delta: start, offset } = first
  const { delta: rest } = second
  if (typeof start !== 'string' || typeof rest !== 'string' || start.length + rest.length > MOST_JOINED) return null
  if (typeof offset === 'number' && second['offset'] !== offset + start.length) return null
  if (first['confidential'] !== second['confidential']) return null
  const own = typeof offset === 'number' ? { delta: start + rest, offset } : { delta: start + rest }
  return { of: null, event: { ...told.event, ...own } }
}

function keyOf(event: Mergeable, kinds: Readonly<Record<string, readonly string[]>>): string | null {
  const { type = '' } = event
  const fields = Object.hasOwn(kinds, type) ? kinds[type] : undefined
  return fields === undefined ? null : JSON.stringify([type, ...fields.map((field) => event[field])])
}
