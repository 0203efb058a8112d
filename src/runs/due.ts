import { Prisma } from '../generated/prisma/client.ts'
import { messageOf } from '../lib/errors.ts'
import type { Platform } from '../platform/platform.ts'

/** Rows that have a time, and what is to be done when it has come. */
export interface Timed {
  /** One of them, for the log. */
  what: string
  /** A SELECT of `id` and `at`, the time of each: an index answers which is the next. */
  rows: Prisma.Sql
  /** Those whose time has come, at most 500. Whatever is not done then, or fails, is found due again a second later. */
  handle(ids: string[]): Promise<void>
}

/** What has a time, in one look by the database's clock: every process looks, and the rows decide whose hands are first. */
export interface Due {
  /** Begins to handle what is due, and says in how many milliseconds something else will be: Infinity when nothing is known. */
  look(): Promise<number>
  /** Resolves when nothing is being handled. */
  idle(): Promise<void>
}

const MOST_AT_ONCE = 500
const AT_THE_SAME_TIME = 8

export function createDue({ db, logger }: Platform, timed: Timed[]): Due {
  const statement = Prisma.join(timed.map(lookFor), ' UNION ALL ')
  const underWay = new Map<number, Promise<void>>()

  /** Rows of one kind keep those of another waiting no longer than rows of their own. */
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

/** Those that are due, and, without its id, in how many milliseconds the next one will be. */
function lookFor({ rows }: Timed, index: number): Prisma.Sql {
  const source = Prisma.raw(String(index))
  return Prisma.sql`
    (SELECT ${source} AS source, d.id, 0::float8 AS "inMs" FROM (${rows}) d WHERE d.at <= now() ORDER BY d.at LIMIT ${MOST_AT_ONCE})
    UNION ALL
    (SELECT ${source}, NULL, (extract(epoch FROM n.at - now()) * 1000)::float8 FROM (${rows}) n
      WHERE n.at > now() ORDER BY n.at LIMIT 1)`
}

/** Each of them, a few at a time; one that fails does not keep the others from it. @throws the first failure, at the end */
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
