import { randomUUID } from 'node:crypto'
import { RateLimiterMemory, RateLimiterRes } from 'rate-limiter-flexible'
import type { Viewer } from '../access/viewer.ts'
import type { Visibility } from '../access/visibility.ts'
import { PRESENCE_SHARING_CHANNEL } from '../broker/topics.ts'
import type { Entity } from '../generated/prisma/client.ts'
import { sleep } from '../lib/async.ts'
import { ForbiddenError, messageOf, NotFoundError, RateLimitedError } from '../lib/errors.ts'
import { asOwnWork } from '../lib/requester-context.ts'
import type { Platform } from '../platform/platform.ts'
import { type Presence, typingUntil } from '../rules/presence.ts'
import { openPresenceExchange, type PresenceExchange, secondsOf } from './presence-exchange.ts'
import { PresenceTable } from './presence-table.ts'

export type { Presence } from '../rules/presence.ts'

/** The presence of a member, as the other members of the space see it. */
export interface MemberPresence {
  member: Pick<Entity, 'id' | 'kind' | 'name' | 'createdAt'>
  presence: Presence
  /** The time until which the member is shown as typing in the space; null for a member who is not typing. */
  typingUntil: Date | null
}

/** The latest presence change of each member of a space. Shared by the subscribers of the space in this process. */
export interface SpacePresence {
  /** The number of changes so far. */
  readonly version: number
  /** Returns the members whose presence changed after a version, with their current presence. */
  changesSince(version: number): MemberPresence[]
  /** Calls the listener after changes, at most once a second. Returns a function that removes the listener. */
  listen(listener: () => void): () => void
  /** Calls the listeners again after a second. Use it if a subscriber could not receive the changes. */
  notifyAgain(): void
}

/** Tracks who is present and who is typing. Stores nothing. */
export interface PresenceService {
  /** Starts exchanging presence with the other processes. Returns a function that stops the exchange. */
  open(): () => Promise<void>
  /**
   * Records an open connection of the viewer. Ignores viewers who are not humans, and admins who act as a human.
   * Returns a function to call when the connection is closed.
   */
  connect(viewer: Viewer): () => void
  /** Records activity of the viewer. Ignores viewers who are not humans, and admins who act as a human. */
  noteActive(viewer: Viewer): void
  /** Returns the actual presence of a human. The caller applies `shownPresence`, which decides who may see it. */
  of(humanId: string): Presence
  /**
   * Shows the viewer as typing in a space.
   * @returns the time until which the typing is shown
   * @throws ForbiddenError if the viewer is not a human; RateLimitedError; NotFoundError
   */
  setTyping(viewer: Viewer, input: { spaceId: string }): Promise<Date>
  /** Stops showing a human as typing in a space, because the human has sent the message. */
  endTyping(humanId: string, spaceId: string): void
  /** Tracks the members of a space for a subscriber. The subscriber calls `leave` at the end. */
  watch(spaceId: string): { presence: SpacePresence; leave(): void }
}

/** How long a human stays present after the connection is lost, because clients often reconnect quickly. */
const BACK_WITHIN_MS = 5000
/** How often a process tells the others that it is alive, and checks for people who have become AWAY. */
const BEAT_MS = 5000
/** For this time after recorded activity, further activity is ignored. */
const ACTIVE_EVERY_MS = 60_000
/** The minimum time between two messages to the other processes, and between two events of a space. */
const SEND_EVERY_MS = 250
const NOTIFY_EVERY_MS = 1000
/** How often a human may call setTyping. */
const TYPING_RATE = { points: 120, duration: 60 }

export function createPresence(
  platform: Pick<Platform, 'db' | 'signals' | 'clock' | 'logger'>,
  { visibility }: { visibility: Pick<Visibility, 'spaces'> },
): PresenceService {
  const { db, signals, clock, logger } = platform
  const processId = randomUUID()
  const now = () => performance.now()
  /** The open connections of each human to this process. */
  const connections = new Map<string, number>()
  const closing = new Map<string, NodeJS.Timeout>()
  /**
   * Humans whose presence or typing may have changed. The value is true for humans who have just hidden their presence.
   * Their change to OFFLINE is still published.
   */
  const changed = new Map<string, boolean>()
  const watched = new Map<string, { space: WatchedSpace; users: number }>()
  const rate = new RateLimiterMemory(TYPING_RATE)
  let exchange: PresenceExchange | null = null

  const came = new Set<string>()
  const went = new Set<string>()
  const active = new Set<string>()
  const typing = new Map<string, [humanId: string, spaceId: string]>()

  const table = new PresenceTable((humanId) => noteChange(humanId, false))
  const sendSoon = createPaced(send, SEND_EVERY_MS)
  const notifySoon = createPaced(notify, NOTIFY_EVERY_MS)

  function noteChange(humanId: string, isForced: boolean): void {
    if (watched.size === 0) return
    changed.set(humanId, isForced || changed.get(humanId) === true)
    notifySoon.call()
  }

  /** Sends the changes of people connected to this process to the other processes. */
  async function send(): Promise<void> {
    const aged = (id: string): [string, number] => [id, secondsOf(table.idleMs(id, now()))]
    const typed = [...typing.values()].map(([humanId, spaceId]): [string, string, number] => {
      const until = table.typingUntil(humanId, spaceId, now())
      return [humanId, spaceId, until === undefined ? 0 : Math.round(until - now())]
    })
    exchange?.send({ came: [...came].map(aged), went: [...went], active: [...active].map(aged), typing: typed })
    for (const one of [came, went, active, typing]) one.clear()
  }

  /** Notifies the subscribers of each space about changed members. One statement reads the members of all spaces. */
  async function notify(): Promise<void> {
    const taken = new Map(changed)
    changed.clear()
    try {
      if (taken.size > 0 && watched.size > 0) await recordChanges(taken)
    } catch (error) {
      logger.warn({ error: messageOf(error) }, 'could not look up the spaces of people whose presence changed')
      for (const [humanId, isForced] of taken) noteChange(humanId, isForced)
    }
    for (const { space } of watched.values()) space.notify()
  }

  /**
   * @param taken the changed humans; the value is true if the change is published although the human hides their
   * presence
   */
  async function recordChanges(taken: ReadonlyMap<string, boolean>): Promise<void> {
    const rows = await membersAmong([...taken.keys()], [...watched.keys()])
    const members = new Map(rows.map(({ id, kind, name, createdAt }) => [id, { id, kind, name, createdAt }]))
    for (const { id, spaceId, sharePresence } of rows) {
      const member = members.get(id)
      const space = watched.get(spaceId)?.space
      if (member === undefined || space === undefined) continue
      if (sharePresence) space.record({ member, ...presenceIn(spaceId, id) })
      else space.hide(member, taken.get(id) === true)
    }
  }

  function membersAmong(humanIds: string[], spaceIds: string[]) {
    return db.prisma.$queryRaw<(MemberPresence['member'] & { spaceId: string; sharePresence: boolean })[]>`
      SELECT m."spaceId", e.id, e.kind, e.name, e."createdAt", e."sharePresence" FROM "Membership" m JOIN "Entity" e ON e.id = m."entityId"
      WHERE m."entityId" = ANY(${humanIds}::text[]) AND m."spaceId" = ANY(${spaceIds}::text[])`
  }

  function presenceIn(spaceId: string, humanId: string) {
    const until = table.typingUntil(humanId, spaceId, now())
    return { presence: table.presenceOf(humanId, now()), typingUntil: until === undefined ? null : timeOf(until) }
  }

  const timeOf = (until: number) => new Date(clock.now() + until - now())

  function disconnect(humanId: string): void {
    closing.delete(humanId)
    table.disconnect(humanId, processId, now())
    came.delete(humanId)
    went.add(humanId)
    sendSoon.call()
  }

  function setTyping(humanId: string, spaceId: string, until: number): void {
    table.setTyping(humanId, spaceId, until, now())
    typing.set(`${humanId} ${spaceId}`, [humanId, spaceId])
    sendSoon.call()
  }

  function beat(): void {
    table.sweep(now())
    exchange?.sweep(now())
    if (connections.size > 0) sendSoon.call()
  }

  return {
    open() {
      exchange = openPresenceExchange(platform, { processId, table, now })
      const beats = setInterval(beat, BEAT_MS).unref()
      // The subscription stays pending while Redis is unreachable.
      const listening = signals
        .subscribe(PRESENCE_SHARING_CHANNEL, (payload) => {
          if (payload.type === 'sharing-changed') noteChange(payload.humanId, true)
        })
        .catch(() => () => {})
      return async () => {
        clearInterval(beats)
        for (const timer of closing.values()) clearTimeout(timer)
        sendSoon.stop()
        notifySoon.stop()
        await exchange?.close()
        exchange = null
        void listening.then((leave) => leave())
      }
    },
    connect(viewer) {
      if (!isPresent(viewer)) return () => {}
      const { id } = viewer
      const count = (connections.get(id) ?? 0) + 1
      connections.set(id, count)
      const timer = closing.get(id)
      clearTimeout(timer)
      closing.delete(id)
      if (count === 1) {
        table.connect(id, processId, { activeAt: now(), now: now() })
        if (timer === undefined) {
          went.delete(id)
          came.add(id)
        } else active.add(id)
        sendSoon.call()
      }
      let isOpen = true
      return () => {
        if (!isOpen) return
        isOpen = false
        const left = (connections.get(id) ?? 1) - 1
        if (left > 0) connections.set(id, left)
        else {
          connections.delete(id)
          closing.set(id, setTimeout(() => disconnect(id), BACK_WITHIN_MS).unref())
        }
      }
    },
    noteActive(viewer) {
      if (!isPresent(viewer) || table.idleMs(viewer.id, now()) < ACTIVE_EVERY_MS) return
      if (table.noteActive(viewer.id, { activeAt: now(), now: now() }) === null) return
      active.add(viewer.id)
      sendSoon.call()
    },
    of: (humanId) => table.presenceOf(humanId, now()),
    async setTyping(viewer, { spaceId }) {
      if (viewer.scope !== 'HUMAN') throw new ForbiddenError('Only people can be shown as typing.')
      await rate.consume(viewer.id).catch((reason) => {
        throw reason instanceof RateLimiterRes ? tooMuchTyping(reason.msBeforeNext) : reason
      })
      if (!(await visibility.spaces(viewer, [spaceId])).has(spaceId))
        throw new NotFoundError('There is no such space, or you are not a member of it.')
      const before = table.typingUntil(viewer.id, spaceId, now())
      const until = typingUntil(now(), before)
      if (until !== before) setTyping(viewer.id, spaceId, until)
      return timeOf(until)
    },
    endTyping(humanId, spaceId) {
      if (table.typingUntil(humanId, spaceId, now()) !== undefined) setTyping(humanId, spaceId, now())
    },
    watch(spaceId) {
      const entry = watched.get(spaceId) ?? { space: new WatchedSpace(() => notifySoon.call()), users: 0 }
      watched.set(spaceId, entry)
      entry.users += 1
      return {
        presence: entry.space,
        leave() {
          entry.users -= 1
          if (entry.users === 0) watched.delete(spaceId)
        },
      }
    },
  }
}

/** The human is not present while only an admin acts as the human. */
const isPresent = (viewer: Viewer) => viewer.scope === 'HUMAN' && viewer.acting === undefined

const tooMuchTyping = (waitMs: number) =>
  new RateLimitedError(
    `You may call setTyping at most ${TYPING_RATE.points} times a minute; every 3 s is enough.`,
    Math.max(1, Math.ceil(waitMs)),
  )

/** The latest presence change of each member, for a space with subscribers in this process. */
class WatchedSpace implements SpacePresence {
  version = 0
  readonly notifyAgain: () => void
  readonly #last = new Map<string, { change: MemberPresence; version: number }>()
  readonly #listeners = new Set<() => void>()

  /** Whether there is a change of which subscribers have not been notified. */
  #isDue = false

  constructor(notifySoon: () => void) {
    this.notifyAgain = () => {
      this.#isDue = true
      notifySoon()
    }
  }

  /** Records a member's presence if it has changed. */
  record(change: MemberPresence): void {
    const { id } = change.member
    const last = this.#last.get(id)?.change
    const isTypingSame = last?.typingUntil?.getTime() === change.typingUntil?.getTime()
    if (last?.presence === change.presence && isTypingSame) return
    this.version += 1
    this.#isDue = true
    this.#last.set(id, { change, version: this.version })
  }

  /**
   * Records a member who hides their presence as OFFLINE. If subscribers have never seen the member's presence, does
   * nothing unless `isForced` is set.
   */
  hide(member: MemberPresence['member'], isForced: boolean): void {
    if (isForced || this.#last.has(member.id)) this.record({ member, presence: 'OFFLINE', typingUntil: null })
  }

  changesSince(version: number): MemberPresence[] {
    return [...this.#last.values()].filter((one) => one.version > version).map(({ change }) => change)
  }

  listen(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  notify(): void {
    if (!this.#isDue) return
    this.#isDue = false
    for (const listener of [...this.#listeners]) listener()
  }
}

/** How long the work is delayed after the first call, so that it includes the calls that follow. */
const GATHERED_MS = 20

/**
 * Runs `work` shortly after a call, once for all calls that arrive before it starts, with a pause after each execution.
 * `stop` drops pending calls.
 */
function createPaced(work: () => Promise<void>, pauseMs: number): { call(): void; stop(): void } {
  let over = new AbortController()
  let isRunning = false
  let isCalled = false

  async function run({ signal }: AbortController): Promise<void> {
    isRunning = true
    await sleep(GATHERED_MS, signal)
    while (isCalled && !signal.aborted) {
      isCalled = false
      await work()
      await sleep(pauseMs, signal)
    }
    isRunning = false
    // `call` was called after `stop` but before this function ended.
    if (isCalled) void run(over)
  }

  return {
    call() {
      isCalled = true
      if (!isRunning) void asOwnWork(() => run(over))
    },
    stop() {
      over.abort()
      over = new AbortController()
      isCalled = false
    },
  }
}
