import { createVisibility } from '../../src/access/visibility.ts'
import { createWebhooks, type Webhooks } from '../../src/agents/webhooks.ts'
import { createPlanFiring, type Firing } from '../../src/flows/fire-plan.ts'
import { createWebhookDeliveries, type WebhookDeliveries } from '../../src/flows/receive-webhook.ts'
import { createTriggers, type Triggers } from '../../src/flows/trigger-agent.ts'
import { Prisma } from '../../src/generated/prisma/client.ts'
import { openJobs } from '../../src/jobs/jobs.ts'
import { FIRE_PLAN } from '../../src/jobs/queues.ts'
import { createPlans, type Plans } from '../../src/plans/plans.ts'
import type { Platform } from '../../src/platform/platform.ts'

/** The parts that wake agents by other means than messages, connected as in src/app.ts. */
export interface Planning {
  plans: Plans
  firing: Firing
  triggers: Triggers
  webhooks: Webhooks & WebhookDeliveries
  /** One pass of a worker: restores jobs, and runs the jobs of due plans. */
  serve(): Promise<void>
}

/** `databaseNow` is the time that decides which slots are due, in milliseconds. By default, it is the platform's time. */
export function createPlanning(platform: Platform, databaseNow = platform.clock.now): Planning {
  const triggers = createTriggers(platform, { visibility: createVisibility(platform) })
  const firing = createPlanFiring(platform, () => Prisma.sql`${new Date(databaseNow())}::timestamptz`)
  return {
    plans: createPlans(platform),
    firing,
    async serve() {
      await firing.restore()
      const jobs = await platform.db.prisma.$queryRaw<{ id: string; planId: string }[]>`
        SELECT id::text, data->>'planId' AS "planId" FROM pgboss.job
        WHERE name = ${FIRE_PLAN.name} AND state = 'created' AND start_after <= ${new Date(databaseNow())} ORDER BY start_after`
      for (const { id, planId } of jobs)
        await firing.fire(planId, {
          async complete(tx) {
            await tx.$executeRaw`UPDATE pgboss.job SET state = 'completed' WHERE id = ${id}::uuid`
          },
        })
    },
    triggers,
    webhooks: {
      ...createWebhooks(platform),
      ...createWebhookDeliveries(platform, triggers),
    },
  }
}

/** A platform without jobs, and a job queue that no worker serves. */
export async function withJobs(platform: Platform): Promise<Platform> {
  const onError = (error: Error) => console.error(error)
  const jobs = await openJobs(platform.db, { supervise: false, onError })
  return { ...platform, jobs }
}
