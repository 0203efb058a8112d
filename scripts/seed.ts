// npm run seed -- [url]: creates a demo space with three agents on a running Parley through its API, and prints a human's token
// and operations to paste into GraphiQL. The URL is that of the server, with or without /graphql. Needs PARLEY_ADMIN_TOKEN,
// except for a server started by `npm start` on this machine, whose generated token is in DATA_DIR.
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { graphql } from '../generated/gql.ts'

const url = endpointOf(process.argv[2] ?? `http://localhost:${process.env.PORT ?? 4000}`)
const adminToken = process.env.PARLEY_ADMIN_TOKEN ?? (await generatedToken())

const CREATE_HUMAN = graphql(`
  mutation SeedHuman($name: String!) {
    createHuman(input: { name: $name }) {
      __typename
      ... on CreateHumanPayload { human { id } }
      ... on Error { message }
    }
  }
`)
const CREATE_TOKEN = graphql(`
  mutation SeedToken($humanId: ID!) {
    createAccessToken(input: { grant: { humanId: $humanId } }) {
      __typename
      ... on CreateAccessTokenPayload { secret }
      ... on Error { message }
    }
  }
`)
const CREATE_AGENT = graphql(`
  mutation SeedAgent($name: String!, $description: String!, $instructions: String!) {
    createAgent(input: { name: $name, description: $description, instructions: $instructions }) {
      __typename
      ... on CreateAgentPayload { agent { id model } }
      ... on Error { message }
    }
  }
`)
const CREATE_SPACE = graphql(`
  mutation SeedSpace($name: String!, $description: String!, $memberIds: [ID!]!) {
    createSpace(input: { name: $name, description: $description, memberIds: $memberIds }) {
      __typename
      ... on CreateSpacePayload { space { id } }
      ... on Error { message }
    }
  }
`)

const AGENTS = [
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
  {
    name: 'Noor',
    description: 'Sums up.',
    instructions: 'You keep the minutes. When a person asks for it, sum up what was said in at most three points.',
  },
]

/** Returns the URL of a server's API, adding the path if the address has none. */
function endpointOf(address: string): string {
  const parsed = URL.canParse(address)
    ? new URL(address)
    : fail(`${address} is not a valid address: use a URL such as http://localhost:4000`)
  if (parsed.pathname === '/') parsed.pathname = '/graphql'
  return parsed.href
}

async function generatedToken(): Promise<string> {
  const file = path.join(process.env.DATA_DIR ?? '.parley', 'admin-token')
  try {
    return (await readFile(file, 'utf8')).trim()
  } catch {
    return fail(`no admin token: set PARLEY_ADMIN_TOKEN, or run this command where the server stores ${file}`)
  }
}

function fail(message: string): never {
  console.error(message)
  process.exit(1)
}

async function send<Data>(
  token: string,
  operation: { toString(): string; __apiType?: (variables: never) => Data },
  variables: object,
): Promise<Data> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${token}` },
    body: JSON.stringify({ query: operation.toString(), variables }),
  }).catch(() => fail(`no server responds at ${url}: start Parley first (npm start)`))
  const answer = await response.json().catch(() => fail(`${url} is not a GraphQL server: check the address`))
  const { data, errors } = answer as { data?: Data; errors?: { message: string }[] }
  return errors || !data ? fail(`${url} answered: ${errors?.map(({ message }) => message).join(', ')}`) : data
}

const { createHuman } = await send(adminToken, CREATE_HUMAN, { name: 'Ada' })
if (createHuman.__typename !== 'CreateHumanPayload') fail(createHuman.message)
const { createAccessToken } = await send(adminToken, CREATE_TOKEN, { humanId: createHuman.human.id })
if (createAccessToken.__typename !== 'CreateAccessTokenPayload') fail(createAccessToken.message)

const agents: { id: string; model: string }[] = []
for (const agent of AGENTS) {
  const { createAgent } = await send(adminToken, CREATE_AGENT, agent)
  if (createAgent.__typename !== 'CreateAgentPayload') fail(createAgent.message)
  agents.push(createAgent.agent)
}

const { createSpace } = await send(createAccessToken.secret, CREATE_SPACE, {
  name: 'Demo',
  description: 'Ada and three agents.',
  memberIds: agents.map(({ id }) => id),
})
if (createSpace.__typename !== 'CreateSpacePayload') fail(createSpace.message)

console.log(`
A space "Demo" with Ada, Iris, Tom and Noor (model ${agents[0]?.model}).

  space         ${createSpace.space.id}
  Ada's token   ${createAccessToken.secret}

To see it, open ${new URL(`/spaces/${createSpace.space.id}`, url).href} and sign in with Ada's token.

Or use the API: open ${url} in two browser tabs, and put this under Headers in each:
  { "authorization": "Bearer ${createAccessToken.secret}" }

Subscribe in the first (a delta belongs at its offset: a message may be posted with its first letters):
  subscription {
    spaceMessages(spaceId: "${createSpace.space.id}") {
      __typename
      cursor
      ... on MessagePosted { message { id sender { name } text } }
      ... on MessageTextDelta { messageId partIndex offset delta }
      ... on MessageFinished { message { id sender { name } text } }
    }
  }

Post a message in the second:
  mutation {
    sendMessage(input: { spaceId: "${createSpace.space.id}", text: "Hello, who is here?" }) {
      ... on SendMessagePayload { runs { agent { name } status } }
      ... on Error { message }
    }
  }
`)
