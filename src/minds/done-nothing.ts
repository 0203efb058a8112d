import { MCP_NAME_SEPARATOR } from '../agents/tool-names.ts'
import type { Run } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'

/** Built-in tools that only read, or that control the cycle itself. */
const CHANGES_NOTHING = [
  ...['enter_space', 'read_messages', 'readSpaceMessages', 'get_my_runs', 'getMyRuns', 'get_plans', 'getPlans', 'skip'],
]
/** Errors that are raised before anything outside is reached. */
const REFUSED_BEFORE = ['BAD_INPUT', 'BLOCKED_ADDRESS', 'NO_SUCH_TOOL', 'TOO_MANY_CALLS', 'NO_ACTIVE_SPACE']

/**
 * Whether the cycle posted nothing and called nothing that may have an effect outside: no other server, no person or
 * service, no change to notes or plans. A call that failed while being sent may have had an effect.
 */
export async function hasDoneNothing(tx: Tx, { id: runId }: Run): Promise<boolean> {
  const [found] = await tx.$queryRaw<{ wrote: boolean; acted: boolean }[]>`
    SELECT EXISTS (SELECT 1 FROM "RunSpace" WHERE "runId" = ${runId}) AS wrote, EXISTS (
      SELECT 1 FROM "ToolCall" c WHERE c."runId" = ${runId} AND (c."approvalState" IS NOT NULL OR CASE WHEN c.execution IS NULL THEN c."toolName" <> ALL(${CHANGES_NOTHING}::text[]) ELSE c.execution <> 'INTERNAL' END
        AND (c.status IN ('WAITING', 'DONE', 'TIMED_OUT') OR (c.status = 'FAILED'
          AND (c.execution = 'HTTP' OR strpos(c."toolName", ${MCP_NAME_SEPARATOR}) > 0)
          AND coalesce(c.output->'error'->>'code', '') <> ALL(${REFUSED_BEFORE}::text[]))))
    ) AS acted`
  return found !== undefined && !found.wrote && !found.acted
}
