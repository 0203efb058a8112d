import { Prisma } from '../generated/prisma/client.ts'
import { type Changes, namedParts, partName } from '../platform/changes.ts'
import { type Database, queryWithin, type Tx } from '../platform/db.ts'
import { type HeldChanges, holdRunSql } from '../stores/run-store.ts'

/** The run has ended or was claimed again, so this attempt must not write anymore. Only holds throw this error. */
export class RunLostError extends Error {
  constructor(runId: string) {
    super(`run ${runId} no longer belongs to this attempt`)
    this.name = 'RunLostError'
  }
}

/** A run, and the attempt that executes it. */
export interface HeldRun {
  run: { id: string }
  attempt: number
}

/** A condition for statements within a hold: the run belongs to this attempt. */
export const HELD = Prisma.sql`EXISTS (SELECT 1 FROM held)`

export interface HowHeld extends HeldChanges {
  /** The name of the change whose row is returned. The default is the last change. */
  returning?: string
  /** The transaction in which to write. */
  tx?: Tx
}

/**
 * Fences the writes of a run. An attempt makes all of its writes through a hold, which writes only while the run is
 * RUNNING and belongs to this attempt. The lock of the run's row orders these writes relative to stops, ends and
 * claims.
 */
export interface Hold {
  /**
   * Applies the changes in one statement. Each change must select from `held`, select from another change that does, or
   * check `HELD`.
   * @returns the row of the last change; null if it changed nothing
   * @throws RunLostError
   */
  write<Row>(changes: Changes, how?: HowHeld): Promise<Row | null>
  /**
   * Locks the run, and then executes `work`. Its statements see everything that was committed before the lock, such as
   * answers to the run's calls.
   * @throws RunLostError
   */
  transaction<T>(work: (tx: Tx) => Promise<T>, how?: HowHeld): Promise<T>
}

export function holdOf(db: Database, held: HeldRun): Hold {
  return {
    async write<Row>(changes: Changes, how: HowHeld = {}) {
      return rowOf<Row>(held, await queryWithin(db, how.tx, heldStatement(held, changes, how)))
    },
    transaction: (work, how) =>
      db.transaction(async (tx) => {
        await writeHeld(tx, held, {}, how)
        return work(tx)
      }),
  }
}

/** Like `write`, but in an existing transaction. */
export async function writeHeld<Row>(
  tx: Tx,
  held: HeldRun,
  changes: Changes = {},
  how: HowHeld = {},
): Promise<Row | null> {
  return rowOf<Row>(held, await tx.$queryRaw<Answer[]>(heldStatement(held, changes, how)))
}

interface Answer {
  isWritten: boolean | null
}

function heldStatement({ run, attempt }: HeldRun, changes: Changes, how: HowHeld): Prisma.Sql {
  const answering = how.returning ?? Object.keys(changes).at(-1)
  const answer =
    answering === undefined
      ? Prisma.sql`SELECT false AS "isWritten" FROM held`
      : Prisma.sql`SELECT changed.* FROM held LEFT JOIN (SELECT true AS "isWritten", * FROM ${partName(answering)}) changed ON true`
  return Prisma.sql`WITH ${namedParts({ held: holdRunSql(run.id, attempt, how), ...changes })} ${answer}`
}

function rowOf<Row>({ run }: HeldRun, [first]: Answer[]): Row | null {
  if (first === undefined) throw new RunLostError(run.id)
  const { isWritten, ...row } = first
  return isWritten === true ? (row as Row) : null
}
