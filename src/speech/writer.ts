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
  /** Nothing of the run is posted yet. */
  fresh: boolean
}

/** How a run is heard, by its agent's toolset: in the space that it has entered, or in those that its calls name. */
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
 * A stretch of a run, at whose end what the run said is whole. Where it was aborted or broke off its messages stay open: for
 * who takes it up again, or for who ends it.
 */
export async function finishing<T extends { type: string }>(
  writer: SpaceWriter,
  stretch: () => Promise<T>,
): Promise<T> {
  const end = await stretch()
  if (end.type !== 'aborted') await writer.finish()
  return end
}
