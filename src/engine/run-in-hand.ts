import type { Scene } from '../minds/scene.ts'
import type { Journal } from '../runs/journal.ts'
import type { RunEvents } from '../runs/run-events.ts'
import type { RunInHand } from '../tools/tool.ts'

/** The context of a claimed run for its tools. */
export function takeInHand(
  { claim, signal, standAside }: Pick<RunInHand, 'claim' | 'signal' | 'standAside'>,
  scene: Scene,
  journal: Journal,
  events: RunEvents,
): RunInHand {
  const { activeSpaceId, enteredSeq } = claim.run
  const run: RunInHand = {
    claim,
    agent: { id: scene.agent.id, name: scene.agent.name },
    activeSpace: activeSpaceId === null ? null : { id: activeSpaceId, seq: enteredSeq ?? 0 },
    signal,
    ending: null,
    standAside,
    async enter(space) {
      await journal.entered(claim, space.id, space.seq)
      run.activeSpace = space
      events.emit({ type: 'RunSpaceEntered', spaceId: space.id })
    },
  }
  return run
}
