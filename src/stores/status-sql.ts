import { Prisma } from '../generated/prisma/client.ts'
import {
  ACTIVE_RUN_STATUSES,
  ENDED_RUN_STATUSES,
  FINAL_MESSAGE_STATUSES,
  HANDED_OUT_CALL_STATUSES,
  OPEN_CALL_STATUSES,
  OPEN_MESSAGE_STATUSES,
  SETTLED_CALL_STATUSES,
  UNCLAIMED_RUN_STATUSES,
} from '../rules/statuses.ts'

// Lists of statuses for use after IN. The lists are literals, because PostgreSQL cannot match a parameter with the
// condition of a partial index.

export const ACTIVE_RUNS_SQL = literalsSql(ACTIVE_RUN_STATUSES)
export const UNCLAIMED_RUNS_SQL = literalsSql(UNCLAIMED_RUN_STATUSES)
export const ENDED_RUNS_SQL = literalsSql(ENDED_RUN_STATUSES)
export const OPEN_CALLS_SQL = literalsSql(OPEN_CALL_STATUSES)
export const SETTLED_CALLS_SQL = literalsSql(SETTLED_CALL_STATUSES)
export const HANDED_OUT_CALLS_SQL = literalsSql(HANDED_OUT_CALL_STATUSES)
export const OPEN_MESSAGES_SQL = literalsSql(OPEN_MESSAGE_STATUSES)
export const FINAL_MESSAGES_SQL = literalsSql(FINAL_MESSAGE_STATUSES)

/** SQL condition: the run `r` is an active think cycle. */
export const IS_ACTIVE_CYCLE_SQL = Prisma.sql`r."triggerType" = 'INBOX' AND r.status IN ${ACTIVE_RUNS_SQL}`

function literalsSql(statuses: readonly string[]): Prisma.Sql {
  return Prisma.raw(`(${statuses.map((status) => `'${status}'`).join(', ')})`)
}
