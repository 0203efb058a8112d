import type { Viewer } from '../access/viewer.ts'
import type { PageRequest } from '../lib/page.ts'
import { isAdmin } from '../rules/permissions.ts'
import { batched, batchedByRequest, type Loadable, type Loader } from './batch.ts'
import type { Domain } from './domain.ts'
import { type CommonLoaders, type CommonOptions, idsOf, NOTHING_UNREAD } from './loaders.ts'
import type { Entity, Message, Run, StandingGrant, ToolCall } from './shapes.ts'

export interface LoadersOptions extends CommonOptions {
  viewer: Viewer
}

export type Loaders = ReturnType<typeof createLoaders>

/** The arguments for a page of an agent's runs. */
export type RunsRequest = Parameters<Domain['runReading']['pageMany']>[2]
export interface RunsAsked {
  request: RunsRequest
  statuses: Run['status'][] | null
}

/** Combines the common loaders with loaders for one viewer. */
export function createLoaders(options: LoadersOptions, common: CommonLoaders) {
  const { domain, viewer } = options
  return {
    ...common,
    ...createOfViewer(options, common),
    accessTokens: batched((ids: readonly string[]) => domain.tokens.getMany(viewer, [...ids])),
    invitations: batched((ids: readonly string[]) => domain.invitations.getMany(viewer, ids)),
    joinLinks: batched((ids: readonly string[]) => domain.joinLinks.getMany(viewer, ids)),
    joinLinksOfSpaces: batched(async (spaceIds: readonly string[]) => {
      const found = await domain.joinLinks.ofSpaces(viewer, spaceIds)
      return spaceIds.map((id) => found.get(id) ?? [])
    }),
    sessions: batched((ids: readonly string[]) => domain.sessions.getMany(viewer, [...ids])),
    sessionsOfHumans: batched((humanIds: readonly string[]) => domain.sessions.ofHumans(viewer, humanIds)),
    runPages: batchedByRequest((agentIds, { request, statuses }: RunsAsked) =>
      domain.runReading.pageMany(viewer, agentIds, request, statuses),
    ),
    childPages: batchedByRequest((runIds, request: PageRequest) =>
      domain.runReading.childrenMany(viewer, runIds, request),
    ),
    /** The ids of the messages that a run has posted. */
    postedPages: batchedByRequest((runIds, request: PageRequest) =>
      domain.runReading.postedMany(viewer, runIds, request),
    ),
    visible: {
      ...createVisible(options, common),
      files: batched((ids: readonly string[]) => domain.files.visibleMany(viewer, ids)),
      filesOfCalls: batched((ids: readonly string[]) => domain.files.ofCalls(viewer, ids)),
    },
  }
}

/** Creates loaders of rows by id. They return null if the row does not exist or the viewer may not see it. */
function createVisible({ domain: { visibility, grantReading }, viewer }: LoadersOptions, common: CommonLoaders) {
  function visibleOf<T extends { id: string }>(
    loader: Loader<string, T | null>,
    isAllowed: (row: T) => Promise<boolean>,
  ): Loadable<string, T | null> {
    return {
      async load(id) {
        const row = await loader.load(id)
        return row !== null && (await isAllowed(row)) ? row : null
      },
    }
  }
  const { memberships, visibleRuns } = common.ofHumans
  const others = <T extends { id: string }>(allowedOf: (found: readonly T[]) => Promise<Set<string>>) => {
    const allowed = batched(
      async (found: readonly T[]) => {
        const ids = await allowedOf(found)
        return found.map(({ id }) => ids.has(id))
      },
      ({ id }: T) => id,
    )
    return (row: T) => allowed.load(row)
  }
  const isMembersView = viewer.scope === 'HUMAN' && !isAdmin(viewer)
  // Some viewers may see spaces without being members. They may see the content of a space as long as the space exists.
  const isMember = async (spaceId: string) =>
    isMembersView
      ? memberships.load({ humanId: viewer.id, spaceId })
      : (await common.spaces.load(spaceId)) !== null && isVisibleSpace({ id: spaceId })
  const isVisibleSpace = others((found: readonly { id: string }[]) => visibility.spaces(viewer, idsOf(found)))
  const isVisibleRun = others((found: readonly Run[]) => visibility.runs(viewer, found))
  async function seenRun(run: Run | null): Promise<Run | null> {
    if (run === null || !isMembersView) return run !== null && (await isVisibleRun(run)) ? run : null
    const seen = await visibleRuns.load({ humanId: viewer.id, run })
    return seen === 'as-asked' ? { ...run, onlyAsked: true } : seen && run
  }
  return {
    spaces: visibleOf(common.spaces, ({ id }) => isMember(id)),
    messages: visibleOf(common.messages, ({ spaceId }) => isMember(spaceId)),
    runs: { load: async (id: string) => seenRun(await common.runs.load(id)) },
    seenRun,
    toolCalls: visibleOf(
      common.toolCalls,
      others((found: readonly ToolCall[]) => visibility.toolCalls(viewer, found)),
    ),
    standingGrants: visibleOf(
      common.standingGrants,
      others((found: readonly StandingGrant[]) => grantReading.visible(viewer, idsOf(found))),
    ),
    entities: visibleOf(
      common.entities,
      others((found: readonly Entity[]) => visibility.entities(viewer, idsOf(found))),
    ),
    /** Whether the viewer may see more of an entity than its directory entry. */
    isAcquainted: {
      load: others((found: readonly { id: string }[]) => visibility.acquaintances(viewer, idsOf(found))),
    },
    /** Whether the viewer may read a call's input, output and error. */
    toolCallContents: {
      load: others((found: readonly ToolCall[]) => visibility.toolCallContents(viewer, found)),
    },
  }
}

/**
 * Creates loaders of values that each human has for a space, such as read markers. Viewers who are not humans have
 * no such values.
 */
function createOfViewer({ viewer }: LoadersOptions, { ofHumans, messages }: CommonLoaders) {
  const isHuman = viewer.scope === 'HUMAN'
  return {
    unread: {
      load: async (spaceId: string) =>
        isHuman ? ofHumans.unread.load({ humanId: viewer.id, spaceId }) : NOTHING_UNREAD,
    },
    /** The ids of the messages that started the threads. */
    unreadThreads: {
      load: async (spaceId: string): Promise<readonly string[]> =>
        isHuman ? ofHumans.unreadThreads.load({ humanId: viewer.id, spaceId }) : [],
    },
    unreadTotal: { load: async () => (isHuman ? ofHumans.unreadTotals.load(viewer.id) : NOTHING_UNREAD) },
    notifyLevel: {
      load: async (spaceId: string) =>
        isHuman ? ofHumans.notifyLevels.load({ humanId: viewer.id, spaceId }) : ('ALL' as const),
    },
    firstUnread: {
      async load(spaceId: string): Promise<Message | null> {
        const found = isHuman ? await ofHumans.firstUnread.load({ humanId: viewer.id, spaceId }) : null
        return found && messages.load(found.id)
      },
    },
  }
}
