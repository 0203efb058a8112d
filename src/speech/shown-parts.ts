import type { MessagePart } from '../spaces/message.ts'
import { type Tool, ToolFailure, type ToolUse } from '../tools/tool.ts'
import type { MessageGrowth } from './message-growth.ts'
import type { MessagePolicy, OpenMessage } from './message-policy.ts'
import { indexOfCall, type RunPosting, type ToolResult } from './run-posting.ts'

/** The calls of a run that show, each as a part. */
export interface ShownParts {
  /** Shows a call whose input the model begins to write, where its place is known. */
  begin(callId: string, tool: Tool): void
  /** Shows a call whose input is whole. False: nowhere. @throws ToolFailure */
  show(use: ToolUse, waitMs: number | null): Promise<boolean>
  /** What a call came to, journaled with what that makes of its message. False: it shows nowhere. */
  settle(result: ToolResult): Promise<boolean>
  /** Resolves when what has begun exists, or does not. */
  begun(): Promise<void>
}

interface ShownPart {
  open: OpenMessage
  mention: string | null
}

interface ShownPartsInput {
  posting: RunPosting
  policy: MessagePolicy
  growth: MessageGrowth
}

export function createShownParts({ posting, policy, growth }: ShownPartsInput): ShownParts {
  const shown = new Map<string, ShownPart>(policy.shownBefore().map(([id, open]) => [id, { open, mention: null }]))

  return {
    begin(callId, { name: toolName, execution }) {
      const place = policy.placeOfBegunCall()
      if (place === null) return
      const open: OpenMessage = { ...policy.at(callId, place.spaceId), parts: [{ type: 'tool', toolCallId: callId }] }
      growth.begin(open, { toolCallId: callId, waitMs: null, writing: { toolName, execution } }).catch(() => {})
      shown.set(callId, { open, mention: null })
    },
    async show({ callId, state }, waitMs) {
      const place = policy.placeOfCall(state)
      if (place === null) return false
      await policy.check(place)
      const { spaceId, mention } = place
      const open = shown.get(callId)?.open ?? policy.at(callId, spaceId)
      const call = { toolCallId: callId, waitMs }
      const isNew = indexOfCall(open.parts, callId) < 0
      const parts: MessagePart[] = isNew ? [...open.parts, { type: 'tool', toolCallId: callId }] : open.parts
      shown.set(callId, { open, mention })
      if (open.message === null && !policy.composite) {
        // A message of one part begins with it.
        open.parts = parts
        await growth.begin(open, call)
        return true
      }
      const message = await growth.begin(open)
      const adds = { type: 'call' as const, shown: call }
      const isLast = !policy.composite || mention !== null
      if (waitMs !== null && isLast) await growth.grow(open, message, parts, { adds, ends: { mention } })
      else if (isNew) await growth.grow(open, message, parts, { adds })
      else await posting.callChanged(message, indexOfCall(parts, callId), null)
      return true
    },
    async settle(result) {
      const { open, mention } = shown.get(result.toolCallId) ?? { open: null, mention: null }
      const message = await open?.message?.catch(() => null)
      if (open === null || message == null) return false
      const { parts } = open
      const changed = () => posting.callChanged(message, indexOfCall(parts, result.toolCallId), result)
      if (result.status === 'CANCELED') {
        await posting.interrupt(message, parts, result)
        policy.close(open)
      } else if (policy.composite && (mention === null || result.status !== 'DONE')) await changed()
      else {
        const whole = growth.grow(open, message, parts, { result, ends: { mention } })
        // Where a mention is refused, or the message has ended, its result is one nevertheless.
        await whole.catch((error) => (error instanceof ToolFailure ? changed() : Promise.reject(error)))
      }
      return true
    },
    async begun() {
      await Promise.allSettled([...shown.values()].map(({ open }) => open.message))
    },
  }
}
