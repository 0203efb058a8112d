import type { LiveMessagesFragment, LiveThreadSummaryFragment } from './generated/graphql.ts'
import { type Message, threadOf } from './space-events.ts'

/** The number of replies of a thread, the time of the last one, and how many of them the viewer has not read. */
export type ThreadSummary = LiveThreadSummaryFragment

/**
 * A summary with the `seq` of the last counted reply; null if the summary was read from the server, which gives only
 * the time of that reply.
 */
type Counted = ThreadSummary & { lastSeq: number | null }

const NOTHING: Counted = { replyCount: 0, lastReplyAt: null, unreadCount: 0, lastSeq: null }
const MOST_UNCOUNTED = 200

/**
 * The numbers of replies of threads: the server's counts from when the root messages were read, and the replies of later
 * events.
 */
export interface ThreadCounts {
  /** Returns the summaries by the id of the thread's root message, as a new map after each change. */
  summaries(): ReadonlyMap<string, ThreadSummary>
  /** Stores the summaries of a page of messages. */
  takePage(page: LiveMessagesFragment): void
  /**
   * Counts a reply, unless it was already counted.
   * @param isRootLoaded whether the root message of the thread is loaded
   */
  count(reply: Message, isRootLoaded: boolean): void
  /** Records that the viewer has read the replies up to this `seq`. */
  read(rootId: string, seq: number): void
  /** Drops all counts. */
  clear(): void
}

/** @param viewerId the human whose own replies do not count as unread; null if the viewer is not human */
export function createThreadCounts(viewerId: string | null): ThreadCounts {
  const counted = new Map<string, Counted>()
  let shown: ReadonlyMap<string, ThreadSummary> | null = null
  /**
   * Replies of threads whose root message is not loaded. The page that loads the root message later may not count these
   * replies.
   */
  let uncounted: Message[] = []

  function set(rootId: string, summary: Counted): void {
    counted.set(rootId, summary)
    shown = null
  }

  function add(rootId: string, { seq, createdAt, sender }: Message): void {
    const { replyCount, lastReplyAt, unreadCount, lastSeq } = counted.get(rootId) ?? NOTHING
    const isKnown = lastSeq === null ? lastReplyAt !== null && createdAt <= lastReplyAt : seq <= lastSeq
    if (isKnown) return
    const isUnread = viewerId !== null && sender.id !== viewerId
    set(rootId, {
      replyCount: replyCount + 1,
      lastReplyAt: createdAt,
      unreadCount: unreadCount + (isUnread ? 1 : 0),
      lastSeq: seq,
    })
  }

  function take(rootId: string, summary: ThreadSummary | null): void {
    set(rootId, { ...NOTHING, ...summary })
    const later = uncounted.filter((reply) => threadOf(reply) === rootId)
    if (later.length === 0) return
    uncounted = uncounted.filter((reply) => !later.includes(reply))
    for (const reply of later) add(rootId, reply)
  }

  return {
    summaries() {
      shown ??= new Map([...counted].filter(([, { replyCount }]) => replyCount > 0))
      return shown
    },
    takePage({ edges }) {
      for (const { node } of edges) take(node.id, node.thread ?? null)
    },
    count(reply, isRootLoaded) {
      const rootId = threadOf(reply)
      if (rootId === null) return
      if (isRootLoaded) add(rootId, reply)
      else uncounted = [...uncounted.filter(({ id }) => id !== reply.id), reply].slice(-MOST_UNCOUNTED)
    },
    read(rootId, seq) {
      const summary = counted.get(rootId)
      if (summary === undefined || summary.unreadCount === 0 || (summary.lastSeq ?? 0) > seq) return
      set(rootId, { ...summary, unreadCount: 0 })
    },
    clear() {
      counted.clear()
      uncounted = []
      shown = null
    },
  }
}
