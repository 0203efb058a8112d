import type { Connection } from './connection.ts'
import { createEarlierPages, type EarlierPages } from './earlier-pages.ts'
import { type ParleyError, payloadOf } from './errors.ts'
import type { LiveAgentActivitySubscription } from './generated/graphql.ts'
import { createLiveThread, type Follower, type LiveThread } from './live-thread.ts'
import { createObservable, type Observable } from './observable.ts'
import {
  AGENT_ACTIVITY,
  EARLIER_MESSAGES,
  ONE_MESSAGE,
  SEND_MESSAGE,
  SPACE_MESSAGES,
  SPACE_PRESENCE,
} from './operations.ts'
import { isReply, type Message, type SpaceEvent, threadOf } from './space-events.ts'
import { createThreadCounts, type ThreadSummary } from './thread-counts.ts'
import { createTranscript, type Space } from './transcript.ts'

/** The current work of one agent of the space, in all spaces. */
export type AgentActivity = LiveAgentActivitySubscription['agentActivity']

/** Whether a person is present, and until when the person is shown as typing. */
export type MemberPresence = Pick<
  NonNullable<Extract<SpaceEvent, { __typename: 'MemberPresenceChanged' }>['changes']>[number],
  'presence' | 'typingUntil'
>

/** The current state of a space. Parts that did not change keep their identity from one state to the next. */
export interface SpaceState {
  /** `loading` until the first snapshot; `ended` when the viewer has lost access, with the reason in `error`. */
  status: 'loading' | 'live' | 'ended'
  space: Space | null
  /** The newest messages in the order of the space, without gaps. */
  messages: readonly Message[]
  /** Whether there are messages before the first one in `messages`. */
  hasEarlier: boolean
  isLoadingEarlier: boolean
  /** The viewer's first unread message when the space was first loaded. */
  firstUnread: { id: string; seq: number } | null
  /** The threads of the loaded messages, by the ids of the messages. Empty unless `rootsOnly` is set. */
  threads: ReadonlyMap<string, ThreadSummary>
  /** One entry for each agent that is a member. */
  activity: readonly AgentActivity[]
  /** The presence of people, by their ids. Empty unless `withPresence` is set. */
  presence: ReadonlyMap<string, MemberPresence>
  error: ParleyError | null
}

export interface Outgoing {
  /** May be empty if the message has files. */
  text: string
  /** Files that the viewer has uploaded with `POST /files`, at most 20. */
  fileIds?: string[]
  mentionedAgentId?: string | null
  /** Members, humans or agents, at most 20. */
  mentionedIds?: string[]
  /** A message of the space. The new message joins its thread, or starts a thread on it. */
  replyToId?: string
  /** Use the same key for every attempt to send the same message, so that it is posted only once. */
  idempotencyKey?: string
}

/** A space that is kept up to date while there are listeners. After a lost connection, it resumes at its cursor. */
export interface LiveSpace extends Observable<SpaceState>, EarlierPages {
  /** Returns the thread of a message. It receives the events of the space, which must have listeners too. */
  thread(rootId: string): LiveThread
  /** Call it after `markRead` with a reply, so that `threads` no longer counts replies up to this one as unread. */
  readThread(rootId: string, seq: number): void
  /** Posts as the viewer. Returns the message and the ids of the runs that it started. @throws ParleyError */
  send(message: Outgoing): Promise<{ message: Message; runIds: string[] }>
}

export interface LiveSpaceOptions {
  spaceId: string
  /** If false, `activity` stays empty. */
  withActivity?: boolean
  /** Whether to follow presence and typing of people. Default false. */
  withPresence?: boolean
  /** Whether to leave replies out of `messages`. `threads` then counts them, and `thread` reads them. Default false. */
  rootsOnly?: boolean
  /** The human whose own replies do not count as unread in `threads`. */
  viewerId?: string | null
}

export function liveSpace(
  connection: Connection,
  { spaceId, withActivity = true, withPresence = false, rootsOnly = false, viewerId = null }: LiveSpaceOptions,
): LiveSpace {
  const transcript = createTranscript(rootsOnly ? { isPart: (message) => !isReply(message) } : {})
  const counts = createThreadCounts(viewerId)
  const followers = new Set<Follower>()
  const activity = new Map<string, AgentActivity>()
  // The cursor is updated with each event, so that a reconnect resumes after the last event.
  const variables: { spaceId: string; after: string | null; withPresence: boolean; rootsOnly: boolean } = {
    spaceId,
    after: null,
    withPresence,
    rootsOnly,
  }
  let state: Pick<SpaceState, 'status' | 'error' | 'isLoadingEarlier'> = {
    status: 'loading',
    error: null,
    isLoadingEarlier: false,
  }
  let active: readonly AgentActivity[] = []
  let presence: ReadonlyMap<string, MemberPresence> = new Map()
  const healing = new Set<string>()

  const observable = createObservable<SpaceState>({
    read: () => ({
      ...state,
      space: transcript.space,
      messages: transcript.messages(),
      hasEarlier: transcript.hasEarlier,
      firstUnread: transcript.firstUnread,
      threads: counts.summaries(),
      activity: active,
      presence,
    }),
    start: () => {
      const stops = [watchMessages()]
      if (withActivity) stops.push(watchActivity())
      if (withPresence) stops.push(rereadPresence())
      return () => {
        for (const stop of stops) stop()
      }
    },
  })

  function set(change: Partial<typeof state>): void {
    state = { ...state, ...change }
    observable.changed()
  }

  function watchMessages(): () => void {
    return connection.watch(SPACE_MESSAGES, variables, {
      onData({ spaceMessages: event }) {
        // Update the cursor before the event is applied. Otherwise, an event that throws would be delivered again after
        // each reconnect.
        variables.after = event.cursor
        transcript.apply(event)
        if (rootsOnly) countReplies(event)
        if (event.__typename === 'MemberLeft') forgetActivity(event.entity.id)
        if (event.__typename === 'MemberJoined' && withPresence) readPresence()
        if (event.__typename === 'MemberPresenceChanged') changePresence(event.changes ?? [])
        set({ status: 'live', error: null })
        for (const follower of followers) follower.apply(event)
        heal()
      },
      onEnd: (error) => set({ status: 'ended', error }),
    })
  }

  function countReplies(event: SpaceEvent): void {
    switch (event.__typename) {
      case 'SpaceSnapshot':
        counts.clear()
        counts.takePage(event.space.messages)
        break
      case 'MessagePosted':
      case 'MessageUpdated':
      case 'MessageFinished':
        if (isReply(event.message)) counts.count(event.message, transcript.has(threadOf(event.message) ?? ''))
        break
      default:
        break
    }
  }

  function watchActivity(): () => void {
    const keep = () => {
      active = [...activity.values()]
      observable.changed()
    }
    return connection.watch(
      AGENT_ACTIVITY,
      { spaceId },
      {
        onData({ agentActivity }) {
          activity.set(agentActivity.agent.id, agentActivity)
          keep()
        },
        // This subscription ends together with that of the messages, which reports the reason.
        onEnd() {
          activity.clear()
          keep()
        },
      },
    )
  }

  function forgetActivity(agentId: string): void {
    if (activity.delete(agentId)) active = [...activity.values()]
  }

  function changePresence(changes: readonly ({ entity: { id: string } } & MemberPresence)[]): void {
    presence = new Map([
      ...presence,
      ...changes.map(({ entity, presence, typingUntil }) => [entity.id, { presence, typingUntil }] as const),
    ])
  }

  /** Reads the presence of all people. Changes that arrive during the request are newer than its result. */
  function readPresence(): void {
    const before = presence
    connection
      .ask(SPACE_PRESENCE, { spaceId })
      .then(({ space }) => {
        const read = (space?.members ?? []).flatMap((member) =>
          member.__typename === 'Human' ? [[member.id, { presence: member.presence, typingUntil: null }] as const] : [],
        )
        const changed = [...presence].filter(([id, known]) => before.get(id) !== known)
        presence = new Map([...read, ...changed])
        observable.changed()
      })
      // Ignore the error, because the next reconnect triggers another attempt.
      .catch(() => {})
  }

  /**
   * Reads presence again after each reconnect, because missed changes are not replayed. Returns a function that stops
   * this.
   */
  function rereadPresence(): () => void {
    let last = connection.getState()
    readPresence()
    return connection.subscribe(() => {
      const next = connection.getState()
      if (last === 'lost' && next === 'live') readPresence()
      last = next
    })
  }

  /** Loads messages that lack an event. */
  function heal(): void {
    const all = [transcript, ...followers]
    const gaps = new Set(all.flatMap((one) => one.gaps()))
    for (const id of [...gaps].filter((gap) => !healing.has(gap))) {
      healing.add(id)
      connection
        .ask(ONE_MESSAGE, { id })
        .then(({ message }) => {
          for (const one of [transcript, ...followers]) message === null ? one.letGo(id) : one.put(message)
          observable.changed()
        })
        // Ignore the error, because the next delta triggers another attempt.
        .catch(() => {})
        .finally(() => healing.delete(id))
    }
  }

  const { loadEarlier, loadUntil, keepNewest } = createEarlierPages({
    transcript: () => transcript,
    async request(before, last) {
      const { space } = await connection.ask(EARLIER_MESSAGES, { spaceId, before, last, rootsOnly })
      return space?.messages ?? null
    },
    onLoading: (isLoadingEarlier) => set({ isLoadingEarlier }),
    ...(rootsOnly ? { onPage: counts.takePage } : {}),
    onDropped: observable.changed,
  })

  return {
    getState: observable.getState,
    subscribe: observable.subscribe,
    loadEarlier,
    loadUntil,
    keepNewest,
    thread: (rootId) =>
      createLiveThread(connection, {
        spaceId,
        rootId,
        isFollowing: () => state.status === 'live',
        follow(follower) {
          followers.add(follower)
          return () => void followers.delete(follower)
        },
      }),
    readThread(rootId, seq) {
      counts.read(rootId, seq)
      observable.changed()
    },
    async send({ text, fileIds, mentionedAgentId, mentionedIds, replyToId, idempotencyKey = newIdempotencyKey() }) {
      const input = { spaceId, text, fileIds, mentionedAgentId, mentionedIds, replyToId, idempotencyKey }
      const { sendMessage } = await connection.ask(SEND_MESSAGE, { input })
      const { sentMessage, runs } = payloadOf(sendMessage, 'SendMessagePayload')
      return { message: sentMessage, runIds: runs.map(({ id }) => id) }
    },
  }
}

/** Returns a random key. Does not use `crypto.randomUUID`, which exists only on secure origins. */
export function newIdempotencyKey(): string {
  return [...crypto.getRandomValues(new Uint32Array(4))].map((number) => number.toString(36)).join('-')
}
