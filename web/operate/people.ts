import { type Connection, createConnection, payloadOf } from '../../client/index.ts'
import { CREATE_SPACE } from '../talk/operations.ts'
import { CREATE_AGENT, CREATE_HUMAN, CREATE_TOKEN } from './operations.ts'

/** Creates a person, and a token for them. */
export async function createPerson(connection: Connection, name: string) {
  const { human } = payloadOf(
    (await connection.ask(CREATE_HUMAN, { input: { name } })).createHuman,
    'CreateHumanPayload',
  )
  return { human, token: await tokenFor(connection, human.id) }
}

/** Creates a token that acts as a human. */
export async function tokenFor(connection: Connection, humanId: string): Promise<string> {
  const made = await connection.ask(CREATE_TOKEN, { input: { grant: { humanId } } })
  return payloadOf(made.createAccessToken, 'CreateAccessTokenPayload').secret
}

export const FIRST_AGENTS = [
  {
    name: 'Iris',
    description: 'Welcomes people and answers first.',
    instructions: 'You are the host of this space. Greet people by name and answer in two or three sentences.',
  },
  {
    name: 'Tom',
    description: 'Asks what was forgotten.',
    instructions: 'You are a friendly skeptic. When a person says something, ask the one question that it leaves open.',
  },
]

/** Creates a person, two agents, one of which asks for approvals, and a space with all three. */
export async function startConversation(connection: Connection, name: string, model: string | null) {
  const { human, token } = await createPerson(connection, name)
  const memberIds: string[] = []
  for (const agent of FIRST_AGENTS) {
    const tools = agent.name === 'Iris' ? [APPROVAL_TOOL] : []
    const made = await connection.ask(CREATE_AGENT, { input: { ...agent, model, tools } })
    memberIds.push(payloadOf(made.createAgent, 'CreateAgentPayload').agent.id)
  }
  const own = createConnection({ token })
  const input = { name: 'Kitchen', description: WHAT_TO_SAY, memberIds }
  const made = await own.ask(CREATE_SPACE, { input })
  own.close()
  return { human, token, spaceId: payloadOf(made.createSpace, 'CreateSpacePayload').space.id }
}

/** The description of the first space, which says what to do next. */
const WHAT_TO_SAY = 'Say hello. Then write: @Iris please ask approval for the barbecue'

const APPROVAL_TOOL = {
  name: 'ask_approval',
  description: 'Asks the people in the active space for their approval, and waits for it.',
  inputSchema: { type: 'object', properties: { question: { type: 'string' } }, required: ['question'] },
  execution: 'SPACE' as const,
}
