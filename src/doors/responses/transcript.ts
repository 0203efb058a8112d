import type { ShownMessage, ShownPart, SpaceEvent } from '../operations.ts'

/** A text that agents have written in a turn. */
export interface Item {
  id: string
  text: string
  isComplete: boolean
}

interface Heard {
  seq: number
  /** The text of each part; null if the part is not text. */
  texts: (string | null)[]
  isFinished: boolean
}

/**
 * The texts of a turn, in the order of the space. They depend only on the messages, so every reader gets the same
 * texts in the same order.
 */
export class Transcript {
  readonly #rootId: string
  readonly #messages = new Map<string, Heard>()
  /** The edits and deletions after which the messages were loaded again. */
  readonly #changes = new Set<string>()

  constructor(rootId: string) {
    this.#rootId = rootId
  }

  /** Adds messages, including all their text. */
  load(messages: readonly ShownMessage[]): void {
    for (const message of messages) this.#put(message)
  }

  /** Applies an event. Returns false if the messages must be loaded again. */
  apply(event: SpaceEvent): boolean {
    switch (event.__typename) {
      case 'SpaceSnapshot':
        return false
      case 'MessagePosted':
      case 'MessageFinished':
        this.#put(event.message)
        return true
      case 'MessageTextDelta':
        return this.#append(event)
      case 'MessageTextReplaced': {
        const texts = this.#messages.get(event.messageId)?.texts
        if (texts !== undefined)
          texts[event.partIndex] = (texts[event.partIndex] ?? '').slice(0, event.offset) + event.text
        return true
      }
      case 'MessagePartChanged': {
        const texts = this.#messages.get(event.messageId)?.texts
        const text = textOf(event.part)
        if (texts !== undefined && (text === null || text.length >= (texts[event.part.index]?.length ?? 0)))
          texts[event.part.index] = text
        return true
      }
      case 'MessageUpdated': {
        const { id, editedAt, deletedAt } = event.message
        if ((editedAt === null && deletedAt === null) || !this.#messages.has(id)) return true
        const change = `${id} ${editedAt} ${deletedAt}`
        if (this.#changes.has(change)) return true
        this.#changes.add(change)
        return false
      }
      default:
        return true
    }
  }

  /** Removes all messages. `load` must be called afterwards. */
  clear(): void {
    this.#messages.clear()
  }

  /**
   * Returns the texts. While the turn is not over, leaves out texts that follow an incomplete message, because this
   * message may get further texts, which come first.
   */
  items(isOver: boolean): Item[] {
    const inOrder = [...this.#messages].toSorted(([, one], [, other]) => one.seq - other.seq)
    const open = isOver ? -1 : inOrder.findIndex(([, { isFinished }]) => !isFinished)
    return (open === -1 ? inOrder : inOrder.slice(0, open + 1)).flatMap(([id, { texts, isFinished }]) =>
      texts.flatMap((text, index) => {
        if (text == null) return []
        return [{ id: `${id}_${index}`, text, isComplete: isFinished || index < texts.length - 1 }]
      }),
    )
  }

  #put({ id, seq, run, sender, status, parts }: ShownMessage): void {
    if (sender.kind !== 'AGENT' || run?.rootId !== this.#rootId) return
    const known = this.#messages.get(id)
    const texts = parts.map(textOf)
    // The text built from deltas may be newer than the stored text.
    const newest = texts.map((text, index) => {
      const streamed = known?.texts[index]
      return status === 'STREAMING' && streamed != null && text !== null && streamed.length > text.length
        ? streamed
        : text
    })
    if (status === 'STREAMING') for (const text of known?.texts.slice(texts.length) ?? []) newest.push(text)
    this.#messages.set(id, { seq, texts: newest, isFinished: status !== 'STREAMING' })
  }

  #append({ messageId, partIndex, offset, delta }: Extract<SpaceEvent, { __typename: 'MessageTextDelta' }>): boolean {
    const texts = this.#messages.get(messageId)?.texts
    if (texts === undefined) return true
    const text = texts[partIndex] ?? ''
    if (text.length < offset) return false
    while (texts.length < partIndex) texts.push(null)
    if (offset + delta.length > text.length) texts[partIndex] = text + delta.slice(text.length - offset)
    return true
  }
}

function textOf(part: ShownPart): string | null {
  if (part.__typename === 'TextPart') return part.text
  if (part.__typename === 'FilePart') return `[file ${part.file.name} (${part.file.mediaType}, ${part.file.id})]`
  return null
}
