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
   * The confidentiality label. If it is not empty, the service that triggered the run may not read the run's content.
   */
  label: string[]
}

/** The fields of a tool call that determine who may see the call and its content. */
export interface VisibleToolCall
  extends Pick<ToolCall, 'id' | 'runId' | 'agentId' | 'execution' | 'status' | 'expiresAt'> {
  /**
   * The message and the space that show the call. For a built-in tool, these are the message and space in which
   * approval is requested.
   */
  messageId: string | null
  spaceId: string | null
  /** The state of the approval; null if the call needs none. */
  approvalState: ApprovalState | null
  /** The standing grant under which the call was executed. */
  grantId: string | null
  approverIds: string[]
  escalateToIds: string[]
  escalatedAt: Date | null
  /** The spaces from which the call's input comes. */
  places: string[]
  label: string[]
}

/**
 * Decides which objects a viewer may see. Each call handles many objects with one statement, and returns those of the
 * given objects that are visible. An admin (the operator or a human) gets all given ids, even ids that do not exist.
 */
export interface Visibility {
  /** Returns the spaces of which the viewer is a member; a service gets none. */
  spaces(viewer: Viewer, spaceIds: readonly string[]): Promise<Set<string>>
  /**
   * Returns visible humans and agents. `agents` decides which agents are visible. If PARLEY_DIRECTORY is `everyone`,
   * all humans are visible. Otherwise, these are the viewer, members of the viewer's spaces, and humans who posted in
   * one of these spaces or left it. A visible entity can be added to a space.
   *
   * Deleted and erased entities are visible as authors and former members in the viewer's spaces. For a service,
   * deleted agents are visible if it has triggered their runs.
   */
  entities(viewer: Viewer, entityIds: readonly string[]): Promise<Set<string>>
  /**
   * Returns the entities of which the viewer may see all fields. These are the entities that `entities` returns, except
   * humans who are visible only because of PARLEY_DIRECTORY.
   */
  acquaintances(viewer: Viewer, entityIds: readonly string[]): Promise<Set<string>>
  /** Returns all agents for a human. For a service, returns the agents to which it has access. */
  agents(viewer: Viewer, agentIds: readonly string[]): Set<string>
  /** Returns those messages that are in the viewer's spaces. */
  messages(viewer: Viewer, messages: readonly { id: string; spaceId: string }[]): Promise<Set<string>>
  /**
   * Returns the ids of runs that were triggered from one of the viewer's spaces or posted in one of them. For a
   * service, returns the runs that it triggered.
   */
  runs(viewer: Viewer, runs: readonly VisibleRun[]): Promise<Set<string>>
  /**
   * Whether the viewer may read the run's text, reasoning and summary. Admins may, and so may the triggering service
   * while the run has no confidentiality label.
   */
  runThoughts(viewer: Viewer, run: Pick<VisibleRun, 'triggerServiceId' | 'label'>): boolean
  /**
   * Returns the calls of visible runs. Services also get EXTERNAL calls of agents to which they have access. Humans
   * also get calls that name them as an approver, or on which they decided. `toolCallContents` checks whether the
   * content is visible too.
   */
  toolCalls(viewer: Viewer, calls: readonly VisibleToolCall[]): Promise<Set<string>>
  /**
   * Like `toolCalls`, but includes all calls that named the human as an approver, even if somebody else decided,
   * because approvers may see the outcome.
   */
  toolCallsAskedAbout(viewer: Viewer, calls: readonly VisibleToolCall[]): Promise<Set<string>>
  /**
   * Returns the calls whose input, output and error the viewer may read. Admins, the triggering service, and members of
   * the space that shows the call may read them. Services with access to the agent may also read them for EXTERNAL
   * calls that were offered to services.
   */
  toolCallContents(viewer: Viewer, calls: readonly VisibleToolCall[]): Promise<Set<string>>
  isMember(spaceId: string, entityId: string): Promise<boolean>
  /** Returns those pairs in which the entity is a member of the space, as a set for each entity. */
  memberships(asked: readonly { entityId: string; spaceId: string }[]): Promise<Map<string, Set<string>>>
  /** Returns the pairs of humans that share a space, in the form `<id> <id>`. */
  sharingSpaces(asked: readonly { viewerId: string; humanId: string }[]): Promise<Set<string>>
  /** Returns the confidential spaces among the given ones to which a human does not belong, by human. */
  unheard(asked: readonly { humanId: string; spaceId: string }[]): Promise<Map<string, Set<string>>>
  /** Returns a fingerprint for each human. It changes when the human's memberships change or the human is erased. */
  membershipMarks(humanIds: readonly string[]): Promise<Map<string, string>>
  /**
   * Returns the runs that each human may see. A human who sees a run only as a named approver gets the run's public
   * fields, and only the calls that name this human.
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
   * Returns the visible entities. `listed` is a condition on further entities `e`, which the human sees only because of
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

  /** Returns the runs of the calls. The map has no entry for a run that has been deleted. */
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

/** Returns SQL for rows with the pairs of human and run. The rows have the alias `run`. */
function unnested(asked: readonly { humanId: string; run: VisibleRun }[]): Prisma.Sql {
  return Prisma.sql`unnest(
    ${asked.map(({ humanId }) => humanId)}::text[], ${asked.map(({ run }) => run.id)}::text[],
    ${asked.map(({ run }) => run.triggerSpaceId ?? '')}::text[]) AS run("humanId", id, "spaceId")`
}

/** Condition: one of the human's spaces triggered the run, or the run posted in one of them. */
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
 * Whether services can get the call. If the confidentiality guard hides it from all of them, no service can answer it.
 */
const isGivenOut = ({ status, label, expiresAt }: VisibleToolCall) =>
  status !== 'STREAMING' && (label.length === 0 || expiresAt !== null)
