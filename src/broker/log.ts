// The event log as the rest of the server sees it. memory/log.ts and redis/log.ts implement the interface, and
// test/contracts tests both of them.
/** An event that can be serialized as JSON. topics.ts defines the events of each topic. */
export type LogEvent = { type: string; [field: string]: unknown }

/**
 * An event with its position in a topic. All subscribers of the topic share the object, so it must never be
 * mutated.
 */
export interface Publication<E extends LogEvent = LogEvent> {
  /** An opaque cursor. A read after this cursor returns the next publication of the topic. */
  cursor: string
  /** The time at which the publication was appended, in ms since 1970, by the clock of the appending process. */
  at: number
  event: E
}

/**
 * `publications`: the next publications in order, at least one. `gap`: there was no last cursor, or the log no
 * longer has the publications between the last cursor and `cursor`. The subscriber must then read the current
 * state. It receives every publication after `cursor`.
 */
export type LogBatch = { type: 'publications'; publications: Publication[] } | { type: 'gap'; cursor: string }

/** Text appended to a part of a message. `offset` is the position of `delta` in the part, in UTF-16 units. */
export interface TextDelta {
  messageId: string
  partIndex: number
  offset: number
  delta: string
}

/** Text that replaces everything in a part from `offset` on. */
export interface TextReplacement {
  messageId: string
  partIndex: number
  offset: number
  text: string
}

export interface AppendOptions {
  /**
   * An idempotency key. Among the last 50,000 keys of a topic, at most one event is appended per key. A repeated
   * key returns `duplicate`.
   */
  once?: string
  /**
   * A sequence number. The ordinals of a topic have no gaps or repetitions. The first ordinal of a topic is 1,
   * unless `isFirst` is set, and each later ordinal must be the previous one plus 1. A lower ordinal returns
   * `duplicate`, a higher one `missing`.
   */
  ordinal?: number
  /** Whether a topic that has no ordinal yet accepts any ordinal as its first. */
  isFirst?: boolean
  /** A seal. If it is set on the topic, nothing is appended, and the result is `sealed`. */
  unlessSealed?: string
  /**
   * Drops every earlier publication of the topic, because any of them may contain deleted content. The topic then
   * begins with this event. Caught-up subscribers receive the event. Lagging subscribers and clients that resume
   * from an earlier cursor get a gap.
   */
  forgets?: true
}

/** An event as the log stores it, including whether earlier publications were dropped. */
export const storedEvent = (event: LogEvent, { forgets }: AppendOptions = {}): LogEvent =>
  forgets ? { ...event, forgets } : event

/** Whether appending this event dropped all earlier publications. */
export const isForgetting = (event: LogEvent): boolean => event['forgets'] === true

/**
 * Only `appended` means that the publication was written. `missing`: the ordinals from `after` + 1 on must be
 * appended first. `after` is null if the topic has no ordinal, because it is new, has expired or was lost.
 * `deferred`: the log is unreachable, so this process buffers the event and appends it in order when the log is
 * back.
 */
export type AppendResult =
  | { type: 'appended'; cursor: string }
  | { type: 'duplicate' }
  | { type: 'missing'; after: number | null }
  | { type: 'sealed' }
  | { type: 'deferred' }

/** The unfinished text of each part of a message, by part index. */
export type Draft = Map<number, string>

/** A publication with its offset and the size of its event's JSON in bytes. */
export interface SizedPublication {
  offset: number
  bytes: number
  publication: Publication
}

/** The position of a subscriber that has received all publications up to `offset`. */
export interface SubscriberPosition {
  readonly offset: number
}

/** The newest publications of a topic, shared by all its subscribers in this process. */
export interface SharedWindow {
  /**
   * Returns the publications after a position, at most 250 and possibly none. Returns null if the subscriber must
   * continue through its own iteration.
   */
  publicationsAfter(position: Pick<SubscriberPosition, 'offset'>): readonly SizedPublication[] | null
  /**
   * Whether the subscriber must continue through its own iteration. The iteration delivers a gap, reads
   * publications that the window has dropped, or throws SlowConsumerError.
   */
  isLost(position: SubscriberPosition): boolean
  /** Returns the cursor of a position. */
  cursorOf(position: SubscriberPosition): string
  /** Advances a position to `offset`. */
  advance(position: SubscriberPosition, offset: number): void
  /**
   * Records that all publications up to `offset` have been offered to the subscriber, which receives later ones
   * only when they are offered. If `offset` is null, the subscriber can take publications at any time. Publications
   * that have not been offered do not count towards its lag, unless they exceed the limit in bytes.
   */
  offer(position: SubscriberPosition, offset: number | null): void
  /**
   * Calls `listener` with `publications` when publications arrive, and with `elsewhere` when some subscribers must
   * continue through their own iterations. Returns a function that removes the listener.
   */
  listen(listener: (change: 'publications' | 'elsewhere') => void): () => void
}

export interface FollowOptions {
  /** The cursor after which delivery starts. Without a cursor, delivery starts with a gap at the end of the topic. */
  after?: string | undefined
  /** When this signal aborts, the iteration ends at once and frees its resources. */
  signal: AbortSignal
  /**
   * Called once, as soon as this subscriber is found to be too slow. The iteration itself throws SlowConsumerError
   * only at its next step, and a blocked consumer may never request this step.
   */
  onSlow?: (() => void) | undefined
  /**
   * Takes over delivery while the subscriber is caught up. Delivers from the shared window to all caught-up
   * subscribers, synchronously. Must resolve when the signal aborts or `isLost` becomes true. The iteration then
   * delivers until the subscriber is caught up again. Without this option, the iteration delivers everything.
   */
  onCaughtUp?: ((window: SharedWindow, position: SubscriberPosition, signal: AbortSignal) => Promise<void>) | undefined
}

/**
 * An ordered event log per topic. It keeps the last 10,000 publications of a topic until 24 hours after the last
 * append. The log is not the source of truth: all of it may be lost at any time, and subscribers then receive a
 * gap.
 *
 * If one process appends to one topic, the order of its calls is kept. A write never fails a caller whose change is
 * already committed. If the log does not respond within 150 ms, the process buffers the write. In this case,
 * `append` returns `deferred`, and `seal`, `finishDraft` and `expire` resolve. While the log is known to be
 * unreachable, this happens at once. If the buffer is full, the oldest writes are dropped, and subscribers of the
 * topic receive a gap. Deltas and reads are not buffered: they reject with LogUnavailableError after about 5 s, and
 * may or may not have been executed.
 */
export interface EventLog {
  append(topic: string, event: LogEvent, options?: AppendOptions): Promise<AppendResult>
  /**
   * Appends a MessageTextDelta and adds the delta to the message's draft in one step. Returns the cursor. A delta
   * that the draft already contains is not appended again. `whole` returns the part's text including this delta. If
   * the log has lost the draft, it appends this text at offset 0 instead of the delta. If `unlessSealed` is sealed,
   * returns null and has no effect.
   */
  appendDelta(
    topic: string,
    delta: TextDelta,
    whole: () => string,
    options?: Pick<AppendOptions, 'unlessSealed'>,
  ): Promise<string | null>
  /**
   * Appends a MessageTextReplaced, and sets the text of the part in the message's draft to `whole`, in one step.
   * Returns the cursor. If `unlessSealed` is sealed, returns null and has no effect.
   */
  replaceText(
    topic: string,
    replacement: TextReplacement,
    whole: string,
    options?: Pick<AppendOptions, 'unlessSealed'>,
  ): Promise<string | null>
  /**
   * Returns the drafts of messages in a topic. Messages without a draft are left out. A draft that is read after a
   * call of `heads` contains every delta up to the cursor that `heads` returned. The log keeps a draft until 60 s
   * after `finishDraft`, or 24 h after the last delta.
   */
  drafts(topic: string, messageIds: readonly string[]): Promise<Map<string, Draft>>
  finishDraft(topic: string, messageId: string): Promise<void>
  /** Returns the cursor of the newest publication of each topic, including topics without publications. */
  heads(topics: readonly string[]): Promise<string[]>
  /**
   * Returns the publications after a cursor, at most `limit` and possibly none, or a gap. Does not wait for new
   * publications.
   * @throws BadInputError for an invalid cursor
   */
  read(topic: string, after: string, limit: number): Promise<LogBatch>
  /**
   * Delivers the publications after a cursor for as long as the consumer iterates. The iteration begins at the
   * first `next()` and ends when the signal aborts or the log closes. After a failure of the log, the iteration
   * continues at its position, or with a gap. It throws SlowConsumerError when the consumer lags by more than 1,000
   * publications or 4 MiB.
   * @throws BadInputError immediately, if the cursor is invalid
   */
  follow(topic: string, options: FollowOptions): AsyncIterableIterator<LogBatch>
  /**
   * Sets a seal on topics. Once this has resolved, no process can append to these topics with this seal as
   * `unlessSealed`. If the log is unreachable, the seal takes effect when the log is back. A seal is kept for 24
   * hours.
   */
  seal(seal: string, topics: readonly string[]): Promise<void>
  /** Marks the topic as ended, so that it expires after `seconds`. Later appends do not extend that time. */
  expire(topic: string, seconds: number): Promise<void>
  /** Returns the highest ordinal appended to each topic; null if the current epoch has none. */
  lastOrdinals(topics: readonly string[]): Promise<(number | null)[]>
  /** The number of topics and subscribers in this process. */
  stats(): { topics: number; followers: number }
  /** Whether the log can be written and followed now. Resolves within 1 s. */
  healthy(): Promise<boolean>
  /** Ends all iterations and releases all resources. Appends in progress fail. */
  close(): Promise<void>
}

/** The number of publications kept per topic. Redis keeps at least this many, memory at most this many. */
export const KEPT_ENTRIES = 10_000
/** The number of idempotency keys kept per topic. */
export const KEPT_ONCE_KEYS = 50_000
/** How long a topic or draft is kept after the last write. */
export const KEPT_MS = 24 * 60 * 60 * 1000
/** How long a topic without publications is kept after it was first read. */
export const KEPT_EMPTY_MS = 60 * 60 * 1000
/** How long a draft is kept after `finishDraft`. */
export const KEPT_FINISHED_DRAFT_MS = 60_000

/** The log is unreachable or has refused the call. The call may or may not have been executed. */
export class LogUnavailableError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'LogUnavailableError'
  }
}
