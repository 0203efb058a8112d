import { randomUUID } from 'node:crypto'
import { Prisma } from '../generated/prisma/client.ts'
import { enqueueSql } from '../jobs/enqueue-sql.ts'
import { PUBLISH_CHANGE, PUBLISHED_WITHIN_SECONDS } from '../jobs/queues.ts'
import { type Changes, namedParts } from '../platform/changes.ts'

// The jobs that publish a change if its process dies between the commit and the publication. The statement that
// writes a change also enqueues its job. The flow removes the job after publishing the change.

/** The job that publishes a change. `change` is the key of the job. */
export interface Unpublished {
  change: string
  /** A CTE that enqueues the job. */
  enqueueSql: Prisma.Sql
}

/**
 * Returns the job that publishes a change to a membership, a space, a human, a message or a call, or the end of a run.
 * `source` selects the changed row. Its `id` becomes the subject of the job. The input consists of `type` and the other
 * columns, such as `spaceId`.
 */
export function unpublished(
  type: 'member' | 'space' | 'human' | 'message' | 'call' | 'run',
  source: Prisma.Sql,
): Unpublished {
  const change = randomUUID()
  const jobs = Prisma.sql`
    SELECT ${change}::text AS key, s.id AS subject,
      jsonb_build_object('type', ${type}::text, 'change', ${change}::text) || to_jsonb(s) - 'id' AS data
    FROM (${source}) s`
  return { change, enqueueSql: enqueueSql(PUBLISH_CHANGE, jobs, { delaySeconds: PUBLISHED_WITHIN_SECONDS }) }
}

/**
 * Returns a statement that changes a call with `update`, enqueues the job for the change, and returns the row with
 * the key of the job. `parts` are further CTEs, which can read the row from the CTE `changed`.
 */
export function changeCallSql(update: Prisma.Sql, parts: Changes = {}): Prisma.Sql {
  const job = unpublished('call', Prisma.sql`SELECT id, id AS "toolCallId" FROM changed`)
  const changes = { changed: Prisma.sql`${update} RETURNING *`, publication: job.enqueueSql, ...parts }
  return Prisma.sql`WITH ${namedParts(changes)} SELECT *, ${job.change}::text AS change FROM changed`
}
