import { v7 as uuidv7 } from 'uuid'

/** The prefixes of ids, one for each kind of object. */
export const ID_PREFIXES = [
  'spc',
  'msg',
  'agt',
  'hum',
  'run',
  'tcl',
  'pln',
  'plf',
  'gol',
  'mem',
  'inb',
  'cyc',
  'acc',
  'whk',
  'chn',
  'stp',
  'trg',
  'ntf',
  'aud',
  'job',
  'grt',
  'ses',
  'jln',
  'agv',
  'fil',
  'psh',
  'ntc',
  'inv',
] as const

export type IdPrefix = (typeof ID_PREFIXES)[number]

/**
 * Creates an id: the prefix, `_`, and the 32 hexadecimal digits of a UUID version 7, so that ids sort by time of
 * creation.
 */
export function newId(prefix: IdPrefix): string {
  return `${prefix}_${uuidv7().replaceAll('-', '')}`
}

/**
 * Returns a run id that sorts before every id that is created at or after `ms`, and after all ids that were created
 * earlier.
 */
export function runIdAt(ms: number): string {
  return `run_${Math.max(0, Math.floor(ms)).toString(16).padStart(12, '0')}`
}

/** Returns the well-formed ids. Other ids need no lookup, and PostgreSQL would reject text with NUL. */
export function wellFormedIds(ids: readonly string[]): string[] {
  return ids.filter((id) => prefixOf(id) !== null)
}

/** Returns the prefix of a well-formed id; null for any other text. */
export function prefixOf(id: string): IdPrefix | null {
  const match = /^([a-z]{3})_[0-9a-f]{32}$/.exec(id)
  const prefix = match?.[1] as IdPrefix | undefined
  return prefix !== undefined && ID_PREFIXES.includes(prefix) ? prefix : null
}
