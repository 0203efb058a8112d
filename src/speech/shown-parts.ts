import type { Platform } from '../platform/platform.ts'
import type { NewWait } from '../runs/tool-calls.ts'
import { indexOfCall } from '../spaces/message.ts'
import { type Tool, ToolFailure, type ToolUse } from '../tools/tool.ts'
import { isConfidential } from './guard.ts'
import type { MessageGrowth } from './message-growth.ts'
import type { MessagePolicy, OpenMessage, Place } from './message-policy.ts'
import { createPartDraft, type PartDraft } from './part-draft.ts'
import { callPart, type RunPosting } from './run-posting.ts'
import type { ToolResult } from './step.ts'

/** Shows the calls of a run, each as a part of a message. */
export interface ShownParts {
  /** Shows a call whose input begins to stream, once its target is known. */
  begin(callId: string, tool: Tool): void
  /** Adds raw JSON of its input, which is shown at intervals. */
  write(callId: string, delta: string): void
  /** Shows a call whose input is complete. False: it is not shown. @throws ToolFailure */
  show(use: ToolUse, wait: NewWait | null): Promise<boolean>
  /** Journals the result of a call together with the change of its message. False: the call is not shown. */
  settle(result: ToolResult): Promise<boolean>
  /** Whether nothing is shown. */
  isQuiet(): boolean
  /** Cancels the calls whose input is streaming. Resolves when everything begun exists, or has failed. */
  cancelDrafts(): Promise<void>
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

export function createShownParts(platform: Platform, { posting, policy, growth }: ShownPartsInput): ShownParts {
  const shown = new Map<string, ShownPart>()
  /** Calls that are not shown yet, or only with streaming input. */
  const drafts = new Map<string, PartDraft>()
  for (const [callId, open] of policy.shownBefore()) {
    if (policy.composite) drafts.set(callId, { push() {}, end: async () => open })
    else shown.set(callId, { open, mention: null })
  }

  /** The parts of a message with the call's part, which comes last if it is not among the finished ones. */
  function partsWith(callId: string, { parts }: OpenMessage, { isUnfinished }: { isUnfinished: boolean }) {
    return indexOfCall(parts, callId) < 0 ? [...parts, callPart(callId, { isUnfinished })] : parts
  }

  /** The message for a call whose input is complete; null: none. @throws ToolFailure */
  async function openOf(callId: string, place: Place | null): Promise<OpenMessage | null> {
    const begun = (await drafts.get(callId)?.end()) ?? shown.get(callId)?.open
    if (begun !== undefined && begun.spaceId !== place?.spaceId)
      throw new ToolFailure('BAD_INPUT', 'Write each field of the input once.')
    if (place === null) return null
    await policy.check(place)
    return begun ?? policy.at(callId, place.spaceId)
  }

  async function settle(result: ToolResult): Promise<boolean> {
    const { toolCallId: callId, status } = result
    const begun = (await drafts.get(callId)?.end()) ?? null
    drafts.delete(callId)
    const { open, mention } = shown.get(callId) ?? { open: begun, mention: null }
    const message = await open?.message?.catch(() => null)
    if (open === null || message == null) return false
    const isBrokenOff = status === 'CANCELED'
    const parts =
      begun === null ? open.parts : partsWith(callId, open, { isUnfinished: isBrokenOff && policy.composite })
    const goesOn = policy.composite && (mention === null || status !== 'DONE')
    const changed = () => posting.callChanged(message, indexOfCall(parts, callId), result)
    if (isBrokenOff) {
      await posting.interrupt(message, parts, result)
      policy.close(open)
      return true
    }
    const grown =
      goesOn && parts === open.parts
        ? posting.checkHeard(open.spaceId).then(changed)
        : growth.grow(open, message, parts, { result, ...(goesOn ? {} : { ends: { mention } }) })
    await grown.catch(async (error) => {
      if (!(error instanceof ToolFailure)) throw error
      // If a mention is refused, or the message has ended, the call still has its result.
      if (!isConfidential(error)) return changed()
      await posting.withdraw(message, parts, result)
      policy.close(open)
    })
    return true
  }

  return {
    begin: (id, tool) =>
      void drafts.set(id, createPartDraft(platform, { posting, policy, growth, call: { id, tool } })),
    write: (callId, delta) => drafts.get(callId)?.push(delta),
    async show({ callId, state }, wait) {
      const isAsked = wait?.approval !== undefined
      const place = isAsked ? policy.placeOfQuestion(state) : policy.placeOfCall(state)
      const open = await openOf(callId, place)
      if (open === null || place === null) return false
      const { mention } = place
      const call = { toolCallId: callId, waitMs: null, ...wait }
      const parts = partsWith(callId, open, { isUnfinished: false })
      shown.set(callId, { open, mention })
      if (open.message === null && !policy.composite) {
        // In a message of one part, the part counts as finished from the start.
        open.parts = parts
        await growth.begin(open, call)
      } else {
        const message = await growth.begin(open)
        const adds = { type: 'call' as const, shown: call }
        const isLast = !policy.composite || mention !== null
        if (wait !== null && isLast) await growth.grow(open, message, parts, { adds, ends: { mention } })
        else if (parts !== open.parts) await growth.grow(open, message, parts, { adds })
        else {
          await posting.checkHeard(open.spaceId)
          await posting.callChanged(message, indexOfCall(parts, callId), null)
        }
      }
      drafts.delete(callId)
      return true
    },
    settle,
    isQuiet: () => shown.size === 0,
    async cancelDrafts() {
      for (const toolCallId of drafts.keys())
        await settle({ toolCallId, status: 'CANCELED', output: null, error: null })
      await Promise.allSettled([...shown.values()].map(({ open }) => open.message))
    },
  }
}
