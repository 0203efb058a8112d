import type { Connection } from '../../client/index.ts'
import { SPACES_OF_AGENTS } from '../operate/operations.ts'

/** Returns the viewer's latest space whose only members are these two people; null if none of the newest 100 spaces matches. */
export async function findDirectSpace(connection: Connection, ownId: string, otherId: string) {
  const { spaces } = await connection.ask(SPACES_OF_AGENTS, {})
  const found = spaces.edges.find(({ node: { members } }) => {
    return members.length === 2 && [ownId, otherId].every((id) => members.some((member) => member.id === id))
  })
  return found?.node ?? null
}
