import { createVisibility } from '../../src/access/visibility.ts'
import { createInbox } from '../../src/agents/inbox.ts'
import { createTriggers, type Triggers } from '../../src/agents/triggers.ts'
import { createWaking } from '../../src/agents/waking.ts'
import { createWebhookDeliveries, type WebhookDeliveries } from '../../src/agents/webhook-deliveries.ts'
import { createWebhooks, type Webhooks } from '../../src/agents/webhooks.ts'
import { Prisma } from '../../src/generated/prisma/client.ts'
import { createPlanFiring, type Firing } from '../../src/plans/firing.ts'
import { createPlans, type Plans } from '../../src/plans/plans.ts'
import { openJobs } from '../../src/platform/jobs.ts'
import type { Platform } from '../../src/platform/platform.ts'
import { createRuns } from '../../src/runs/runs.ts'

/** What wakes agents other than messages, tied together as src/app.ts does it. */
export interface Planning {
  plans: Plans
  firing: Firing
  triggers: Triggers
  webhooks: Webhooks & WebhookDeliveries
}

export const BASE_URL = 'https://parley.test'

/** `databaseNow`: the time by which slots are due, in milliseconds; otherwise the platform's. */
export function createPlanning(platform: Platform, databaseNow = platform.clock.now): Planning {
  const waking = createWaking({ inbox: createInbox(platform), startRuns: createRuns(platform).start })
  const triggers = createTriggers(platform, { visibility: createVisibility(platform), waking })
  return {
    plans: createPlans(platform),
    firing: createPlanFiring(platform, {
      wake: (tx, { agent, ...due }) => waking.wake(tx, agent, { type: 'PLAN', ...due }),
      now: () => Prisma.sql`${new Date(databaseNow())}::timestamptz`,
    }),
    triggers,
    webhooks: {
      ...createWebhooks(platform, { baseUrl: () => BASE_URL }),
      ...createWebhookDeliveries(platform, triggers),
    },
  }
}

/** A platform without jobs, with jobs: a queue that nothing serves. */
export async function withJobs(platform: Platform): Promise<Platform> {
  const onError = (error: Error) => console.error(error)
  const jobs = await openJobs(platform.db, { supervise: false, onError })
  // pg-boss looks a new queue up at its first use, on another connection than a transaction's: PGlite has no other.
  await jobs.claim(1)
  return { ...platform, jobs }
}
