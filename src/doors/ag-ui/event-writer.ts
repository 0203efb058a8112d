import { type AGUIEvent, EventType, type Message } from '@ag-ui/core'
import { EventEncoder } from '@ag-ui/encoder'
import { decodeCursor, isAfter } from '../../broker/cursor.ts'
import { sleep } from '../../lib/async.ts'
import { isSettledCall } from '../../rules/statuses.ts'
import { lastInBytes } from '../bytes.ts'
import type { Caller, EventStream } from '../exchange.ts'
import {
  type Connection,
  MESSAGE,
  nodesOf,
  PART,
  type Sender,
  type ShownCall,
  type ShownMessage,
  type ShownPart,
  type SpaceEvent,
} from '../operations.ts'
import type { Known } from './input.ts'
import {
  clientIdOf,
  fileText,
  inputOf,
  messagesOf,
  metadataOf,
  partId,
  resultId,
  resultOf,
  textOf,
} from './messages.ts'

const SNAPSHOT = `query DoorSnapshot($spaceId: ID!) {
  space(id: $spaceId) { streamCursor messages(last: 100) { edges { node { ...DoorMessage editedAt deletedAt } } } }
}
${MESSAGE}`

const SENDER = `query DoorSender($id: ID!) {
  message(id: $id) { id sender { id name kind } parts { ...DoorPart } }
}
${PART}`

/** An event before its cursor is added. */
type Draft = AGUIEvent extends infer Event ? (Event extends AGUIEvent ? Omit<Event, 'rawEvent'> : never) : never

interface Snapshot {
  space: { streamCursor: string; messages: Connection<ShownMessage & Change> } | null
}

/** The times at which a complete message was edited or deleted. */
interface Change {
  id: string
  editedAt: string | null
  deletedAt: string | null
}

/**
 * The minimum time between two snapshots for changes. Members may edit often, and each snapshot counts towards its
 * reader's rate limit.
 */
const BETWEEN_SNAPSHOTS_MS = 3000

const ENCODER = new EventEncoder({ accept: 'text/event-stream' })

export interface EventWriterOptions {
  caller: Caller
  stream: EventStream
  spaceId: string
  /** The messages that the client has received up to `cursor`; null if unknown. */
  known: Known | null
  /** The client has received all events up to this cursor. */
  cursor: string
  maxEventBytes: number
}

/** How much text of a part was sent, and whether the AG-UI text message for it is open. */
interface SentText {
  length: number
  isOpen: boolean
}

/** The size of an event apart from its messages, its interrupts, or the input or result of a call. */
export const FRAME_BYTES = 1024

/** Writes the events of a space as AG-UI events. Each event carries the position after which the client can resume. */
export class EventWriter {
  readonly #options: EventWriterOptions
  #cursor: string
  /** The text sent so far, by the id of the AG-UI message for a part. */
  readonly #texts = new Map<string, SentText>()
  readonly #senders = new Map<string, Sender>()
  /**
   * The ids of everything the client has: calls by their ids, results by `resultId`, changes shown in a snapshot by
   * `changeOf`, and messages that this stream has sent from their beginning.
   */
  readonly #sent: Set<string>
  #snapshotAt = Number.NEGATIVE_INFINITY

  constructor(options: EventWriterOptions) {
    this.#options = options
    this.#cursor = options.cursor
    this.#sent = new Set(options.known?.toolCalls)
    for (const id of options.known?.results ?? []) this.#sent.add(resultId(id))
    for (const [id, length] of options.known?.messages ?? []) this.#texts.set(id, { length, isOpen: false })
  }

  /** Writes an event at the current position. */
  async write(draft: Draft): Promise<void> {
    await this.#send({ ...draft, rawEvent: { cursor: this.#cursor } } as AGUIEvent)
  }

  /** Writes an event without a cursor, because the client cannot resume after this event. */
  async writeWithoutCursor(draft: Draft): Promise<void> {
    await this.#send(draft as AGUIEvent)
  }

  async #send(event: AGUIEvent): Promise<void> {
    await this.#options.stream.write(ENCODER.encodeSSE(event as never))
  }

  /** Ends the text messages that are still open, before the run ends. */
  async closeTexts(): Promise<void> {
    for (const [messageId, text] of this.#texts) if (text.isOpen) await this.#endText(messageId, text)
  }

  /** Writes a space event as AG-UI events. */
  async show(event: SpaceEvent): Promise<void> {
    const at = event.cursor
    switch (event.__typename) {
      case 'SpaceSnapshot':
        await this.#snapshot(at)
        break
      case 'MessagePosted':
        await this.#showPosted(event.message, at)
        break
      case 'MessageTextDelta':
        await this.#showDelta(event, at)
        break
      case 'MessageTextReplaced':
        await this.#snapshot(at)
        break
      case 'MessagePartChanged':
        await this.#showPart(event.messageId, event.part, at)
        break
      case 'MessageFinished':
        await this.#showFinished(event.message, at)
        break
      case 'MessageUpdated':
        await this.#showUpdated(event.message, at)
        break
      default:
    }
    this.#advance(at)
  }

  /** Writes the newest messages of the space. They replace all messages that the client has. */
  async showAll(): Promise<void> {
    await this.#snapshot(this.#cursor)
  }

  #advance(cursor: string): void {
    if (isAfter(decodeCursor(cursor), decodeCursor(this.#cursor))) this.#cursor = cursor
  }

  async #showPosted(message: ShownMessage, at: string): Promise<void> {
    const { id, sender, parts } = message
    this.#senders.set(id, sender)
    if (this.#sent.has(id)) return
    const clientId = clientIdOf(message)
    if (sender.kind === 'HUMAN') {
      const messageId = clientId ?? id
      const whole = textOf(parts)
      const length = this.#texts.get(messageId)?.length ?? 0
      if (this.#texts.has(messageId) && length >= whole.length) return
      // Without `known`, it is uncertain whether the client already has its own message, so a snapshot is sent.
      if (clientId !== null && this.#options.known === null) return this.#snapshot(at)
      this.#texts.set(messageId, { length, isOpen: false })
      await this.#startText(messageId, id, sender)
      await this.#sendText(messageId, whole.slice(length), at)
      return this.#endText(messageId)
    }
    // The parts of the message are sent when their own events arrive, even if the message is already complete. In
    // this way, each part has its own position.
    if (!parts.some(({ index }) => this.#texts.has(partId(id, index)))) this.#sent.add(id)
  }

  async #showDelta(event: Extract<SpaceEvent, { __typename: 'MessageTextDelta' }>, at: string): Promise<void> {
    const { messageId: id, partIndex, offset, delta } = event
    const messageId = partId(id, partIndex)
    const isMissing = this.#options.known !== null && !this.#sent.has(id)
    const text = this.#texts.get(messageId) ?? { length: isMissing ? 0 : offset, isOpen: false }
    const overlap = text.length - offset
    // Some text before this delta is missing. Either the log was lost, or the client's history does not match its
    // cursor.
    if (overlap < 0) {
      // This ensures that only one snapshot is sent for the message, even if the message is too old to be in the
      // snapshot.
      this.#sent.add(id)
      return this.#snapshot(at)
    }
    if (overlap >= delta.length) return
    this.#texts.set(messageId, text)
    if (!text.isOpen) {
      const sender = await this.#senderOf(id)
      if (sender === null) return
      await this.#startText(messageId, id, sender)
    }
    await this.#sendText(messageId, delta.slice(overlap), at)
  }

  async #showPart(id: string, part: ShownPart, at: string): Promise<void> {
    const messageId = partId(id, part.index)
    if (part.__typename === 'ToolCallPart') return this.#showCall(id, part.index, part.toolCall, at)
    if (part.__typename === 'FilePart') {
      const whole = fileText(part.file)
      const length = this.#texts.get(messageId)?.length ?? 0
      if (length < whole.length) await this.#showText(id, part.index, whole, at)
      return
    }
    const text = this.#texts.get(messageId)
    if (text?.isOpen !== true || text.length > part.text.length) return
    // The event reports that the part is complete, or that an earlier part has changed. If the lengths are equal,
    // the part is complete.
    if (text.length === part.text.length) {
      this.#advance(at)
      await this.#endText(messageId)
    }
  }

  async #showFinished(message: ShownMessage, at: string): Promise<void> {
    this.#senders.set(message.id, message.sender)
    await this.#showParts(message, at)
  }

  /** Writes the parts of a complete message that are missing. */
  async #showParts(message: ShownMessage, at: string): Promise<void> {
    for (const part of message.parts) {
      // All parts but the last are sent with the earlier position. A client that is disconnected between two parts
      // thus gets the message again.
      const position = part === message.parts.at(-1) ? at : this.#cursor
      if (part.__typename === 'TextPart') await this.#showText(message.id, part.index, part.text, position)
      else await this.#showPart(message.id, part, position)
    }
  }

  /** Writes the rest of a complete text. */
  async #showText(id: string, index: number, whole: string, at: string): Promise<void> {
    const messageId = partId(id, index)
    const text = this.#texts.get(messageId)
    // If neither the text nor its message is recorded, the text was sent before this stream began.
    if (text === undefined && !this.#sent.has(id)) return
    const { length } = text ?? { length: 0 }
    if (length > whole.length) return this.#snapshot(at)
    if (length < whole.length) {
      if (text?.isOpen !== true) {
        const sender = await this.#senderOf(id)
        if (sender === null) return
        this.#texts.set(messageId, { length, isOpen: false })
        await this.#startText(messageId, id, sender)
      }
      await this.#sendText(messageId, whole.slice(length), at)
    }
    this.#advance(at)
    await this.#endText(messageId)
  }

  async #showCall(id: string, index: number, call: ShownCall, at: string): Promise<void> {
    if (call.status === 'STREAMING') return
    const isSent = this.#sent.has(call.id)
    const needsResult = isSettledCall(call.status) && !this.#sent.has(resultId(call.id))
    if (isSent && !needsResult) return
    // It is uncertain whether the client has the beginning of the call, so a snapshot is sent.
    if (!isSent && this.#options.known === null && !this.#sent.has(id)) return this.#snapshot(at)
    const { id: toolCallId, toolName: toolCallName } = call
    const sender = await this.#senderOf(id)
    if (sender === null) return
    const metadata = metadataOf(id, sender)
    if (!isSent) {
      this.#sent.add(toolCallId)
      const parentMessageId = partId(id, index)
      await this.write({ type: EventType.TOOL_CALL_START, toolCallId, toolCallName, parentMessageId, metadata })
      if (!needsResult) this.#advance(at)
      await this.write({ type: EventType.TOOL_CALL_ARGS, toolCallId, delta: inputOf(call, this.#mostValueBytes()) })
      await this.write({ type: EventType.TOOL_CALL_END, toolCallId })
    }
    this.#advance(at)
    if (!needsResult) return
    const messageId = resultId(toolCallId)
    this.#sent.add(messageId)
    const content = resultOf(call, this.#mostValueBytes())
    await this.write({ type: EventType.TOOL_CALL_RESULT, messageId, toolCallId, role: 'tool', content, metadata })
  }

  #mostValueBytes(): number {
    return this.#options.maxEventBytes - FRAME_BYTES
  }

  /**
   * Writes a snapshot because a message was edited or deleted. If a snapshot was written shortly before, waits
   * first, so that several changes share one snapshot.
   */
  async #showUpdated(message: Change, at: string): Promise<void> {
    if (message.editedAt === null && message.deletedAt === null) return
    const isShown = !isAfter(decodeCursor(at), decodeCursor(this.#cursor))
    if (isShown || this.#sent.has(changeOf(message))) return
    this.#sent.add(changeOf(message))
    const { signal } = this.#options.caller
    const waitMs = this.#snapshotAt + BETWEEN_SNAPSHOTS_MS - performance.now()
    if (waitMs > 0) await sleep(waitMs, signal)
    signal.throwIfAborted()
    await this.#snapshot(at)
  }

  async #senderOf(id: string): Promise<Sender | null> {
    const found = this.#senders.get(id)
    if (found !== undefined) return found
    const { message } = await this.#options.caller.ask<{ message: { sender: Sender } | null }>(SENDER, { id })
    if (message !== null) this.#senders.set(id, message.sender)
    return message?.sender ?? null
  }

  async #startText(messageId: string, id: string, sender: Sender): Promise<void> {
    const text = this.#texts.get(messageId)
    if (text !== undefined) text.isOpen = true
    const role = sender.kind === 'HUMAN' ? 'user' : 'assistant'
    const metadata = metadataOf(id, sender)
    await this.write({ type: EventType.TEXT_MESSAGE_START, messageId, role, name: sender.name, metadata })
  }

  async #sendText(messageId: string, delta: string, at: string): Promise<void> {
    const text = this.#texts.get(messageId)
    if (text !== undefined) text.length += delta.length
    this.#advance(at)
    if (delta !== '') await this.write({ type: EventType.TEXT_MESSAGE_CONTENT, messageId, delta })
  }

  async #endText(messageId: string, text = this.#texts.get(messageId)): Promise<void> {
    if (text?.isOpen !== true) return
    text.isOpen = false
    await this.write({ type: EventType.TEXT_MESSAGE_END, messageId })
  }

  async #snapshot(at: string): Promise<void> {
    const { caller, spaceId, maxEventBytes } = this.#options
    this.#snapshotAt = performance.now()
    const { space } = await caller.ask<Snapshot>(SNAPSHOT, { spaceId })
    if (space === null) return
    const shown = nodesOf(space.messages)
    await this.closeTexts()
    const mostBytes = maxEventBytes - FRAME_BYTES
    const messages = newestInBytes(
      shown.flatMap((message) => messagesOf(message, mostBytes / 2)),
      mostBytes,
    )
    this.#texts.clear()
    for (const message of shown) {
      const { id, sender, parts } = message
      this.#sent.add(changeOf(message))
      this.#senders.set(id, sender)
      this.#sent.add(id)
      for (const part of parts) {
        if (part.__typename !== 'ToolCallPart') continue
        if (part.toolCall.status !== 'STREAMING') this.#sent.add(part.toolCall.id)
        if (isSettledCall(part.toolCall.status)) this.#sent.add(resultId(part.toolCall.id))
      }
    }
    for (const { id, role, ...message } of messages) {
      const content = 'content' in message && typeof message.content === 'string' ? message.content : ''
      if (role === 'assistant' || role === 'user') this.#texts.set(id, { length: content.length, isOpen: false })
    }
    this.#advance(at)
    this.#advance(space.streamCursor)
    await this.write({ type: EventType.MESSAGES_SNAPSHOT, messages })
  }
}

const changeOf = ({ id, editedAt, deletedAt }: Change) => `${id} ${editedAt} ${deletedAt}`

/** Returns the newest messages that fit into one event together. */
function newestInBytes(messages: readonly Message[], maxBytes: number): Message[] {
  const newest = lastInBytes(messages, maxBytes)
  const first = newest.findIndex(({ role }) => role !== 'tool')
  // The list must not begin with a result, because its call would be missing.
  return first === -1 ? [] : newest.slice(first)
}
