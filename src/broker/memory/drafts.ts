import { type Draft, KEPT_FINISHED_DRAFT_MS, KEPT_MS, type TextDelta } from '../log.ts'

type Growth = { type: 'held' } | { type: 'grown'; appended: { offset: number; delta: string } }

/** The drafts of messages in the memory of this process. */
export class MemoryDrafts {
  readonly #drafts = new Map<string, { parts: Draft; expiresAt: number }>()
  readonly #now: () => number

  constructor(now: () => number) {
    this.#now = now
  }

  /**
   * Appends a delta to a part. Returns `held` if the part already contains the delta, and otherwise the text that
   * must be appended to the log. If text before the delta is missing, sets the part to `whole` instead.
   */
  grow({ messageId, partIndex, offset, delta }: TextDelta, whole: () => string): Growth {
    const text = this.#live(messageId)?.parts.get(partIndex) ?? ''
    if (text.length > offset && text.length >= offset + delta.length) return { type: 'held' }
    const fits = text.length === offset
    const appended = fits ? { offset, delta } : { offset: 0, delta: whole() }
    this.set({ messageId, partIndex }, fits ? text + delta : appended.delta)
    return { type: 'grown', appended }
  }

  /** Sets the text of a part. */
  set({ messageId, partIndex }: Pick<TextDelta, 'messageId' | 'partIndex'>, text: string): void {
    const { parts } = this.#live(messageId) ?? { parts: new Map<number, string>() }
    parts.set(partIndex, text)
    this.#drafts.set(messageId, { parts, expiresAt: this.#now() + KEPT_MS })
  }

  /** Returns copies of the drafts. The copies stay the same when the drafts grow. */
  read(messageIds: readonly string[]): Map<string, Draft> {
    const found = new Map<string, Draft>()
    for (const id of messageIds) {
      const draft = this.#live(id)
      if (draft) found.set(id, new Map(draft.parts))
    }
    return found
  }

  finish(messageId: string): void {
    const draft = this.#drafts.get(messageId)
    if (draft) draft.expiresAt = Math.min(draft.expiresAt, this.#now() + KEPT_FINISHED_DRAFT_MS)
  }

  /** Deletes expired drafts. */
  sweep(): void {
    for (const id of this.#drafts.keys()) this.#live(id)
  }

  #live(messageId: string): { parts: Draft; expiresAt: number } | undefined {
    const draft = this.#drafts.get(messageId)
    if (draft && draft.expiresAt <= this.#now()) {
      this.#drafts.delete(messageId)
      return undefined
    }
    return draft
  }
}
