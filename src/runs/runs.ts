import type { Prisma, Run, RunStatus, TriggerType } from '../generated/prisma/client.ts'
import { newId, wellFormedIds } from '../lib/ids.ts'
import { inOrderOf } from '../lib/in-order.ts'
import type { Json } from '../lib/json.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { agentChannel, JOBS_CHANNEL } from '../realtime/topics.ts'

/** A run to be: what wakes which agent, and where it comes from. Absent fields are null. */
export interface NewRun {
  agent: { id: string }
  /** The same key starts one run only. */
  dedupKey: string | null
  triggerType: TriggerType
  triggerName?: string | null
  triggerSpaceId?: string | null
  triggerMessageId?: string | null
  triggerSenderId?: string | null
  triggerServiceId?: string | null
  /** One line: who or what, where, about what. */
  triggerSummary: string
  triggerPayload?: Json
  activeSpaceId?: string | null
  enteredSeq?: number | null
  depth: number
  /** Null where this run's own id is the root. */
  rootId: string | null
  parentRunId?: string | null
  chainId?: string | null
  /** WokenBy: what of a chain, or which delegation, woke it. */
  wokenBy?: Json
  /** The failed run that this one repeats. */
  retryOfId?: string | null
}

export interface StartedRuns {
  /** Those that are new, in the order given; a repeat by `dedupKey` is not among them. */
  runs: Run[]
  /** Wakes the workers and whoever watches the agents, once committed. */
  afterCommit(): Promise<void>
}

/** What runs are, and the questions that can be asked of them. Their status is written by lifecycle.ts alone. */
export interface Runs {
  /** Writes runs as QUEUED, which workers claim, in the caller's transaction. */
  start(tx: Tx, runs: NewRun[]): Promise<StartedRuns>
  /** By id, in the order of the ids; null where there is none. */
  getMany(ids: string[]): Promise<(Run | null)[]>
  /** By the run that it repeats. */
  retriesOf(ids: string[]): Promise<Map<string, Run>>
  /** An agent's QUEUED, RUNNING and WAITING_TOOL runs, newest first. */
  activeOf(agentIds: string[]): Promise<Map<string, Run[]>>
  /** An agent's runs of these statuses (null: the active ones), newest first. */
  ofAgent(agentId: string, statuses: RunStatus[] | null, most: number): Promise<Run[]>
}

/** Those of runs that have not ended. */
export const ACTIVE_STATUSES: RunStatus[] = ['QUEUED', 'RUNNING', 'WAITING_TOOL']

export function createRuns({ db, signals }: Platform): Runs {
  return {
    async start(tx, newRuns) {
      const data = newRuns.map(rowOf)
      const runs = data.length === 0 ? [] : await tx.run.createManyAndReturn({ data, skipDuplicates: true })
      runs.sort((a, b) => data.findIndex(({ id }) => id === a.id) - data.findIndex(({ id }) => id === b.id))
      return {
        runs,
        async afterCommit() {
          if (runs.length === 0) return
          await signals.publish(JOBS_CHANNEL, {})
          await Promise.all(runs.map(({ agentId }) => signals.publish(agentChannel(agentId), { type: 'run-changed' })))
        },
      }
    },
    async getMany(ids) {
      const rows = await db.prisma.run.findMany({ where: { id: { in: wellFormedIds(ids) } } })
      return inOrderOf(ids, rows)
    },
    async retriesOf(ids) {
      const rows = await db.prisma.run.findMany({ where: { retryOfId: { in: ids } } })
      return new Map(rows.map((row) => [row.retryOfId ?? '', row]))
    },
    async activeOf(agentIds) {
      const rows = await db.prisma.run.findMany({
        where: { agentId: { in: agentIds }, status: { in: ACTIVE_STATUSES } },
        orderBy: { id: 'desc' },
      })
      return Map.groupBy(rows, (row) => row.agentId)
    },
    ofAgent(agentId, statuses, most) {
      const where = { agentId, status: { in: statuses ?? ACTIVE_STATUSES } }
      return db.prisma.run.findMany({ where, orderBy: { id: 'desc' }, take: most })
    },
  }
}

function rowOf({ agent, rootId, triggerPayload, wokenBy, ...run }: NewRun): Prisma.RunCreateManyInput {
  const id = newId('run')
  return {
    ...run,
    id,
    agentId: agent.id,
    status: 'QUEUED',
    rootId: rootId ?? id,
    ...(triggerPayload == null ? {} : { triggerPayload: triggerPayload as Prisma.InputJsonValue }),
    ...(wokenBy == null ? {} : { wokenBy: wokenBy as Prisma.InputJsonValue }),
  }
}
