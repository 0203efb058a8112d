import type { ToolExecution } from '../generated/prisma/client.ts'
import { prefixOf, wellFormedIds } from '../lib/ids.ts'
import type { Platform } from '../platform/platform.ts'
import { type HumanViewer, isGranted, type ServiceViewer, type Viewer } from './viewer.ts'

/** What of a run decides who may see it. */
export interface VisibleRun {
  id: string
  triggerSpaceId: string | null
  triggerServiceId: string | null
}

/** What of a tool call decides who may see it and what is in it. */
export interface VisibleToolCall {
  id: string
  runId: string
  agentId: string
  execution: ToolExecution | null
  /** The message and the space in which it is a visible part, or, of a built-in, by which it asks. */
  messageId: string | null
  spaceId: string | null
}

/**
 * What a viewer may see, answered for many at once: one statement a call. Each answer is the part of what was asked that is
 * visible. An admin sees everything, so that for one the answer does not say that a thing exists.
 */
export interface Visibility {
  /** Those that a human is a member of; none for services. */
  spaces(viewer: Viewer, spaceIds: readonly string[]): Promise<Set<string>>
  /**
   * Agents as `agents` says. Humans: oneself, who shares a space with one, and who wrote in, or has left, a space that one is
   * in. Who is visible may be added to a space.
   */
  entities(viewer: Viewer, entityIds: readonly string[]): Promise<Set<string>>
  /** All for humans, those granted for services. */
  agents(viewer: Viewer, agentIds: readonly string[]): Set<string>
  /** Those of the viewer's spaces. */
  messages(viewer: Viewer, messages: readonly { id: string; spaceId: string }[]): Promise<Set<string>>
  /** Those triggered by, or written in, a space of the viewer; those that the service triggered. Ids of the runs. */
  runs(viewer: Viewer, runs: readonly VisibleRun[]): Promise<Set<string>>
  /** Whether what the agent thinks (text, reasoning, summary) may be seen: by admins and the service that triggered. */
  runThoughts(viewer: Viewer, run: Pick<VisibleRun, 'triggerServiceId'>): boolean
  /** Those of visible runs; for services also EXTERNAL ones of granted agents. Contents are another question. */
  toolCalls(viewer: Viewer, calls: readonly VisibleToolCall[]): Promise<Set<string>>
  /**
   * Those whose input, output and error may be seen: by admins, the service that triggered the run, members of the space in
   * which the call is a visible part, and, for EXTERNAL ones, services that were granted the agent.
   */
  toolCallContents(viewer: Viewer, calls: readonly VisibleToolCall[]): Promise<Set<string>>
  isMember(spaceId: string, entityId: string): Promise<boolean>
  /** Of many at once: the spaces that each is a member of, of those asked for. */
  memberships(asked: readonly { entityId: string; spaceId: string }[]): Promise<Map<string, Set<string>>>
  /** Of many humans at once: the runs that each may see, of those asked for, by id. */
  runsOfHumans(asked: readonly { humanId: string; run: VisibleRun }[]): Promise<Map<string, Set<string>>>
}

export function createVisibility({ db }: Pick<Platform, 'db'>): Visibility {
  async function memberSpaces(entityId: string, spaceIds: readonly string[]): Promise<Set<string>> {
    if (spaceIds.length === 0) return new Set()
    const rows = await db.prisma.membership.findMany({
      where: { entityId, spaceId: { in: wellFormedIds([...new Set(spaceIds)]) } },
      select: { spaceId: true },
    })
    return new Set(rows.map(({ spaceId }) => spaceId))
  }

  async function visibleEntities(viewer: HumanViewer, ids: readonly string[]): Promise<Set<string>> {
    const rows = await db.prisma.$queryRaw<{ id: string }[]>`
      SELECT e.id FROM "Entity" e WHERE e.id = ANY(${wellFormedIds(ids)}::text[]) AND (
        e.kind = 'AGENT' OR e.id = ${viewer.id}
        OR EXISTS (
          SELECT 1 FROM "Membership" mine JOIN "Membership" theirs USING ("spaceId")
          WHERE mine."entityId" = ${viewer.id} AND theirs."entityId" = e.id)
        OR EXISTS (
          SELECT 1 FROM "Membership" mine JOIN "Message" written USING ("spaceId")
          WHERE mine."entityId" = ${viewer.id} AND written."senderId" = e.id)
        OR EXISTS (
          SELECT 1 FROM "Membership" mine JOIN "FormerMember" former USING ("spaceId")
          WHERE mine."entityId" = ${viewer.id} AND former."entityId" = e.id))`
    return new Set(rows.map(({ id }) => id))
  }

  const visibleRuns: Visibility['runsOfHumans'] = async (asked) => {
    if (asked.length === 0) return new Map()
    const rows = await db.prisma.$queryRaw<{ id: string; humanId: string }[]>`
      SELECT run.id, run."humanId" FROM unnest(
        ${asked.map(({ humanId }) => humanId)}::text[], ${asked.map(({ run }) => run.id)}::text[],
        ${asked.map(({ run }) => run.triggerSpaceId ?? '')}::text[]) AS run("humanId", id, "spaceId")
      WHERE EXISTS (
          SELECT 1 FROM "Membership" m WHERE m."spaceId" = run."spaceId" AND m."entityId" = run."humanId")
        OR EXISTS (
          SELECT 1 FROM "RunSpace" written JOIN "Membership" m USING ("spaceId")
          WHERE written."runId" = run.id AND m."entityId" = run."humanId")`
    return setsBy(
      rows,
      ({ humanId }) => humanId,
      ({ id }) => id,
    )
  }

  async function memberRuns(viewer: HumanViewer, runs: readonly VisibleRun[]): Promise<Set<string>> {
    const found = await visibleRuns(runs.map((run) => ({ humanId: viewer.id, run })))
    return found.get(viewer.id) ?? new Set()
  }

  /** The runs of the calls, as far as they still exist. */
  async function runsOf(calls: readonly VisibleToolCall[]): Promise<Map<string, VisibleRun>> {
    const rows = await db.prisma.run.findMany({
      where: { id: { in: [...new Set(calls.map(({ runId }) => runId))] } },
      select: { id: true, triggerSpaceId: true, triggerServiceId: true },
    })
    return new Map(rows.map((row) => [row.id, row]))
  }

  const visibility: Visibility = {
    async spaces(viewer, spaceIds) {
      if (viewer.scope === 'ADMIN') return new Set(wellFormedIds(spaceIds))
      return viewer.scope === 'HUMAN' ? memberSpaces(viewer.id, spaceIds) : new Set()
    },
    async entities(viewer, entityIds) {
      if (viewer.scope !== 'HUMAN') return visibility.agents(viewer, entityIds)
      return entityIds.length === 0 ? new Set() : visibleEntities(viewer, entityIds)
    },
    agents(viewer, agentIds) {
      const ids = wellFormedIds(agentIds)
      return new Set(
        viewer.scope === 'SERVICE' ? ids.filter((id) => prefixOf(id) === 'agt' && isGranted(viewer, id)) : ids,
      )
    },
    async messages(viewer, messages) {
      const spaces = await visibility.spaces(
        viewer,
        messages.map(({ spaceId }) => spaceId),
      )
      return new Set(messages.flatMap(({ id, spaceId }) => (spaces.has(spaceId) ? [id] : [])))
    },
    async runs(viewer, runs) {
      if (viewer.scope === 'HUMAN') return memberRuns(viewer, runs)
      return new Set(runs.flatMap((run) => (visibility.runThoughts(viewer, run) ? [run.id] : [])))
    },
    runThoughts(viewer, { triggerServiceId }) {
      return viewer.scope === 'ADMIN' || (viewer.scope === 'SERVICE' && viewer.id === triggerServiceId)
    },
    async toolCalls(viewer, calls) {
      if (viewer.scope === 'ADMIN' || calls.length === 0) return new Set(calls.map(({ id }) => id))
      const runs = await visibility.runs(viewer, [...(await runsOf(calls)).values()])
      const answerable = viewer.scope === 'SERVICE' ? externalOf(viewer, calls) : new Set<string>()
      return new Set(calls.flatMap(({ id, runId }) => (runs.has(runId) || answerable.has(id) ? [id] : [])))
    },
    async toolCallContents(viewer, calls) {
      if (viewer.scope === 'ADMIN' || calls.length === 0) return new Set(calls.map(({ id }) => id))
      if (viewer.scope === 'HUMAN') {
        const isPart = ({ execution, messageId, spaceId }: VisibleToolCall) =>
          execution !== null && messageId !== null && spaceId !== null
        const shown = calls.filter(isPart)
        const spaces = await memberSpaces(
          viewer.id,
          shown.map(({ spaceId }) => spaceId ?? ''),
        )
        return new Set(shown.flatMap(({ id, spaceId }) => (spaces.has(spaceId ?? '') ? [id] : [])))
      }
      return visibility.toolCalls(viewer, calls)
    },
    async isMember(spaceId, entityId) {
      return (await memberSpaces(entityId, [spaceId])).has(spaceId)
    },
    async memberships(asked) {
      const wellFormed = asked.filter(({ spaceId }) => prefixOf(spaceId) !== null)
      if (wellFormed.length === 0) return new Map()
      const rows = await db.prisma.$queryRaw<{ entityId: string; spaceId: string }[]>`
        SELECT m."entityId", m."spaceId" FROM "Membership" m JOIN unnest(
          ${wellFormed.map(({ entityId }) => entityId)}::text[], ${wellFormed.map(({ spaceId }) => spaceId)}::text[])
          AS asked("entityId", "spaceId") USING ("entityId", "spaceId")`
      return setsBy(
        rows,
        ({ entityId }) => entityId,
        ({ spaceId }) => spaceId,
      )
    },
    runsOfHumans: visibleRuns,
  }
  return visibility
}

function setsBy<T>(rows: readonly T[], keyOf: (row: T) => string, idOf: (row: T) => string): Map<string, Set<string>> {
  const groups = Map.groupBy(rows, keyOf)
  return new Map([...groups].map(([key, group]) => [key, new Set(group.map(idOf))]))
}

function externalOf(viewer: ServiceViewer, calls: readonly VisibleToolCall[]): Set<string> {
  const external = calls.filter(({ execution, agentId }) => execution === 'EXTERNAL' && isGranted(viewer, agentId))
  return new Set(external.map(({ id }) => id))
}
