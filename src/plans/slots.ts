import type { Prisma } from '../generated/prisma/client.ts'
import { FAILED_JOBS } from '../jobs/queue-options.ts'
import { FIRE_PLAN } from '../jobs/queues.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'

/** Returns the key of a slot. It is the key of the slot's job, and of its run or inbox event. */
export function firingKey({ planId, slot }: { planId: string; slot: Date }): string {
  return `${planId}:${slot.toISOString()}`
}

/** Enqueues the jobs for the plans' next slots, unless a job for the same slot is already waiting. */
export async function enqueueSlots(
  tx: Tx,
  jobs: Platform['jobs'],
  plans: readonly { id: string; nextRunAt: Date }[],
): Promise<void> {
  const entries = plans.map(({ id: planId, nextRunAt: slot }) => ({
    input: { planId },
    at: slot,
    key: firingKey({ planId, slot }),
  }))
  await jobs.enqueue(tx, FIRE_PLAN, entries)
}

/**
 * Returns plans that are due within a minute and have no job for their slot, neither a waiting nor a failed one. A
 * retry that is due more than an hour later is ignored, because a fast clock has postponed it.
 */
export function plansWithoutJob(tx: Tx, now: Prisma.Sql, most: number): Promise<{ id: string; nextRunAt: Date }[]> {
  return tx.$queryRaw`
    SELECT p.id, p."nextRunAt" FROM "Plan" p
    WHERE p.enabled AND p."nextRunAt" <= ${now} + interval '1 minute' AND NOT EXISTS (
      SELECT 1 FROM job j WHERE j.group_id = p.id AND (
        (j.name = ${FIRE_PLAN.name} AND j.state IN ('retry', 'active') AND j.start_after < now() + interval '1 hour')
        OR (j.singleton_key = p.id || ':' || to_char(p."nextRunAt" AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
          AND (j.name = ${FIRE_PLAN.name} AND j.state = 'created' OR j.name = ${FAILED_JOBS}))))
    ORDER BY p."nextRunAt" LIMIT ${most}`
}
