import type { Platform } from '../platform/platform.ts'
import { createCallNews } from './call-news.ts'
import { holdOf } from './hold.ts'
import type { Claim } from './lifecycle.ts'
import { waiting } from './tool-calls.ts'

/** Calls that show nowhere and wait for an answer from outside. */
export interface ToolWaits {
  /** The call waits for `waitMs` at most. @throws RunLostError */
  begin(claim: Claim, toolCallId: string, waitMs: number): Promise<void>
}

export function createToolWaits(platform: Platform): ToolWaits {
  const { db } = platform
  const callNews = createCallNews(platform)

  return {
    async begin(claim, toolCallId, waitMs) {
      await holdOf(db, claim).write({ call: waiting(toolCallId, waitMs) })
      await callNews.waits({ id: toolCallId, agentId: claim.run.agentId, spaceId: null })
    },
  }
}
