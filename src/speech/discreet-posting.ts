import type { Guard } from './guard.ts'
import { isMessageEnded, type RunPosting } from './run-posting.ts'
import { isEnd } from './step.ts'

/** Maximum attempts at a write that conflicts with changes of the space. */
const MOST_ATTEMPTS = 5

/**
 * Wraps a posting whose statements include the conditions of its guard. If they do not hold,
 * reports why; retries if they hold again.
 */
export function discreetly(
  posting: RunPosting,
  guard: Guard,
  isOpen: (messageId: string) => Promise<boolean>,
): RunPosting {
  return {
    ...posting,
    async begin(beginning) {
      await guard.clearIfMarked(beginning.spaceId)
      for (let attempts = 1; ; attempts++) {
        const message = await posting.begin(beginning)
        if (message !== null || attempts >= MOST_ATTEMPTS) return message
        const may = await posting.mayWrite(beginning.spaceId, null)
        if (may.type === 'not-a-member') return null
        await guard.clear(beginning.spaceId)
      }
    },
    async grow(message, parts, step) {
      if (isEnd(step)) return posting.grow(message, parts, step)
      await guard.clearIfMarked(message.spaceId)
      for (let attempts = 1; ; attempts++) {
        try {
          return await posting.grow(message, parts, step)
        } catch (error) {
          if (!isMessageEnded(error) || attempts >= MOST_ATTEMPTS || !(await isOpen(message.id))) throw error
          await guard.clear(message.spaceId)
        }
      }
    },
    async save(message, parts) {
      await guard.clearIfMarked(message.spaceId)
      const isSaved = await posting.save(message, parts)
      if (!isSaved) await guard.clear(message.spaceId)
      return isSaved
    },
    async inputGrown(message, partIndex, call) {
      await guard.clearIfMarked(message.spaceId)
      await posting.inputGrown(message, partIndex, call)
    },
  }
}
