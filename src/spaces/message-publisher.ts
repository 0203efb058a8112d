import type { SpaceLogEvent } from '../broker/topics.ts'
import { spaceChannel, spaceTopic } from '../broker/topics.ts'
import type { Platform } from '../platform/platform.ts'

/** The message that an event is about. */
export interface PublishedMessage {
  id: string
  spaceId: string
  /** The topic of the run that writes the message: nothing is published once it is sealed. */
  unlessSealed?: string
}

/** Publishes changes to a message, after the commit, to subscribers of its space. */
export interface MessagePublisher {
  /** A part was added, or its tool call changed. */
  partChanged(message: PublishedMessage, partIndex: number): Promise<void>
  /** A text part is finished. Published once, however often it is called. */
  partWhole(message: PublishedMessage, partIndex: number): Promise<void>
  /**
   * A part shows a call that waits. This event is for clients that build messages from their parts and status,
   * because MessagePosted does not contain this information.
   */
  waiting(message: PublishedMessage, partIndex: number): Promise<void>
  /** The message's status changed, and it is not finished. */
  updated(message: PublishedMessage): Promise<void>
  /** The message was deleted. Drops the earlier events of the space, some of which may contain its text. */
  deleted(message: PublishedMessage): Promise<void>
  /** The message is finished, with its last part; null if that part was finished before. Published once. */
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
    async deleted(message) {
      const event = { type: 'MessageUpdated', messageId: message.id }
      await Promise.all([log.append(spaceTopic(message.spaceId), event, { forgets: true }), changed(message)])
    },
    // The log keeps the order of the calls, so there is no need to wait in between.
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
