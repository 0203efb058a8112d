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

interface Mine {
  viewer: { isAdmin: boolean }
  spaces: Connection<{ members: { id: string }[] }> & { pageInfo: { hasNextPage: boolean; endCursor: string | null } }
}

/** Returns the agents that the caller may wake, as models. */
export async function listModels(caller: Caller) {
  const agents: ListedAgent[] = []
  let after: string | null = null
  for (let page = 0; page < MOST_PAGES; page++) {
    const { agents: found }: Agents = await caller.ask<Agents>(AGENTS, { after })
    agents.push(...nodesOf(found))
    after = found.pageInfo.endCursor
    if (!found.pageInfo.hasNextPage) break
  }
  const restricted = agents.some(({ addableBy }) => addableBy !== 'EVERYONE')
  const mayAdd = caller.viewer.scope === 'HUMAN' && restricted ? await membersOfMine(caller) : null
  return agents
    .filter(({ id, addableBy }) => addableBy === 'EVERYONE' || mayAdd === null || mayAdd.mayAdd(id, addableBy))
    .map(modelOf)
}

/** The agents that a human may add to a new space, in addition to those that everyone may add. */
async function membersOfMine(caller: Caller) {
  const shared = new Set<string>()
  let isAdmin = false
  let after: string | null = null
  for (let page = 0; page < MOST_PAGES && !isAdmin; page++) {
    const { viewer, spaces }: Mine = await caller.ask<Mine>(MINE, { after })
    isAdmin = viewer.isAdmin
    for (const { members } of nodesOf(spaces)) for (const { id } of members) shared.add(id)
    after = spaces.pageInfo.endCursor
    if (!spaces.pageInfo.hasNextPage) break
  }
  return {
    mayAdd: (id: string, addableBy: ListedAgent['addableBy']) =>
      isAdmin || (addableBy === 'SHARES_SPACE' && shared.has(id)),
  }
}

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
