import type { Connection } from './connection.ts'
import { type ParleyError, payloadOf } from './errors.ts'
import type { LiveAgentActivitySubscription, LiveMessagesFragment } from './generated/graphql.ts'
import { createObservable, type Observable } from './observable.ts'
import { AGENT_ACTIVITY, EARLIER_MESSAGES, ONE_MESSAGE, SEND_MESSAGE, SPACE_MESSAGES } from './operations.ts'
import { requestPage } from './paging.ts'
import type { Message } from './space-events.ts'
import { createTranscript, type Space } from './transcript.ts'

const PAGE_SIZE = 50

/** What an agent of the space does now, in whichever space. */
export type AgentActivity = LiveAgentActivitySubscription['agentActivity']

/** A space as it is known now. What did not change from one state to the next is the same object. */
export interface SpaceState {
  /** `loading` until the first snapshot; `ended` when the viewer may see it no more: `error` says why. */
  status: 'loading' | 'live' | 'ended'
  space: Space | null
  /** In the order of the space, from some message on to the newest, without a hole. */
  messages: readonly Message[]
  /** Whether there are messages before the first of `messages`. */
  hasEarlier: boolean
  isLoadingEarlier: boolean
  /** The viewer's first unread message when the space was first seen. */
  firstUnread: { id: string; seq: number } | null
  /** Of each agent member. */
  activity: readonly AgentActivity[]
  error: ParleyError | null
}

export interface Outgoing {
  text: string
  mentionedAgentId?: string | null
  /** The same for as long as the same message is tried: what was posted already is not posted again. */
  idempotencyKey?: string
}

/** A space, live while somebody listens: resumed by its cursor after every loss of the connection. */
export interface LiveSpace extends Observable<SpaceState> {
  /** Takes in the page before the first message. @throws ParleyError */
  loadEarlier(): Promise<void>
  /** Takes in pages until the message with this `seq` is there. @throws ParleyError */
  loadUntil(seq: number): Promise<void>
  /**
   * Lets go of all messages but the newest `count`: `hasEarlier` is true then, and `loadEarlier` brings them again. For whoever
   * follows the end for hours; nothing is let go unless this is called, nor while earlier messages are being asked for.
   */
  keepNewest(count: number): void
  /** Posts as the viewer; answers with the message and the ids of the runs that it started. @throws ParleyError */
  send(message: Outgoing): Promise<{ message: Message; runIds: string[] }>
}

export interface LiveSpaceOptions {
  spaceId: string
  /** False: `activity` stays empty. */
  withActivity?: boolean
}

export function liveSpace(connection: Connection, { spaceId, withActivity = true }: LiveSpaceOptions): LiveSpace {
  const transcript = createTranscript()
  const activity = new Map<string, AgentActivity>()
  // The cursor moves on with each event: what is asked for after a reconnect is what came since.
  const variables: { spaceId: string; after: string | null } = { spaceId, after: null }
  let state: Pick<SpaceState, 'status' | 'error' | 'isLoadingEarlier'> = {
    status: 'loading',
    error: null,
    isLoadingEarlier: false,
  }
  let active: readonly AgentActivity[] = []
  const healing = new Set<string>()

  const observable = createObservable<SpaceState>({
    read: () => ({
      ...state,
      space: transcript.space,
      messages: transcript.messages(),
      hasEarlier: transcript.hasEarlier,
      firstUnread: transcript.firstUnread,
      activity: active,
    }),
    start: () => {
      const stops = [watchMessages(), ...(withActivity ? [watchActivity()] : [])]
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
        // Moved on first: an event that cannot be read would come again after each reconnect.
        variables.after = event.cursor
        transcript.apply(event)
        if (event.__typename === 'MemberLeft') forgetActivity(event.entity.id)
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
        // It ends with the space's messages, which say why.
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

  /** Asks for messages of which something is missing. */
  function heal(): void {
    for (const id of transcript.gaps().filter((gap) => !healing.has(gap))) {
      healing.add(id)
      connection
        .ask(ONE_MESSAGE, { id })
        .then(({ message }) => (message === null ? transcript.letGo(id) : transcript.put(message)))
        .then(observable.changed)
        // Left as it is: with the next delta it is asked for again.
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

  /** How many go back page by page now: between two pages nothing is being asked for. */
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
    async send({ text, mentionedAgentId = null, idempotencyKey = newIdempotencyKey() }) {
      const input = { spaceId, text, mentionedAgentId, idempotencyKey }
      const { sendMessage } = await connection.ask(SEND_MESSAGE, { input })
      const { sentMessage, runs } = payloadOf(sendMessage, 'SendMessagePayload')
      return { message: sentMessage, runIds: runs.map(({ id }) => id) }
    },
  }
}

/** `crypto.randomUUID` is there on secure origins only. */
export function newIdempotencyKey(): string {
  return [...crypto.getRandomValues(new Uint32Array(4))].map((number) => number.toString(36)).join('-')
}
