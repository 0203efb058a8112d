import { spaceChannel } from '../broker/topics.ts'
import { createDeferred, sleep } from '../lib/async.ts'
import { messageOf } from '../lib/errors.ts'
import type { Platform } from '../platform/platform.ts'
import { createReplySearch, type Reply, type SearchedWait, type UnderWay } from './reply-search.ts'

/** How to wait for the first message in a space that matches one of the conditions. */
export interface Wait extends Pick<SearchedWait, 'afterSeq' | 'waiterId' | 'conditions'> {
  /**
   * The message to which the agent awaits a reply; absent if that message neither belongs to a thread nor starts one.
   */
  asking?: SearchedWait['asking']
  /** The messages that were unfinished at the start; absent if there were none. */
  underWay?: UnderWay
  /** How long to wait, in ms. */
  forMs: number
  /** Aborting this signal ends the wait early. */
  signal: AbortSignal
}

export interface Listening {
  /**
   * Returns the unfinished messages of other senders in the space. Parts that are added to these messages later also
   * count as replies.
   */
  underWay(waiterId: string): Promise<UnderWay>
  /**
   * Waits for the first matching message and returns it. The message may have been posted before the call. Returns null
   * on timeout.
   */
  reply(wait: Wait): Promise<Reply | null>
  end(): void
}

/** Waits for replies in spaces, no matter which process posts them. */
export interface Replies {
  /**
   * Starts to listen in the space. Once the promise resolves, no later message can be missed. Listeners in the same
   * space share a subscription.
   */
  listen(spaceId: string): Promise<Listening>
}

/** A space with listeners in this process. */
interface Ear {
  listeners: number
  subscription: Promise<() => void>
  waits: Set<PendingWait>
}

interface PendingWait extends SearchedWait {
  resolve(reply: Reply | null): void
}

const NO_THREAD = { messageId: '', threadRootId: null }

/**
 * The interval of a periodic search. It finds messages whose signal was lost, or whose process died before it sent the
 * signal.
 */
const LOOK_ANYWAY_MS = 5000

/**
 * Waits for replies. When a signal announces a new message in a space, searches the database. One search runs at a
 * time. It covers all waits and all spaces with new messages.
 */
export function createReplies(platform: Pick<Platform, 'db' | 'signals' | 'logger'>): Replies {
  const { signals, logger } = platform
  const search = createReplySearch(platform.db)
  const ears = new Map<string, Ear>()
  const unheard = new Set<string>()
  let looking: Promise<void> | null = null
  let looksNowAndThen = false
  signals.onReconnect(() => void lookIn([...ears.keys()]))

  /** Resolves when a search that began after this call has ended. */
  function lookIn(spaceIds: string[]): Promise<void> {
    for (const id of spaceIds) unheard.add(id)
    looking ??= lookWhileUnheard()
    return looking
  }

  async function lookWhileUnheard(): Promise<void> {
    // Requests in the same iteration of the event loop share one search.
    await Promise.resolve()
    while (unheard.size > 0) {
      const waits = [...unheard].flatMap((id) => [...(ears.get(id)?.waits ?? [])])
      unheard.clear()
      try {
        for (const [wait, reply] of await search.first(waits)) wait.resolve(reply)
      } catch (error) {
        logger.warn({ error: messageOf(error) }, 'could not search for replies; retrying')
      }
    }
    // This line runs synchronously, so a later request cannot join a search that has ended.
    looking = null
  }

  function open(spaceId: string): Ear {
    const subscription = signals.subscribe(spaceChannel(spaceId), ({ type }) => {
      if (type === 'message' && ear.waits.size > 0) void lookIn([spaceId])
    })
    const ear: Ear = { listeners: 0, subscription, waits: new Set() }
    ears.set(spaceId, ear)
    return ear
  }

  function leave(spaceId: string, ear: Ear): void {
    ear.listeners -= 1
    if (ear.listeners > 0) return
    ears.delete(spaceId)
    ear.subscription.then((unsubscribe) => unsubscribe()).catch(() => {})
  }

  const waited = () => [...ears].flatMap(([id, { waits }]) => (waits.size > 0 ? [id] : []))

  async function lookNowAndThen(): Promise<void> {
    if (looksNowAndThen) return
    looksNowAndThen = true
    while (waited().length > 0) {
      await sleep(LOOK_ANYWAY_MS)
      await lookIn(waited())
    }
    looksNowAndThen = false
  }

  async function waitFor(
    spaceId: string,
    ear: Ear,
    { forMs, signal, underWay, asking = NO_THREAD, ...wait }: Wait,
  ): Promise<Reply | null> {
    const { promise, resolve } = createDeferred<Reply | null>()
    const begun = new Map(underWay)
    const pending: PendingWait = { ...wait, spaceId, asking, underWay: begun, from: wait.afterSeq, resolve }
    const giveUp = () => resolve(null)
    const lastLook = () => void lookIn([spaceId]).then(giveUp)
    ear.waits.add(pending)
    const deadline = setTimeout(lastLook, Math.max(0, forMs))
    signal.addEventListener('abort', giveUp, { once: true })
    if (signal.aborted) giveUp()
    void lookNowAndThen()
    void lookIn([spaceId])
    try {
      return await promise
    } finally {
      clearTimeout(deadline)
      signal.removeEventListener('abort', giveUp)
      ear.waits.delete(pending)
    }
  }

  return {
    async listen(spaceId) {
      const ear = ears.get(spaceId) ?? open(spaceId)
      ear.listeners += 1
      let listening = true
      const end = () => {
        if (listening) leave(spaceId, ear)
        listening = false
      }
      await ear.subscription.catch((error) => {
        end()
        throw error
      })
      return {
        underWay: (waiterId) => search.underWay(spaceId, waiterId),
        reply: (wait) => waitFor(spaceId, ear, wait),
        end,
      }
    },
  }
}
