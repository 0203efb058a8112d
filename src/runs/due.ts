import { Prisma } from '../generated/prisma/client.ts'
import { messageOf } from '../lib/errors.ts'
import type { Platform } from '../platform/platform.ts'

/** A kind of rows that become due, and their handler. */
export interface Timed {
  /** A description of one row for the log. */
  what: string
  /** A SELECT of `id` and of the due time as `at`. There must be an index for finding the earliest row. */
  rows: Prisma.Sql
  /** Handles at most 500 due rows. Rows that fail or are skipped are due again a second later. */
  handle(ids: string[]): Promise<void>
}

/**
 * Finds due rows of all kinds with one query, according to the database clock. Every process polls for them. The
 * handlers lock the rows that they handle.
 */
export interface Due {
  /** Starts to handle the due rows. @returns the time in ms until the next row is due; Infinity if none is known */
  look(): Promise<number>
  /** Resolves when no handler is running. */
  idle(): Promise<void>
}

const MOST_AT_ONCE = 500
const AT_THE_SAME_TIME = 8

export function createDue({ db, logger }: Platform, timed: Timed[]): Due {
  const statement = Prisma.join(timed.map(lookFor), ' UNION ALL ')
  const underWay = new Map<number, Promise<void>>()

  /** Handlers of different kinds run concurrently, so that a slow kind does not delay another. */
  function handle(source: number, ids: string[]): void {
    const { what, handle } = timed[source] as Timed
    if (ids.length === 0 || underWay.has(source)) return
    const work = handle(ids)
      .catch((error) => logger.error({ ids, error: messageOf(error) }, `could not handle ${what}`))
      .finally(() => underWay.delete(source))
    underWay.set(source, work)
  }

  return {
    async look() {
      const rows = await db.query<{ source: number; id: string | null; inMs: number }>(statement)
      for (const source of timed.keys())
        handle(
          source,
          rows.flatMap((row) => (row.source === source && row.id !== null ? [row.id] : [])),
        )
      return Math.min(...rows.map(({ id, inMs }) => (id === null ? inMs : Number.POSITIVE_INFINITY)))
    },
    async idle() {
      await Promise.all(underWay.values())
    },
  }
}

/** Selects the due rows. A row with a null id contains the time in ms until the next row is due. */
function lookFor({ rows }: Timed, index: number): Prisma.Sql {
  const source = Prisma.raw(String(index))
  return Prisma.sql`
    (SELECT ${source} AS source, d.id, 0::float8 AS "inMs" FROM (${rows}) d WHERE d.at <= now() ORDER BY d.at LIMIT ${MOST_AT_ONCE})
    UNION ALL
    (SELECT ${source}, NULL, (extract(epoch FROM n.at - now()) * 1000)::float8 FROM (${rows}) n
      WHERE n.at > now() ORDER BY n.at LIMIT 1)`
}

/**
 * Runs `task` for each id, a few at a time. If one fails, the others still run.
 * @throws the first failure, at the end
 */
export async function forEach(ids: string[], task: (id: string) => Promise<void>): Promise<void> {
  const left = [...ids]
  const failures: unknown[] = []
  const takeTurns = async () => {
    for (let id = left.shift(); id !== undefined; id = left.shift()) {
      await task(id).catch((error) => failures.push(error))
    }
  }
  await Promise.all(Array.from({ length: AT_THE_SAME_TIME }, takeTurns))
  if (failures.length > 0) throw failures[0]
}
