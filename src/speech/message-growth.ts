import { BadInputError } from '../lib/errors.ts'
import type { ShownCall } from '../runs/tool-calls.ts'
import type { Message, MessagePart } from '../spaces/message.ts'
import { notAMember } from '../tools/space/failures.ts'
import { type MessagePolicy, noAgentMember, type OpenMessage } from './message-policy.ts'
import { callPart, isMessageEnded, type RunPosting } from './run-posting.ts'
import type { Step } from './step.ts'

/** Begins and extends a run's open messages, by the message policy. */
export interface MessageGrowth {
  /**
   * Begins a message, with a call that it shows or without parts; returns the existing one if it
   * was already begun.
   * @throws ToolFailure
   */
  begin(open: OpenMessage, call?: ShownCall): Promise<Message>
  /** Shows a call whose input is streaming as the next part; begins the message if necessary. @throws ToolFailure */
  beginPart(open: OpenMessage, call: ShownCall): Promise<Message>
  /** Applies a step to the message; closes it if the step ends it, or somebody else has. @throws ToolFailure */
  grow(open: OpenMessage, message: Message, parts: MessagePart[], step: Step): Promise<void>
}

export function createMessageGrowth(posting: RunPosting, policy: MessagePolicy): MessageGrowth {
  /** The key makes repeated calls return the same message. */
  async function post({ spaceId, postKey }: OpenMessage, call?: ShownCall): Promise<Message> {
    const { composite } = policy
    const message = await posting.begin({ spaceId, postKey, composite, ...(call ? { shown: call } : {}) })
    if (message === null) throw notAMember()
    return message
  }

  function begin(open: OpenMessage, call?: ShownCall): Promise<Message> {
    if (open.message !== null) return open.message
    const message = post(open, call)
    open.message = message
    message.catch(() => {
      open.message = null
    })
    return message
  }

  async function write(open: OpenMessage, message: Message, parts: MessagePart[], step: Step): Promise<void> {
    try {
      await posting.grow(message, parts, step)
    } catch (error) {
      if (isMessageEnded(error)) policy.close(open)
      // The message is routed here, and the mentioned agent may have left since the mention was checked.
      throw error instanceof BadInputError ? noAgentMember() : error
    }
  }

  return {
    begin,
    async beginPart(open, call) {
      if (open.message === null) return begin(open, call)
      const message = await open.message
      const part = callPart(call.toolCallId, { isUnfinished: true })
      await write(open, message, [...open.parts, part], { adds: { type: 'call', shown: call } })
      return message
    },
    async grow(open, message, parts, step) {
      await write(open, message, parts, step)
      open.parts = parts
      if (step.ends !== undefined) policy.close(open)
    },
  }
}
