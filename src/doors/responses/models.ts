import type { Caller } from '../exchange.ts'
import { type Connection, nodesOf } from '../operations.ts'

const AGENTS = `query DoorModels($after: String) {
  agents(first: 100, after: $after) {
    pageInfo { hasNextPage endCursor }
    edges { node { id name description createdAt addableBy } }
  }
}`

interface ListedAgent {
  id: string
  name: string
  description: string | null
  createdAt: string
  addableBy: 'EVERYONE' | 'SHARES_SPACE' | 'ADMINS'
}

interface Agents {
  agents: Connection<ListedAgent> & { pageInfo: { hasNextPage: boolean; endCursor: string | null } }
}

const MOST_PAGES = 20

const MINE = `query DoorMine($after: String) {
  viewer { isAdmin }
  spaces(first: 100, after: $after) {
    pageInfo { hasNextPage endCursor }
    edges { node { members { id } } }
  }
}`

interface MineData {
  viewer: { isAdmin: boolean }
  spaces: Connection<{ members: { id: string }[] }> & { pageInfo: { hasNextPage: boolean; endCursor: string | null } }
}

/** Yields the agents that the caller may wake, as models. */
export async function* modelsFor(caller: Caller): AsyncGenerator<Model> {
  let mine: Promise<Mine> | null = null
  /** Whether the caller may add the agent to a new space. */
  async function mayAdd({ id, addableBy }: ListedAgent): Promise<boolean> {
    if (addableBy === 'EVERYONE' || caller.viewer.scope !== 'HUMAN') return true
    mine ??= readMine(caller)
    const { isAdmin, shared } = await mine
    return isAdmin || (addableBy === 'SHARES_SPACE' && shared.has(id))
  }

  let after: string | null = null
  for (let page = 0; page < MOST_PAGES; page++) {
    const { agents }: Agents = await caller.ask<Agents>(AGENTS, { after })
    for (const agent of nodesOf(agents)) if (await mayAdd(agent)) yield modelOf(agent)
    after = agents.pageInfo.endCursor
    if (!agents.pageInfo.hasNextPage) break
  }
}

/** The facts that decide which agents a human may add to a new space. */
interface Mine {
  isAdmin: boolean
  /** The ids of all members of the human's spaces. */
  shared: ReadonlySet<string>
}

async function readMine(caller: Caller): Promise<Mine> {
  const shared = new Set<string>()
  let after: string | null = null
  for (let page = 0; page < MOST_PAGES; page++) {
    const { viewer, spaces }: MineData = await caller.ask<MineData>(MINE, { after })
    if (viewer.isAdmin) return { isAdmin: true, shared }
    for (const { members } of nodesOf(spaces)) for (const { id } of members) shared.add(id)
    after = spaces.pageInfo.endCursor
    if (!spaces.pageInfo.hasNextPage) break
  }
  return { isAdmin: false, shared }
}

export type Model = ReturnType<typeof modelOf>

function modelOf({ id, name, description, createdAt }: ListedAgent) {
  return {
    id,
    object: 'model',
    created: Math.floor(Date.parse(createdAt) / 1000),
    owned_by: 'parley',
    name,
    description: description ?? '',
  }
}
