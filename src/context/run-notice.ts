import { OF_A_SPACE_LEFT } from '../agents/inbox-source.ts'
import { nameIn } from '../lib/json.ts'
import type { Claim } from '../runs/claiming.ts'
import { doingNow } from '../runs/run-progress.ts'
import { belongsTo, type Scene, type SceneRun } from './scene.ts'

/**
 * Returns a notice about the other runs of an agent with the tool getMyRuns (requirement 000, "Concurrent Run
 * Awareness"); empty if there are none. The notice contains only names, and no name from a space that the agent has
 * left. It contains no durations, so it changes only when the runs change.
 */
export function runNotice({ run }: Claim, scene: Scene): string {
  const { otherRuns } = scene
  const count = otherRuns.length
  if (count === 0) return ''
  return [
    `⚠ You currently have ${count} other active ${count === 1 ? 'run' : 'runs'}:`,
    ...otherRuns.map((other) =>
      noticeLine(other, other.label === null ? 'for others' : triggerOf(scene, other, run.triggerSpaceId)),
    ),
    'Use getMyRuns for full details if needed. Avoid duplicating work already in progress.',
  ].join('\n')
}

function noticeLine({ id, status, startedAt, calls }: SceneRun, trigger: string): string {
  const since = startedAt === null ? 'not started yet' : `started ${startedAt.toISOString()}`
  const doing = calls === null || status === 'QUEUED' ? '' : ` — ${doingNow(status, calls)}`
  return `- ${id} (${trigger}, ${status.toLowerCase()}, ${since})${doing}`
}

function triggerOf(scene: Scene, other: SceneRun, hereId: string | null): string {
  const { triggerType, triggerName, triggerSpaceId, senderName, spaceName } = other
  if (triggerType !== 'SPACE_MESSAGE') return `${triggerType.toLowerCase()}: ${nameIn(triggerName ?? '')}`
  if (!belongsTo(scene, triggerSpaceId)) return OF_A_SPACE_LEFT
  const here = triggerSpaceId === hereId ? ', in this space' : ''
  return `message: ${nameIn(senderName ?? 'somebody')} in ${nameIn(spaceName ?? 'somewhere')}${here}`
}
