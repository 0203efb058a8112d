import { Prisma } from '../generated/prisma/client.ts'
import { type Changes, namedParts, partName } from '../platform/changes.ts'
import { type Database, queryWithin, type Tx } from '../platform/db.ts'

/** The run has ended or was claimed again, so this attempt may write nothing more. Thrown only by holds. */
export class RunLostError extends Error {
  constructor(runId: string) {
    super(`run ${runId} no longer belongs to this attempt`)
    this.name = 'RunLostError'
  }
}

/** A run with the attempt that executes it. */
export interface HeldRun {
  run: { id: string }
  attempt: number
}

/** Condition within a hold's statement: the run belongs to this attempt. */
export const HELD = Prisma.sql`EXISTS (SELECT 1 FROM held)`

export interface HowHeld {
  /** Changes of the run's own row. */
  sets?: Prisma.Sql
  /** The write is durable progress: it resets the count of fruitless attempts. */
  isProgress?: boolean
  /** The change whose row is returned; default: the last one. */
  returning?: string
  /** The transaction to write in. */
  tx?: Tx
}

/**
 * Fences the writes of a run: all of its work is written through a hold, and only while the run is
 * RUNNING under this attempt. The row lock orders the writes against stops, ends and claims.
 */
export interface Hold {
  /**
   * Applies the changes in one statement. Each change must read `FROM held`, or from one that does,
   * or check `HELD`.
   * @returns the row of the last one, or null if it changed nothing
   * @throws RunLostError
   */
  write<Row>(changes: Changes, how?: HowHeld): Promise<Row | null>
  /** Like `write`, and runs `then` in the same transaction. @throws RunLostError */
  writeThen<Row, T>(changes: Changes, how: HowHeld, then: (tx: Tx, row: Row | null) => Promise<T>): Promise<T>
  /**
   * Locks the run, then runs `work`, whose statements see what was committed before the lock, such
   * as answers to its calls.
   * @throws RunLostError
   */
  transaction<T>(work: (tx: Tx) => Promise<T>, how?: HowHeld): Promise<T>
}

export function holdOf(db: Database, held: HeldRun): Hold {
  return {
    async write<Row>(changes: Changes, how: HowHeld = {}) {
      return rowOf<Row>(held, await queryWithin(db, how.tx, heldStatement(held, changes, how)))
    },
    writeThen: (changes, how, then) => db.transaction(async (tx) => then(tx, await writeHeld(tx, held, changes, how))),
    transaction: (work, how) =>
      db.transaction(async (tx) => {
        await writeHeld(tx, held, {}, how)
        return work(tx)
      }),
  }
}

/** Like `write`, in an existing transaction. */
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
  return Prisma.sql`WITH ${namedParts({ held: heldRow(run.id, attempt, how), ...changes })} ${answer}`
}

function rowOf<Row>({ run }: HeldRun, [first]: Answer[]): Row | null {
  if (first === undefined) throw new RunLostError(run.id)
  const { isWritten, ...row } = first
  return isWritten === true ? (row as Row) : null
}

/**
 * Returns one row while the run belongs to the attempt. Locks it, so that a concurrent stop waits
 * for the transaction.
 */
function heldRow(runId: string, attempt: number, { sets, isProgress = false }: HowHeld): Prisma.Sql {
  const isHeld = Prisma.sql`id = ${runId} AND status = 'RUNNING' AND attempt = ${attempt}`
  const changes = [...(isProgress ? [Prisma.sql`"fruitlessAttempts" = 0`] : []), ...(sets === undefined ? [] : [sets])]
  if (changes.length === 0) return Prisma.sql`SELECT ${HELD_COLUMNS} FROM "Run" WHERE ${isHeld} FOR NO KEY UPDATE`
  return Prisma.sql`UPDATE "Run" SET ${Prisma.join(changes)} WHERE ${isHeld} RETURNING ${HELD_COLUMNS}`
}

/** Columns of the run for its changes: the owners of its usage, besides its agent (ledger.ts), and its marks. */
const HELD_COLUMNS = Prisma.sql`id AS "runId", "agentId", status AS "runStatus", "rootId" AS "payingRootId",
  coalesce("deepestSpaceId", "triggerSpaceId") AS "payingSpaceId", places AS "runPlaces", label AS "runLabel"`
