import type { Platform } from '../platform/platform.ts'
import type { CompositePosting } from '../spaces/composite-posting.ts'
import { type Posting, RunLostError } from '../spaces/posting.ts'
import { createShowing } from '../spaces/showing.ts'
import type { RunInHand } from '../tools/tool.ts'
import { createCompositeWriter } from './composite-writer.ts'
import type { Scene } from './scene.ts'
import { createSpaceWriter, type SpaceWriter } from './space-writer.ts'

interface WriterInput {
  posting: Posting
  composites: CompositePosting
  run: RunInHand
  scene: Scene
  /** Nothing of the run is posted yet. */
  fresh: boolean
}

/** How a run is heard, by its agent's toolset: in the space that it has entered, or in those that its calls name. */
export async function openWriter(platform: Platform, input: WriterInput): Promise<SpaceWriter> {
  const { posting, composites, run, scene, fresh } = input
  const options = { platform, posting, run, origin: scene.origin }
  if (scene.agent.toolset === 'ACTIVE_SPACE') {
    const showing = createShowing(platform)
    const shown = fresh ? new Map() : await showing.begunBy(run.claim.run.id)
    return createSpaceWriter({ ...options, showing, begun: shown })
  }
  const begun = fresh ? [] : await composites.begunBy(run.claim.run.id)
  return createCompositeWriter({ ...options, composites, begun })
}

/**
 * A stretch of a run, at whose end, by itself or by a failure, what the run said is whole. Where it was aborted its messages
 * stay open: for who takes it up again, or for who stopped it to interrupt.
 */
export async function finishing<T extends { type: string }>(
  writer: SpaceWriter,
  signal: AbortSignal,
  stretch: () => Promise<T>,
): Promise<T> {
  try {
    const end = await stretch()
    if (end.type !== 'aborted') await writer.finish()
    return end
  } catch (error) {
    if (!signal.aborted && !(error instanceof RunLostError)) await writer.finish().catch(() => {})
    throw error
  }
}
