import { createAgentDeletion } from '../flows/delete-agent.ts'
import { createSpaceDeletion } from '../flows/delete-space.ts'
import { createErasure } from '../operation/erasure.ts'
import type { Platform } from '../platform/platform.ts'

type Parts = Parameters<typeof createAgentDeletion>[1] &
  Parameters<typeof createSpaceDeletion>[1] &
  Parameters<typeof createErasure>[1]

const settled = async (work: Promise<void>) => (await Promise.allSettled([work]))[0]

/** Deletion of agents and spaces and erasure of humans, with a sweep that continues where a process died. */
export function createDeletion(platform: Platform, parts: Parts) {
  const spaces = createSpaceDeletion(platform, parts)
  const erasure = createErasure(platform, parts)
  return {
    ...createAgentDeletion(platform, parts),
    deleteSpace: spaces.deleteSpace,
    eraseHuman: erasure.eraseHuman,
    /** Tries both sweeps even if one fails. @throws the first error, after both have been tried */
    async sweep() {
      const results = [await settled(spaces.sweep()), await settled(erasure.sweep())]
      for (const result of results) if (result.status === 'rejected') throw result.reason
    },
  }
}
