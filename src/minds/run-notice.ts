import { oneLine } from '../lib/json.ts'
import type { Claim } from '../runs/lifecycle.ts'
import { doingNow } from '../runs/run-progress.ts'
import type { Scene, SceneRun } from './scene.ts'

/**
 * Tells an agent that has getMyRuns what else it is doing (000, "Concurrent Run Awareness"); empty where it does nothing else.
 * Names only: nothing that anybody wrote. Nothing that ages: it changes when the runs do.
 */
export function runNotice({ run }: Claim, { otherRuns }: Scene): string {
  const count = otherRuns.length
  if (count === 0) return ''
  return [
    `⚠ You currently have ${count} other active ${count === 1 ? 'run' : 'runs'}:`,
    ...otherRuns.map((other) => noticeLine(other, run.triggerSpaceId)),
    'Use getMyRuns for full details if needed. Avoid duplicating work already in progress.',
  ].join('\n')
}

function noticeLine(other: SceneRun, hereId: string | null): string {
  const { id, status, startedAt, calls } = other
  const since = startedAt === null ? 'not started yet' : `started ${startedAt.toISOString()}`
  const doing = calls === null || status === 'QUEUED' ? '' : ` — ${doingNow(status, calls)}`
  return `- ${id} (${triggerOf(other, hereId)}, ${status.toLowerCase()}, ${since})${doing}`
}

function triggerOf(other: SceneRun, hereId: string | null): string {
  const { triggerType, triggerName, triggerSpaceId, senderName, spaceName } = other
  if (triggerType !== 'SPACE_MESSAGE') return `${triggerType.toLowerCase()}: ${oneLine(triggerName ?? '')}`
  const here = triggerSpaceId === hereId ? ', in this space' : ''
  return `message: ${oneLine(senderName ?? 'somebody')} in ${oneLine(spaceName ?? 'somewhere')}${here}`
}
