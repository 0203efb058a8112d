import { v7 as uuidv7 } from 'uuid'

/** What an id can name; the prefix of every id of ours. */
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
] as const

export type IdPrefix = (typeof ID_PREFIXES)[number]

/** A new id: the prefix, `_`, and 32 hexadecimal digits of a UUID version 7, so that ids sort by the time they were made. */
export function newId(prefix: IdPrefix): string {
  return `${prefix}_${uuidv7().replaceAll('-', '')}`
}

/** Before every id of a run that is made from that time on, and after those made before. */
export function runIdAt(ms: number): string {
  return `run_${Math.max(0, Math.floor(ms)).toString(16).padStart(12, '0')}`
}

/** Those that are well-formed: what cannot be an id of ours is not looked for (PostgreSQL refuses a text with NUL). */
export function wellFormedIds(ids: readonly string[]): string[] {
  return ids.filter((id) => prefixOf(id) !== null)
}

/** The prefix of a well-formed id; null for anything else. */
export function prefixOf(id: string): IdPrefix | null {
  const match = /^([a-z]{3})_[0-9a-f]{32}$/.exec(id)
  const prefix = match?.[1] as IdPrefix | undefined
  return prefix !== undefined && ID_PREFIXES.includes(prefix) ? prefix : null
}
