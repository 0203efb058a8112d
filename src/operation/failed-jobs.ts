import type { Viewer } from '../access/viewer.ts'
import { Prisma } from '../generated/prisma/client.ts'
import { FAILED_JOBS } from '../jobs/queue-options.ts'
import { ConflictError, NotFoundError } from '../lib/errors.ts'
import { prefixOf } from '../lib/ids.ts'
import { inOrderOf } from '../lib/in-order.ts'
import type { Page, PageRequest } from '../lib/page.ts'
import type { Tx } from '../platform/db.ts'
import { fetchPage } from '../platform/id-pages.ts'
import type { Platform } from '../platform/platform.ts'
import { requireAdmin } from '../rules/permissions.ts'

/** A job whose last attempt has failed. */
export interface FailedJob {
  /** An id with the prefix `job_`. */
  id: string
  /** The name of the queue, such as `send-notice`. */
  name: string
  /** The id of the plan or tool call that the job concerns. */
  subjectId: string | null
  attempts: number
  /** The error message of the last attempt. */
  error: string | null
  createdAt: Date
  failedAt: Date
}

/** Reads, retries and deletes failed jobs, for admins. The server deletes failed jobs after 30 days. */
export interface FailedJobs {
  /** Returns failed jobs, newest first. */
  page(request: PageRequest): Promise<Page<FailedJob>>
  /**
   * Enqueues the job again with the full number of attempts.
   * @throws ForbiddenError, NotFoundError, ConflictError if an equal job is already queued
   */
  retry(viewer: Viewer, input: { id: string }): Promise<{ retriedJobId: string }>
  /** @throws ForbiddenError, NotFoundError */
  delete(viewer: Viewer, input: { id: string }): Promise<{ deletedJobId: string }>
}

/** SQL for an id that begins with the time of the failure, so that ids sort by time. pg-boss's own ids do not. */
const ID = Prisma.sql`(
  'job_' || lpad(to_hex((extract(epoch FROM created_on) * 1000)::bigint), 12, '0') || left(replace(id::text, '-', ''), 20)) COLLATE "C"`
const NO_SUCH_JOB = 'There is no such failed job.'

export function createFailedJobs({ db, jobs }: Pick<Platform, 'db' | 'jobs'>): FailedJobs {
  async function getMany(ids: readonly string[]): Promise<(FailedJob | null)[]> {
    const rows = await db.prisma.$queryRaw<FailedJob[]>`
      SELECT ${ID} AS id, source_name AS name, group_id AS "subjectId", source_retry_count + 1 AS attempts,
        left(coalesce(source_output->>'message', source_output->'value'->>'message'), 1000) AS error,
        source_created_on AS "createdAt", created_on AS "failedAt"
      FROM job WHERE name = ${FAILED_JOBS} AND ${ID} = ANY(${[...ids]}::text[])`
    return inOrderOf(ids, rows)
  }

  /** Returns pg-boss's id of a failed job, and locks its row. */
  async function lock(tx: Tx, id: string): Promise<string> {
    const [row] = await tx.$queryRaw<{ bossId: string }[]>`
      SELECT id::text AS "bossId" FROM job
      WHERE name = ${FAILED_JOBS} AND ${ID} = ${prefixOf(id) === 'job' ? id : ''} FOR UPDATE`
    if (row === undefined) throw new NotFoundError(NO_SUCH_JOB)
    return row.bossId
  }

  return {
    page: (request) =>
      fetchPage(
        db.prisma,
        { source: Prisma.sql`SELECT ${ID} AS id FROM job WHERE name = ${FAILED_JOBS}`, request },
        getMany,
      ),
    async retry(viewer, { id }) {
      requireAdmin(viewer, 'retry failed jobs')
      await db.transaction(async (tx) => {
        if (!(await jobs.retryFailed(tx, await lock(tx, id)))) {
          throw new ConflictError('The same job is already queued: delete this failed job instead.')
        }
      })
      return { retriedJobId: id }
    },
    async delete(viewer, { id }) {
      requireAdmin(viewer, 'delete failed jobs')
      await db.transaction(async (tx) => {
        await jobs.deleteFailed(tx, await lock(tx, id))
      })
      return { deletedJobId: id }
    },
  }
}
