import { type Connection, createConnection, payloadOf } from '../../client/index.ts'
import type { ConsoleDescribedSpacesQuery } from '../../generated/graphql.ts'
import { CREATE_SPACE } from '../talk/operations.ts'
import { suggest } from '../talk/suggestions.tsx'
import { CREATE_AGENT, CREATE_HUMAN, CREATE_TOKEN, DESCRIBED_SPACES } from './operations.ts'

export async function createPerson(connection: Connection, name: string): Promise<{ id: string; name: string }> {
  const made = await connection.ask(CREATE_HUMAN, { input: { name } })
  return payloadOf(made.createHuman, 'CreateHumanPayload').human
}

/** Creates a token that acts as a human, and expires. */
export async function tokenFor(connection: Connection, humanId: string, lastsMs: number): Promise<string> {
  const input = { grant: { humanId }, expiresAt: new Date(Date.now() + lastsMs).toISOString() }
  const made = await connection.ask(CREATE_TOKEN, { input })
  return payloadOf(made.createAccessToken, 'CreateAccessTokenPayload').secret
}

// The names of the properties match their titles, because the card of a decided call has no schema. The database sorts the
// properties by the length of their names.
const ORDER_TOOL = {
  name: 'order_fleece',
  description: 'Orders rolls of garden fleece. People in the space approve each order first.',
  inputSchema: {
    type: 'object',
    properties: {
      item: { type: 'string', title: 'Item', description: 'The item to order, with its size.' },
      rolls: { type: 'integer', minimum: 1, title: 'Rolls', description: 'The number of rolls.' },
      price_in_euros: {
        type: 'number',
        minimum: 0,
        title: 'Price in euros',
        description: 'The total price in euros. A roll of 10 m × 2 m costs 11.90.',
      },
    },
    required: ['item', 'rolls', 'price_in_euros'],
  },
  execution: 'INTERNAL' as const,
  approval: { quorum: 1 },
}

/** The agents of the example space. The sentence in brackets is for the demo model; other models follow the rest. */
export const FIRST_AGENTS = [
  {
    name: 'Iris',
    description: 'Reports the weather, and welcomes people.',
    instructions:
      'You welcome people and report the weather of their garden. Tonight: 21:00 4.2 °C clear, 00:00 1.1 °C clear, 03:00 −0.6 °C frost, 05:00 −1.8 °C hard frost. Answer questions about the weather with a table of it and one sentence of advice. Skip orders. (The demo model plays: forecaster.)',
    tools: [],
  },
  {
    name: 'Tom',
    description: 'Asks about open questions in a forecast.',
    instructions:
      'When a forecast warns of frost, ask once who orders fleece: the fleece in the shed covers half of the beds. Skip everything else that does not address you. (The demo model plays: skeptic.)',
    tools: [],
  },
  {
    name: 'Noor',
    description: 'Orders what is missing, after an approval.',
    instructions:
      'You order what people ask for, once, with order_fleece, and then say in one sentence what was ordered, or that nothing was. Skip everything else that does not address you. (The demo model plays: buyer.)',
    tools: [ORDER_TOOL],
  },
]

/** Messages that a person can send in the example space, in this order. */
export const SUGGESTIONS = ['Who is here?', 'Will there be frost tonight?', 'Order two rolls of fleece']

const SCENE_NAME = 'Garden'
const DESCRIPTION = 'Three agents that look after a garden'
const DEMO_DESCRIPTION = 'Three scripted agents that look after a garden. Admins add real models under Models.'
/** The token is valid for as long as a session. */
const TOKEN_LASTS_MS = 30 * 86_400_000

/** An existing example space, and its person. */
export interface Scene {
  spaceId: string
  name: string
  person: { id: string; name: string }
  others: string[]
}

/**
 * Returns the newest scene in the viewer's spaces; if all scenes were renamed, the oldest, because the others can be
 * copies. Returns null if there is none.
 * @param humanId the person who must be a member of the scene; null for any person
 */
export function sceneIn({ spaces }: ConsoleDescribedSpacesQuery, humanId: string | null): Scene | null {
  const scenes = spaces.edges.flatMap(({ node }): Scene[] => {
    if (node.description !== DESCRIPTION && node.description !== DEMO_DESCRIPTION) return []
    const person = node.members.find(({ id, kind }) => (humanId === null ? kind === 'HUMAN' : id === humanId))
    if (person === undefined) return []
    const others = node.members.filter(({ id }) => id !== person.id).map(({ name }) => name)
    return [{ spaceId: node.id, name: node.name, person, others }]
  })
  return scenes.find(({ name }) => name === SCENE_NAME) ?? scenes.at(-1) ?? null
}

/** Like `sceneIn`, but reads the current spaces from the server. */
export const findScene = async (connection: Connection, humanId: string | null) =>
  sceneIn(await connection.ask(DESCRIBED_SPACES, {}), humanId)

/**
 * Creates three agents, one of which needs an approval to order, and a space with these agents and a person.
 * @param connection of an admin
 * @param own of the person
 * @returns the id of the space
 */
export async function createScene(connection: Connection, own: Connection, model: string | null): Promise<string> {
  const memberIds: string[] = []
  let isScripted = false
  for (const agent of FIRST_AGENTS) {
    const made = await connection.ask(CREATE_AGENT, { input: { ...agent, model } })
    const { agent: created } = payloadOf(made.createAgent, 'CreateAgentPayload')
    memberIds.push(created.id)
    isScripted = created.model === 'demo'
  }
  const input = { name: SCENE_NAME, description: isScripted ? DEMO_DESCRIPTION : DESCRIPTION, memberIds }
  const made = await own.ask(CREATE_SPACE, { input })
  const spaceId = payloadOf(made.createSpace, 'CreateSpacePayload').space.id
  suggest(spaceId, SUGGESTIONS)
  return spaceId
}

/** Creates a person, and an example space for that person. */
export async function startConversation(connection: Connection, name: string, model: string | null) {
  const person = await createPerson(connection, name)
  const token = await tokenFor(connection, person.id, TOKEN_LASTS_MS)
  const own = createConnection({ token })
  try {
    return { token, spaceId: await createScene(connection, own, model) }
  } finally {
    own.close()
  }
}
