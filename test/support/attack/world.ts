import type { Json } from '../../e2e/deployed.ts'
import type { ParleyClient } from '../parley-client.ts'
import { createParleyClient } from '../parley-client.ts'

export interface Person {
  id: string
  name: string
  token: string
}

/**
 * The people and spaces of a randomized attack. The honest member and the hostile ones share `hall`. The honest member works in
 * `quiet`, `till`, `desk` and `lobby`. The hostile members have `pit`, in which they may change the membership.
 */
export interface AttackWorld {
  origin: string
  adminToken: string
  honest: Person
  /** A colleague who adds the honest member to `lobby` again. */
  colleague: Person
  hostile: Person[]
  /** The token of a hostile service, with a grant for every agent. */
  serviceToken: string
  spaces: Record<'hall' | 'quiet' | 'till' | 'desk' | 'lobby' | 'pit', string>
  agents: { echo: string; payer: string; asker: string; raver: string; mind: string }
}

const SEEDED = 60

/** Sends one mutation and returns its payload. @throws with the response if it is of another type */
export async function mutate(client: ParleyClient, field: string, input: object, selection: string): Promise<Json> {
  const type = field.charAt(0).toUpperCase() + field.slice(1)
  const text = `mutation ($input: ${type}Input!) { result: ${field}(input: $input) {
    __typename ... on ${type}Payload { ${selection} } ... on Error { code message } } }`
  const answer = await client.ask<Json>(text, { input })
  const result = answer.data?.result
  if (result?.__typename !== `${type}Payload`) throw new Error(`${field} was refused: ${JSON.stringify(answer)}`)
  return result
}

const tool = (name: string, more: object) => ({ name, description: name, execution: 'INTERNAL', ...more })
const LISTED = {
  type: 'object',
  properties: { items: { type: 'array', uniqueItems: true }, amount: { type: 'number' } },
}

/** The agents' tools: one that people approve, one whose result a person submits, and one whose result a service submits. */
const TOOLS = {
  payer: [tool('pay', { inputSchema: LISTED, approval: { quorum: 2, expiresInSeconds: 3600 } })],
  asker: [
    tool('ask', { execution: 'SPACE', inputSchema: LISTED, resultSchema: LISTED }),
    tool('fetch_it', { execution: 'EXTERNAL', inputSchema: LISTED, resultSchema: LISTED }),
  ],
}

/** Creates the people, agents and spaces of an attack through the public API. */
export async function createAttackWorld(origin: string, adminToken: string): Promise<AttackWorld> {
  const admin = createParleyClient({ origin, token: adminToken })

  async function person(name: string): Promise<Person> {
    const { human } = await mutate(admin, 'createHuman', { name }, 'human { id }')
    const grant = { grant: { humanId: human.id } }
    const { secret } = await mutate(admin, 'createAccessToken', grant, 'secret')
    return { id: human.id, name, token: secret }
  }
  async function agent(name: string, input: object = {}): Promise<string> {
    const common = { name, instructions: `You are ${name}.`, model: `openai.chat:${name.toLowerCase()}` }
    return (await mutate(admin, 'createAgent', { ...common, ...input }, 'agent { id }')).agent.id
  }
  async function space(name: string, memberIds: string[]): Promise<string> {
    return (await mutate(admin, 'createSpace', { name, memberIds }, 'space { id }')).space.id
  }

  const [honest, colleague] = [await person('Ada'), await person('Bob')]
  const hostile = [await person('Mallory'), await person('Eve'), await person('Trudy'), await person('Oscar')]
  const service = { grant: { service: { name: 'ci' } } }
  const { secret: serviceToken } = await mutate(admin, 'createAccessToken', service, 'secret')
  const agents = {
    echo: await agent('Echo', { maxConcurrentRuns: 5 }),
    payer: await agent('Payer', { tools: TOOLS.payer }),
    asker: await agent('Asker', { tools: TOOLS.asker }),
    raver: await agent('Raver'),
    mind: await agent('Mind', { mind: 'PERSISTENT' }),
  }
  const both = [honest.id, colleague.id]
  const enemies = hostile.map(({ id }) => id)
  const spaces = {
    hall: await space('Hall', [...both, ...enemies, agents.echo]),
    quiet: await space('Quiet', [...both, agents.echo]),
    till: await space('Till', [...both, agents.payer]),
    desk: await space('Desk', both),
    lobby: await space('Lobby', both),
    pit: await space('Pit', [...enemies, agents.raver, agents.asker, agents.payer]),
  }
  const ada = createParleyClient({ origin, token: honest.token })
  for (let n = 0; n < SEEDED; n++) {
    // In the lobby, where no agent answers.
    await mutate(ada, 'sendMessage', { spaceId: spaces.lobby, text: `Message ${n} of sixty.` }, '__typename')
  }
  return { origin, adminToken, honest, colleague, hostile, serviceToken, spaces, agents }
}
