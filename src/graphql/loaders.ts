import type { Page, PageRequest } from '../lib/page.ts'
import {
  batched,
  batchedByKey,
  batchedByRequest,
  batchedInChunks,
  batchedOverViewers,
  type ForResponse,
  type Loader,
  loadAll,
  prime,
} from './batch.ts'
import type { Domain } from './domain.ts'
import type {
  GrantStanding,
  Message,
  MessagesRequest,
  PlanFiring,
  RootUsage,
  Run,
  Space,
  SpentToday,
  Thread,
  ToolCall,
} from './shapes.ts'
import type { Streams } from './streams.ts'

export interface CommonOptions {
  domain: Domain
  streams: Streams
  takesCursors: boolean
}

/**
 * Loaders that several viewers can share. Their values do not depend on the viewer, or the viewer is part of the
 * key.
 */
export type CommonLoaders = ReturnType<typeof createCommonLoaders>

/**
 * Creates loaders for everything that may occur repeatedly in an operation. The number of statements depends on the
 * selected fields. It depends neither on the number of rows nor on the number of viewers who receive an event.
 */
export function createCommonLoaders(options: CommonOptions) {
  const rows = createRows(options)
  return {
    ...rows,
    ...createOfAgents(options),
    ...createOfSpaces(options, rows),
    ...createOfRuns(options, rows),
    ofHumans: createOfHumans(options),
  }
}

/**
 * Creates loaders of rows by id that do not check visibility. If the operation selects stream cursors, the loaders
 * read the cursors first.
 */
function createRows({ domain, streams, takesCursors }: CommonOptions) {
  const spaceCursors = batched((ids: readonly string[]) => streams.spaceCursors(ids))
  const runCursors = batched((ids: readonly string[]) => streams.runCursors(ids))

  /** Loads the rows, reads the cursors of the streams that could change these rows, and loads the rows again. */
  async function afterCursors<V>(
    read: () => Promise<V[]>,
    takeCursors: (found: V[]) => Promise<unknown>,
  ): Promise<V[]> {
    if (!takesCursors) return read()
    await takeCursors(await read())
    return read()
  }

  /**
   * Caches rows that another query has returned, and returns them in the same order. If cursors must be read first,
   * loads the rows again.
   */
  async function seen<V extends { id: string }>(loader: Loader<string, V | null>, found: readonly V[]): Promise<V[]> {
    if (!takesCursors) prime(loader, found)
    return present(await loadAll(loader, idsOf(found)))
  }

  const messages = batched((ids: readonly string[]) =>
    afterCursors(
      async () => withDrafts(domain, await domain.reading.getMany(ids)),
      (found) =>
        loadAll(
          spaceCursors,
          found.flatMap((message) => message?.spaceId ?? []),
        ),
    ),
  )
  const toolCalls = batched((ids: readonly string[]) =>
    afterCursors(
      () => domain.toolCalls.getBriefMany(ids),
      (found) =>
        Promise.all([
          loadAll(
            runCursors,
            found.flatMap((call) => call?.runId ?? []),
          ),
          loadAll(
            spaceCursors,
            found.flatMap((call) => call?.spaceId ?? []),
          ),
        ]),
    ),
  )
  const spaces = batched(async (ids: readonly string[]) => {
    if (takesCursors) await loadAll(spaceCursors, ids)
    return domain.spaces.getMany(ids)
  })
  const runs = batched(async (ids: readonly string[]) => {
    if (takesCursors) await loadAll(runCursors, ids)
    return domain.runs.getMany([...ids])
  })
  return {
    spaceCursors,
    runCursors,
    spaces,
    runs,
    messages,
    toolCalls,
    entities: batched((ids: readonly string[]) => domain.entities.getMany(ids)),
    agents: batched((ids: readonly string[]) => domain.agents.getMany(ids)),
    agentVersions: batched((ids: readonly string[]) => domain.agentVersions.getMany(ids)),
    auditEntries: batched((ids: readonly string[]) => domain.auditLog.getMany(ids)),
    chains: batched((ids: readonly string[]) => domain.chains.getMany(ids)),
    plansById: batched((ids: readonly string[]) => domain.plans.getMany(ids)),
    firingsById: batched((ids: readonly string[]) => domain.firingReading.getMany(ids)),
    goalsById: batched((ids: readonly string[]) => domain.goals.getMany(ids)),
    cycles: batched((ids: readonly string[]) => domain.consciousness.cycles(ids)),
    inboxEvents: batched((ids: readonly string[]) => domain.inboxReading.getMany(ids)),
    files: batched((ids: readonly string[]) => domain.files.getMany(ids)),
    webhooks: batched((ids: readonly string[]) => domain.webhooks.getMany(ids)),
    standingGrants: batched((ids: readonly string[]) => domain.grantReading.getMany(ids)),
    seenSpaces: (found: readonly Space[]) => seen(spaces, found),
    seenRuns: (found: readonly Run[]) => seen(runs, found),
    seenMessages: (found: readonly Message[]) => seen(messages, found),
    seenToolCalls: (found: readonly ToolCall[]) => seen(toolCalls, found),
  }
}

type Rows = ReturnType<typeof createRows>

export const idsOf = (rows: readonly { id: string }[]) => rows.map(({ id }) => id)
const present = <T>(rows: readonly (T | null)[]) => rows.filter((row) => row !== null)

/** Adds the current text of STREAMING messages, which is stored in the event log. */
async function withDrafts(domain: Domain, found: (Message | null)[]): Promise<(Message | null)[]> {
  const whole = await domain.reading.withDraftText(present(found))
  const byId = new Map(whole.map((message) => [message.id, message]))
  return found.map((message) => message && (byId.get(message.id) ?? null))
}

export const NOTHING_UNREAD = { messages: 0, mentions: 0 }

/** Creates loaders of values that depend on a human. Lookups for several humans are batched. */
function createOfHumans({ domain: { visibility, reading, notifications, changeReading } }: CommonOptions) {
  interface InSpace {
    humanId: string
    spaceId: string
  }
  const nameOf = ({ humanId, spaceId }: InSpace) => `${humanId} ${spaceId}`
  return {
    memberships: batchedOverViewers(async (asked: readonly InSpace[]) => {
      const found = await visibility.memberships(asked.map(({ humanId, spaceId }) => ({ entityId: humanId, spaceId })))
      return asked.map(({ humanId, spaceId }) => found.get(humanId)?.has(spaceId) ?? false)
    }, nameOf),
    sharesSpace: batchedOverViewers(
      async (asked: readonly { viewerId: string; humanId: string }[]) => {
        const sharing = await visibility.sharingSpaces(asked)
        return asked.map(({ viewerId, humanId }) => sharing.has(`${viewerId} ${humanId}`))
      },
      ({ viewerId, humanId }) => `${viewerId} ${humanId}`,
    ),
    ownReactions: batchedOverViewers(
      (asked: readonly { entityId: string; messageId: string; emoji: string }[]) => changeReading.areIn(asked),
      ({ entityId, messageId, emoji }) => `${entityId} ${messageId} ${emoji}`,
    ),
    isUnheard: batchedOverViewers(async (asked: readonly InSpace[]) => {
      const found = await visibility.unheard(asked)
      return asked.map(({ humanId, spaceId }) => found.get(humanId)?.has(spaceId) ?? false)
    }, nameOf),
    visibleRuns: batchedOverViewers(
      async (asked: readonly { humanId: string; run: Run }[]) => {
        const found = await visibility.runsOfHumans(asked)
        return asked.map(({ humanId, run }) => found.get(humanId)?.get(run.id) ?? null)
      },
      ({ humanId, run }) => `${humanId} ${run.id}`,
    ),
    unread: batchedOverViewers(async (asked: readonly InSpace[]) => {
      const found = await reading.unreadOfMany(asked)
      return asked.map(({ humanId, spaceId }) => found.get(humanId)?.get(spaceId) ?? NOTHING_UNREAD)
    }, nameOf),
    unreadThreads: batchedOverViewers(async (asked: readonly InSpace[]) => {
      const found = await reading.unreadThreadsOfMany(asked)
      return asked.map(({ humanId, spaceId }) => found.get(humanId)?.get(spaceId) ?? [])
    }, nameOf),
    unreadInThreads: batchedOverViewers(
      async (asked: readonly { humanId: string; threadRootId: string }[]) => {
        const found = await reading.unreadInThreads(asked)
        return asked.map(({ humanId, threadRootId }) => found.get(humanId)?.get(threadRootId) ?? 0)
      },
      ({ humanId, threadRootId }) => `${humanId} ${threadRootId}`,
    ),
    unreadTotals: batched((humanIds: readonly string[]) => Promise.all(humanIds.map(reading.unreadTotal))),
    notifyLevels: batchedOverViewers(async (asked: readonly InSpace[]) => {
      const found = await notifications.levelsOf(asked)
      return asked.map(({ humanId, spaceId }) => found.get(humanId)?.get(spaceId) ?? 'MENTIONS')
    }, nameOf),
    firstUnread: batchedOverViewers(async (asked: readonly InSpace[]) => {
      const found = await reading.firstUnreadOfMany(asked)
      return asked.map(({ humanId, spaceId }) => found.get(humanId)?.get(spaceId) ?? null)
    }, nameOf),
  }
}

function createOfAgents({ domain }: CommonOptions) {
  return {
    /** The QUEUED, RUNNING and WAITING_TOOL runs of each agent, without a check of visibility. */
    activeRuns: batchedByKey((agentIds) => domain.runs.activeOf(agentIds), []),
    tools: batchedByKey((agentIds) => domain.customTools.listMany(agentIds), []),
    mcpServers: batchedByKey((agentIds) => domain.mcpServers.listMany(agentIds), []),
    memories: batchedByKey((agentIds) => domain.memories.listMany(agentIds), []),
    goals: batchedByKey((agentIds) => domain.goals.listMany(agentIds), []),
    plans: batchedByKey((agentIds) => domain.plans.listMany(agentIds), []),
    firingPages: batchedByRequest((planIds, request: PageRequest) => domain.firingReading.pageMany(planIds, request)),
    /** The ids of the runs that plan firings have started. */
    firingRuns: batched(
      (firings: readonly PlanFiring[]) => domain.firingReading.runsOf(firings),
      ({ id }: PlanFiring) => id,
    ),
    inboxPages: batchedByRequest((agentIds, request: PageRequest) => domain.inboxReading.pageMany(agentIds, request)),
    cyclePages: batchedByRequest((agentIds, request: PageRequest) => domain.consciousness.pageMany(agentIds, request)),
    versionPages: batchedByRequest((agentIds, request: PageRequest) =>
      domain.agentVersions.pageMany(agentIds, request),
    ),
    drafts: batched((agentIds: readonly string[]) => domain.agentVersions.drafts(agentIds)),
    consciousness: batched((agentIds: readonly string[]) => domain.consciousness.getMany(agentIds)),
  }
}

function createOfSpaces({ domain }: CommonOptions, { messages }: Rows) {
  /** Caches messages that were read together with the cursor of their space. */
  async function seen(found: Message[]): Promise<Map<string, Message>> {
    const whole = await domain.reading.withDraftText(found)
    prime(messages, whole)
    return new Map(whole.map((message) => [message.id, message]))
  }
  async function seenPages(pages: readonly (Page<Message> | Error)[]): Promise<(Page<Message> | Error)[]> {
    const whole = await seen(pages.flatMap((page) => ('items' in page ? page.items : [])))
    const filled = ({ items, ...ends }: Page<Message>) => ({ ...ends, items: items.map((item) => whole.get(item.id)!) })
    return pages.map((page) => ('items' in page ? filled(page) : page))
  }
  async function seenBySpace(found: Map<string, Message>): Promise<Map<string, Message | null>> {
    const whole = await seen([...found.values()])
    return new Map([...found].map(([spaceId, { id }]) => [spaceId, whole.get(id) ?? null]))
  }
  return {
    members: batchedByKey((spaceIds) => domain.members.listMany(spaceIds), []),
    agentsElsewhere: batchedByKey((spaceIds) => domain.members.agentsElsewhere(spaceIds), []),
    adminAgents: batchedByKey<string | null>(
      (spaceIds) => domain.spaces.adminAgentsOf(spaceIds) as Promise<Map<string, string | null>>,
      null,
    ),
    messagePages: batchedByRequest(async (spaceIds, request: MessagesRequest) =>
      seenPages(await domain.reading.pageMany(spaceIds, request)),
    ),
    replyPages: batchedByRequest(async (threadRootIds, request: PageRequest) =>
      seenPages(await domain.reading.repliesMany(threadRootIds, request)),
    ),
    threads: batchedByKey<Thread | null>(
      (messageIds) => domain.reading.threadsMany(messageIds) as Promise<Map<string, Thread | null>>,
      null,
    ),
    filePages: batchedByRequest((spaceIds, request: PageRequest) => domain.files.pageMany(spaceIds, request)),
    /**
     * These versions are loaded in chunks, because a version has up to 32,000 characters, and a message has up to
     * twenty versions.
     */
    messageVersions: batchedInChunks(
      CONTENTS_A_CHUNK,
      async (asked: (ForResponse & { id: string })[]) => {
        const found = await domain.changeReading.versionsMany(idsOf(asked))
        return asked.map(({ id }) => found.get(id) ?? null)
      },
      ({ id }) => id,
    ),
    reactions: batchedByKey((messageIds) => domain.changeReading.reactionsMany(messageIds), []),
    staleRuns: batchedByKey((messageIds) => domain.changeReading.staleRunsMany(messageIds), []),
    lastMessages: batchedByKey(async (spaceIds) => seenBySpace(await domain.reading.lastMany(spaceIds)), null),
    grantsOfSpaces: batchedByKey((spaceIds) => domain.grantReading.ofSpaces(spaceIds), []),
    outcomes: batchedByKey((messageIds) => domain.reading.outcomesMany(messageIds), []),
  }
}

/** How many long inputs and outputs of calls are read at a time. Each has up to 256 KiB. */
const CONTENTS_A_CHUNK = 8

function createOfRuns({ domain }: CommonOptions, { seenToolCalls }: Rows) {
  return {
    retries: batchedByKey<Run | null>(
      (runIds) => domain.runs.retriesOf(runIds) as Promise<Map<string, Run | null>>,
      null,
    ),
    callContents: batchedInChunks(
      CONTENTS_A_CHUNK,
      async (asked: (ForResponse & { id: string })[]) => {
        const found = await domain.toolCalls.contentsOf(idsOf(asked))
        return asked.map(({ id }) => found.get(id) ?? null)
      },
      ({ id }) => id,
    ),
    waitingCalls: batched(async (messageIds: readonly string[]) => {
      const calls = await domain.toolCalls.waitingByMessage(messageIds)
      return messageIds.map((id) => calls.get(id) ?? null)
    }),
    toolCallsOfRuns: batchedByKey(async (runIds) => {
      const byRun = await domain.toolCalls.ofRuns(runIds)
      const calls = await seenToolCalls([...byRun.values()].flat())
      return Map.groupBy(calls, ({ runId }) => runId)
    }, []),
    spentToday: batchedByKey<SpentToday | null>(
      (ownerIds) => domain.usage.today(ownerIds) as Promise<Map<string, SpentToday | null>>,
      null,
    ),
    rootUsages: batchedByKey<RootUsage | null>(
      (rootIds) => domain.usage.ofRoots(rootIds) as Promise<Map<string, RootUsage | null>>,
      null,
    ),
    approvals: batched(
      async (calls: readonly ToolCall[]) => {
        const found = await domain.approvalReading.standingOf(calls)
        return calls.map(({ id }) => found.get(id) ?? { deciderIds: [], decisions: [] })
      },
      ({ id }: ToolCall) => id,
    ),
    grantStandings: batchedByKey<GrantStanding>((ids) => domain.grantReading.standingOf(ids), {
      deciderIds: [],
      decisions: [],
    }),
    claimers: batched(
      async (calls: readonly ToolCall[]) => {
        const found = await domain.callClaims.claimersOf(calls)
        return calls.map(({ id }) => found.get(id) ?? null)
      },
      ({ id }: ToolCall) => id,
    ),
    unheard: batched(async (runIds: readonly string[]) => {
      const unheard = await domain.runReading.unheardAmong(runIds)
      return runIds.map((id) => unheard.has(id))
    }),
    stepPages: batchedByRequest((runIds, request: PageRequest) => domain.stepRecords.pageMany(runIds, request)),
  }
}
