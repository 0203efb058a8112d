import type { Connection } from './connection.ts'
import { createEarlierPages, type EarlierPages, PAGE_SIZE } from './earlier-pages.ts'
import { errorOf, type ParleyError } from './errors.ts'
import type { LiveThreadQuery } from './generated/graphql.ts'
import { createObservable, type Observable } from './observable.ts'
import { THREAD } from './operations.ts'
import { requestPage } from './paging.ts'
import { type Message, type SpaceEvent, threadOf } from './space-events.ts'
import { createTranscript, type Transcript } from './transcript.ts'

/** The current state of a thread. */
export interface ThreadState {
  /**
   * `loading` until the first page; `ended` if there is no such thread in this space. While `loading`, `error` is the reason
   * why the thread could not be loaded. While `live`, `error` is the reason why the thread could not be loaded again after
   * events were lost; `replies` is then outdated. The client retries in both cases.
   */
  status: 'loading' | 'live' | 'ended'
  /** The message that started the thread; null once retention has deleted it. */
  root: Message | null
  /** The newest replies in the order of the space, without gaps. */
  replies: readonly Message[]
  /** Whether there are replies before the first one in `replies`. */
  hasEarlier: boolean
  isLoadingEarlier: boolean
  error: ParleyError | null
}

/** A thread that is kept up to date by the events of its space while there are listeners. */
export interface LiveThread extends Observable<ThreadState>, EarlierPages {
  /** Loads the thread again at once, after a failure. */
  reload(): void
}

/** A receiver of the events of a space in addition to the space itself. */
export interface Follower {
  apply(event: SpaceEvent): void
  put(message: Message): void
  gaps(): string[]
  letGo(messageId: string): void
}

const RETRY_MS = 5000

interface Parts {
  spaceId: string
  rootId: string
  /** Whether the space has received its first snapshot, and therefore receives events. */
  isFollowing(): boolean
  /** Passes events to the follower until the returned function is called. */
  follow(follower: Follower): () => void
}

export function createLiveThread(connection: Connection, { spaceId, rootId, isFollowing, follow }: Parts): LiveThread {
  let state: Pick<ThreadState, 'status' | 'error' | 'isLoadingEarlier'> = {
    status: 'loading',
    error: null,
    isLoadingEarlier: false,
  }
  let root: Transcript
  let replies: Transcript
  /** Events that arrive while the first page is being requested; null if no request is in progress. */
  let meanwhile: SpaceEvent[] | null = null
  let loads = 0
  /** The timer of the next attempt after a failure. Events before that attempt are ignored, because it reads newer data. */
  let retry: ReturnType<typeof setTimeout> | null = null

  function clear(): void {
    root = createTranscript({ isPart: ({ id }) => id === rootId })
    replies = createTranscript({ isPart: (message) => threadOf(message) === rootId })
  }
  clear()

  const observable = createObservable<ThreadState>({
    read: () => ({
      ...state,
      root: root.messages()[0] ?? null,
      replies: replies.messages(),
      hasEarlier: replies.hasEarlier,
    }),
    start() {
      const stop = follow({ apply, put, gaps: () => [...root.gaps(), ...replies.gaps()], letGo })
      // Before the first snapshot of the space, do not load: the snapshot triggers the load, so that no reply is missed
      // in between.
      if (isFollowing()) void load()
      return () => {
        loads += 1
        meanwhile = null
        endRetry()
        stop()
      }
    },
  })

  function set(change: Partial<typeof state>): void {
    state = { ...state, ...change }
    observable.changed()
  }

  async function load(): Promise<void> {
    loads += 1
    const ownLoad = loads
    endRetry()
    meanwhile = []
    try {
      const found = await requestPage(PAGE_SIZE, (last) => connection.ask(THREAD, { spaceId, rootId, last }))
      if (ownLoad === loads) begin(found)
    } catch (failure) {
      if (ownLoad !== loads) return
      meanwhile = null
      retry = setTimeout(() => void load(), RETRY_MS)
      set({ error: errorOf(failure) })
    }
  }

  function endRetry(): void {
    if (retry !== null) clearTimeout(retry)
    retry = null
  }

  function begin({ message, space }: LiveThreadQuery): void {
    const events = meanwhile ?? []
    meanwhile = null
    const thread = space?.thread ?? null
    const isRoot = message !== null && message.space.id === spaceId && message.threadRootId === null
    if (!isRoot && thread === null) {
      set({ status: 'ended', error: null })
      return
    }
    clear()
    if (isRoot) {
      const { space: _, ...first } = message
      root.put(first)
    }
    if (thread !== null) replies.beginPage()(thread.messages)
    for (const event of events) change(event)
    set({ status: 'live', error: null })
  }

  function apply(event: SpaceEvent): void {
    // The events before the snapshot are lost, so load the thread again.
    if (event.__typename === 'SpaceSnapshot') void load()
    else if (meanwhile !== null) meanwhile.push(event)
    // While a retry is pending, earlier events are missing, so ignore the event.
    else if (retry === null) change(event)
  }

  function change(event: SpaceEvent): void {
    switch (event.__typename) {
      case 'MessagePosted':
      case 'MessageUpdated':
      case 'MessageFinished':
        root.apply(event)
        replies.apply(event)
        observable.changed()
        break
      case 'MessageTextDelta':
      case 'MessageTextReplaced':
      case 'MessagePartChanged':
        // Ignore events of unknown messages; the space loads these messages.
        if (root.has(event.messageId)) root.apply(event)
        else if (replies.has(event.messageId)) replies.apply(event)
        else break
        observable.changed()
        break
      default:
        break
    }
  }

  function put(message: Message): void {
    if (meanwhile !== null || retry !== null) return
    root.put(message)
    replies.put(message)
    observable.changed()
  }

  function letGo(messageId: string): void {
    root.letGo(messageId)
    replies.letGo(messageId)
  }

  const pages = createEarlierPages({
    transcript: () => replies,
    async request(before, last) {
      const { space } = await connection.ask(THREAD, { spaceId, rootId, before, last })
      return space?.thread?.messages ?? null
    },
    onLoading: (isLoadingEarlier) => set({ isLoadingEarlier }),
    onDropped: observable.changed,
  })
  return {
    getState: observable.getState,
    subscribe: observable.subscribe,
    ...pages,
    reload() {
      set({ status: state.status === 'live' ? 'live' : 'loading', error: null })
      void load()
    },
  }
}
