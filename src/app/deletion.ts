import { createAgentDeletion } from '../operation/agent-deletion.ts'
import { createErasure } from '../operation/erasure.ts'
import { createSpaceDeletion } from '../operation/space-deletion.ts'
import type { Platform } from '../platform/platform.ts'

type Parts = Parameters<typeof createAgentDeletion>[1] &
  Parameters<typeof createSpaceDeletion>[1] &
  Parameters<typeof createErasure>[1]

/** How agents, spaces and people cease to be; and what goes on with that where a process died over it. */
export function createDeletion(platform: Platform, parts: Parts) {
  const spaces = createSpaceDeletion(platform, parts)
  const erasure = createErasure(platform, parts)
  return {
    ...createAgentDeletion(platform, parts),
    deleteSpace: spaces.deleteSpace,
    eraseHuman: erasure.eraseHuman,
    async sweep() {
      await spaces.sweep()
      await erasure.sweep()
    },
  }
}
