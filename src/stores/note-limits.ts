import { isKnownTo, isOfLabel, type Marks, marksOf } from '../confidentiality/marks.ts'
import { Prisma } from '../generated/prisma/client.ts'
import { LimitExceededError } from '../lib/errors.ts'
import type { Tx } from '../platform/db.ts'

/**
 * The maximum number of memories, goals or plans of an agent over all confidentiality labels, as a multiple of the
 * maximum for one run.
 */
const MOST_LABELS = 20
/**
 * The share of a run's limit that each label may use even if the agent has reached its total. Other labels cannot use
 * up this share.
 */
const OWN_SHARE = 0.02

/** A table of notes that runs write, and its limit. */
export interface NumberedNotes {
  table: 'Memory' | 'Goal' | 'Plan'
  /** The plural noun for error messages. */
  what: string
  /** The maximum number of rows for one run. */
  most: number
  /** SQL condition on the rows that count. All rows count if it is absent. */
  counted?: Prisma.Sql
}

/**
 * Checks the number of an agent's rows after a write with these marks. Only rows that the run may read count towards
 * `most`. Otherwise one human could fill the limit with rows that other runs can neither read nor delete. The caller
 * has locked the agent's row.
 * @param readable the number of rows that the run may read, if the caller knows this number; it often saves a
 * statement
 * @throws LimitExceededError
 */
export async function checkNumberOfNotes(
  tx: Tx,
  { table, what, most, counted = Prisma.sql`true` }: NumberedNotes,
  { agentId, marks, readable }: { agentId: string; marks: Marks; readable?: number },
): Promise<void> {
  const mayExceedTotal = marksOf(marks).length > 0 && (readable ?? most) > most * OWN_SHARE
  if (readable !== undefined && readable <= most && !mayExceedTotal) return
  const [row] = await tx.$queryRaw<{ known: number; alike: number; all: number }[]>`
    SELECT count(*) FILTER (WHERE ${isKnownTo(marks)})::int AS known, count(*) FILTER (WHERE ${isOfLabel(marks)})::int AS alike,
      count(*)::int AS all FROM ${Prisma.raw(`"${table}"`)} WHERE "agentId" = ${agentId} AND ${counted}`
  const { known = 0, alike = 0, all = 0 } = row ?? {}
  if (known > most) throw new LimitExceededError(`An agent has at most ${most} ${what}: delete some first.`)
  if (marksOf(marks).length > 0 && all > most * MOST_LABELS && alike > most * OWN_SHARE)
    throw new LimitExceededError(
      `An agent has at most ${most * MOST_LABELS} ${what} in all spaces together: delete some of this space first.`,
    )
}
