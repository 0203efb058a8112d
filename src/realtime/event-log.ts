/** Something that happened, as JSON; its shapes by topic stand in topics.ts. */
export type LogEvent = { type: string; [field: string]: unknown }

/** An event at its place in a topic. Shared by everybody who follows the topic: never change one. */
export interface LogEntry<E extends LogEvent = LogEvent> {
  /** Opaque; `after` it comes the next entry of the same topic. */
  cursor: string
  /** When it was appended: milliseconds since 1970, by the clock of the process that appended it. */
  at: number
  event: E
}

/**
 * `entries` are the next ones, in order, at least one. `gap`: what lies between the last cursor and this one is not
 * kept, or there was no last one; read the state anew, everything that comes after `cursor` will be delivered.
 */
export type Delivery = { type: 'entries'; entries: LogEntry[] } | { type: 'gap'; cursor: string }

/** Text added to a part of a message: `delta` belongs at UTF-16 unit `offset`. */
export interface TextDelta {
  messageId: string
  partIndex: number
  offset: number
  delta: string
}

export interface AppendOptions {
  /** Appended at most once per topic for this key; of the last 50,000 keys of a topic. A repeat answers `duplicate`. */
  once?: string
  /**
   * A number that is announced without a hole and never twice. The first one that a topic sees is taken as it is; later
   * ones must follow on: a known one answers `duplicate`, one too far ahead `missing`.
   */
  ordinal?: number
  /** Once this is sealed for the topic, nothing is appended and the answer is `sealed`. */
  unlessSealed?: string
}

/**
 * Only `appended` appends. `missing`: the ordinals from `after` + 1 on must come first. `deferred`: the log does not answer;
 * the event waits in this process, in its order, and goes out when the log is back.
 */
export type AppendResult =
  | { type: 'appended'; cursor: string }
  | { type: 'duplicate' }
  | { type: 'missing'; after: number }
  | { type: 'sealed' }
  | { type: 'deferred' }

/** The texts of a message's parts that are being written, by part index. */
export type Draft = Map<number, string>

/** An entry with its number and the size of its event's JSON in bytes. */
export interface SizedEntry {
  n: number
  bytes: number
  entry: LogEntry
}

/** The place of one who follows a topic: after its n-th entry. */
export interface LiveSeat {
  readonly n: number
}

/** The newest entries of a topic, which all its followers in this process share. */
export interface LiveWindow {
  /** The entries that lie before a seat, at most 250 of them, perhaps none; null for what only the iteration can deliver. */
  ahead(seat: Pick<LiveSeat, 'n'>): readonly SizedEntry[] | null
  /** Whether only the iteration can deliver what comes next: a gap, what is no longer held, or the end of who is too slow. */
  isLost(seat: LiveSeat): boolean
  /** Moves a seat on, to after the n-th entry. */
  skip(seat: LiveSeat, n: number): void
  /**
   * The seat was offered everything up to the n-th entry, and can take what comes later only when that is offered; null: it can take
   * all of it at any time. Entries that were not offered do not make anybody too slow, up to their bytes.
   */
  offer(seat: LiveSeat, n: number | null): void
  /** Calls with `entries` when some have come, with `elsewhere` when only the iteration knows how to go on. Answers with the way to stop. */
  listen(listener: (change: 'entries' | 'elsewhere') => void): () => void
}

export interface FollowOptions {
  /** Deliver what comes after this cursor. Without it, first a gap at the topic's end, then what comes. */
  after?: string | undefined
  /** Ends the iteration at once, and everything held for it. */
  signal: AbortSignal
  /**
   * Called once, at the moment this follower is found to be too slow. The iteration throws SlowConsumerError at its next
   * step; a consumer that is stuck before that step learns it here.
   */
  onSlow?: (() => void) | undefined
  /**
   * Takes over where the follower has had everything: from the seat in the topic's window, synchronously, with whoever else sits
   * there. Resolves at the latest when the signal aborts, and whenever the window only answers by `take`; what comes then is
   * delivered by the iteration again, until the next time. Without it the iteration delivers everything.
   */
  onSeat?: ((window: LiveWindow, seat: LiveSeat, signal: AbortSignal) => Promise<void>) | undefined
}

/**
 * An ordered log per topic: append here, follow anywhere. The last 10,000 entries of a topic are kept, until 24 hours
 * after the last one. It is not the truth: all of it may be lost at any time, followers then get a gap.
 *
 * What one process writes to one topic keeps the order of the calls. None of it fails whoever tells what is committed
 * already: where the log does not answer within 150 ms (at once while it is known to be away), `append` answers `deferred`,
 * `seal`, `finishDraft` and `expire` resolve, and what they were to do waits in this process. Of more than it can keep the
 * oldest is given up, and the topic's followers get a gap. Deltas and reads are their callers': they reject with
 * LogUnavailableError after about 5 s, and may or may not have taken place.
 */
export interface EventLog {
  append(topic: string, event: LogEvent, options?: AppendOptions): Promise<AppendResult>
  /**
   * Appends a MessageTextDelta and grows the message's draft by it in one step; answers with the cursor. A delta that the
   * draft holds already is not appended again. `whole` gives the part's text so far, this delta included: where the log
   * has lost the draft, the whole is appended at offset 0 instead. Null, and nothing done, where `unlessSealed` is sealed.
   */
  appendDelta(
    topic: string,
    delta: TextDelta,
    whole: () => string,
    options?: Pick<AppendOptions, 'unlessSealed'>,
  ): Promise<string | null>
  /**
   * The texts being written to a topic; a message without a draft is left out. A draft read after `heads` holds every delta
   * up to that head. Kept until 60 s after `finishDraft`, or 24 h after the last delta.
   */
  drafts(topic: string, messageIds: readonly string[]): Promise<Map<string, Draft>>
  finishDraft(topic: string, messageId: string): Promise<void>
  /** For each topic the cursor after which everything later comes; also for a topic that has no entries yet. */
  heads(topics: readonly string[]): Promise<string[]>
  /**
   * The entries after a cursor, at most `limit`, perhaps none; or a gap. Does not wait.
   * @throws BadInputError for a text that is no cursor at all.
   */
  read(topic: string, after: string, limit: number): Promise<Delivery>
  /**
   * What comes after a cursor, for as long as one asks. Begins at the first `next()`; ends when the signal aborts or the
   * log closes. It outlives every fault of the log and goes on from where it was, or with a gap. Throws SlowConsumerError
   * once the consumer has fallen more than 1,000 entries or 4 MiB behind.
   * @throws BadInputError, at the call, for a text that is no cursor at all.
   */
  follow(topic: string, options: FollowOptions): AsyncIterableIterator<Delivery>
  /**
   * From when this resolves on, nothing is appended to these topics with this as its `unlessSealed`, whoever tries; while the log
   * is away, from when it is back on. Kept for 24 hours.
   */
  seal(seal: string, topics: readonly string[]): Promise<void>
  /** The topic has ended: forget it after `seconds`. Later appends do not prolong that. */
  expire(topic: string, seconds: number): Promise<void>
  /** For each topic the highest ordinal appended; null where there was none since the topic (last) came to be. */
  announced(topics: readonly string[]): Promise<(number | null)[]>
  /** What this process follows now. */
  stats(): { topics: number; followers: number }
  /** Whether the log can be written and followed now; answers within 1 s. */
  healthy(): Promise<boolean>
  /** Ends every iteration and lets go of everything. What is still being appended fails. */
  close(): Promise<void>
}

/** Entries of a topic that are kept, at least. */
export const KEPT_ENTRIES = 10_000
/** Once keys of a topic that are kept. */
export const KEPT_ONCE_KEYS = 50_000
/** How long a topic or draft is kept after the last thing written to it. */
export const KEPT_MS = 24 * 60 * 60 * 1000
/** How long a topic is kept that was asked for and never had an entry. */
export const KEPT_EMPTY_MS = 60 * 60 * 1000
/** How long a draft is kept after `finishDraft`. */
export const KEPT_FINISHED_DRAFT_MS = 60_000

/** The consumer is further behind than the log waits for: begin again from the last cursor seen. */
export class SlowConsumerError extends Error {
  constructor() {
    super('The consumer is too far behind: it must resume from its last cursor.')
    this.name = 'SlowConsumerError'
  }
}

/** The log cannot be reached, or refuses. What was asked for may or may not have taken place. */
export class LogUnavailableError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'LogUnavailableError'
  }
}
