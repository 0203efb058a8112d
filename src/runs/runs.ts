import { confidentialAmong, type Provenance } from '../confidence/marks.ts'
import { Prisma, type Run, type RunStatus, type TriggerType } from '../generated/prisma/client.ts'
import { newId, wellFormedIds } from '../lib/ids.ts'
import { inOrderOf } from '../lib/in-order.ts'
import type { Json } from '../lib/json.ts'
import type { Tx } from '../platform/db.ts'
import { insertionOf } from '../platform/insertion.ts'
import { isOneOf } from '../platform/one-of.ts'
import type { Platform } from '../platform/platform.ts'
import { JOBS_CHANNEL } from '../realtime/topics.ts'
import { changeOf, TOLD_COLUMNS, type ToldRun } from './run-changes.ts'

/**
 * A run to be: what wakes which agent, and where it comes from. Absent fields are null. Its row's label are those of its marks that are
 * confidential when it is written.
 */
export interface NewRun extends Provenance {
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
  /** Those that are new; a repeat by `dedupKey` is not among them. */
  runs: Run[]
  /** Wakes the workers and whoever watches the agents, once committed. */
  afterCommit(): Promise<void>
}

/** What runs are, and the questions that can be asked of them. Their status is written by lifecycle.ts alone. */
export interface Runs {
  /** Writes runs as QUEUED, which workers claim, in the caller's transaction. */
  start(tx: Tx, runs: NewRun[]): Promise<StartedRuns>
  /** Once runs are committed: wakes the workers and whoever watches the agents, `beside` what is told of a topic. */
  announce(runs: Run[], beside?: string): Promise<void>
  /** By id, in the order of the ids; null where there is none. */
  getMany(ids: string[]): Promise<(Run | null)[]>
  /** By the run that it repeats. */
  retriesOf(ids: string[]): Promise<Map<string, Run>>
  /** An agent's QUEUED, RUNNING and WAITING_TOOL runs, newest first. */
  activeOf(agentIds: string[]): Promise<Map<string, Run[]>>
  /** The same, of each what is told of it. */
  toldOf(agentIds: string[]): Promise<Map<string, ToldRun[]>>
  /** An agent's runs of these statuses (null: the active ones), newest first. */
  ofAgent(agentId: string, statuses: RunStatus[] | null, most: number): Promise<Run[]>
}

/** Those of runs that have not ended. */
export const ACTIVE_STATUSES: RunStatus[] = ['QUEUED', 'RUNNING', 'WAITING_TOOL']

/** Writes runs as QUEUED, at least one, each with an id greater than those before it: a statement, or a part of one. */
export function started(runs: NewRun[], within: { from?: string; enteredSeq?: Prisma.Sql } = {}): Prisma.Sql {
  const { from, enteredSeq } = within
  return insertionOf('Run', runs.map(rowOf), {
    ...(from === undefined ? {} : { from }),
    computed: {
      label: confidentialAmong(Prisma.sql`r.places || r.label`),
      ...(enteredSeq === undefined ? {} : { enteredSeq }),
    },
  })
}

export function createRuns({ db, signals }: Platform): Runs {
  async function announce(runs: Run[], beside?: string): Promise<void> {
    if (runs.length === 0) return
    await Promise.all([
      signals.publish(JOBS_CHANNEL, {}, beside),
      ...runs.map((run) => signals.publish(...changeOf(run), beside)),
    ])
  }

  async function living<Row extends ToldRun>(columns: Prisma.Sql, agentIds: string[]): Promise<Map<string, Row[]>> {
    const rows = await db.query<Row>(Prisma.sql`
      SELECT ${columns} FROM "Run" WHERE ${isOneOf(Prisma.sql`"agentId"`, agentIds)}
        AND status IN (${Prisma.join(ACTIVE_STATUSES.map((status) => Prisma.raw(`'${status}'`)))}) ORDER BY id DESC`)
    return Map.groupBy(rows, (row) => row.agentId)
  }

  return {
    async start(tx, newRuns) {
      const runs = newRuns.length === 0 ? [] : await tx.$queryRaw<Run[]>(started(newRuns))
      return { runs, afterCommit: () => announce(runs) }
    },
    announce,
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
      const where = { agentId, status: { in: statuses ?? ACTIVE_STATUSES } }
      return db.prisma.run.findMany({ where, orderBy: { id: 'desc' }, take: most })
    },
  }
}

function rowOf({ agent, rootId, ...run }: NewRun): Partial<Record<keyof Run, unknown>> {
  const id = newId('run')
  return { ...run, id, agentId: agent.id, status: 'QUEUED', rootId: rootId ?? id }
}

/** A run's times, which are text in JSON. */
const TIMES = {
  usageDay: true,
  claimableAt: true,
  leaseUntil: true,
  deadlineAt: true,
  queuedAt: true,
  startedAt: true,
  finishedAt: true,
} satisfies Record<TimesOf<Run>, true>

type TimesOf<Row> = { [Field in keyof Row]-?: NonNullable<Row[Field]> extends Date ? Field : never }[keyof Row]

/** A run whose row comes from JSON. */
export function runOfJson(row: Run): Run {
  const times = Object.keys(TIMES).map((field) => {
    const time = row[field as keyof typeof TIMES]
    return [field, time === null ? null : new Date(time)]
  })
  return { ...row, ...Object.fromEntries(times) }
}
