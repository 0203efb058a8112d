import { isHeardBy, readUnheard } from '../confidentiality/world.ts'
import { type ApprovalState, Prisma, type ToolCall } from '../generated/prisma/client.ts'
import { prefixOf, wellFormedIds } from '../lib/ids.ts'
import type { Platform } from '../platform/platform.ts'
import { isAdmin } from '../rules/permissions.ts'
import { showsEverybodySql } from '../stores/human-store.ts'
import { heardOf } from './asked-calls.ts'
import { type HumanViewer, isGranted, type ServiceViewer, type Viewer } from './viewer.ts'

/** The fields of a run that determine who may see the run. */
export interface VisibleRun {
  id: string
  triggerSpaceId: string | null
  triggerServiceId: string | null
  /**
   * The confidentiality label. Unless it is empty, the service that triggered the run may not read the run's
   * content.
   */
  label: string[]
}

/** The fields of a tool call that determine who may see the call and its content. */
export interface VisibleToolCall
  extends Pick<ToolCall, 'id' | 'runId' | 'agentId' | 'execution' | 'status' | 'expiresAt'> {
  /** The message and space that show the call; for a built-in tool, those in which it requests approval. */
  messageId: string | null
  spaceId: string | null
  /** The state of the approval; null if the call needs none. */
  approvalState: ApprovalState | null
  /** The standing grant under which the call was executed. */
  grantId: string | null
  approverIds: string[]
  escalateToIds: string[]
  escalatedAt: Date | null
  /** The spaces from which the input comes. */
  places: string[]
  label: string[]
}

/**
 * Decides what a viewer may see, for many objects with one statement per call. Each method returns those of the
 * given objects that are visible. For an admin (the operator or a human), this includes all given ids, even ids that
 * do not exist.
 */
export interface Visibility {
  /** Returns the spaces of which the viewer is a member; none for a service. */
  spaces(viewer: Viewer, spaceIds: readonly string[]): Promise<Set<string>>
  /**
   * Returns visible humans and agents. Agents: as in `agents`. Humans: everybody if PARLEY_DIRECTORY is `everyone`;
   * otherwise the viewer, members of the viewer's spaces, and humans who posted in one of these spaces or left it. A
   * visible entity may be added to a space. Deleted and erased entities: authors and former members in the viewer's
   * spaces; for a service, agents of runs that it triggered.
   */
  entities(viewer: Viewer, entityIds: readonly string[]): Promise<Set<string>>
  /**
   * Returns the entities of which the viewer may see all fields: those of `entities`, except humans who are visible
   * only because of PARLEY_DIRECTORY.
   */
  acquaintances(viewer: Viewer, entityIds: readonly string[]): Promise<Set<string>>
  /** Returns all agents for a human, and the granted agents for a service. */
  agents(viewer: Viewer, agentIds: readonly string[]): Set<string>
  /** Returns the messages in the viewer's spaces. */
  messages(viewer: Viewer, messages: readonly { id: string; spaceId: string }[]): Promise<Set<string>>
  /**
   * Returns the ids of runs that a space of the viewer triggered, that posted in such a space, or that the service
   * triggered.
   */
  runs(viewer: Viewer, runs: readonly VisibleRun[]): Promise<Set<string>>
  /**
   * Whether the viewer may read the run's text, reasoning and summary. Admins may, and so may the triggering service
   * while the run has no confidentiality label.
   */
  runThoughts(viewer: Viewer, run: Pick<VisibleRun, 'triggerServiceId' | 'label'>): boolean
  /**
   * Returns the calls of visible runs; for services, also EXTERNAL calls of granted agents; for humans, also calls
   * that name them as an approver or on which they decided. Whether their content is visible is a separate check.
   */
  toolCalls(viewer: Viewer, calls: readonly VisibleToolCall[]): Promise<Set<string>>
  /**
   * Like `toolCalls`, but includes all calls that named the human as an approver, even if somebody else decided,
   * because approvers may see the outcome.
   */
  toolCallsAskedAbout(viewer: Viewer, calls: readonly VisibleToolCall[]): Promise<Set<string>>
  /**
   * Returns the calls whose input, output and error the viewer may read. Allowed are admins, the triggering service,
   * members of the space that shows the call, and, for EXTERNAL calls that were offered to services, the services to
   * which the agent was granted.
   */
  toolCallContents(viewer: Viewer, calls: readonly VisibleToolCall[]): Promise<Set<string>>
  isMember(spaceId: string, entityId: string): Promise<boolean>
  /** Returns, for each entity, those of the given spaces of which it is a member. */
  memberships(asked: readonly { entityId: string; spaceId: string }[]): Promise<Map<string, Set<string>>>
  /** Returns the pairs of humans that share a space, in the form `<id> <id>`. */
  sharingSpaces(asked: readonly { viewerId: string; humanId: string }[]): Promise<Set<string>>
  /** Returns, by human, those of the given spaces that are confidential and of which the human is not a member. */
  unheard(asked: readonly { humanId: string; spaceId: string }[]): Promise<Map<string, Set<string>>>
  /** Returns, by human, a fingerprint that changes when the human's memberships change or the human is erased. */
  membershipMarks(humanIds: readonly string[]): Promise<Map<string, string>>
  /**
   * Returns, by human, the runs that the human may see, by id. A human who sees a run only as a named approver gets
   * the run's public fields and only the calls that name them.
   */
  runsOfHumans(
    asked: readonly { humanId: string; run: VisibleRun }[],
  ): Promise<Map<string, Map<string, 'as-member' | 'as-asked'>>>
}

export function createVisibility({ db, config }: Pick<Platform, 'db' | 'config'>): Visibility {
  async function memberSpaces(entityId: string, spaceIds: readonly string[]): Promise<Set<string>> {
    if (spaceIds.length === 0) return new Set()
    const rows = await db.prisma.membership.findMany({
      where: { entityId, spaceId: { in: wellFormedIds([...new Set(spaceIds)]) } },
      select: { spaceId: true },
    })
    return new Set(rows.map(({ spaceId }) => spaceId))
  }

  const showsEverybody = showsEverybodySql(config.directory)

  /**
   * Returns the visible entities. `listed`: a condition on other entities `e` that the human sees only because of
   * the directory.
   */
  async function visibleEntities(
    viewer: Pick<HumanViewer, 'id'>,
    ids: readonly string[],
    listed: Prisma.Sql,
  ): Promise<Set<string>> {
    const rows = await db.prisma.$queryRaw<{ id: string }[]>`
      SELECT e.id FROM "Entity" e WHERE e.id = ANY(${wellFormedIds(ids)}::text[]) AND (
        (e.kind = 'AGENT' AND e."goneAt" IS NULL) OR e.id = ${viewer.id} OR (${listed})
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

  /** Returns the entities that a service may see. Deleted agents are included if the service has triggered them. */
  async function serviceEntities(viewer: ServiceViewer, ids: string[]): Promise<Set<string>> {
    if (ids.length === 0) return new Set()
    const rows = await db.prisma.$queryRaw<{ id: string }[]>`
      SELECT e.id FROM "Entity" e WHERE e.id = ANY(${ids}::text[]) AND (e."goneAt" IS NULL OR EXISTS (
        SELECT 1 FROM "Run" r WHERE r."agentId" = e.id AND r."triggerServiceId" = ${viewer.id}))`
    return new Set(rows.map(({ id }) => id))
  }

  /** Returns the runs that are visible because of memberships. */
  const visibleRuns = async (asked: readonly { humanId: string; run: VisibleRun }[]) => {
    if (asked.length === 0) return new Map()
    const rows = await db.query<{ id: string; humanId: string }>(Prisma.sql`
      SELECT run.id, run."humanId" FROM ${unnested(asked)} WHERE ${IS_MEMBERS}`)
    return setsBy(
      rows,
      ({ humanId }) => humanId,
      ({ id }) => id,
    )
  }

  const seenRuns: Visibility['runsOfHumans'] = async (asked) => {
    if (asked.length === 0) return new Map()
    const rows = await db.query<{ id: string; humanId: string; seen: 'as-member' | 'as-asked' }>(Prisma.sql`
      SELECT * FROM (
        SELECT run.id, run."humanId", CASE WHEN ${IS_MEMBERS} THEN 'as-member' WHEN ${IS_ASKED_ABOUT} THEN 'as-asked' END AS seen
        FROM ${unnested(asked)}) s WHERE seen IS NOT NULL`)
    const byHuman = Map.groupBy(rows, ({ humanId }) => humanId)
    return new Map([...byHuman].map(([humanId, group]) => [humanId, new Map(group.map(({ id, seen }) => [id, seen]))]))
  }

  async function memberRuns(viewer: HumanViewer, runs: readonly VisibleRun[]): Promise<Set<string>> {
    const found = await visibleRuns(runs.map((run) => ({ humanId: viewer.id, run })))
    return found.get(viewer.id) ?? new Set()
  }

  /** Returns the runs of the calls. The map has no entry for a run that no longer exists. */
  async function runsOf(calls: readonly VisibleToolCall[]): Promise<Map<string, VisibleRun>> {
    const rows = await db.prisma.run.findMany({
      where: { id: { in: [...new Set(calls.map(({ runId }) => runId))] } },
      select: { id: true, triggerSpaceId: true, triggerServiceId: true, label: true },
    })
    return new Map(rows.map((row) => [row.id, row]))
  }

  const visibility: Visibility = {
    async spaces(viewer, spaceIds) {
      if (isAdmin(viewer)) return new Set(wellFormedIds(spaceIds))
      return viewer.scope === 'HUMAN' ? memberSpaces(viewer.id, spaceIds) : new Set()
    },
    async entities(viewer, entityIds) {
      if (viewer.scope === 'SERVICE') return serviceEntities(viewer, [...visibility.agents(viewer, entityIds)])
      if (isAdmin(viewer)) return visibility.agents(viewer, entityIds)
      const listed = Prisma.sql`e.kind = 'HUMAN' AND e."goneAt" IS NULL AND ${showsEverybody}`
      return entityIds.length === 0 ? new Set() : visibleEntities(viewer, entityIds, listed)
    },
    async acquaintances(viewer, entityIds) {
      if (viewer.scope === 'SERVICE' || isAdmin(viewer)) return visibility.entities(viewer, entityIds)
      return entityIds.length === 0 ? new Set() : visibleEntities(viewer, entityIds, Prisma.sql`false`)
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
      if (viewer.scope === 'HUMAN' && !isAdmin(viewer)) return memberRuns(viewer, runs)
      const isOwn = (run: VisibleRun) => isAdmin(viewer) || isTriggeredBy(viewer, run)
      return new Set(runs.flatMap((run) => (isOwn(run) ? [run.id] : [])))
    },
    runThoughts(viewer, run) {
      return isAdmin(viewer) || (isTriggeredBy(viewer, run) && run.label.length === 0)
    },
    async toolCalls(viewer, calls) {
      if (isAdmin(viewer) || calls.length === 0) return new Set(calls.map(({ id }) => id))
      const runs = await visibility.runs(viewer, [...(await runsOf(calls)).values()])
      const answerable =
        viewer.scope === 'SERVICE' ? externalOf(viewer, calls) : await heardOf(db.prisma, viewer.id, calls, 'still')
      return new Set(calls.flatMap(({ id, runId }) => (runs.has(runId) || answerable.has(id) ? [id] : [])))
    },
    async toolCallsAskedAbout(viewer, calls) {
      const visible = await visibility.toolCalls(viewer, calls)
      const others = calls.filter(({ id }) => !visible.has(id))
      if (viewer.scope !== 'HUMAN' || others.length === 0) return visible
      return new Set([...visible, ...(await heardOf(db.prisma, viewer.id, others, 'ever'))])
    },
    async toolCallContents(viewer, calls) {
      if (isAdmin(viewer) || calls.length === 0) return new Set(calls.map(({ id }) => id))
      if (viewer.scope !== 'SERVICE') {
        const isPart = ({ execution, approvalState, grantId, messageId, spaceId }: VisibleToolCall) =>
          (execution !== null || approvalState !== null || grantId !== null) && messageId !== null && spaceId !== null
        const shown = calls.filter(isPart)
        const spaces = await memberSpaces(
          viewer.id,
          shown.map(({ spaceId }) => spaceId ?? ''),
        )
        return new Set(shown.flatMap(({ id, spaceId }) => (spaces.has(spaceId ?? '') ? [id] : [])))
      }
      const runs = await runsOf(calls)
      const answerable = externalOf(viewer, calls.filter(isGivenOut))
      const isTold = ({ id, runId }: VisibleToolCall) =>
        answerable.has(id) || (runs.has(runId) && visibility.runThoughts(viewer, runs.get(runId) as VisibleRun))
      return new Set(calls.filter(isTold).map(({ id }) => id))
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
    async sharingSpaces(asked) {
      const viewerIds = asked.map(({ viewerId }) => viewerId)
      const humanIds = asked.map(({ humanId }) => humanId)
      const rows = await db.prisma.$queryRaw<{ pair: string }[]>`
        SELECT a."viewerId" || ' ' || a."humanId" AS pair
        FROM unnest(${viewerIds}::text[], ${humanIds}::text[]) AS a("viewerId", "humanId")
        WHERE EXISTS (SELECT 1 FROM "Membership" mine JOIN "Membership" theirs USING ("spaceId")
          WHERE mine."entityId" = a."viewerId" AND theirs."entityId" = a."humanId")`
      return new Set(rows.map(({ pair }) => pair))
    },
    unheard: (asked) => readUnheard(db.prisma, asked),
    async membershipMarks(humanIds) {
      const rows = await db.prisma.$queryRaw<{ id: string; mark: string }[]>`
        SELECT e.id, md5(concat(e."goneAt", ' ', (
          SELECT string_agg(m."spaceId", ' ' ORDER BY m."spaceId") FROM "Membership" m WHERE m."entityId" = e.id), ' ', e.role)) AS mark
        FROM "Entity" e WHERE e.id = ANY(${[...humanIds]}::text[])`
      return new Map(rows.map(({ id, mark }) => [id, mark]))
    },
    runsOfHumans: seenRuns,
  }
  return visibility
}

const isTriggeredBy = (viewer: Viewer, { triggerServiceId }: Pick<VisibleRun, 'triggerServiceId'>) =>
  viewer.scope === 'SERVICE' && viewer.id === triggerServiceId

/** Returns SQL for the pairs of human and run, as rows with the alias `run`. */
function unnested(asked: readonly { humanId: string; run: VisibleRun }[]): Prisma.Sql {
  return Prisma.sql`unnest(
    ${asked.map(({ humanId }) => humanId)}::text[], ${asked.map(({ run }) => run.id)}::text[],
    ${asked.map(({ run }) => run.triggerSpaceId ?? '')}::text[]) AS run("humanId", id, "spaceId")`
}

/** Condition: the run was triggered from a space of the human, or posted in one. */
const IS_MEMBERS = Prisma.sql`(EXISTS (
    SELECT 1 FROM "Membership" m WHERE m."spaceId" = run."spaceId" AND m."entityId" = run."humanId")
  OR EXISTS (
    SELECT 1 FROM "RunSpace" written JOIN "Membership" m USING ("spaceId")
    WHERE written."runId" = run.id AND m."entityId" = run."humanId"))`

const IS_ASKED_ABOUT = Prisma.sql`EXISTS (
  SELECT 1 FROM "ToolCall" c WHERE c."runId" = run.id
    AND (c."approvalState" = 'PENDING' OR c."approvalState" IS NOT NULL AND EXISTS (
      SELECT 1 FROM "Decision" d WHERE d."toolCallId" = c.id AND d."humanId" = run."humanId"))
    AND ${isHeardBy(Prisma.sql`run."humanId"`, Prisma.sql`c.places || c.label`)}
    AND (run."humanId" = ANY(c."approverIds")
    OR (c."escalatedAt" IS NOT NULL AND run."humanId" = ANY(c."escalateToIds"))))`

function setsBy<T>(rows: readonly T[], keyOf: (row: T) => string, idOf: (row: T) => string): Map<string, Set<string>> {
  const groups = Map.groupBy(rows, keyOf)
  return new Map([...groups].map(([key, group]) => [key, new Set(group.map(idOf))]))
}

function externalOf(viewer: ServiceViewer, calls: readonly VisibleToolCall[]): Set<string> {
  const external = calls.filter(({ execution, agentId }) => execution === 'EXTERNAL' && isGranted(viewer, agentId))
  return new Set(external.map(({ id }) => id))
}

/**
 * Whether services may get the call. The confidentiality guard may hide it from all of them; then no service can
 * answer it.
 */
const isGivenOut = ({ status, label, expiresAt }: VisibleToolCall) =>
  status !== 'STREAMING' && (label.length === 0 || expiresAt !== null)
