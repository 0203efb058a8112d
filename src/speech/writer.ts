import type { Platform } from '../platform/platform.ts'
import type { RunInHand, ToolScene } from '../tools/tool.ts'
import { discreetly } from './discreet-posting.ts'
import { createGuard } from './guard.ts'
import { composites, eachPartAMessage } from './message-policy.ts'
import { createRunPosting, type OriginIn, type RunPostingParts } from './run-posting.ts'
import { createSpaceWriter, type SpaceWriter } from './space-writer.ts'

interface WriterInput {
  speech: RunPostingParts
  run: RunInHand
  scene: { agent: Pick<ToolScene['agent'], 'toolset'>; originIn: OriginIn }
  /** The run has posted nothing yet. */
  fresh: boolean
}

/** Creates the writer for the agent's toolset: it posts in the entered space, or in those that the calls name. */
export async function openWriter(platform: Platform, { speech, run, scene, fresh }: WriterInput): Promise<SpaceWriter> {
  const guard = createGuard(run.claim.run, speech.discretion)
  const isOpen = async (id: string) =>
    (await platform.db.prisma.message.count({ where: { id, status: 'STREAMING' } })) > 0
  const posting = discreetly(
    createRunPosting(platform, speech, { run, originIn: scene.originIn, guard }),
    guard,
    isOpen,
  )
  const begun = fresh ? [] : await posting.begun()
  const isEach = scene.agent.toolset === 'ACTIVE_SPACE'
  const policy = isEach ? eachPartAMessage(run, begun) : composites(run, begun, posting)
  return createSpaceWriter(platform, { run, posting, policy })
}

/**
 * Runs `stretch` and finishes the open messages at its end. If it aborts or throws, they stay open
 * for the next attempt, or for the cleanup of the run.
 */
export async function finishing<T extends { type: string }>(
  writer: SpaceWriter,
  stretch: () => Promise<T>,
): Promise<T> {
  const end = await stretch()
  if (end.type !== 'aborted') await writer.finish()
  return end
}
