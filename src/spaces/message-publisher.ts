import type { SpaceLogEvent } from '../broker/topics.ts'
import { spaceChannel, spaceTopic } from '../broker/topics.ts'
import type { Platform } from '../platform/platform.ts'

/** The message that an event is about. */
export interface PublishedMessage {
  id: string
  spaceId: string
  /** The topic of the run that writes the message. Once this topic is sealed, nothing is published. */
  unlessSealed?: string
}

/** Publishes changes to a message to the subscribers of its space, after the commit. */
export interface MessagePublisher {
  /** Publishes that the message has a new part, or that the tool call of a part changed. */
  partChanged(message: PublishedMessage, partIndex: number): Promise<void>
  /** Publishes that a text part is finished. Further calls for the same part publish nothing. */
  partWhole(message: PublishedMessage, partIndex: number): Promise<void>
  /**
   * Publishes that a part shows a waiting call. Clients that assemble messages from parts and status need this event,
   * because MessagePosted does not contain the information.
   */
  waiting(message: PublishedMessage, partIndex: number): Promise<void>
  /** Publishes that the status of an unfinished message changed. */
  updated(message: PublishedMessage): Promise<void>
  /**
   * Publishes that the message was deleted, and drops the earlier events of the space, because they can contain the
   * message's text.
   */
  deleted(message: PublishedMessage): Promise<void>
  /**
   * Publishes that the message is finished. `lastPart` is null if the last part was finished before. Further calls
   * publish nothing.
   */
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
    // The log keeps the order of the calls, so the second append need not wait for the first.
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
