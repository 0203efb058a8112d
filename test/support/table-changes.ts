import type { Database } from '../../src/platform/db.ts'

/**
 * Tables whose rows change without an operation's doing: the last use of a token, what a process notes about itself
 * and others, and the log of rates.
 */
const VOLATILE = ['AccessToken', 'FileStorageUse', 'ModelProviderHealth', 'ReadinessCheck', '_prisma_migrations']

/** All rows of a database as JSON texts, each with the number of its copies. */
export type Rows = Map<string, number>

/** Reads all rows, and the unfinished and failed jobs, of an application's database. */
export async function readRows({ prisma }: Database): Promise<Rows> {
  const tables = await prisma.$queryRaw<{ name: string }[]>`
    SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public' ORDER BY tablename`
  const rows: Rows = new Map()
  const add = (text: string) => rows.set(text, (rows.get(text) ?? 0) + 1)
  for (const { name } of tables) {
    if (VOLATILE.includes(name)) continue
    const found = await prisma.$queryRawUnsafe<{ text: string }[]>(
      `SELECT (to_jsonb(t) - 'searchVector' - 'searchText')::text AS text FROM "${name}" t`,
    )
    for (const { text } of found) add(`${name} ${text}`)
  }
  const jobs = await prisma.$queryRaw<{ name: string; state: string }[]>`
    SELECT name, state::text AS state FROM pgboss.job WHERE state IN ('active', 'retry', 'failed')
      OR (state = 'created' AND start_after <= now())`
  for (const { name, state } of jobs) add(`job ${name} ${state}`)
  return rows
}

/** The rows that were added and removed, sorted, with ids, times and secrets replaced by their kind. */
export function changesOf(before: Rows, after: Rows): string[] {
  const changes: string[] = []
  for (const text of new Set([...before.keys(), ...after.keys()])) {
    const count = (after.get(text) ?? 0) - (before.get(text) ?? 0)
    for (let n = 0; n < Math.abs(count); n++) changes.push(`${count > 0 ? '+' : '-'} ${masked(text)}`)
  }
  return changes.sort()
}

const masked = (text: string) =>
  text
    .replace(/\b([a-z]{3})_[0-9a-z]{20,}/g, '$1#')
    .replace(/\d{4}-\d\d-\d\d[T ][\d:.]+(Z|[+-]\d\d(:\d\d)?)?/g, 'T')
    .replace(/\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}\b/g, 'uuid')
    .replace(/(\\\\x)?[0-9a-f]{32,}/g, 'hex')
    .replace(/"[\w+/=-]{32,}"/g, '"secret"')
    .replace(/"(\w*(?:Ms|At|Nanos|Tokens|usageDay|day))": (-?\d+|"\d{4}-\d\d-\d\d")/g, '"$1": n')
