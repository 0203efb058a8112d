import type { Viewer } from '../../access/viewer.ts'
import { createSerial, sleep } from '../../lib/async.ts'
import type { Platform } from '../../platform/platform.ts'
import {
  ADMIN_CHANNEL,
  agentChannel,
  entityChannel,
  type SignalPayload,
  spaceChannel,
  type ToolSignal,
} from '../../realtime/topics.ts'
import type { Domain } from '../../schema/domain.ts'
import type { ToolCall } from '../../schema/shapes.ts'
import type { ViewerEvent } from '../../schema/streams.ts'
import { createChannelSet } from './channel-set.ts'
import type { EntityChange, Guards } from './guards.ts'
import type { Lifeline } from './lifeline.ts'

/** An event without its time. */
export type ViewerChange = ViewerEvent extends infer Event
  ? Event extends { at: Date }
    ? Omit<Event, 'at'>
    : never
  : never

/** The sources of a viewer's changes: its own channel, and those of its spaces and agents. */
export interface ViewerSources {
  /** Resolves when all channels are subscribed. Errors of later lookups go to `onError`. */
  listen(viewer: Viewer, lifeline: Lifeline, onChange: OnChange, onError: (error: unknown) => void): Promise<void>
}

export type SourcesDomain = Pick<Domain, 'members' | 'spaces' | 'toolCalls' | 'agents' | 'visibility' | 'control'>

/** The maximum number of spaces and agents to which a viewer that may read all of them listens: the newest. */
const MOST_WATCHED = 1000
const PAGE = 100
/** How often admins look up new spaces and services new agents, since no signal announces these. */
const LOOK_INTERVAL_MS = 2000

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
   * Returns the channels to which a viewer should listen. For viewers that may read everything, it adds new
   * ones to `known`.
   */
  async function channelsOf(viewer: Viewer, known: readonly string[]): Promise<string[]> {
    if (viewer.scope === 'HUMAN') return (await domain.members.spacesOf(viewer.id)).map(spaceChannel)
    if (viewer.scope === 'SERVICE' && viewer.agentIds !== null) return viewer.agentIds.map(agentChannel)
    const most = known.length === 0 ? MOST_WATCHED : PAGE
    const found =
      viewer.scope === 'ADMIN'
        ? (await newest((request) => domain.spaces.page(viewer, request), most)).map(spaceChannel)
        : (await newest((request) => domain.agents.page(viewer, request), most)).map(agentChannel)
    const newestFirst = [...new Set([...found, ...known])].slice(0, MOST_WATCHED)
    return viewer.scope === 'ADMIN' ? [ADMIN_CHANNEL, ...newestFirst] : newestFirst
  }

  /**
   * Keeps the channels from lookup to lookup. It omits channels of `deleted` spaces, which a lookup in
   * progress may still contain.
   */
  function channelsByLooks(viewer: Viewer) {
    let known: string[] = []
    const deleted = new Set<string>()
    const channelsNow = async () => {
      known = (await channelsOf(viewer, known)).filter((channel) => !deleted.has(channel))
      return known
    }
    return { deleted, channelsNow }
  }

  async function concerns(viewer: Viewer, channel: string, { toolCallId, audience }: ToolSignal): Promise<boolean> {
    if (audience === 'deciders' && viewer.scope !== 'HUMAN') return false
    // A decider in the space is identified by the channel; a decider asked by name may not be allowed to read
    // the space.
    if (audience === 'deciders' && channel !== entityChannel(viewer.id)) return true
    const [call] = await domain.toolCalls.getMany([toolCallId])
    if (call == null) return false
    // The decision of others is the last event about a call that a decider asked by name receives.
    if (audience === 'deciders') return (await domain.visibility.toolCallsAskedAbout(viewer, [call])).has(call.id)
    return isForViewer(viewer, call)
  }

  /** Delivers the waiting calls of spaces that a human has joined. */
  async function tellWaiting(viewer: Viewer, came: string[], onChange: OnChange): Promise<void> {
    for (const { id, spaceId } of await domain.control.pendingToolCalls(viewer)) {
      const isThere = spaceId !== null && came.includes(spaceChannel(spaceId))
      if (isThere) onChange({ type: 'ViewerToolCallWaiting', toolCallId: id })
    }
  }

  return {
    async listen(viewer, lifeline, onChange, onError) {
      const serial = createSerial()

      function onToolSignal(channel: string, payload: SignalPayload): void {
        // Admins receive each call once, by their own channel.
        if (!('toolCallId' in payload) || (viewer.scope === 'ADMIN' && channel !== ADMIN_CHANNEL)) return
        const signal = payload as ToolSignal
        const tellIfIts = async () => {
          if (await concerns(viewer, channel, signal))
            onChange({ type: CHANGE_BY_SIGNAL[signal.type], toolCallId: signal.toolCallId })
        }
        void serial.run(tellIfIts).catch(onError)
      }

      function onSignal(channel: string, payload: SignalPayload): void {
        const spaceId = spaceOf(channel)
        if (spaceId !== null && (payload.type === 'message' || payload.type === 'changed')) {
          onChange({ type: 'ViewerSpaceChanged', spaceId })
        }
        if (payload.type === 'deleted') {
          deleted.add(channel)
          channels.refresh(tell).catch(onError)
        }
        onToolSignal(channel, payload)
      }

      function tell(change: ChannelChange): void {
        tellSpaces(change, onChange)
        if (viewer.scope !== 'HUMAN' || change.came.length === 0) return
        void serial.run(() => tellWaiting(viewer, change.came, onChange)).catch(onError)
      }

      const { deleted, channelsNow } = channelsByLooks(viewer)
      const channels = createChannelSet(lifeline, channelsNow, (channel) =>
        signals.subscribe(channel, (payload) => onSignal(channel, payload)),
      )
      const tellAnew = () => onChange({ type: 'ViewerSnapshot' })
      lifeline.onEnd(signals.onReconnect(() => void channels.refresh(tell).then(tellAnew, onError)))
      if (viewer.scope === 'HUMAN') {
        const onEntityChange = (change: EntityChange) => {
          if (CHANGES_SPACES.includes(change.type)) channels.refresh(tell).catch(onError)
          if ('toolCallId' in change) onToolSignal(entityChannel(viewer.id), change)
          if (change.type === 'read') onChange({ type: 'ViewerSpaceChanged', spaceId: change.spaceId })
        }
        lifeline.onEnd(await guards.entityChanges(viewer.id, onEntityChange))
      } else if (viewer.scope === 'ADMIN' || viewer.agentIds === null) {
        void keepRefreshing(lifeline.signal, () => channels.refresh(tell), onError)
      }
      await channels.refresh()
    },
  }
}

type OnChange = (change: ViewerChange) => void
type ChannelChange = { came: string[]; went: string[] }

function tellSpaces({ came, went }: ChannelChange, onChange: OnChange): void {
  for (const spaceId of went.map(spaceOf)) if (spaceId !== null) onChange({ type: 'ViewerSpaceRemoved', spaceId })
  for (const spaceId of came.map(spaceOf)) if (spaceId !== null) onChange({ type: 'ViewerSpaceAdded', spaceId })
}

const CHANGES_SPACES: EntityChange['type'][] = ['member-joined', 'member-left', 'missed']

async function keepRefreshing(signal: AbortSignal, refresh: () => Promise<void>, onError: (error: unknown) => void) {
  while (!signal.aborted) {
    await sleep(LOOK_INTERVAL_MS, signal)
    if (!signal.aborted) await refresh().catch(onError)
  }
}

function spaceOf(channel: string): string | null {
  return channel.startsWith('space:') ? channel.slice('space:'.length) : null
}

/** Whether the viewer may answer a call in a space or of an agent it may access: the rule of runs/control.ts. */
function isForViewer({ scope }: Viewer, { execution, expiresAt }: ToolCall): boolean {
  // A built-in call with a deadline waits for a message.
  if (execution === null) return scope === 'HUMAN' && expiresAt !== null
  if (scope === 'ADMIN') return execution === 'SPACE' || execution === 'EXTERNAL'
  return execution === (scope === 'HUMAN' ? 'SPACE' : 'EXTERNAL')
}

type NewestPage = Awaited<ReturnType<Domain['spaces']['page']>> | Awaited<ReturnType<Domain['agents']['page']>>
type NewestRequest = Parameters<Domain['spaces']['page']>[1]

/** Returns the ids of the newest entities, page by page. */
async function newest(page: (request: NewestRequest) => Promise<NewestPage>, most: number): Promise<string[]> {
  const ids: string[] = []
  for (;;) {
    const { items, hasNextPage } = await page({ size: PAGE, fromEnd: false, after: ids.at(-1) ?? null, before: null })
    ids.push(...items.map(({ id }) => id))
    if (!hasNextPage || ids.length >= most || items.length === 0) return ids
  }
}
