import type { LiveMessagesFragment, LiveSpaceFragment } from './generated/graphql.ts'
import {
  isWhole,
  type Message,
  type MessagePart,
  newerOf,
  type SpaceEvent,
  withDelta,
  withPart,
  withReplacement,
} from './space-events.ts'

/** A space without its messages. */
export type Space = LiveSpaceFragment

type Growth = Extract<SpaceEvent, { __typename: 'MessageTextDelta' | 'MessageTextReplaced' | 'MessagePartChanged' }>

const MOST_WAITING = 1000

/**
 * The state of a space: the space itself and its newest messages, without gaps. `apply` accepts events in any order, starting
 * anywhere, and more than once. Events that arrive too early wait, and `gaps` returns the messages with missing events.
 */
export interface Transcript {
  readonly space: Space | null
  /** The viewer's first unread message when the space was first loaded. */
  readonly firstUnread: { id: string; seq: number } | null
  readonly hasEarlier: boolean
  /** Returns the messages in the order of the space, as a new array after each change. */
  messages(): readonly Message[]
  apply(event: SpaceEvent): void
  /**
   * Call this before requesting the page that precedes the first message. Returns a function that adds the page, or takes null
   * if the request failed. Events that arrive in between are newer than the page. After a snapshot or `keepNewest`, the page is
   * no longer adjacent and is ignored.
   */
  beginPage(): (page: LiveMessagesFragment | null) => void
  /**
   * Drops all messages except the newest `count`, at least one. Events about dropped messages are ignored until
   * a page loads them again.
   */
  keepNewest(count: number): void
  /** Adds a message that was requested separately. */
  put(message: Message): void
  has(messageId: string): boolean
  /** Returns the ids of messages with events that cannot be applied yet. Request each of these messages and `put` it. */
  gaps(): string[]
  /** Drops the waiting events of a message that does not exist or was dropped. */
  letGo(messageId: string): void
}

interface TranscriptOptions {
  /**
   * Whether a message belongs to this transcript, by its place in threads. Events about other messages are ignored. By
   * default, all messages belong.
   */
  isPart?(message: Message): boolean
}

export function createTranscript({ isPart = () => true }: TranscriptOptions = {}): Transcript {
  let space: Space | null = null
  let firstUnread: { id: string; seq: number } | null | undefined
  let hasEarlier = false
  let ordered: Message[] = []
  let shown: readonly Message[] | null = null
  const byId = new Map<string, Message>()
  /** Deltas and parts that arrived too early, by message. */
  const early = new Map<string, Growth[]>()
  /** Events about messages before the first loaded one, while a page is being requested. */
  let aside: Map<string, Message> | null = null
  /**
   * Messages before the first loaded one that were unfinished in their last event. Their deltas do not count as
   * gaps.
   */
  const unfinishedBefore = new Set<string>()
  /** Messages that do not belong to this transcript and were unfinished in their last event. */
  const unfinishedElsewhere = new Set<string>()

  function store(message: Message): void {
    const known = byId.get(message.id)
    if (known === message) return
    byId.set(message.id, message)
    shown = null
    const at = placeIn(ordered, message.seq)
    ordered.splice(at, known === undefined ? 0 : 1, message)
  }

  /** Adds a message from an event. A message before the first loaded one is not added here, but with its page. */
  function take(message: Message): void {
    if (!isPart(message)) {
      leaveElsewhere(message)
      return
    }
    unfinishedElsewhere.delete(message.id)
    const [first] = ordered
    if (!byId.has(message.id) && hasEarlier && first !== undefined && message.seq < first.seq) {
      aside?.set(message.id, newerOf(aside.get(message.id), message))
      leaveBefore(message)
      return
    }
    store(newerOf(byId.get(message.id), message))
    catchUp(message.id)
  }

  /**
   * Removes a message that does not belong to this transcript, because a streaming message may move into or out of a
   * thread.
   */
  function leaveElsewhere(message: Message): void {
    early.delete(message.id)
    if (isWhole(message)) unfinishedElsewhere.delete(message.id)
    else unfinishedElsewhere.add(message.id)
    const known = byId.get(message.id)
    if (known === undefined) return
    byId.delete(message.id)
    ordered.splice(ordered.indexOf(known), 1)
    shown = null
  }

  function leaveBefore(message: Message): void {
    early.delete(message.id)
    if (isWhole(message)) unfinishedBefore.delete(message.id)
    else unfinishedBefore.add(message.id)
  }

  /** Applies the waiting events of a message that can now be applied. */
  function catchUp(id: string): void {
    const waiting = early.get(id)
    early.delete(id)
    for (const growth of waiting ?? []) grow(growth)
  }

  function grow(growth: Growth): void {
    const message = byId.get(growth.messageId)
    if (unfinishedElsewhere.has(growth.messageId)) return
    // Ignore the event if no page is being requested. A page that is being requested may be older than the event, which
    // must then wait.
    if (!message && aside === null && unfinishedBefore.has(growth.messageId)) return
    const parts = message && partsAfter(message, growth)
    if (!message || !parts) keep(growth)
    else if (parts !== message.parts) store({ ...message, parts })
  }

  function keep(growth: Growth): void {
    const waiting = early.get(growth.messageId) ?? []
    if (waiting.length < MOST_WAITING) waiting.push(growth)
    // If there is a replacement, keep the order of the stream, because a replacement applies to the text at its position.
    // Without one, sort by offset.
    const isOrdered = waiting.some(({ __typename }) => __typename === 'MessageTextReplaced')
    early.set(growth.messageId, isOrdered ? waiting : waiting.sort((one, other) => offsetOf(one) - offsetOf(other)))
  }

  function addPage({ edges, pageInfo }: LiveMessagesFragment): void {
    for (const {
      node: { thread: _, ...node },
    } of edges) {
      const meanwhile = aside?.get(node.id)
      unfinishedBefore.delete(node.id)
      store(meanwhile === undefined ? node : newerOf(node, meanwhile))
      catchUp(node.id)
    }
    hasEarlier = pageInfo.hasPreviousPage
  }

  function begin(event: Extract<SpaceEvent, { __typename: 'SpaceSnapshot' }>): void {
    const { messages, firstUnreadMessage, ...rest } = event.space
    space = rest
    firstUnread = firstUnread === undefined ? firstUnreadMessage : firstUnread
    ordered = []
    shown = null
    byId.clear()
    early.clear()
    unfinishedBefore.clear()
    unfinishedElsewhere.clear()
    aside = null
    addPage(messages)
  }

  return {
    get space() {
      return space
    },
    get firstUnread() {
      return firstUnread ?? null
    },
    get hasEarlier() {
      return hasEarlier
    },
    messages() {
      shown ??= [...ordered]
      return shown
    },
    apply(event) {
      switch (event.__typename) {
        case 'SpaceSnapshot':
          return begin(event)
        case 'MessagePosted':
        case 'MessageUpdated':
        case 'MessageFinished':
          return take(event.message)
        case 'MessageTextDelta':
        case 'MessageTextReplaced':
          return grow(event)
        case 'MessagePartChanged':
          grow(event)
          return catchUp(event.messageId)
        case 'MemberJoined':
        case 'MemberLeft':
          space = space && withMember(space, event)
          return
        case 'SpaceUpdated':
          space = event.space
          return
        default:
          // Ignore event types of newer servers.
          return
      }
    },
    beginPage() {
      const meanwhile = new Map<string, Message>()
      aside = meanwhile
      return (page) => {
        if (aside !== meanwhile) return
        if (page !== null) addPage(page)
        aside = null
      }
    },
    keepNewest(count) {
      const gone = ordered.splice(0, Math.max(0, ordered.length - Math.max(1, count)))
      if (gone.length === 0) return
      for (const message of gone) {
        byId.delete(message.id)
        leaveBefore(message)
      }
      hasEarlier = true
      aside = null
      shown = null
    },
    put: take,
    has: (messageId) => byId.has(messageId),
    gaps: () => [...early.keys()],
    letGo: (messageId) => void early.delete(messageId),
  }
}

const offsetOf = (growth: Growth) => (growth.__typename === 'MessageTextDelta' ? growth.offset : -1)

/**
 * Returns the parts with the change applied; null if text before the change is missing. Texts of a complete message do
 * not change.
 */
function partsAfter(message: Message, growth: Growth): MessagePart[] | null {
  if (growth.__typename !== 'MessagePartChanged') {
    if (isWhole(message)) return message.parts
    return growth.__typename === 'MessageTextDelta'
      ? withDelta(message.parts, growth)
      : withReplacement(message.parts, growth)
  }
  const isText = growth.part.__typename === 'TextPart'
  return isText && isWhole(message) ? message.parts : withPart(message.parts, growth.part)
}

/** Returns the index of the message with this `seq`, or the index at which to insert it. */
function placeIn(ordered: Message[], seq: number): number {
  let low = 0
  let high = ordered.length
  while (low < high) {
    const middle = (low + high) >> 1
    if ((ordered[middle]?.seq ?? 0) < seq) low = middle + 1
    else high = middle
  }
  return low
}

function withMember(
  space: Space,
  { __typename, entity }: Extract<SpaceEvent, { __typename: 'MemberJoined' | 'MemberLeft' }>,
): Space {
  const others = space.members.filter(({ id }) => id !== entity.id)
  return { ...space, members: __typename === 'MemberJoined' ? [...others, entity] : others }
}
