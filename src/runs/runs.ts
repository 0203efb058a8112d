import { Prisma, type Run, type RunStatus } from '../generated/prisma/client.ts'
import { wellFormedIds } from '../lib/ids.ts'
import { inOrderOf } from '../lib/in-order.ts'
import { isOneOf } from '../platform/one-of.ts'
import type { Platform } from '../platform/platform.ts'
import { ACTIVE_RUN_STATUSES } from '../rules/statuses.ts'
import { ACTIVE_RUNS_SQL } from '../stores/status-sql.ts'
import { TOLD_COLUMNS, type ToldRun } from './run-changes.ts'

/** Reads runs. */
export interface Runs {
  /** Returns runs in the order of the ids; null for an unknown id. */
  getMany(ids: string[]): Promise<(Run | null)[]>
  /** Returns the retries of runs, by the id of the retried run. */
  retriesOf(ids: string[]): Promise<Map<string, Run>>
  /** Returns the agents' QUEUED, RUNNING and WAITING_TOOL runs, newest first. */
  activeOf(agentIds: string[]): Promise<Map<string, Run[]>>
  /** Returns the same runs as `activeOf`, with only the published fields. */
  toldOf(agentIds: string[]): Promise<Map<string, ToldRun[]>>
  /** Returns an agent's runs with these statuses, newest first. Null means active runs. */
  ofAgent(agentId: string, statuses: RunStatus[] | null, most: number): Promise<Run[]>
}

export function createRuns({ db }: Pick<Platform, 'db'>): Runs {
  async function living<Row extends ToldRun>(columns: Prisma.Sql, agentIds: string[]): Promise<Map<string, Row[]>> {
    const rows = await db.query<Row>(Prisma.sql`
      SELECT ${columns} FROM "Run" WHERE ${isOneOf(Prisma.sql`"agentId"`, agentIds)}
        AND status IN ${ACTIVE_RUNS_SQL} ORDER BY id DESC`)
    return Map.groupBy(rows, (row) => row.agentId)
  }

  return {
    async getMany(ids) {
      const rows = await db.prisma.run.findMany({ where: { id: { in: wellFormedIds(ids) } } })
      return inOrderOf(ids, rows)
    },
    async retriesOf(ids) {
      const rows = await db.prisma.run.findMany({ where: { retryOfId: { in: ids } } })
      return new Map(rows.map((row) => [row.retryOfId ?? '', row]))
    },
    activeOf: (agentIds) => living<Run>(Prisma.raw('*'), agentIds),
    toldOf: (agentIds) => living<ToldRun>(TOLD_COLUMNS, agentIds),
    ofAgent(agentId, statuses, most) {
      const where = { agentId, status: { in: statuses ?? [...ACTIVE_RUN_STATUSES] } }
      return db.prisma.run.findMany({ where, orderBy: { id: 'desc' }, take: most })
    },
  }
}
