import { createLines } from '../../lib/async.ts'
import { AGENT, CREATE_SPACE, LIST_SPACES, type Named, type Page, type Sender, type Space } from './documents.ts'
import { type Caller, mutateBy, OperationError, type Operations } from './operations.ts'

/** How many of a viewer's spaces are searched for the one with an agent. */
const SPACES_A_PAGE = 50
const MOST_PAGES = 10

/** The spaces of a human and one agent alone. */
export function createOwnSpaces(run: Operations['run']) {
  const inLine = createLines()
  const mutate = mutateBy(run)

  async function find(caller: Caller, agentId: string): Promise<string | null> {
    let after: string | null = null
    for (let pages = 0; pages < MOST_PAGES; pages += 1) {
      const { spaces }: { spaces: Page<Space> } = await run(caller, LIST_SPACES, { first: SPACES_A_PAGE, after })
      const found = spaces.edges.find(({ node }) => isOfBoth(node.members, caller.viewer.id, agentId))
      if (found !== undefined) return found.node.id
      if (!spaces.pageInfo.hasNextPage) return null
      after = spaces.pageInfo.endCursor
    }
    return null
  }

  return {
    /** Returns the space of the viewer and the agent; makes one if there is none. @throws OperationError */
    spaceWith: (caller: Caller, agentId: string): Promise<string> =>
      inLine(`${caller.viewer.id} ${agentId}`, async () => {
        const known = await find(caller, agentId)
        if (known !== null) return known
        const { agent } = await run<{ agent: Named | null }>(caller, AGENT, { id: agentId })
        if (agent === null) throw new OperationError('NOT_FOUND', 'There is no such agent, or you may not see it.')
        const input = { name: agent.name, memberIds: [agentId] }
        const { space } = await mutate<{ space: { id: string } }>(caller, CREATE_SPACE, input)
        return space.id
      }),
  }
}

function isOfBoth(members: readonly Sender[], humanId: string, agentId: string): boolean {
  const ids = members.map(({ id }) => id)
  return ids.length === 2 && ids.includes(humanId) && ids.includes(agentId)
}
