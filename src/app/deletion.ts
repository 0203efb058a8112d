import { createAgentDeletion } from '../flows/delete-agent.ts'
import { createSpaceDeletion } from '../flows/delete-space.ts'
import type { DerivedTexts } from '../flows/derived-texts.ts'
import { createErasure } from '../operation/erasure.ts'
import type { Platform } from '../platform/platform.ts'

type Parts = { derivedTexts: Pick<DerivedTexts, 'sweep'> } & Parameters<typeof createAgentDeletion>[1] &
  Omit<Parameters<typeof createSpaceDeletion>[1], 'agents'> &
  Parameters<typeof createErasure>[1]

const settled = async (work: Promise<void>) => (await Promise.allSettled([work]))[0]

/**
 * Creates the modules that delete agents, spaces and messages and erase humans, and a sweep that continues interrupted
 * deletions.
 */
export function createDeletion(platform: Platform, parts: Parts) {
  const agents = createAgentDeletion(platform, parts)
  const spaces = createSpaceDeletion(platform, { ...parts, agents })
  const erasure = createErasure(platform, parts)
  return {
    deleteAgent: agents.deleteAgent,
    deleteSpace: spaces.deleteSpace,
    eraseHuman: erasure.eraseHuman,
    /**
     * Tries all sweeps, even if one of them fails. An abort ends each of them. @throws the first error, after all
     * sweeps have been tried
     */
    async sweep(signal?: AbortSignal) {
      const results = [
        await settled(spaces.sweep(signal)),
        await settled(erasure.sweep(signal)),
        await settled(parts.derivedTexts.sweep(signal)),
      ]
      for (const result of results) if (result.status === 'rejected') throw result.reason
    },
  }
}
