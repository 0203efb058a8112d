// The feed of `viewerEvents`, with merged changes of the viewer's spaces, tool calls and standing grants. The feed
// listens to the channels that signal these changes.
import type { Viewer } from '../../access/viewer.ts'
import {
  ADMIN_CHANNEL,
  agentChannel,
  entityChannel,
  type SignalPayload,
  spaceChannel,
  type ToolSignal,
} from '../../broker/topics.ts'
import type { Domain } from '../../graphql/domain.ts'
import type { ViewerEvent, Watcher } from '../../graphql/streams.ts'
import { createBell, createSerial, sleep } from '../../lib/async.ts'
import { messageOf } from '../../lib/errors.ts'
import type { Platform } from '../../platform/platform.ts'
import { isAnsweredBy } from '../../rules/call-answers.ts'
import { isAdmin } from '../../rules/permissions.ts'
import { type Feed, type Lifeline, openFeed } from '../feed.ts'
import type { EntityChange, Guards } from '../guards.ts'
import { createChannelSet } from './channel-set.ts'

const FOREVER_MS = 2 ** 31 - 1
/** The maximum number of waiting events of one subscriber, after merging. */
const MOST_WAITING = 1000

/**
 * The waiting changes of a subscriber, after merging. A snapshot replaces all changes before it. A change is
 * dropped if the last waiting change of the same space or call has the same type, because the entity is read at
 * delivery.
 */
export function createWaitingChanges() {
  const waiting: ViewerChange[] = []
  /** The type of the last waiting change of each space and call. */
  const lastTypes = new Map<string, ViewerChange['type']>()

  return {
    add(change: ViewerChange): void {
      if (change.type === 'ViewerSnapshot') {
        waiting.length = 0
        lastTypes.clear()
      }
      const subject = subjectOf(change)
      if (lastTypes.get(subject) === change.type) return
      lastTypes.set(subject, change.type)
      waiting.push(change)
    },
    next(): ViewerChange | undefined {
      const change = waiting.shift()
      if (change === undefined) return undefined
      const subject = subjectOf(change)
      if (!waiting.some((other) => subjectOf(other) === subject)) lastTypes.delete(subject)
      return change
    },
    count: () => waiting.length,
  }
}

function subjectOf(change: ViewerChange): string {
  if (change.type === 'ViewerNotice')
    return ['notice', change.kind, change.toolCallId ?? change.messageId ?? change.runId].join(' ')
  if ('spaceId' in change) return change.spaceId
  if ('grantId' in change) return change.grantId
  return 'toolCallId' in change ? change.toolCallId : ''
}

/**
 * Delivers the events that a sidebar needs, merged as far as possible (see createWaitingChanges). Each space is
 * delivered at most twice a second.
 */
export function createViewerEvents(
  platform: Pick<Platform, 'signals' | 'clock' | 'logger'>,
  { guards, domain }: { guards: Guards; domain: SourcesDomain },
) {
  const { clock, logger } = platform
  const sources = createViewerSources(platform, { guards, domain })

  return ({ viewer, onSlow }: Watcher): Promise<Feed<ViewerEvent>> =>
    openFeed(async (lifeline) => {
      const { signal } = lifeline
      const waiting = createWaitingChanges()
      waiting.add({ type: 'ViewerSnapshot' })
      const wakeUp = createBell()

      function push(change: ViewerChange): void {
        waiting.add(change)
        wakeUp.ring()
        if (waiting.count() > MOST_WAITING) onSlow()
      }

      const pace = createSpacePace((spaceId) => push({ type: 'ViewerSpaceChanged', spaceId }))

      function onChange(change: ViewerChange): void {
        if (change.type === 'ViewerSpaceRemoved') pace.forget(change.spaceId)
        if (change.type === 'ViewerSpaceChanged') pace.changed(change.spaceId)
        else push(change)
      }

      lifeline.onEnd(pace.close)
      await guards.viewer(viewer, lifeline)
      await sources.listen(viewer, lifeline, onChange, (error) =>
        logger.warn({ error: messageOf(error) }, 'could not update the topics of a viewer subscription'),
      )
      return async (to) => {
        while (!signal.aborted) {
          for (let change = waiting.next(); change !== undefined && !signal.aborted; change = waiting.next()) {
            await to.deliver([{ shareKey: null, event: { ...change, at: new Date(clock.now()) } }])
          }
          await wakeUp.wait(FOREVER_MS, signal)
        }
      }
    })
}

/** An event without the time at which it is delivered. */
export type ViewerChange = ViewerEvent extends infer Event
  ? Event extends { at: Date }
    ? Omit<Event, 'at'>
    : never
  : never

/** The sources of a viewer's changes: the channels of the viewer, and of the viewer's spaces and agents. */
export interface ViewerSources {
  /** Resolves when all channels are subscribed. Later failures are passed to `onError`. */
  listen(viewer: Viewer, lifeline: Lifeline, onChange: OnChange, onError: (error: unknown) => void): Promise<void>
}

export type SourcesDomain = Pick<
  Domain,
  'members' | 'spaces' | 'toolCalls' | 'agents' | 'visibility' | 'control' | 'grantReading'
>

/**
 * The maximum number of spaces and agents that are watched for a viewer who may read all of them. The newest ones
 * are watched.
 */
const MOST_WATCHED = 1000
const PAGE = 100
/**
 * How often the server looks up new spaces for admins and new agents for services. Lookups are needed because no
 * signal announces new spaces and agents.
 */
const LOOKUP_INTERVAL_MS = 2000

const CHANGE_BY_SIGNAL = {
  'tool-waiting': 'ViewerToolCallWaiting',
  'tool-changed': 'ViewerToolCallChanged',
  'tool-settled': 'ViewerToolCallSettled',
} as const

export function createViewerSources(
  { signals }: Pick<Platform, 'signals'>,
  { guards, domain }: { guards: Guards; domain: SourcesDomain },
): ViewerSources {
  /**
   * Returns the channels that a viewer should listen to. For a viewer who may read everything, these are `previous`
   * and the channels of new spaces and agents.
   */
  async function channelsOf(viewer: Viewer, previous: readonly string[]): Promise<string[]> {
    const own = viewer.scope === 'HUMAN' ? (await domain.members.spacesOf(viewer.id)).map(spaceChannel) : []
    if (viewer.scope === 'HUMAN' && !isAdmin(viewer)) return own
    if (viewer.scope === 'SERVICE' && viewer.agentIds !== null) return viewer.agentIds.map(agentChannel)
    const most = previous.length === 0 ? MOST_WATCHED : PAGE
    const found = isAdmin(viewer)
      ? (await newest((request) => domain.spaces.page(viewer, request), most)).map(spaceChannel)
      : (await newest((request) => domain.agents.page(viewer, request), most)).map(agentChannel)
    const others = previous.filter((channel) => channel !== ADMIN_CHANNEL)
    const newestFirst = [...new Set([...own, ...found, ...others])].slice(0, Math.max(MOST_WATCHED, own.length))
    return isAdmin(viewer) ? [ADMIN_CHANNEL, ...newestFirst] : newestFirst
  }

  /**
   * Remembers the channels from one lookup to the next. Leaves out the channels of `deleted` spaces, which a lookup
   * in progress may still return.
   */
  function createChannelLookup(viewer: Viewer) {
    let previous: string[] = []
    const deleted = new Set<string>()
    const channelsNow = async () => {
      previous = (await channelsOf(viewer, previous)).filter((channel) => !deleted.has(channel))
      return previous
    }
    return { deleted, channelsNow }
  }

  async function concerns(viewer: Viewer, channel: string, { toolCallId, audience }: ToolSignal): Promise<boolean> {
    if (audience === 'deciders' && viewer.scope !== 'HUMAN') return false
    // A signal on a space's channel is for those deciders who are members of the space. A viewer who listens to all
    // spaces may not be a member. Deciders who are listed in the approval policy receive the signal on their own
    // channel, because they may not be allowed to read the space.
    if (audience === 'deciders' && channel !== entityChannel(viewer.id))
      return !isAdmin(viewer) || domain.visibility.isMember(spaceOf(channel) ?? '', viewer.id)
    const [call] = await domain.toolCalls.getMany([toolCallId])
    if (call == null) return false
    // A decider who is listed in the approval policy receives one last event about the call when somebody else decides.
    if (audience === 'deciders') return (await domain.visibility.toolCallsAskedAbout(viewer, [call])).has(call.id)
    // A call of a built-in tool with a deadline waits for a message from people in its space.
    if (call.execution === null)
      return (
        viewer.scope === 'HUMAN' &&
        call.expiresAt !== null &&
        (!isAdmin(viewer) || (call.spaceId !== null && (await domain.visibility.isMember(call.spaceId, viewer.id))))
      )
    return isAnsweredBy(call, isAdmin(viewer) ? 'ADMIN' : viewer.scope)
  }

  /** Adds events for calls that were already waiting in a space when a human joined it. */
  async function addWaitingCalls(viewer: Viewer, came: string[], onChange: OnChange): Promise<void> {
    for (const { id, spaceId } of await domain.control.pendingToolCalls(viewer)) {
      const isThere = spaceId !== null && came.includes(spaceChannel(spaceId))
      if (isThere) onChange({ type: 'ViewerToolCallWaiting', toolCallId: id })
    }
  }

  return {
    async listen(viewer, lifeline, onChange, onError) {
      const serial = createSerial()

      function onToolSignal(channel: string, payload: SignalPayload): void {
        if (!('toolCallId' in payload)) return
        const signal = payload as ToolSignal
        // Admins receive each call only once. If they are asked to decide as a human, they receive the call on the
        // human's channels. Otherwise, they receive it on the admin channel.
        const isDecision = signal.audience === 'deciders'
        if (isAdmin(viewer) && (channel === ADMIN_CHANNEL) === isDecision) return
        const addIfConcerned = async () => {
          if (await concerns(viewer, channel, signal))
            onChange({ type: CHANGE_BY_SIGNAL[signal.type], toolCallId: signal.toolCallId })
        }
        void serial.run(addIfConcerned).catch(onError)
      }

      function onGrantSignal(channel: string, payload: SignalPayload): void {
        if (payload.type !== 'grant-changed' || isAdmin(viewer) !== (channel === ADMIN_CHANNEL)) return
        const { grantId } = payload
        const addIfSeen = async () => {
          if ((await domain.grantReading.visible(viewer, [grantId])).has(grantId))
            onChange({ type: 'ViewerStandingGrantChanged', grantId })
        }
        void serial.run(addIfSeen).catch(onError)
      }

      function onSignal(channel: string, payload: SignalPayload): void {
        const spaceId = spaceOf(channel)
        if (spaceId !== null && (payload.type === 'message' || payload.type === 'changed')) {
          onChange({ type: 'ViewerSpaceChanged', spaceId })
        }
        if (payload.type === 'deleted') {
          deleted.add(channel)
          channels.refresh(onChannelChange).catch(onError)
        }
        onToolSignal(channel, payload)
        onGrantSignal(channel, payload)
      }

      function onChannelChange(change: ChannelChange): void {
        addSpaceChanges(change, onChange)
        if (viewer.scope === 'HUMAN' && !isAdmin(viewer) && change.came.length > 0) addCallsOf(change.came)
      }

      function addCallsOf(came: string[]): void {
        void serial.run(() => addWaitingCalls(viewer, came, onChange)).catch(onError)
      }

      function onEntityChange(change: EntityChange): void {
        if (CHANGES_SPACES.includes(change.type)) channels.refresh(onChannelChange).catch(onError)
        if ('toolCallId' in change) onToolSignal(entityChannel(viewer.id), change)
        if (change.type === 'grant-changed') onGrantSignal(entityChannel(viewer.id), change)
        // An admin already listens to all spaces, so joining a space adds no channel.
        if (change.type === 'member-joined' && isAdmin(viewer)) addCallsOf([spaceChannel(change.spaceId)])
        if (change.type === 'read') onChange({ type: 'ViewerSpaceChanged', spaceId: change.spaceId })
        if (change.type === 'notice') onChange({ ...change, type: 'ViewerNotice' })
      }

      const { deleted, channelsNow } = createChannelLookup(viewer)
      const channels = createChannelSet(lifeline, channelsNow, (channel) =>
        signals.subscribe(channel, (payload) => onSignal(channel, payload)),
      )
      const addSnapshot = () => onChange({ type: 'ViewerSnapshot' })
      lifeline.onEnd(signals.onReconnect(() => void channels.refresh(onChannelChange).then(addSnapshot, onError)))
      if (viewer.scope === 'HUMAN') lifeline.onEnd(await guards.entityChanges(viewer.id, onEntityChange))
      if (isAdmin(viewer) || (viewer.scope === 'SERVICE' && viewer.agentIds === null)) {
        void keepRefreshing(lifeline.signal, () => channels.refresh(onChannelChange), onError)
      }
      await channels.refresh()
    },
  }
}

type OnChange = (change: ViewerChange) => void
type ChannelChange = { came: string[]; went: string[] }

function addSpaceChanges({ came, went }: ChannelChange, onChange: OnChange): void {
  for (const spaceId of went.map(spaceOf)) if (spaceId !== null) onChange({ type: 'ViewerSpaceRemoved', spaceId })
  for (const spaceId of came.map(spaceOf)) if (spaceId !== null) onChange({ type: 'ViewerSpaceAdded', spaceId })
}

const CHANGES_SPACES: EntityChange['type'][] = ['member-joined', 'member-left', 'missed']

async function keepRefreshing(signal: AbortSignal, refresh: () => Promise<void>, onError: (error: unknown) => void) {
  while (!signal.aborted) {
    await sleep(LOOKUP_INTERVAL_MS, signal)
    if (!signal.aborted) await refresh().catch(onError)
  }
}

function spaceOf(channel: string): string | null {
  return channel.startsWith('space:') ? channel.slice('space:'.length) : null
}

type NewestPage = Awaited<ReturnType<Domain['spaces']['page']>> | Awaited<ReturnType<Domain['agents']['page']>>
type NewestRequest = Parameters<Domain['spaces']['page']>[1]

/** Returns the ids of at least `most` newest entities, or of all if there are fewer. Reads them page by page. */
async function newest(page: (request: NewestRequest) => Promise<NewestPage>, most: number): Promise<string[]> {
  const ids: string[] = []
  for (;;) {
    const { items, hasNextPage } = await page({ size: PAGE, fromEnd: false, after: ids.at(-1) ?? null, before: null })
    ids.push(...items.map(({ id }) => id))
    if (!hasNextPage || ids.length >= most || items.length === 0) return ids
  }
}

const INTERVAL_MS = 500

/**
 * Limits how often each space is delivered. The first change is delivered at once, later changes at most every half
 * second. The last change is never lost.
 */
export interface SpacePace {
  changed(spaceId: string): void
  /** Drops the pending change of a space that the viewer has left. */
  forget(spaceId: string): void
  close(): void
}

export function createSpacePace(notify: (spaceId: string) => void, intervalMs = INTERVAL_MS): SpacePace {
  /** The spaces that were delivered within the last interval, and whether they have changed since. */
  const resting = new Map<string, { timer: NodeJS.Timeout; changed: boolean }>()

  function rest(spaceId: string): void {
    const wake = () => {
      const { changed } = resting.get(spaceId) ?? {}
      resting.delete(spaceId)
      if (!changed) return
      notify(spaceId)
      rest(spaceId)
    }
    resting.set(spaceId, { timer: setTimeout(wake, intervalMs).unref(), changed: false })
  }

  function forget(spaceId: string): void {
    clearTimeout(resting.get(spaceId)?.timer)
    resting.delete(spaceId)
  }

  return {
    changed(spaceId) {
      const rested = resting.get(spaceId)
      if (rested !== undefined) {
        rested.changed = true
        return
      }
      notify(spaceId)
      rest(spaceId)
    },
    forget,
    close() {
      for (const spaceId of [...resting.keys()]) forget(spaceId)
    },
  }
}
