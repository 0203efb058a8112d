import { randomUUID } from 'node:crypto'
import { Prisma } from '../generated/prisma/client.ts'
import { enqueueSql } from '../jobs/enqueue-sql.ts'
import { PUBLISH_CHANGE, PUBLISHED_WITHIN_SECONDS } from '../jobs/queues.ts'
import { type Changes, namedParts } from '../platform/changes.ts'

// The jobs that publish a change if its process dies between the commit and the publication. The statement that writes a change
// enqueues its job; the flow withdraws the job once it has published the change.

/** The job of a change: `change` is its key. */
export interface Unpublished {
  change: string
  /** Part of a WITH clause: enqueues the job. */
  enqueueSql: Prisma.Sql
}

/**
 * Returns the job of a change to a membership, a space, a human, a message or a call, or of the end of a run. `type` and
 * the columns of `source`, such as `spaceId`, are the input of the job; `id` is its subject.
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
 * Returns a statement that writes a call by `update`, and returns the row with the key of the change. `parts` may read the row
 * from `changed`.
 */
export function changeCallSql(update: Prisma.Sql, parts: Changes = {}): Prisma.Sql {
  const job = unpublished('call', Prisma.sql`SELECT id, id AS "toolCallId" FROM changed`)
  const changes = { changed: Prisma.sql`${update} RETURNING *`, publication: job.enqueueSql, ...parts }
  return Prisma.sql`WITH ${namedParts(changes)} SELECT *, ${job.change}::text AS change FROM changed`
}
