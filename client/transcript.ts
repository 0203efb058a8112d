import type { LiveMessagesFragment, LiveSpaceFragment } from './generated/graphql.ts'
import {
  isWhole,
  type Message,
  type MessagePart,
  newerOf,
  type SpaceEvent,
  withDelta,
  withPart,
} from './space-events.ts'

/** A space without its messages. */
export type Space = LiveSpaceFragment

type Growth = Extract<SpaceEvent, { __typename: 'MessageTextDelta' | 'MessagePartChanged' }>

const MOST_WAITING = 1000

/**
 * What is known of a space: itself, and its messages from some one on to the newest, without a hole. Events are taken in in
 * any order, cut anywhere and more than once; what came too early waits, and `gaps` says of which messages something is missing.
 */
export interface Transcript {
  readonly space: Space | null
  /** The viewer's first unread message when the space was first seen. */
  readonly firstUnread: { id: string; seq: number } | null
  readonly hasEarlier: boolean
  /** In the order of the space; a new array after each change of a message. */
  messages(): readonly Message[]
  apply(event: SpaceEvent): void
  /**
   * Says that the page before the first message is being asked for, and gives what takes it in: events that come in between are
   * newer than it; null where it did not come. After a snapshot, or after `keepNewest`, it is not what was asked for any more,
   * and let go.
   */
  beginPage(): (page: LiveMessagesFragment | null) => void
  /** Lets go of all messages but the newest `count`, of one at least: they come again by pages. What happens to them is not taken in. */
  keepNewest(count: number): void
  /** Takes one message in, as it was asked for. */
  put(message: Message): void
  /** Ids of messages of which events told that something before them is missing. Ask for each of them, and `put` it. */
  gaps(): string[]
  /** Lets go of what waits for a message that there is not, or that lies before those which are shown. */
  letGo(messageId: string): void
}

export function createTranscript(): Transcript {
  let space: Space | null = null
  let firstUnread: { id: string; seq: number } | null | undefined
  let hasEarlier = false
  let ordered: Message[] = []
  let shown: readonly Message[] | null = null
  const byId = new Map<string, Message>()
  /** Deltas and parts that came before what they belong to. */
  const early = new Map<string, Growth[]>()
  /** Of messages before the first known one, while a page is asked for. */
  let aside: Map<string, Message> | null = null
  /** Messages before the first known one that were not whole when they were heard of last: what they grow by is not asked for. */
  const unfinishedBefore = new Set<string>()

  function store(message: Message): void {
    const known = byId.get(message.id)
    if (known === message) return
    byId.set(message.id, message)
    shown = null
    const at = placeIn(ordered, message.seq)
    ordered.splice(at, known === undefined ? 0 : 1, message)
  }

  /** A message as an event tells of it; those before the first known one are left to the page that brings them. */
  function take(message: Message): void {
    const [first] = ordered
    if (!byId.has(message.id) && hasEarlier && first !== undefined && message.seq < first.seq) {
      aside?.set(message.id, newerOf(aside.get(message.id), message))
      leaveBefore(message)
      return
    }
    store(newerOf(byId.get(message.id), message))
    catchUp(message.id)
  }

  function leaveBefore(message: Message): void {
    early.delete(message.id)
    if (isWhole(message)) unfinishedBefore.delete(message.id)
    else unfinishedBefore.add(message.id)
  }

  /** Puts in what came too early, as far as it fits now. */
  function catchUp(id: string): void {
    const waiting = early.get(id)
    early.delete(id)
    for (const growth of waiting ?? []) grow(growth)
  }

  function grow(growth: Growth): void {
    const message = byId.get(growth.messageId)
    // A page that is asked for may have been made before this.
    if (!message && aside === null && unfinishedBefore.has(growth.messageId)) return
    const parts = message && partsAfter(message, growth)
    if (!message || !parts) keep(growth)
    else if (parts !== message.parts) store({ ...message, parts })
  }

  function keep(growth: Growth): void {
    const waiting = early.get(growth.messageId) ?? []
    if (waiting.length < MOST_WAITING) waiting.push(growth)
    early.set(
      growth.messageId,
      waiting.sort((one, other) => offsetOf(one) - offsetOf(other)),
    )
  }

  function addPage({ edges, pageInfo }: LiveMessagesFragment): void {
    for (const { node } of edges) {
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
          // Of a kind to come.
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
    gaps: () => [...early.keys()],
    letGo: (messageId) => void early.delete(messageId),
  }
}

const offsetOf = (growth: Growth) => (growth.__typename === 'MessageTextDelta' ? growth.offset : -1)

/** The parts of a message with what grew; null where something before it is missing. The texts of a whole message stay. */
function partsAfter(message: Message, growth: Growth): MessagePart[] | null {
  if (growth.__typename === 'MessageTextDelta') {
    return isWhole(message) ? message.parts : withDelta(message.parts, growth)
  }
  const isText = growth.part.__typename === 'TextPart'
  return isText && isWhole(message) ? message.parts : withPart(message.parts, growth.part)
}

/** Where a message of this number stands, or would stand. */
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
