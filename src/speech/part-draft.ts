import { messageOf } from '../lib/errors.ts'
import type { JsonObject } from '../lib/json.ts'
import type { Platform } from '../platform/platform.ts'
import { takePlacement } from '../tools/placement.ts'
import { type Tool, ToolFailure } from '../tools/tool.ts'
import { createInputDraft } from './input-draft.ts'
import type { MessageGrowth } from './message-growth.ts'
import type { MessagePolicy, OpenMessage, Place } from './message-policy.ts'
import { callPart, type RunPosting } from './run-posting.ts'

/** The part of a call whose input is streaming. */
export interface PartDraft {
  /** Adds raw JSON of the input. */
  push(delta: string): void
  /**
   * Stops reporting. Resolves when no report is in progress, with the message that the part has
   * begun in; null if there is none, because its target was unknown or refused.
   */
  end(): Promise<OpenMessage | null>
}

interface PartDraftInput {
  posting: RunPosting
  policy: MessagePolicy
  growth: MessageGrowth
  call: { id: string; tool: Tool }
}

/**
 * Begins the part once its target is known and allowed; at once if the target does not depend on
 * the input. Shows the input as it grows, without the fields that only name the target.
 */
export function createPartDraft({ logger }: Platform, parts: PartDraftInput): PartDraft {
  const { posting, policy } = parts
  const { id: toolCallId, tool } = parts.call
  let open: OpenMessage | null = null
  /** Reports that the input has grown; set once the part begins. */
  let begun: Promise<(input: JsonObject) => Promise<void>> | null = null

  async function begin(place: Place, input: JsonObject | null) {
    try {
      await policy.check(place)
      open = policy.at(toolCallId, place.spaceId)
      const index = open.parts.length
      const message = await beginIn(open, parts, input)
      return (grown: JsonObject) => posting.inputGrown(message, index, { toolCallId, input: grown })
    } catch (error) {
      // After any other error the message may exist.
      if (error instanceof ToolFailure) open = null
      throw error
    }
  }

  async function tellOf(written: JsonObject): Promise<void> {
    const input = takePlacement(tool, written).input as JsonObject
    if (begun !== null) return (await begun)(input)
    const place = policy.placeOfBegunCall(written)
    if (place === null) return
    begun = begin(place, input)
    await begun
  }

  const placeBefore = policy.placeOfBegunCall({})
  if (placeBefore !== null) begun = begin(placeBefore, null)
  begun?.catch(() => {})
  const draft = createInputDraft((written) =>
    // If the part cannot begin, or the run is lost, nothing is reported.
    tellOf(written).catch((error) =>
      logger.debug({ toolCallId, error: messageOf(error) }, 'could not publish a partial tool input'),
    ),
  )

  return {
    push: draft.push,
    async end() {
      await Promise.allSettled([draft.end(), begun])
      return open
    },
  }
}

function beginIn(open: OpenMessage, { policy, growth, call }: PartDraftInput, input: JsonObject | null) {
  const { id: toolCallId, tool } = call
  const writing = { toolName: tool.name, execution: tool.execution, input }
  const message = growth.beginPart(open, { toolCallId, waitMs: null, writing })
  // In a message of one part, the part counts as finished from the start.
  if (!policy.composite) open.parts = [callPart(toolCallId, { isUnfinished: false })]
  return message
}
