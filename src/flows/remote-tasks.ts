import { CANCEL_REMOTE_TASK, DUE_JOBS_CHANNEL } from '../jobs/queues.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { remoteCallsOf } from '../stores/call-store.ts'

/**
 * Enqueues jobs that cancel the tasks that a run has started on other servers, because the answers are no longer
 * needed. Returns whether there are such tasks. In that case, the caller must publish DUE_JOBS_CHANNEL after the
 * commit.
 */
export async function enqueueCancellations(tx: Tx, jobs: Platform['jobs'], runId: string): Promise<boolean> {
  const tasks = await remoteCallsOf(tx, runId)
  await jobs.enqueue(
    tx,
    CANCEL_REMOTE_TASK,
    tasks.map(({ id }) => ({ input: { toolCallId: id } })),
  )
  return tasks.length > 0
}

/** Cancels the tasks that a run has started on other servers. */
export async function cancelRemoteTasksOf({ db, jobs, signals }: Platform, runId: string): Promise<void> {
  if (await enqueueCancellations(db.prisma, jobs, runId)) await signals.publish(DUE_JOBS_CHANNEL, {})
}
