import { messageOf } from '../lib/errors.ts'
import type { JsonObject } from '../lib/json.ts'
import type { Platform } from '../platform/platform.ts'
import { takePlacement } from '../tools/placement.ts'
import { type Tool, ToolFailure } from '../tools/tool.ts'
import { createInputDraft } from './input-draft.ts'
import type { MessageGrowth } from './message-growth.ts'
import type { MessagePolicy, OpenMessage, Place } from './message-policy.ts'
import { callPart, type RunPosting } from './run-posting.ts'

/** The part of a call whose input the model is writing. */
export interface PartDraft {
  /** More of the input, as raw JSON. */
  push(delta: string): void
  /**
   * Nothing more is told of it. Resolves when nothing of it is under way, with the message that the part has begun in; null where
   * that is none: its place was not known yet, or refused.
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
 * The part begins as soon as its place is known and the agent may show it there, at once where that hangs on nothing of the input.
 * What can be read of the input shows with it and as it grows, without the fields that only say where.
 */
export function createPartDraft({ logger }: Platform, parts: PartDraftInput): PartDraft {
  const { posting, policy } = parts
  const { id: toolCallId, tool } = parts.call
  let open: OpenMessage | null = null
  /** Tells that the input has grown, once the part has begun. */
  let begun: Promise<(input: JsonObject) => Promise<void>> | null = null

  async function begin(place: Place, input: JsonObject | null) {
    try {
      await policy.check(place)
      open = policy.at(toolCallId, place.spaceId)
      const index = open.parts.length
      const message = await beginIn(open, parts, input)
      return (grown: JsonObject) => posting.inputGrown(message, index, { toolCallId, input: grown })
    } catch (error) {
      // After any other fault it may be there nevertheless.
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
    // Of a part that cannot begin, or a run that is not this worker's any more, nothing is told.
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
  // A message of one part is whole in its parts from the beginning.
  if (!policy.composite) open.parts = [callPart(toolCallId, { isUnfinished: false })]
  return message
}
