import type { Database } from '../../src/platform/db.ts'

/** An object with a database that a later test file in the same process can use once its tables are empty. */
export interface Reusable {
  db: Pick<Database, 'prisma'>
  /** The shape of the database when it was new: see `shapeOf`. */
  shape: string
  /** Resolves when nothing uses the database any more. */
  settle(): Promise<void>
  /** Closes everything. Removes the database or, if it is empty, may leave it to an application with other options. */
  dispose(state?: { isEmpty: boolean }): Promise<void>
}

/**
 * The applications and databases that finished test files leave to later ones, by their options, least recently used first.
 * Starting an application costs about a second of processor time. PostgreSQL uses most of it, because new connections plan each
 * statement again.
 */
const kept: { key: string; item: Reusable }[] = []
/** Each of these holds connections of a PostgreSQL that has a hundred for all processes. */
const MOST_KEPT = 3
/** Larger tables stay large after their rows are deleted, and are slow to scan. */
const MOST_BYTES = 30_000_000

/** Only test files in the same process can reuse an item: see vitest.config.ts. */
const isReusing = process.env['TEST_REUSE'] === '1'

/** Returns the item that was kept under this key. It then belongs to the caller. */
export function takeKept<Item extends Reusable>(key: string): Item | undefined {
  const index = kept.findIndex((one) => one.key === key)
  return index < 0 ? undefined : (kept.splice(index, 1)[0]?.item as Item)
}

/**
 * Empties the database, and keeps the item under the key. Disposes of the item if there is no key, or if the database was
 * changed.
 */
export async function keepOrDispose(key: string | null, item: Reusable): Promise<void> {
  if (key === null || !isReusing || !(await isEmptied(item))) return item.dispose()
  kept.push({ key, item })
  if (kept.length > MOST_KEPT) await kept.shift()?.item.dispose({ isEmpty: true })
}

/** Returns false if tests have closed the database, changed its schema or filled its tables. */
async function isEmptied({ db, shape, settle }: Reusable): Promise<boolean> {
  try {
    await settle()
    if ((await shapeOf(db)) !== shape) return false
    await db.prisma.$executeRawUnsafe(DELETE_ALL)
    return true
  } catch {
    return false
  }
}

/** Identifies the schema of a database. The result also changes if the database exceeds `MOST_BYTES`. */
export async function shapeOf({ prisma }: Pick<Database, 'prisma'>): Promise<string> {
  const [row] = await prisma.$queryRaw<{ shape: string }[]>`
    SELECT concat_ws(',',
      (SELECT count(*) FROM pg_trigger), (SELECT count(*) FROM pg_constraint), (SELECT count(*) FROM pg_attribute),
      (SELECT sum(hashtext(prosrc)) FROM pg_proc WHERE pronamespace IN ('public'::regnamespace, 'pgboss'::regnamespace)),
      pg_database_size(current_database()) > ${MOST_BYTES}::int) AS shape`
  return row?.shape ?? ''
}

/** Disables triggers and foreign keys. */
const DELETE_ALL = `DO $$
  DECLARE item text;
  BEGIN
    SET LOCAL session_replication_role = replica;
    FOR item IN
      SELECT format('DELETE FROM %I.%I', schemaname, tablename) FROM pg_tables
      WHERE schemaname = 'public' AND tablename <> '_prisma_migrations' OR schemaname = 'pgboss' AND tablename = 'job_common'
    LOOP EXECUTE item; END LOOP;
  END $$`
