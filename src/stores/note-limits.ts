import { isKnownTo, isOfLabel, type Marks, marksOf } from '../confidentiality/marks.ts'
import { Prisma } from '../generated/prisma/client.ts'
import { LimitExceededError } from '../lib/errors.ts'
import type { Tx } from '../platform/db.ts'

/** An agent has at most this many times the memories, goals or plans that one run may have, over all confidentiality labels. */
const MOST_LABELS = 20
/**
 * Each label may have this share of what a run may have even if the agent has reached the total, so that those who use it up exclude
 * nobody.
 */
const OWN_SHARE = 0.02

/** The rows of an agent that runs write. */
export interface NumberedNotes {
  table: 'Memory' | 'Goal' | 'Plan'
  /** The plural that messages use. */
  what: string
  /** How many a run may have. */
  most: number
  /** A condition on the rows that count. */
  counted?: Prisma.Sql
}

/**
 * Checks the number of an agent's rows after a write with these marks. Only rows that the run may read count towards `most`.
 * Otherwise one human could fill the limit with rows that other runs can neither read nor delete. The caller holds the lock of
 * the agent's row.
 * @param readable the number of rows that the run may read, if the caller knows it; that often makes a statement unnecessary
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
