import { z } from 'zod'

/** How many days rows are kept; null keeps them forever. */
export interface Retention {
  messagesDays: number | null
  runsDays: number | null
  auditDays: number | null
}

const days = z
  .string()
  .regex(/^\d+$/, 'must be a whole number of days')
  .transform(Number)
  .refine((value) => value >= 1 && value <= 36_500, 'must be between 1 and 36500')
  .optional()

export const RETENTION_VARIABLES = {
  PARLEY_KEEP_MESSAGES_DAYS: days,
  PARLEY_KEEP_RUNS_DAYS: days,
  PARLEY_KEEP_AUDIT_DAYS: days,
}

interface Set {
  PARLEY_KEEP_MESSAGES_DAYS?: number | undefined
  PARLEY_KEEP_RUNS_DAYS?: number | undefined
  PARLEY_KEEP_AUDIT_DAYS?: number | undefined
}

export function retentionOf(set: Set): Retention {
  return {
    messagesDays: set.PARLEY_KEEP_MESSAGES_DAYS ?? null,
    runsDays: set.PARLEY_KEEP_RUNS_DAYS ?? null,
    auditDays: set.PARLEY_KEEP_AUDIT_DAYS ?? null,
  }
}
