import type { Viewer } from '../access/viewer.ts'
import { JOBS_CHANNEL } from '../broker/topics.ts'
import { type Agent as AgentRow, type Entity, Prisma } from '../generated/prisma/client.ts'
import type { BudgetLimits } from '../lib/budget.ts'
import { BadInputError, LimitExceededError, NotFoundError } from '../lib/errors.ts'
import { newId, prefixOf, wellFormedIds } from '../lib/ids.ts'
import { inOrderOf } from '../lib/in-order.ts'
import type { Page, PageRequest } from '../lib/page.ts'
import { checkSearch, likePattern } from '../lib/validate.ts'
import type { Tx } from '../platform/db.ts'
import { fetchPage } from '../platform/id-pages.ts'
import type { Platform } from '../platform/platform.ts'
import { requireAdmin } from '../rules/permissions.ts'
import { recheckPostponed } from '../stores/inbox-store.ts'
import { parkRunsOfAgent } from '../stores/run-store.ts'
import type { CreateAgentInput, UpdateAgentInput } from './agent-input.ts'
import {
  type AgentChecks,
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
import type { ToolPhase } from './tool-phases.ts'
import { endGrantsOfChangedTools } from './tool-versions.ts'

/** An agent with all its settings. Only its public fields are visible to everybody. */
export interface Agent extends Omit<AgentRow, 'phases' | 'cycle' | 'modelSettings' | 'maxToolCalls' | 'budget'> {
  kind: 'AGENT'
  name: string
  createdAt: Date
  phases: ToolPhase[]
  /** Null for none. */
  modelSettings: ModelSettings | null
  /** Null for none. */
  budget: BudgetLimits | null
  /** The setting, or the default derived from `maxSteps`. */
  maxToolCalls: number
  /** Null for a stateless agent. */
  cycle: CycleSettings | null
}

/**
 * An agent and, if its `notifyUrl` was just set, the secret that signs its notifications. The secret cannot be read
 * later.
 */
export interface WrittenAgent extends Agent {
  notifySecret: string | null
}

/** Agents. Only admins may create and change them. */
export interface Agents {
  /** @throws ForbiddenError, BadInputError with the field at fault, LimitExceededError past 10,000 agents. */
  create(viewer: Viewer, input: CreateAgentInput): Promise<WrittenAgent>
  /** @throws ForbiddenError, NotFoundError, BadInputError with the field at fault. */
  update(viewer: Viewer, input: UpdateAgentInput): Promise<WrittenAgent>
  /** By id, in the order of the ids; null for an unknown id. Does not check visibility. */
  getMany(ids: readonly string[]): Promise<(Agent | null)[]>
  /**
   * A page of the directory, newest first: all agents for humans and admins, the granted ones for a service. `search`
   * matches names and descriptions, ignoring case; a blank one does not filter.
   */
  page(viewer: Viewer, request: PageRequest, search?: string | null): Promise<Page<Agent>>
}

const MOST_AGENTS = 10_000

export function createAgents(platform: Platform, checks: AgentChecks): Agents {
  const { db, clock, config, secretBox, signals } = platform
  const grantPublisher = createGrantPublisher(platform)

  async function getMany(ids: readonly string[]): Promise<(Agent | null)[]> {
    const rows = await db.prisma.$queryRaw<AgentAndEntity[]>`
      SELECT a.*, e.name, e."createdAt" FROM "Agent" a JOIN "Entity" e ON e.id = a.id WHERE a.id = ANY(${wellFormedIds(ids)}::text[])`
    return inOrderOf(ids, rows.map(agentOf))
  }

  /** @returns the standing grants that have ended, because their tools were changed */
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

  return {
    getMany,
    async create(viewer, input) {
      requireAdmin(viewer, 'create agents')
      await checks.lookForModels(modelsIn(input))
      const settings = checkNewAgent(input, config, checks)
      await checkToolSchemas(input.tools)
      const id = newId('agt')
      const notifying = notifyColumns(id, settings.notifyUrl, secretBox)
      await db.transaction(async (tx) => {
        if ((await tx.agent.count()) >= MOST_AGENTS)
          throw new LimitExceededError(`The server has the maximum of ${MOST_AGENTS} agents: delete some first.`)
        await checkUrgentFrom(tx, settings.cycle)
        await checkPeople(tx, policiesIn(settings))
        const entity = { id, kind: 'AGENT' as const, name: settings.name, createdAt: new Date(clock.now()) }
        await tx.entity.create({ data: entity })
        await tx.agent.create({
          data: { id, mind: input.mind, toolset: input.toolset, ...columnsOf(settings), ...notifying.columns },
        })
        await replaceTools(tx, id, settings.tools, secretBox)
        await replaceMcpServers(tx, id, settings.mcpServers, secretBox)
        return { id }
      })
      return { ...(await existing(id)), notifySecret: notifying.secret }
    },
    async update(viewer, input) {
      requireAdmin(viewer, 'change agents')
      await checks.lookForModels(modelsIn(input))
      await checkToolSchemas(input.tools)
      const { isResumed, notifySecret, endedGrants } = await db.transaction(async (tx) => {
        const before = await lockAgent(tx, input.id)
        const changes = checkChangedAgent(input, before, config, checks)
        await checkUrgentFrom(tx, changes.cycle)
        await checkPeople(tx, policiesIn(changes))
        const notifying = notifyColumns(input.id, changes.notifyUrl, secretBox)
        if (changes.name !== undefined)
          await tx.entity.update({ where: { id: input.id }, data: { name: changes.name } })
        await tx.agent.update({ where: { id: input.id }, data: { ...columnsOf(changes), ...notifying.columns } })
        const endedGrants = await changeTools(tx, input.id, changes)
        if (changes.budget !== undefined) await recheckPostponed(tx, { agentId: input.id })
        const isPausing = changes.paused !== undefined && changes.paused !== before.paused
        if (isPausing) await parkRunsOfAgent(tx, input.id, changes.paused === true)
        return { isResumed: isPausing && changes.paused === false, notifySecret: notifying.secret, endedGrants }
      })
      for (const grant of endedGrants) await grantPublisher.changed(grant)
      if (isResumed) await signals.publish(JOBS_CHANNEL, {})
      return { ...(await existing(input.id)), notifySecret }
    },
    async page(viewer, request, search) {
      const source = directoryOf(viewer, checkSearch(search))
      return fetchPage(db.prisma, { source, request }, getMany)
    },
  }
}

type AgentAndEntity = AgentRow & Pick<Entity, 'name' | 'createdAt'>

function agentOf(row: AgentAndEntity): Agent {
  const phases = row.phases as unknown as ToolPhase[]
  const cycle = row.cycle as unknown as CycleSettings | null
  const modelSettings = row.modelSettings as ModelSettings | null
  const budget = row.budget as BudgetLimits | null
  return { ...row, kind: 'AGENT', phases, cycle, modelSettings, budget, maxToolCalls: maxToolCallsOf(row) }
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

/** Returns the policies in the given tools and MCP servers. */
function policiesIn({ tools = [], mcpServers = [] }: Partial<AgentSettings>): PolicyField[] {
  const at = (list: string) => (one: { approval: PolicyField['approval'] }, index: number) => ({
    field: `input.${list}.${index}`,
    approval: one.approval,
  })
  return [...tools.map(at('tools')), ...mcpServers.map(at('mcpServers'))]
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
