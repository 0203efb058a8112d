import { Prisma } from '../generated/prisma/client.ts'
import { type Changes, namedParts, partName } from '../platform/changes.ts'
import { type Database, queryWithin, type Tx } from '../platform/db.ts'

/** The run is over or was taken over by another worker: nothing of it may be written any more. Only holds throw it. */
export class RunLostError extends Error {
  constructor(runId: string) {
    super(`${runId} is no longer this worker's`)
    this.name = 'RunLostError'
  }
}

/** A run under the claim that executes it. */
export interface HeldRun {
  run: { id: string }
  attempt: number
}

/** A condition within a hold's statement: the run is this claim's. */
export const HELD = Prisma.sql`EXISTS (SELECT 1 FROM held)`

export interface HowHeld {
  /** What changes of the run itself. */
  sets?: Prisma.Sql
  /** Something came of this claim that lasts: it does not count as a fruitless one. */
  isProgress?: boolean
  /** Which of the changes answers with its row; the last one if not given. */
  returning?: string
  /** The transaction that it is a part of. */
  tx?: Tx
}

/**
 * A claim's hold on its run: the only way in which a run's work reaches the database. What is written under it is written
 * while the run is RUNNING under this attempt, or not at all: a stop, an end or another claim comes before or after.
 */
export interface Hold {
  /** Changes in one statement: each must read `FROM held`, or from one that does, or ask for `HELD`. @returns the row of the last one, null where it changed none @throws RunLostError */
  write<Row>(changes: Changes, how?: HowHeld): Promise<Row | null>
  /** `write`, and what follows from it in the same transaction. @throws RunLostError */
  writeThen<Row, T>(changes: Changes, how: HowHeld, then: (tx: Tx, row: Row | null) => Promise<T>): Promise<T>
  /**
   * Work whose statements each see what was committed before the run was held, answers to its calls among it.
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

/** The same within a transaction that there is already. */
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

/** One row as long as the run is the claim's: a stop that comes at the same time waits for the transaction's end. */
function heldRow(runId: string, attempt: number, { sets, isProgress = false }: HowHeld): Prisma.Sql {
  const isHeld = Prisma.sql`id = ${runId} AND status = 'RUNNING' AND attempt = ${attempt}`
  const changes = [...(isProgress ? [Prisma.sql`"fruitlessAttempts" = 0`] : []), ...(sets === undefined ? [] : [sets])]
  if (changes.length === 0) return Prisma.sql`SELECT ${HELD_COLUMNS} FROM "Run" WHERE ${isHeld} FOR NO KEY UPDATE`
  return Prisma.sql`UPDATE "Run" SET ${Prisma.join(changes)} WHERE ${isHeld} RETURNING ${HELD_COLUMNS}`
}

/** What a run's changes may read of it: what its usage counts for, besides its agent (ledger.ts), and its marks. */
const HELD_COLUMNS = Prisma.sql`id AS "runId", "agentId", status AS "runStatus", "rootId" AS "payingRootId",
  coalesce("deepestSpaceId", "triggerSpaceId") AS "payingSpaceId", places AS "runPlaces", label AS "runLabel"`
