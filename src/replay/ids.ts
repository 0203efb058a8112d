import { isDeepStrictEqual } from 'node:util'
import { ID_PREFIXES } from '../lib/ids.ts'

/** A pattern that matches an id. */
export const ID = `\\b(?:${ID_PREFIXES.join('|')})_[0-9a-f]{32}\\b`
/** A pattern that matches a time. */
export const TIME = '\\b\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d(?::\\d\\d(?:\\.\\d+)?)?(?:Z|[+-]\\d\\d:?\\d\\d)'
const IS_ID = new RegExp(`^${ID}$`)
const IS_TIME = new RegExp(`^${TIME}$`)
const ID_OR_TIME = new RegExp(`(${ID}|${TIME})`)
const EACH_ID = new RegExp(ID, 'g')

/** Maps recorded ids to ids in the replay. Ids of people, agents and the space are the same in both. */
export interface IdMap {
  /** Records that two ids correspond. Returns false if one of them already corresponds to another id. */
  link(recorded: string, replayed: string): boolean
  /** Replaces the recorded ids in a value with the ids in the replay. Ids without a counterpart are kept. */
  toReplay<T>(value: T): T
  replayedOf(recorded: string): string | undefined
  recordedOf(replayed: string): string | undefined
  /**
   * Whether two values are equal, ignoring times and treating linked ids as equal. Links ids that have no counterpart
   * yet.
   */
  areSame(recorded: unknown, replayed: unknown): boolean
  /** Links the ids at the same positions of two values, as far as the values have the same shape. */
  learn(recorded: unknown, replayed: unknown): void
}

export function createIdMap(): IdMap {
  const forth = new Map<string, string>()
  const back = new Map<string, string>()

  function link(recorded: string, replayed: string): boolean {
    const [to, from] = [forth.get(recorded), back.get(replayed)]
    if (to !== undefined || from !== undefined) return to === replayed && from === recorded
    forth.set(recorded, replayed)
    back.set(replayed, recorded)
    return true
  }

  function areSameTexts(recorded: string, replayed: string): boolean {
    if (recorded === replayed && !ID_OR_TIME.test(recorded)) return true
    const [a, b] = [recorded.split(ID_OR_TIME), replayed.split(ID_OR_TIME)]
    return a.length === b.length && a.every((piece, index) => areSamePieces(piece, b[index] ?? ''))
  }

  function areSamePieces(recorded: string, replayed: string): boolean {
    if (IS_ID.test(recorded) && IS_ID.test(replayed))
      return recorded.slice(0, 3) === replayed.slice(0, 3) && link(recorded, replayed)
    return recorded === replayed || (IS_TIME.test(recorded) && IS_TIME.test(replayed))
  }

  function areSame(recorded: unknown, replayed: unknown): boolean {
    if (typeof recorded === 'string' && typeof replayed === 'string') return areSameTexts(recorded, replayed)
    if (Array.isArray(recorded) && Array.isArray(replayed))
      return recorded.length === replayed.length && recorded.every((one, index) => areSame(one, replayed[index]))
    if (typeof recorded !== 'object' || typeof replayed !== 'object' || recorded === null || replayed === null)
      return isDeepStrictEqual(recorded, replayed)
    if (Array.isArray(recorded) || Array.isArray(replayed)) return false
    const [a, b] = [recorded as Record<string, unknown>, replayed as Record<string, unknown>]
    const [keys, others] = [Object.keys(a).sort(), Object.keys(b).sort()]
    return isDeepStrictEqual(keys, others) && keys.every((key) => areSame(a[key], b[key]))
  }

  function learnTexts(recorded: string, replayed: string): void {
    const [a, b] = [recorded.match(EACH_ID) ?? [], replayed.match(EACH_ID) ?? []]
    if (a.length !== b.length) return
    for (const [index, id] of a.entries()) if (id.slice(0, 3) === b[index]?.slice(0, 3)) link(id, b[index])
  }

  function learn(recorded: unknown, replayed: unknown): void {
    if (typeof recorded === 'string' && typeof replayed === 'string') learnTexts(recorded, replayed)
    if (typeof recorded !== 'object' || typeof replayed !== 'object' || recorded === null || replayed === null) return
    const isList = Array.isArray(recorded) && Array.isArray(replayed)
    if (isList && recorded.length !== replayed.length) return
    for (const [key, value] of Object.entries(recorded)) learn(value, (replayed as Record<string, unknown>)[key])
  }

  function toReplay<T>(value: T): T {
    if (typeof value === 'string') return value.replace(EACH_ID, (id) => forth.get(id) ?? id) as T
    if (Array.isArray(value)) return value.map(toReplay) as T
    if (typeof value !== 'object' || value === null) return value
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, toReplay(inner)])) as T
  }

  return {
    link,
    toReplay,
    areSame,
    learn,
    replayedOf: (recorded) => forth.get(recorded),
    recordedOf: (replayed) => back.get(replayed),
  }
}
