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
 * A run to be written: its agent, trigger and origin. Absent fields are null. The row's label is
 * the confidential subset of its marks at the time of writing.
 */
export interface NewRun extends Provenance {
  agent: { id: string }
  /** At most one run is started with the same key. */
  dedupKey: string | null
  triggerType: TriggerType
  triggerName?: string | null
  triggerSpaceId?: string | null
  triggerMessageId?: string | null
  triggerSenderId?: string | null
  triggerServiceId?: string | null
  /** One line: sender or source, space, topic. */
  triggerSummary: string
  triggerPayload?: Json
  activeSpaceId?: string | null
  enteredSeq?: number | null
  depth: number
  /** Null: the run is its own root. */
  rootId: string | null
  parentRunId?: string | null
  chainId?: string | null
  /** WokenBy: the chain turn or delegation that started it. */
  wokenBy?: Json
  /** The failed run that this one retries. */
  retryOfId?: string | null
}

export interface StartedRuns {
  /** The new runs, without repeats by `dedupKey`. */
  runs: Run[]
  /** After the commit: wakes the workers, and publishes the runs to viewers of the agents. */
  afterCommit(): Promise<void>
}

/** Writes and reads runs. Their status is changed only by lifecycle.ts. */
export interface Runs {
  /** Writes QUEUED runs in the caller's transaction; workers claim them. */
  start(tx: Tx, runs: NewRun[]): Promise<StartedRuns>
  /**
   * After the commit: wakes the workers, and publishes the runs to viewers of the agents, in order
   * with the events of the topic `beside`.
   */
  announce(runs: Run[], beside?: string): Promise<void>
  /** By id, in the order of the ids; null if there is none. */
  getMany(ids: string[]): Promise<(Run | null)[]>
  /** Returns retries by the run that they repeat. */
  retriesOf(ids: string[]): Promise<Map<string, Run>>
  /** The agents' QUEUED, RUNNING and WAITING_TOOL runs, newest first. */
  activeOf(agentIds: string[]): Promise<Map<string, Run[]>>
  /** The same, with only the published fields. */
  toldOf(agentIds: string[]): Promise<Map<string, ToldRun[]>>
  /** An agent's runs with these statuses (null: the active ones), newest first. */
  ofAgent(agentId: string, statuses: RunStatus[] | null, most: number): Promise<Run[]>
}

/** The statuses of runs that have not ended. */
export const ACTIVE_STATUSES: RunStatus[] = ['QUEUED', 'RUNNING', 'WAITING_TOOL']

/** SQL that writes at least one QUEUED run, with increasing ids: a statement, or a part of one. */
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

/** The times of a run, which are strings in JSON. */
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

/** Converts a run's row from JSON. */
export function runOfJson(row: Run): Run {
  const times = Object.keys(TIMES).map((field) => {
    const time = row[field as keyof typeof TIMES]
    return [field, time === null ? null : new Date(time)]
  })
  return { ...row, ...Object.fromEntries(times) }
}
