import { useAsk } from '../ask.ts'
import { SPACES_OF_AGENTS } from './operations.ts'

type Named = { id: string; name: string }

interface SpacesOfAgents {
  get(agentId: string): readonly Named[]
  others(agentId: string): readonly Named[]
  /** Returns the position of the oldest space with the agent, from the newest; -1 if there is none. */
  ageOf(agentId: string): number
}

/**
 * Looks up the viewer's spaces by agent, in the newest 100 spaces.
 * @returns `get`, the spaces with an agent, `others`, those without it, and `ageOf`; undefined while the spaces are loading
 */
export function useSpacesOfAgents({ enabled = true } = {}): SpacesOfAgents | undefined {
  const { data } = useAsk(SPACES_OF_AGENTS, {}, { enabled })
  if (data === undefined) return undefined
  const spaces = data.spaces.edges.map(({ node }) => node)
  const isIn = ({ members }: (typeof spaces)[number], agentId: string) => members.some(({ id }) => id === agentId)
  return {
    get: (agentId) => spaces.filter((space) => isIn(space, agentId)),
    others: (agentId) => spaces.filter((space) => !isIn(space, agentId)),
    ageOf: (agentId) => spaces.findLastIndex((space) => isIn(space, agentId)),
  }
}

/**
 * Returns a function for the words below a name: the description and, if several listed agents have the same name, the spaces
 * that the viewer shares with this one.
 */
export function useWordsBelow(entities: readonly { name: string; kind: string }[]) {
  const agents = entities.filter(({ kind }) => kind === 'AGENT').map(({ name }) => name)
  const equal = new Set(agents.filter((name, at) => agents.indexOf(name) !== at))
  const spaces = useSpacesOfAgents({ enabled: equal.size > 0 })
  return ({ id, name, description = null }: { id: string; name: string; description?: string | null }) => {
    const shared = equal.has(name) ? spaces?.get(id).map((space) => space.name) : undefined
    const place = shared === undefined ? null : shared.length === 0 ? 'in no space of yours' : `in ${shared.join(', ')}`
    return [description, place].filter((part) => part !== null && part !== '').join(' · ')
  }
}
