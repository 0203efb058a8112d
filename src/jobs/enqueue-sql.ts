import { Prisma } from '../generated/prisma/client.ts'
import { optionsOf, policyOf, type Queue } from './queue-options.ts'

/**
 * Returns SQL that enqueues jobs of an ordered kind. It becomes part of a statement that also writes the cause of the
 * jobs. In other cases, use `Jobs.enqueue`. `source` selects `key`, `subject` and `data` (the input as jsonb). The jobs
 * are due after `delaySeconds`. The SQL writes the same columns as pg-boss's own insert, which
 * test/jobs/enqueue-sql.test.ts checks.
 *
 * pg-boss orders the jobs of a key by `created_on`. A new job comes after the waiting jobs with the same key, even
 * if the clock has been set back or has not advanced.
 */
export function enqueueSql(queue: Queue, source: Prisma.Sql, { delaySeconds = 0 } = {}): Prisma.Sql {
  const { retentionSeconds, deadLetter, ...options } = optionsOf(queue)
  return Prisma.sql`
    INSERT INTO job (name, data, singleton_key, group_id, created_on, start_after, keep_until, retry_limit,
      retry_delay, retry_backoff, retry_delay_max, expire_seconds, deletion_seconds, heartbeat_seconds, dead_letter, policy)
    SELECT ${queue.name}, s.data, s.key, s.subject,
      greatest(clock_timestamp(), (
        SELECT max(j.created_on) + interval '1 microsecond' FROM job j
        WHERE j.name = ${queue.name} AND j.singleton_key = s.key AND j.state < 'active' AND NOT j.blocked
          AND j.policy = 'key_strict_fifo')),
      now() + ${delaySeconds}::int * interval '1 second', now() + ${retentionSeconds}::int * interval '1 second', ${options.retryLimit}::int,
      ${options.retryDelay}::int, ${options.retryBackoff}::boolean, ${options.retryDelayMax}::int,
      ${options.expireInSeconds}::int, ${options.deleteAfterSeconds}::int, ${options.heartbeatSeconds}::int,
      ${deadLetter}, ${policyOf(queue)}
    FROM (${source}) s`
}
