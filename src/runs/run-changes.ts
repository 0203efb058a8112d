import { type AgentSignal, agentChannel, type ChangedRun } from '../broker/topics.ts'
import { Prisma, type Run } from '../generated/prisma/client.ts'

/** The fields of a run that are published when its status changes. */
const TOLD = [
  'id',
  'agentId',
  'status',
  'attempt',
  'triggerType',
  'triggerName',
  'triggerSpaceId',
  'triggerSenderId',
  'triggerServiceId',
  'triggerSummary',
  'queuedAt',
  'startedAt',
] as const satisfies (keyof Run)[]
export type ToldRun = Pick<Run, (typeof TOLD)[number]>

/** The published fields as columns of "Run". */
export const TOLD_COLUMNS = Prisma.raw(TOLD.map((column) => `"${column}"`).join(', '))

/** Returns the signal that a run's status has changed, and its channel. */
export function changeOf(run: ToldRun): [channel: string, signal: AgentSignal] {
  return [agentChannel(run.agentId), { type: 'run-changed', run: changedRunOf(run) }]
}

function changedRunOf(run: ToldRun): ChangedRun {
  const told = Object.fromEntries(TOLD.map((column) => [column, run[column]])) as ToldRun
  return { ...told, queuedAt: told.queuedAt.toISOString(), startedAt: told.startedAt?.toISOString() ?? null }
}
