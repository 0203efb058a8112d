import type { Asked } from './resource.ts'
import { itemOf, partOf, resourceOf } from './resource.ts'
import type { Item } from './transcript.ts'
import type { TurnView } from './turn-stream.ts'

/** An event of a response, with its sequence number. */
export interface NumberedEvent {
  type: string
  sequence_number: number
  [field: string]: unknown
}

/**
 * The number of sequence numbers that are reserved for each output item. A sequence number is a position in the
 * content. For example, the number of a delta is the position of its last character within the range of its item.
 * Sequence numbers therefore increase, and the server needs no state to resume after any of them, even if the text
 * is then split into other deltas.
 */
const WINDOW = 65_536
const [ITEM_ADDED, PART_ADDED, TEXT, TEXT_DONE, PART_DONE, ITEM_DONE] = [0, 1, 2, 40_000, 40_001, 40_002]
/**
 * The sequence numbers of texts about waiting calls. They are within the range of the last item, so that later
 * items get higher numbers.
 */
const WORDS = { first: 41_000, each: 4000, slots: [0, 1, 2, 3800, 3801, 3802] as const }
const [PAUSED, ENDED] = [60_000, 60_001]

type Slots = readonly [number, number, number, number, number, number]
const ITEM_SLOTS: Slots = [ITEM_ADDED, PART_ADDED, TEXT, TEXT_DONE, PART_DONE, ITEM_DONE]

/** The size of an event apart from its response. */
const AROUND_RESOURCE_BYTES = 128

/** How many characters of an item have been sent, and whether the item is done. */
interface SentItem {
  index: number
  length: number
  isDone: boolean
}

/** Converts successive views of a turn to the events that come after `startingAfter`. */
export class ResponseEvents {
  readonly #asked: Asked
  readonly #mostResourceBytes: number
  #last: number
  #isBegun = false
  /** The items sent so far, by id. */
  readonly #sent = new Map<string, SentItem>()

  constructor(asked: Asked, { startingAfter, maxEventBytes }: { startingAfter: number; maxEventBytes: number }) {
    this.#asked = asked
    this.#mostResourceBytes = maxEventBytes - AROUND_RESOURCE_BYTES
    this.#last = startingAfter
  }

  /** Returns events for everything in this view that earlier views did not have. */
  next(view: TurnView): NumberedEvent[] {
    const events: NumberedEvent[] = []
    const add = (number: number, event: { type: string; [field: string]: unknown }) => {
      if (number <= this.#last) return
      this.#last = number
      events.push({ ...event, sequence_number: number })
    }
    if (!this.#isBegun) {
      this.#isBegun = true
      const response = this.#resourceOf({ ...view, status: 'in_progress', items: [], words: [], error: null })
      add(0, { type: 'response.created', response })
      add(1, { type: 'response.in_progress', response })
    }
    const isOver = view.status !== 'in_progress'
    const begun = view.items.filter(({ id }) => this.#sent.has(id))
    begun.sort((one, other) => this.#indexOf(one) - this.#indexOf(other))
    // Items that became visible late follow the items that were sent before.
    for (const item of [...begun, ...view.items.filter(({ id }) => !this.#sent.has(id))]) {
      const index = this.#indexOf(item)
      this.#item(item, { index, isOver, base: (index + 1) * WINDOW, slots: ITEM_SLOTS, add })
      // The next item is sent only when this one is done.
      if (this.#sent.get(item.id)?.isDone !== true) break
    }
    if (!isOver) return events
    const end = this.#sent.size * WINDOW
    const first = this.#sent.size
    for (const [place, item] of view.words.entries()) {
      const base = end + WORDS.first + place * WORDS.each
      this.#item(item, { index: first + place, isOver, base, slots: WORDS.slots, add })
    }
    const type = END_OF[view.status]
    add(end + (view.words.length > 0 ? PAUSED : ENDED), { type, response: this.#resourceOf(view) })
    return events
  }

  /** Returns the event for an internal error of the server. */
  failure(message: string, view: TurnView | null): NumberedEvent {
    this.#last += 1
    const failed: TurnView = { ...(view ?? EMPTY), status: 'failed', error: { message, code: 'INTERNAL_SERVER_ERROR' } }
    return { type: 'response.failed', sequence_number: this.#last, response: this.#resourceOf(failed) }
  }

  #resourceOf(view: TurnView) {
    return resourceOf(this.#asked, view, this.#mostResourceBytes)
  }

  #indexOf({ id }: Item): number {
    return this.#sent.get(id)?.index ?? this.#sent.size
  }

  #item(item: Item, { index, isOver, base, slots, add }: Place): void {
    const { id, text } = item
    const sent = this.#sent.get(id) ?? { index, length: 0, isDone: false }
    this.#sent.set(id, sent)
    if (sent.isDone) return
    const [added, partAdded, start, textDone, partDone, done] = slots
    const place = { output_index: index, content_index: 0, item_id: id }
    add(base + added, { type: 'response.output_item.added', output_index: index, item: itemOf(item, 'in_progress') })
    add(base + partAdded, { type: 'response.content_part.added', ...place, part: partOf('') })
    // A client that resumes in the middle of the text already has the beginning.
    const from = Math.max(sent.length, this.#last - base - start)
    if (text.length > from) {
      const delta = text.slice(Math.max(0, from))
      add(base + start + text.length, { type: 'response.output_text.delta', ...place, delta, logprobs: [] })
    }
    sent.length = Math.max(sent.length, text.length)
    if (!item.isComplete && !isOver) return
    sent.isDone = true
    add(base + textDone, { type: 'response.output_text.done', ...place, text, logprobs: [] })
    add(base + partDone, { type: 'response.content_part.done', ...place, part: partOf(text) })
    const status = item.isComplete ? 'completed' : 'incomplete'
    add(base + done, { type: 'response.output_item.done', output_index: index, item: itemOf(item, status) })
  }
}

interface Place {
  index: number
  isOver: boolean
  base: number
  slots: Slots
  add(number: number, event: { type: string; [field: string]: unknown }): void
}

const END_OF = {
  in_progress: 'response.in_progress',
  completed: 'response.completed',
  failed: 'response.failed',
  cancelled: 'response.incomplete',
} as const

const EMPTY: TurnView = {
  status: 'failed',
  items: [],
  words: [],
  error: null,
  usage: null,
  agentId: null,
  completedAt: null,
}
