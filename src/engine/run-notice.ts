import { oneLine } from '../lib/json.ts'
import type { Claim } from '../runs/lifecycle.ts'
import type { Scene, SceneRun } from './scene.ts'

/**
 * Tells an agent that has getMyRuns what else it is doing (000, "Concurrent Run Awareness"); empty where it does nothing else.
 * Names only: nothing that anybody wrote.
 */
export function runNotice({ run }: Claim, { otherRuns }: Scene, now: number): string {
  const count = otherRuns.length
  if (count === 0) return ''
  return [
    `⚠ You currently have ${count} other active ${count === 1 ? 'run' : 'runs'}:`,
    ...otherRuns.map((other) => noticeLine(other, run.triggerSpaceId, now)),
    'Use getMyRuns for full details if needed. Avoid duplicating work already in progress.',
  ].join('\n')
}

function noticeLine(other: SceneRun, hereId: string | null, now: number): string {
  const { id, status, startedAt, report } = other
  const age = startedAt === null ? 'not started yet' : `started ${ageOf(now - startedAt.getTime())} ago`
  const doing = report === null || status === 'QUEUED' ? '' : ` — ${report.doing}`
  return `- ${id} (${triggerOf(other, hereId)}, ${status.toLowerCase()}, ${age})${doing}`
}

function triggerOf({ triggerType, triggerName, triggerSpaceId, report }: SceneRun, hereId: string | null): string {
  if (triggerType !== 'SPACE_MESSAGE') return `${triggerType.toLowerCase()}: ${oneLine(triggerName ?? '')}`
  const here = triggerSpaceId === hereId ? ', in this space' : ''
  return `message: ${report?.triggerSource ?? 'somebody'}${here}`
}

function ageOf(milliseconds: number): string {
  const seconds = Math.max(0, Math.round(milliseconds / 1000))
  if (seconds < 120) return `${seconds}s`
  const minutes = Math.round(seconds / 60)
  return minutes < 120 ? `${minutes}m` : `${Math.round(minutes / 60)}h`
}
