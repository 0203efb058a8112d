import { afterAll, afterEach, beforeAll, beforeEach, expect } from 'vitest'
import type { TestApplicationOptions } from './application.ts'
import type { ModelRequest } from './model-server-script.ts'
import type { ParleyClient } from './parley-client.ts'
import { startTestServer, type TestServer } from './served.ts'
import { until } from './until.ts'

// biome-ignore lint/suspicious/noExplicitAny: assertions read fields that are not typed
export type Read = any

export interface Named {
  id: string
  name: string
}

export interface Person extends Named {
  client: ParleyClient
}

/** The people, agents and spaces of a scenario, all created through GraphQL. */
export interface Stage {
  admin: ParleyClient
  /** Returns the data of an operation's only field. Fails if there are errors. */
  ask(client: ParleyClient, operation: string, variables?: object): Promise<Read>
  person(name: string): Promise<Person>
  /** Creates a stateless agent with SPACE_TOOLS, played by the model server, unless `input` overrides that. */
  bot(name: string, input?: object): Promise<Named>
  /**
   * Creates a space whose members join in this order. By default, it has ADMIN routing with the first agent as the admin agent;
   * `input` overrides that.
   */
  space(name: string, members: Named[], input?: object): Promise<Named>
  /** Posts as a person, and returns the payload. */
  say(person: Person, space: Named, text: string, more?: object): Promise<Read>
  /** Returns the messages in the order of the space. */
  messagesIn(space: Named): Promise<Read[]>
  /** Returns the runs of an agent, oldest first. */
  runsOf(agent: Named): Promise<Read[]>
  /** Waits until this many runs of the agent have ended, and returns them, oldest first. */
  endedRuns(agent: Named, count: number): Promise<Read[]>
}

const AGENT = `mutation ($input: CreateAgentInput!) {
  createAgent(input: $input) { __typename ... on CreateAgentPayload { agent { id name toolset } } ... on Error { message } }
}`
const SPACE = `mutation ($input: CreateSpaceInput!) {
  createSpace(input: $input) { ... on CreateSpacePayload { space { id name routing adminAgent { id } } } ... on Error { message } }
}`
const SAY = `mutation ($input: SendMessageInput!) {
  sendMessage(input: $input) { __typename
    ... on SendMessagePayload { sentMessage { id } runs { id agent { id name } } } ... on Error { message } }
}`
const MESSAGES = `query ($id: ID!) {
  space(id: $id) { messages { edges { node {
    id status text sender { id name kind } mentionedAgent { id name } run { id } origin { triggerType triggerName triggerSpaceId }
    parts { __typename ... on TextPart { text } ... on ToolCallPart { toolCall { id toolName status input output } } }
    outcomes { agent { id name } kind reason run { id } } } } } }
}`
const RUNS = `query ($id: ID!) {
  agent(id: $id) { runs { edges { node { id status triggerType triggerSummary depth rootId summary error
    triggerSpace { id name } triggerMessage { id } chain { id depth replyStack { agent { id } reason } }
    toolCalls { id toolName status input output } } } } }
}`

const STATUSES = `query ($id: ID!) { agent(id: $id) { runs { edges { node { status } } } } }`

const ENDED = ['COMPLETED', 'FAILED', 'CANCELED']

export async function openStage(parley: TestServer): Promise<Stage> {
  const admin = await parley.clientOf(parley.admin)

  async function ask(client: ParleyClient, operation: string, variables: object = {}): Promise<Read> {
    const { data, errors } = await client.ask<Record<string, Read>>(operation, variables)
    expect(errors).toBeUndefined()
    return Object.values(data ?? {})[0]
  }

  const nodesOf = ({ edges }: Read): Read[] => edges.map(({ node }: Read) => node)
  const runsOf = async ({ id }: Named) => nodesOf((await ask(admin, RUNS, { id })).runs).toReversed()

  return {
    admin,
    ask,
    async person(name) {
      const viewer = await parley.human(name)
      return { id: viewer.id, name, client: await parley.clientOf(viewer) }
    },
    async bot(name, more = {}) {
      const input = {
        name,
        instructions: 'Answer briefly.',
        model: 'openai.chat:test',
        toolset: 'SPACE_TOOLS',
        plainText: 'INTERNAL',
        ...more,
      }
      return (await ask(admin, AGENT, { input })).agent
    },
    async space(name, members, more = {}) {
      const memberIds = members.map(({ id }) => id)
      const adminAgentId = memberIds.find((id) => id.startsWith('agt_'))
      const input = { name, memberIds, ...('routing' in more ? {} : { routing: 'ADMIN', adminAgentId }), ...more }
      return (await ask(admin, SPACE, { input })).space
    },
    say: ({ client }, { id: spaceId }, text, more = {}) => ask(client, SAY, { input: { spaceId, text, ...more } }),
    messagesIn: async ({ id }) => nodesOf((await ask(admin, MESSAGES, { id })).messages),
    runsOf,
    async endedRuns(agent, count) {
      const isEnded = ({ status }: Read) => ENDED.includes(status)
      await until(`${count} runs of ${agent.name} have ended`, async () => {
        const { runs } = await ask(admin, STATUSES, { id: agent.id })
        return nodesOf(runs).filter(isEnded).length === count
      })
      return (await runsOf(agent)).filter(isEnded)
    },
  }
}

/**
 * Opens a server with its stage for the tests of a `describe`, and closes it. Clears the scripts of the models before each
 * test. The models do nothing for requests without a script. No test may send the models an invalid request.
 */
export function playScenarios(
  stack: TestApplicationOptions['stack'],
  take: (opened: { parley: TestServer; stage: Stage }) => void,
  settings: Record<string, string> = {},
): void {
  let parley: TestServer
  beforeAll(async () => {
    parley = await startTestServer({ stack, settings })
    take({ parley, stage: await openStage(parley) })
  })
  afterAll(() => parley?.close())
  beforeEach(() => {
    parley.models.reset()
    parley.models.script(() => [{ text: 'Nothing to do.' }])
  })
  afterEach(() => expect(parley.models.refusals).toEqual([]))
}

/** Returns the only user message of a stateless run. */
export const promptOf = ({ messages }: ModelRequest): string => messages.find(({ role }) => role === 'user')?.text ?? ''

/** Returns whether the trigger of the run contains this text. Quotations elsewhere in the prompt do not count. */
export const wokenBy = (text: string) => (request: ModelRequest) =>
  (promptOf(request).split(/RECENT|THIS THREAD/)[0] ?? '').includes(text)

/** Returns the results of the run's tool calls so far, in order, as the model receives them. */
export const resultsIn = ({ messages }: ModelRequest): Read[] =>
  messages.filter(({ role }) => role === 'tool').map(({ text }) => JSON.parse(text))
