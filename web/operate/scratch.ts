import { type Connection, createConnection, payloadOf } from '../../client/index.ts'
import { CREATE_SPACE } from '../talk/operations.ts'
import { DELETE_SPACE, DESCRIBED_SPACES } from './operations.ts'
import { createPerson, tokenFor } from './people.ts'

/** A conversation next to an agent's settings, with a token for the person who posts in it. */
export interface Scratch {
  token: string
  spaceId: string
}

/** Identifies scratch spaces by their description, so that other spaces with the same members are not used. */
const DESCRIPTION = 'A scratch space, created from an agent’s settings.'
const DAY_MS = 86_400_000
const tokenKey = (humanId: string) => `parley.scratch.${humanId}`

export interface Speaker {
  /** Null for a new person. */
  humanId: string | null
  /** The name of a new person. */
  name: string
}

/** Opens the scratch space of a person and an agent, or creates one. */
export async function openScratch(
  connection: Connection,
  agent: { id: string; name: string },
  speaker: Speaker,
): Promise<Scratch> {
  const { humanId, token } = await speak(connection, speaker)
  return asPerson(token, async (own) => {
    const { spaces } = await own.ask(DESCRIBED_SPACES, {})
    const alone = [agent.id, humanId].sort().join()
    const found = spaces.edges.find(
      ({ node }) => node.description === DESCRIPTION && membersOf(node.members) === alone,
    )?.node
    return { token, spaceId: found?.id ?? (await createScratch(own, agent)) }
  })
}

/** Replaces the scratch space with an empty one. The old space is deleted, and the agent forgets it. */
export function startOver({ token, spaceId }: Scratch, agent: { id: string; name: string }): Promise<Scratch> {
  return asPerson(token, async (own) => {
    payloadOf((await own.ask(DELETE_SPACE, { id: spaceId })).deleteSpace, 'DeleteSpacePayload')
    return { token, spaceId: await createScratch(own, agent) }
  })
}

/** Removes a token that the server no longer accepts from this tab's storage. */
export function forgetToken(token: string): void {
  for (const key of Object.keys(sessionStorage)) {
    if (key.startsWith(tokenKey('')) && sessionStorage.getItem(key) === token) sessionStorage.removeItem(key)
  }
}

const membersOf = (members: { id: string }[]) =>
  members
    .map(({ id }) => id)
    .sort()
    .join()

/** Returns the person and a token, which is valid for a day and stored in this tab. */
async function speak(connection: Connection, speaker: Speaker): Promise<{ humanId: string; token: string }> {
  const humanId = speaker.humanId ?? (await createPerson(connection, speaker.name)).id
  const known = sessionStorage.getItem(tokenKey(humanId))
  if (known !== null) return { humanId, token: known }
  const token = await tokenFor(connection, humanId, DAY_MS)
  sessionStorage.setItem(tokenKey(humanId), token)
  return { humanId, token }
}

async function createScratch(own: Connection, agent: { id: string; name: string }): Promise<string> {
  const input = { name: `Trying ${agent.name}`.slice(0, 200), description: DESCRIPTION, memberIds: [agent.id] }
  return payloadOf((await own.ask(CREATE_SPACE, { input })).createSpace, 'CreateSpacePayload').space.id
}

async function asPerson<Answer>(token: string, work: (own: Connection) => Promise<Answer>): Promise<Answer> {
  const own = createConnection({ token })
  try {
    return await work(own)
  } finally {
    own.close()
  }
}
