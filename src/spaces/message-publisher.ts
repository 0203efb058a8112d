import type { Platform } from '../platform/platform.ts'
import type { SpaceLogEvent } from '../realtime/topics.ts'
import { spaceChannel, spaceTopic } from '../realtime/topics.ts'

/** The message that something is told of. */
export interface PublishedMessage {
  id: string
  spaceId: string
  /** The run that writes the message, by its topic, and may be over. */
  unlessSealed?: string
}

/** Tells who follows a space what became of a message in it, once that is committed. */
export interface MessagePublisher {
  /** A part was added, or its tool call changed. */
  partChanged(message: PublishedMessage, partIndex: number): Promise<void>
  /** A text part is whole. Said once, however often it is called. */
  partWhole(message: PublishedMessage, partIndex: number): Promise<void>
  /** A part shows a call that waits for an answer: for who builds a message from its parts and its status, not from MessagePosted. */
  waiting(message: PublishedMessage, partIndex: number): Promise<void>
  /** Its status changed, and more will come. */
  updated(message: PublishedMessage): Promise<void>
  /** Its last part is whole (null: it was before), and so is the message. Said once. */
  ended(message: PublishedMessage, lastPart: number | null): Promise<void>
}

export function createMessagePublisher({ log, signals }: Pick<Platform, 'log' | 'signals'>): MessagePublisher {
  async function append(
    { spaceId, unlessSealed }: PublishedMessage,
    event: SpaceLogEvent,
    once?: string,
  ): Promise<void> {
    await log.append(spaceTopic(spaceId), event, { unlessSealed, once })
  }

  const appendWhole = (message: PublishedMessage, partIndex: number) =>
    append(
      message,
      { type: 'MessagePartChanged', messageId: message.id, partIndex },
      `whole:${message.id}:${partIndex}`,
    )

  const changed = ({ spaceId }: PublishedMessage) =>
    signals.publish(spaceChannel(spaceId), { type: 'message' }, spaceTopic(spaceId))

  const partChanged = (message: PublishedMessage, partIndex: number) =>
    append(message, { type: 'MessagePartChanged', messageId: message.id, partIndex })

  return {
    partChanged,
    async waiting(message, partIndex) {
      await Promise.all([
        partChanged(message, partIndex),
        append(message, { type: 'MessageUpdated', messageId: message.id }),
      ])
    },
    async partWhole(message, partIndex) {
      await Promise.all([appendWhole(message, partIndex), changed(message)])
    },
    async updated(message) {
      await Promise.all([append(message, { type: 'MessageUpdated', messageId: message.id }), changed(message)])
    },
    // Appended in this order, without waiting in between.
    async ended(message, lastPart) {
      await Promise.all([
        ...(lastPart === null ? [] : [appendWhole(message, lastPart)]),
        append(message, { type: 'MessageFinished', messageId: message.id }, `finished:${message.id}`),
        log.finishDraft(spaceTopic(message.spaceId), message.id),
        changed(message),
      ])
    },
  }
}
