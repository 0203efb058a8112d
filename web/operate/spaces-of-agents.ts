import { useAsk } from '../ask.ts'
import { SPACES_OF_AGENTS } from './operations.ts'

type Named = { id: string; name: string }

/**
 * Looks up the viewer's spaces by agent, in the newest 100 spaces.
 * @returns a map whose `get` is never undefined; undefined while the spaces are loading
 */
export function useSpacesOfAgents({ enabled = true } = {}): { get(agentId: string): readonly Named[] } | undefined {
  const { data } = useAsk(SPACES_OF_AGENTS, {}, { enabled })
  if (data === undefined) return undefined
  const spaces = data.spaces.edges.map(({ node }) => node)
  return { get: (agentId) => spaces.filter(({ members }) => members.some(({ id }) => id === agentId)) }
}
