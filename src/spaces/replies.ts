import { createDeferred, sleep } from '../lib/async.ts'
import { messageOf } from '../lib/errors.ts'
import type { Platform } from '../platform/platform.ts'
import { spaceChannel } from '../realtime/topics.ts'
import { createReplySearch, type Reply, type SearchedWait, type UnderWay } from './reply-search.ts'

/** A wait for the first message in a space that matches one of the conditions. */
export interface Wait extends Pick<SearchedWait, 'afterSeq' | 'waiterId' | 'conditions'> {
  /** None where not given. */
  underWay?: UnderWay
  /** How long it lasts at most, from now. */
  forMs: number
  /** Ends it early. */
  signal: AbortSignal
}

export interface Listening {
  /** What others are still writing in the space at this moment: what they add to it later answers a wait too. */
  underWay(waiterId: string): Promise<UnderWay>
  /** The first match, also of what was posted before this was called; null when the time is up. */
  reply(wait: Wait): Promise<Reply | null>
  end(): void
}

/** Waiting for answers in spaces, whichever process posts them. */
export interface Replies {
  /** Resolves when nothing that is posted in the space from now on can be missed. Listeners of a space share a subscription. */
  listen(spaceId: string): Promise<Listening>
}

/** A space that somebody of this process listens to. */
interface Ear {
  listeners: number
  subscription: Promise<() => void>
  waits: Set<PendingWait>
}

interface PendingWait extends SearchedWait {
  resolve(reply: Reply | null): void
}

/** How often it is looked for what nobody announced: its committer died, or the signal was lost. */
const LOOK_ANYWAY_MS = 5000

/**
 * A signal says that a space has something new; the database says what. However many wait, one look at a time is under
 * way, for all spaces that have something new.
 */
export function createReplies(platform: Pick<Platform, 'db' | 'signals' | 'logger'>): Replies {
  const { signals, logger } = platform
  const search = createReplySearch(platform.db)
  const ears = new Map<string, Ear>()
  const unheard = new Set<string>()
  let looking: Promise<void> | null = null
  let looksNowAndThen = false
  signals.onReconnect(() => void lookIn([...ears.keys()]))

  /** Resolves when a look that began after this call has ended. */
  function lookIn(spaceIds: string[]): Promise<void> {
    for (const id of spaceIds) unheard.add(id)
    looking ??= lookWhileUnheard()
    return looking
  }

  async function lookWhileUnheard(): Promise<void> {
    // What comes in the same turn of the event loop is looked for together.
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
    // At once, so that no call finds a look that will not look again.
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

  async function waitFor(spaceId: string, ear: Ear, { forMs, signal, underWay, ...wait }: Wait): Promise<Reply | null> {
    const { promise, resolve } = createDeferred<Reply | null>()
    const begun = new Map(underWay)
    const pending: PendingWait = { ...wait, spaceId, underWay: begun, from: wait.afterSeq, resolve }
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
