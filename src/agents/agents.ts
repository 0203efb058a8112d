import type { Viewer } from '../access/viewer.ts'
import { JOBS_CHANNEL } from '../broker/topics.ts'
import { type Agent as AgentRow, type Entity, Prisma } from '../generated/prisma/client.ts'
import type { BudgetLimits } from '../lib/budget.ts'
import { BadInputError, ConflictError, LimitExceededError, NotFoundError } from '../lib/errors.ts'
import { newId, prefixOf, wellFormedIds } from '../lib/ids.ts'
import { inOrderOf } from '../lib/in-order.ts'
import type { Page, PageRequest } from '../lib/page.ts'
import { checkSearch, checkText, likePattern } from '../lib/validate.ts'
import type { Tx } from '../platform/db.ts'
import { fetchPage } from '../platform/id-pages.ts'
import type { Platform } from '../platform/platform.ts'
import { requireAdmin } from '../rules/permissions.ts'
import { insertAgent, updateAgent } from '../stores/agent-store.ts'
import { insertEntity, updateEntity } from '../stores/entity-store.ts'
import type { PublishedGrant } from '../stores/grant-store.ts'
import { recheckPostponed } from '../stores/inbox-store.ts'
import { parkRunsOfAgent } from '../stores/run-store.ts'
import { type ChangeNote, deleteDraft, writeDraft } from '../stores/version-store.ts'
import { type AgentDefinition, inputOf, missingHeadersOf, readDefinition } from './agent-definition.ts'
import { draftOf, inputOfDraft, mergedInput } from './agent-draft.ts'
import type { CreateAgentInput, UpdateAgentInput } from './agent-input.ts'
import {
  type AgentModels,
  type AgentSettings,
  checkChangedAgent,
  checkNewAgent,
  maxToolCallsOf,
  modelsIn,
} from './agent-settings.ts'
import { checkPeople, type PolicyField } from './approval-policy.ts'
import { checkToolSchemas, replaceTools } from './custom-tools.ts'
import type { CycleSettings } from './cycle-settings.ts'
import { NO_SUCH_AGENT } from './existing-agent.ts'
import { createGrantPublisher } from './grant-publisher.ts'
import { replaceMcpServers } from './mcp-servers.ts'
import type { ModelSettings } from './model-settings.ts'
import { notifyColumns } from './notify-secret.ts'
import { type RemoteAgent, remoteAgentOf, remoteColumns } from './remote-agent.ts'
import type { ToolPhase } from './tool-phases.ts'
import { endGrantsOfChangedTools } from './tool-versions.ts'
import { addVersion, asVersion, authorOf } from './version-recording.ts'

/** An agent with all its settings. Only its public fields are visible to everybody. */
export interface Agent extends Omit<AgentRow, 'phases' | 'cycle' | 'modelSettings' | 'maxToolCalls' | 'budget'> {
  kind: 'AGENT'
  name: string
  createdAt: Date
  phases: ToolPhase[]
  /** The settings for model calls; null if there are none. */
  modelSettings: ModelSettings | null
  /** The budget; null if there is none. */
  budget: BudgetLimits | null
  /** The configured maximum, or the default derived from `maxSteps`. */
  maxToolCalls: number
  /** The settings of think cycles; null for a stateless agent. */
  cycle: CycleSettings | null
  /** The remote agent; null for an agent on this server. */
  remote: RemoteAgent | null
}

/**
 * An agent and, if its `notifyUrl` has just been set, the secret that signs its notifications. The secret cannot be
 * read later.
 */
export interface WrittenAgent extends Agent {
  notifySecret: string | null
}

/** How an update is stored. */
export interface DraftOptions {
  /** Whether to store the update as a draft. Runs then continue with the published version. */
  asDraft?: boolean | null
  versionNote?: string | null
}

export interface PublishedVersion {
  agent: Agent
  versionId: string
}

/** Creates, changes and reads agents. Only admins may create and change them. */
export interface Agents {
  /**
   * Creates an agent.
   * @throws ForbiddenError; BadInputError with the invalid field; LimitExceededError if there are already 10,000 agents
   */
  create(viewer: Viewer, input: CreateAgentInput): Promise<WrittenAgent>
  /**
   * Updates an agent.
   * @throws ForbiddenError, NotFoundError; BadInputError with the invalid field
   */
  update(viewer: Viewer, input: UpdateAgentInput & DraftOptions): Promise<WrittenAgent>
  /**
   * Publishes the draft of an agent.
   * @throws ForbiddenError, NotFoundError; ConflictError if there is no draft, or if it is no longer valid for the
   * agent
   */
  publishDraft(viewer: Viewer, input: { agentId: string; note?: string | null }): Promise<PublishedVersion>
  /**
   * Restores an earlier version of an agent as a new version.
   * @throws ForbiddenError, NotFoundError; ConflictError if an object to which the version refers no longer exists
   */
  restore(viewer: Viewer, input: { versionId: string; note?: string | null }): Promise<PublishedVersion>
  /** Returns agents in the order of the ids; null for an unknown id. Does not check visibility. */
  getMany(ids: readonly string[]): Promise<(Agent | null)[]>
  /**
   * Returns a page of the directory, newest first. Humans and admins get all agents, and a service gets the agents to
   * which it has access. `search` matches names and descriptions, ignoring case. A blank search does not filter.
   */
  page(viewer: Viewer, request: PageRequest, search?: string | null): Promise<Page<Agent>>
}

/** The maximum number of agents on the server. */
export const MOST_AGENTS = 10_000

export function createAgents(platform: Platform, { models }: { models: AgentModels }): Agents {
  const { db, clock, config, secretBox, signals } = platform
  const grantPublisher = createGrantPublisher(platform)

  async function getMany(ids: readonly string[]): Promise<(Agent | null)[]> {
    const rows = await db.prisma.$queryRaw<AgentAndEntity[]>`
      SELECT a.*, e.name, e."createdAt" FROM "Agent" a JOIN "Entity" e ON e.id = a.id WHERE a.id = ANY(${wellFormedIds(ids)}::text[])`
    return inOrderOf(ids, rows.map(agentOf))
  }

  /** @returns the standing grants that ended because their tools were changed */
  async function changeTools(tx: Tx, id: string, { tools, mcpServers }: Partial<AgentSettings>) {
    if (tools === undefined && mcpServers === undefined) return []
    if (tools !== undefined) await replaceTools(tx, id, tools, secretBox)
    if (mcpServers !== undefined) await replaceMcpServers(tx, id, mcpServers, secretBox)
    return endGrantsOfChangedTools(tx, id)
  }

  async function existing(id: string): Promise<Agent> {
    const [agent] = await getMany([id])
    if (agent == null) throw new NotFoundError(NO_SUCH_AGENT)
    return agent
  }

  async function checkModelsAndSchemas(input: UpdateAgentInput): Promise<void> {
    await models.lookFor(modelsIn(input))
    await checkToolSchemas(input.tools)
  }

  /** Locks an agent, executes a change in the same transaction, and publishes the effects after the commit. */
  async function change<T extends { changed: Changed }>(
    id: string,
    work: (tx: Tx, before: LockedAgent) => Promise<T>,
  ): Promise<T> {
    const done = await db.transaction(async (tx) => work(tx, await lockAgent(tx, id)))
    const { endedGrants, isResumed } = done.changed
    for (const grant of endedGrants) await grantPublisher.changed(grant)
    if (isResumed) await signals.publish(JOBS_CHANNEL, {})
    return done
  }

  const written = async (id: string, { notifySecret }: Changed): Promise<WrittenAgent> => ({
    ...(await existing(id)),
    notifySecret,
  })

  /** Applies changes to a locked agent, and records a new version if they change its definition. */
  async function changeAgent(tx: Tx, before: LockedAgent, input: UpdateAgentInput, note: ChangeNote) {
    const change = { ...note, at: new Date(clock.now()) }
    const { result, versionId } = await asVersion(tx, before, change, () => applyChanges(tx, before, input))
    return { changed: result, versionId }
  }

  async function applyChanges(tx: Tx, before: LockedAgent, input: UpdateAgentInput): Promise<Changed> {
    const { id } = before
    const changes = checkChangedAgent(input, before, config, models)
    await checkUrgentFrom(tx, changes.cycle)
    await checkPeople(tx, policiesIn(changes))
    const notifying = notifyColumns(id, changes.notifyUrl, secretBox)
    const remote = remoteColumns(before, changes, secretBox)
    if (changes.name !== undefined) await updateEntity(tx, id, { name: changes.name })
    await updateAgent(tx, id, { ...columnsOf(changes), ...notifying.columns, ...remote })
    const endedGrants = await changeTools(tx, id, changes)
    if (changes.budget !== undefined) await recheckPostponed(tx, { agentId: id })
    const isPausing = changes.paused !== undefined && changes.paused !== before.paused
    if (isPausing) await parkRunsOfAgent(tx, id, changes.paused === true)
    const isResumed = isPausing && changes.paused === false
    return { isResumed, notifySecret: notifying.secret, endedGrants }
  }

  /** Adds changes to the draft. First checks them by applying them in a transaction that is rolled back. */
  async function saveDraft(viewer: Viewer, input: UpdateAgentInput, note: string | null): Promise<void> {
    const at = (['paused', 'notifyUrl'] as const).find((field) => input[field] !== undefined)
    if (at !== undefined)
      throw new BadInputError('This field takes effect at once, so it cannot be part of a draft.', `input.${at}`)
    const agentId = input.id
    await existing(agentId)
    const before = await db.prisma.agentDraft.findUnique({ where: { agentId } })
    const draft = before === null ? null : inputOfDraft(before, secretBox)
    const mergedFor = (agent: LockedAgent) => (draft === null ? input : mergedInput(draft, input, agent.model))
    const { version, definition, input: merged } = await tryOut(agentId, mergedFor)
    const { changes, headersSealed } = draftOf(merged, definition.model, secretBox)
    const isSaved = await db.transaction(async (tx) => {
      const agent = await lockAgent(tx, agentId)
      const draft = await tx.agentDraft.findUnique({ where: { agentId }, select: { id: true } })
      if (agent.version !== version || draft?.id !== before?.id) return false
      await writeDraft(tx, {
        agentId,
        changes,
        headersSealed,
        baseVersion: version,
        createdAt: new Date(clock.now()),
        ...authorOf(viewer, note ?? before?.note ?? null),
        definition: definition as unknown as Prisma.InputJsonValue,
      })
      return true
    })
    // Somebody else has changed the agent or its draft since the check, so the changes are checked again.
    if (!isSaved) await saveDraft(viewer, input, note)
  }

  /**
   * Returns the agent with the changes applied, and the version that it had before. Stores nothing.
   * @throws the errors of `update`
   */
  async function tryOut(id: string, inputFor: (agent: LockedAgent) => UpdateAgentInput): Promise<TriedOut> {
    const tried = await db
      .transaction(async (tx): Promise<never> => {
        const agent = await lockAgent(tx, id)
        const input = inputFor(agent)
        await applyChanges(tx, agent, input)
        throw new TriedOut(agent.version, input, await readDefinition(tx, id))
      })
      .catch((error: unknown) => error)
    if (tried instanceof TriedOut) return tried
    throw tried
  }

  /** Returns the draft of an agent as an input. @throws NotFoundError, ConflictError */
  async function openDraft(agentId: string): Promise<OpenDraft> {
    await existing(agentId)
    const draft = await db.prisma.agentDraft.findUnique({ where: { agentId } })
    if (draft === null) throw new ConflictError('The agent has no draft.')
    return {
      id: draft.id,
      baseVersion: draft.baseVersion,
      note: draft.note,
      input: inputOfDraft(draft, secretBox).input,
    }
  }

  return {
    getMany,
    async create(viewer, given) {
      requireAdmin(viewer, 'create agents')
      const input = { ...given, model: given.model ?? (await models.defaultModel()) }
      await models.lookFor(modelsIn(input))
      const settings = checkNewAgent(input, config, models)
      await checkToolSchemas(input.tools)
      const id = newId('agt')
      const notifying = notifyColumns(id, settings.notifyUrl, secretBox)
      await db.transaction(async (tx) => {
        if ((await tx.agent.count()) >= MOST_AGENTS)
          throw new LimitExceededError(
            `The server already has the maximum of ${MOST_AGENTS} agents: delete some first.`,
          )
        await checkUrgentFrom(tx, settings.cycle)
        await checkPeople(tx, policiesIn(settings))
        const entity = { id, kind: 'AGENT' as const, name: settings.name, createdAt: new Date(clock.now()) }
        await insertEntity(tx, entity)
        const columns = { ...columnsOf(settings), ...notifying.columns }
        const row = await insertAgent(tx, { id, mind: input.mind, toolset: input.toolset, ...columns })
        const remote = settings.remote == null ? {} : remoteColumns(row, { remote: settings.remote }, secretBox)
        await updateAgent(tx, id, remote)
        await replaceTools(tx, id, settings.tools, secretBox)
        await replaceMcpServers(tx, id, settings.mcpServers, secretBox)
        const definition = await readDefinition(tx, id)
        await addVersion(
          tx,
          { agentId: id, number: 1, definition },
          { ...authorOf(viewer, null), at: entity.createdAt },
        )
        return { id }
      })
      return { ...(await existing(id)), notifySecret: notifying.secret }
    },
    async update(viewer, { asDraft, versionNote, ...input }) {
      requireAdmin(viewer, 'change agents')
      const note = checkNote(versionNote, 'input.versionNote')
      await checkModelsAndSchemas(input)
      if (asDraft !== true) {
        const { changed } = await change(input.id, (tx, before) =>
          changeAgent(tx, before, input, authorOf(viewer, note)),
        )
        return written(input.id, changed)
      }
      await saveDraft(viewer, input, note)
      return { ...(await existing(input.id)), notifySecret: null }
    },
    async publishDraft(viewer, { agentId, note: given }) {
      requireAdmin(viewer, 'publish drafts')
      const note = checkNote(given, 'input.note')
      const { changed, versionId } = await orConflict(async () => {
        const draft = await openDraft(agentId)
        await checkModelsAndSchemas(draft.input)
        return change(agentId, async (tx, before) => {
          await checkIsCurrent(tx, draft, before)
          await deleteDraft(tx, agentId)
          return changeAgent(tx, before, draft.input, authorOf(viewer, note ?? draft.note))
        })
      })
      return { agent: await written(agentId, changed), versionId }
    },
    async restore(viewer, { versionId, note: given }) {
      requireAdmin(viewer, 'restore versions of agents')
      const note = checkNote(given, 'input.note')
      const [version] =
        wellFormedIds([versionId]).length === 0
          ? []
          : await db.prisma.agentVersion.findMany({ where: { id: versionId } })
      if (version === undefined) throw new NotFoundError('There is no such agent version.')
      const { agentId, number } = version
      const definition = version.definition as unknown as AgentDefinition
      const input = inputOf(agentId, definition)
      const changed = await orConflict(async () => {
        await checkModelsAndSchemas(input)
        return change(agentId, async (tx, before) => {
          const missing = missingHeadersOf(definition, await readDefinition(tx, agentId))
          if (missing !== null)
            throw new ConflictError(
              `Versions do not contain headers, and the agent no longer has the headers of "${missing}". Use updateAgent, and pass the headers.`,
            )
          return changeAgent(tx, before, input, authorOf(viewer, note ?? `Version ${number} again`))
        })
      })
      return { agent: await written(agentId, changed.changed), versionId: changed.versionId }
    },
    async page(viewer, request, search) {
      const source = directoryOf(viewer, checkSearch(search))
      return fetchPage(db.prisma, { source, request }, getMany)
    },
  }
}

/** The effects of a change to an agent that are applied after the commit. */
interface Changed {
  isResumed: boolean
  notifySecret: string | null
  endedGrants: PublishedGrant[]
}

type LockedAgent = Awaited<ReturnType<typeof lockAgent>>

interface OpenDraft {
  id: string
  baseVersion: number
  note: string | null
  input: UpdateAgentInput
}

/** @throws ConflictError if the draft has changed, or if the agent has changed since the draft was made */
async function checkIsCurrent(tx: Tx, { id, baseVersion }: OpenDraft, agent: LockedAgent): Promise<void> {
  const draft = await tx.agentDraft.findUnique({ where: { agentId: agent.id }, select: { id: true } })
  if (draft?.id !== id) throw new ConflictError('The draft has just been changed or published. Read it again.')
  if (baseVersion !== agent.version)
    throw new ConflictError(
      `Version ${agent.version} was published after this draft was saved. Save the draft again (updateAgent with asDraft), and review the difference.`,
    )
}

/** Thrown to roll back a transaction. Contains the agent with the changes applied. */
class TriedOut extends Error {
  readonly version: number
  /** The changes that were applied. */
  readonly input: UpdateAgentInput
  readonly definition: AgentDefinition
  constructor(version: number, input: UpdateAgentInput, definition: AgentDefinition) {
    super('tried out')
    this.version = version
    this.input = input
    this.definition = definition
  }
}

const LONGEST_NOTE = 1000

function checkNote(note: string | null | undefined, field: string): string | null {
  const text = note?.trim() ?? ''
  return text === '' ? null : checkText(text, LONGEST_NOTE, field)
}

/**
 * Executes a change whose input was validated when the change was stored. If the input is no longer valid, later
 * changes conflict with it, so the error is converted to a ConflictError.
 */
async function orConflict<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof BadInputError) throw new ConflictError(`${error.field ?? ''}: ${error.message}`)
    throw error
  }
}

type AgentAndEntity = AgentRow & Pick<Entity, 'name' | 'createdAt'>

function agentOf(row: AgentAndEntity): Agent {
  const phases = row.phases as unknown as ToolPhase[]
  const cycle = row.cycle as unknown as CycleSettings | null
  const modelSettings = row.modelSettings as ModelSettings | null
  const budget = row.budget as BudgetLimits | null
  const maxToolCalls = maxToolCallsOf(row)
  return { ...row, kind: 'AGENT', phases, cycle, modelSettings, budget, maxToolCalls, remote: remoteAgentOf(row) }
}

function directoryOf(viewer: Viewer, search: string): Prisma.Sql {
  const pattern = likePattern(search)
  const granted = viewer.scope === 'SERVICE' ? viewer.agentIds : null
  return Prisma.sql`
    SELECT a.id FROM "Agent" a JOIN "Entity" e ON e.id = a.id WHERE true
    ${search === '' ? Prisma.empty : Prisma.sql`AND (e.name ILIKE ${pattern} OR a.description ILIKE ${pattern})`}
    ${granted === null ? Prisma.empty : Prisma.sql`AND a.id = ANY(${granted}::text[])`}`
}

/** Returns the given settings that are columns of the agent's row. */
function columnsOf({
  name: _name,
  tools: _tools,
  mcpServers: _servers,
  notifyUrl: _notifyUrl,
  remote: _remote,
  phases,
  cycle,
  modelSettings,
  budget,
  ...plain
}: Partial<AgentSettings>) {
  return {
    ...plain,
    ...(phases === undefined ? {} : { phases: phases as unknown as Prisma.InputJsonValue }),
    ...(cycle === undefined ? {} : { cycle: cycle === null ? Prisma.DbNull : { ...cycle } }),
    ...(budget === undefined ? {} : { budget: budget === null ? Prisma.DbNull : { ...budget } }),
    ...(modelSettings === undefined ? {} : { modelSettings: modelSettings ?? Prisma.DbNull }),
  } as Omit<Prisma.AgentUncheckedCreateInput, 'id' | 'mind' | 'toolset'>
}

/** Returns the approval policies of the given tools and MCP servers. */
function policiesIn({ tools = [], mcpServers = [], remote }: Partial<AgentSettings>): PolicyField[] {
  const at = (list: string) => (one: { approval: PolicyField['approval'] }, index: number) => ({
    field: `input.${list}.${index}`,
    approval: one.approval,
  })
  const ofRemote = { field: 'input.remote', approval: remote?.approval ?? null }
  return [...tools.map(at('tools')), ...mcpServers.map(at('mcpServers')), ofRemote]
}

/** Reads the agent and locks its row until the transaction ends. */
async function lockAgent(tx: Tx, id: string) {
  if (prefixOf(id) === null) throw new NotFoundError(NO_SUCH_AGENT)
  const [row] = await tx.$queryRaw<AgentAndEntity[]>`
    SELECT a.*, e.name, e."createdAt" FROM "Agent" a JOIN "Entity" e ON e.id = a.id WHERE a.id = ${id} FOR UPDATE`
  if (row === undefined) throw new NotFoundError(NO_SUCH_AGENT)
  const [tools, mcpServers] = [
    await tx.agentTool.findMany({ where: { agentId: id }, select: { name: true } }),
    await tx.mcpServer.findMany({ where: { agentId: id }, select: { name: true } }),
  ]
  return {
    ...agentOf(row),
    toolNames: tools.map(({ name }) => name),
    mcpServerNames: mcpServers.map(({ name }) => name),
  }
}

async function checkUrgentFrom(tx: Tx, cycle: CycleSettings | null | undefined): Promise<void> {
  const given = cycle?.urgentFrom ?? []
  if (given.length === 0) return
  const ids = wellFormedIds(given)
  const humans = await tx.entity.count({ where: { kind: 'HUMAN', goneAt: null, id: { in: ids } } })
  const spaces = await tx.space.count({ where: { id: { in: ids }, deletedAt: null } })
  if (humans + spaces < given.length) {
    throw new BadInputError('Every id must be the id of an existing human or space.', 'input.cycle.urgentFrom')
  }
}
