import type * as calls from '../runs/tool-calls.ts'
import { indexOfCall, type MessagePart } from '../spaces/message.ts'
import type { MessagePublisher, PublishedMessage } from '../spaces/message-publisher.ts'

/** What comes to a message, or ends it. `parts` are always all of its whole parts; the new one stands last. */
export interface Step {
  /** The part that is new: a text that is whole, or a call that shows. Absent when the parts were there before. */
  adds?: { type: 'text' } | { type: 'call'; shown: calls.ShownCall }
  /** The call that is settled by it: a crash cannot separate the two. */
  result?: ToolResult
  /** The call that goes on to wait for a reply; with `people`, of people too. */
  asks?: calls.AskingCall & { people: boolean }
  /** No more parts will come. While a call that it shows waits it is REQUIRES_ACTION; else it is whole now. Routed once whole, or at once where it mentions somebody or asks. */
  ends?: { mention: string | null }
}

export interface ToolResult extends calls.Settlement {
  toolCallId: string
}

/** It says nothing that was not said before. */
export const isEnd = ({ adds, result }: Step): boolean => adds === undefined && result === undefined

interface Told {
  message: PublishedMessage
  parts: MessagePart[]
  step: Step
  isWhole: boolean
}

/** Once a step is written: tells whoever sees the message what has come to it. */
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
