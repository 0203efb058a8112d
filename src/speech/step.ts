import type * as calls from '../runs/tool-calls.ts'
import { indexOfCall, type MessagePart } from '../spaces/message.ts'
import type { MessagePublisher, PublishedMessage } from '../spaces/message-publisher.ts'

/** A change of a message, or its end. `parts` are always all of its finished parts, the new one last. */
export interface Step {
  /** The new part: a complete text, or a shown call. Absent if the parts were there before. */
  adds?: { type: 'text' } | { type: 'call'; shown: calls.ShownCall }
  /** The call that is settled in the same write, so that a crash cannot separate the two. */
  result?: ToolResult
  /** The call that then waits for a reply; with `people`, also from people. */
  asks?: calls.AskingCall & { people: boolean }
  /**
   * The message gets no more parts: REQUIRES_ACTION while a call that it shows waits, else
   * COMPLETE. It is routed when complete, or at once if it mentions somebody or asks for a reply.
   */
  ends?: { mention: string | null }
}

export interface ToolResult extends calls.Settlement {
  toolCallId: string
}

/** Whether the step adds no content. */
export const isEnd = ({ adds, result }: Step): boolean => adds === undefined && result === undefined

interface Told {
  message: PublishedMessage
  parts: MessagePart[]
  step: Step
  isWhole: boolean
}

/** After a step is written: publishes its changes to viewers of the message. */
export async function tellStep(
  messagePublisher: MessagePublisher,
  { message, parts, step, isWhole }: Told,
): Promise<void> {
  const { adds, result, ends } = step
  const last = parts.length - 1
  if (adds?.type === 'call') await messagePublisher.partChanged(message, last)
  else if (adds === undefined && result !== undefined)
    await messagePublisher.partChanged(message, indexOfCall(parts, result.toolCallId))
  if (isWhole) return messagePublisher.ended(message, adds?.type === 'text' ? last : null)
  if (adds?.type === 'text') await messagePublisher.partWhole(message, last)
  if (ends !== undefined) await messagePublisher.updated(message)
}
