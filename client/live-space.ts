import type { Connection } from './connection.ts'
import { type ParleyError, payloadOf } from './errors.ts'
import type { LiveAgentActivitySubscription, LiveMessagesFragment } from './generated/graphql.ts'
import { createObservable, type Observable } from './observable.ts'
import {
  AGENT_ACTIVITY,
  EARLIER_MESSAGES,
  ONE_MESSAGE,
  SEND_MESSAGE,
  SPACE_MESSAGES,
  SPACE_PRESENCE,
} from './operations.ts'
import { requestPage } from './paging.ts'
import type { Message, SpaceEvent } from './space-events.ts'
import { createTranscript, type Space } from './transcript.ts'

const PAGE_SIZE = 50

/** The activity of one agent of the space, in all spaces. */
export type AgentActivity = LiveAgentActivitySubscription['agentActivity']

/** Whether a person is there, and until when the person is shown as typing. */
export type MemberPresence = Pick<
  NonNullable<Extract<SpaceEvent, { __typename: 'MemberPresenceChanged' }>['changes']>[number],
  'presence' | 'typingUntil'
>

/** The current state of a space. Parts that did not change keep their identity from one state to the next. */
export interface SpaceState {
  /** `loading` until the first snapshot; `ended` when the viewer loses access; `error` then has the reason. */
  status: 'loading' | 'live' | 'ended'
  space: Space | null
  /** The newest messages in the order of the space, without gaps. */
  messages: readonly Message[]
  /** Whether there are messages before the first of `messages`. */
  hasEarlier: boolean
  isLoadingEarlier: boolean
  /** The viewer's first unread message when the space was first loaded. */
  firstUnread: { id: string; seq: number } | null
  /** One entry for each agent that is a member. */
  activity: readonly AgentActivity[]
  /** Of people, by their ids. Empty unless `withPresence` is set. */
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
  /** A message of the space: the new one joins its thread, or begins one. */
  replyToId?: string
  /** Use the same key for every attempt to send the same message, so that it is posted only once. */
  idempotencyKey?: string
}

/** A space that follows its events while it has listeners. After a lost connection it resumes at its cursor. */
export interface LiveSpace extends Observable<SpaceState> {
  /** Loads the page before the first message. @throws ParleyError */
  loadEarlier(): Promise<void>
  /** Loads pages until the message with this `seq` is loaded. @throws ParleyError */
  loadUntil(seq: number): Promise<void>
  /**
   * Drops all messages except the newest `count`. `hasEarlier` is then true, and `loadEarlier` loads them again.
   * For clients that stay open for hours: without this call nothing is dropped. Does nothing while earlier
   * messages are loading.
   */
  keepNewest(count: number): void
  /** Posts as the viewer. Returns the message and the ids of the runs that it started. @throws ParleyError */
  send(message: Outgoing): Promise<{ message: Message; runIds: string[] }>
}

export interface LiveSpaceOptions {
  spaceId: string
  /** If false, `activity` stays empty. */
  withActivity?: boolean
  /** True: follows presence and typing of people. Default false. */
  withPresence?: boolean
}

export function liveSpace(
  connection: Connection,
  { spaceId, withActivity = true, withPresence = false }: LiveSpaceOptions,
): LiveSpace {
  const transcript = createTranscript()
  const activity = new Map<string, AgentActivity>()
  // Updated with each event, so that a reconnect resumes after the last one.
  const variables: { spaceId: string; after: string | null; withPresence: boolean } = {
    spaceId,
    after: null,
    withPresence,
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
        // This happens before the event is applied; otherwise an event that throws would be delivered again after each reconnect.
        variables.after = event.cursor
        transcript.apply(event)
        if (event.__typename === 'MemberLeft') forgetActivity(event.entity.id)
        if (event.__typename === 'MemberJoined' && withPresence) readPresence()
        if (event.__typename === 'MemberPresenceChanged') changePresence(event.changes ?? [])
        set({ status: 'live', error: null })
        heal()
      },
      onEnd: (error) => set({ status: 'ended', error }),
    })
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
        // Ends together with the subscription to messages, which reports the reason.
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

  /** Reads the presence of all people. Changes that arrive meanwhile are newer. */
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
      // Ignored: the next reconnect triggers another attempt.
      .catch(() => {})
  }

  /** Changes of presence are not replayed after a reconnect. */
  function rereadPresence(): () => void {
    let last = connection.getState()
    readPresence()
    return connection.subscribe(() => {
      const next = connection.getState()
      if (last === 'lost' && next === 'live') readPresence()
      last = next
    })
  }

  /** Loads messages that have gaps. */
  function heal(): void {
    for (const id of transcript.gaps().filter((gap) => !healing.has(gap))) {
      healing.add(id)
      connection
        .ask(ONE_MESSAGE, { id })
        .then(({ message }) => (message === null ? transcript.letGo(id) : transcript.put(message)))
        .then(observable.changed)
        // Ignored: the next delta triggers another attempt.
        .catch(() => {})
        .finally(() => healing.delete(id))
    }
  }

  let loading: Promise<void> | null = null
  async function load(): Promise<void> {
    const [first] = transcript.messages()
    if (first === undefined || !transcript.hasEarlier) return
    const take = transcript.beginPage()
    set({ isLoadingEarlier: true })
    let page: LiveMessagesFragment | null = null
    try {
      const { space } = await requestPage(PAGE_SIZE, (last) =>
        connection.ask(EARLIER_MESSAGES, { spaceId, before: first.id, last }),
      )
      page = space?.messages ?? null
    } finally {
      take(page)
      set({ isLoadingEarlier: false })
    }
  }
  function loadEarlier(): Promise<void> {
    loading ??= load().finally(() => {
      loading = null
    })
    return loading
  }

  /** Number of calls of `loadUntil` in progress. Between two of their pages `loading` is null. */
  let goingBack = 0
  async function loadUntil(seq: number): Promise<void> {
    goingBack += 1
    try {
      for (let first = transcript.messages()[0]; first !== undefined && first.seq > seq && transcript.hasEarlier; ) {
        await loadEarlier()
        const [next] = transcript.messages()
        if (next === undefined || next.seq >= first.seq) return
        first = next
      }
    } finally {
      goingBack -= 1
    }
  }

  return {
    getState: observable.getState,
    subscribe: observable.subscribe,
    loadEarlier,
    loadUntil,
    keepNewest(count) {
      if (loading !== null || goingBack > 0 || transcript.messages().length <= count) return
      transcript.keepNewest(count)
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

/** Not `crypto.randomUUID`, which exists only on secure origins. */
export function newIdempotencyKey(): string {
  return [...crypto.getRandomValues(new Uint32Array(4))].map((number) => number.toString(36)).join('-')
}
