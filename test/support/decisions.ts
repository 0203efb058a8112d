import { afterAll, beforeAll } from 'vitest'
import type { TestApplicationOptions } from './application.ts'
import { type BookedService, openService } from './booked-service.ts'
import { type ModelAction, steps } from './model-server-script.ts'
import type { ParleyClient } from './parley-client.ts'
import type { TestServer } from './served.ts'
import { type Person, playScenarios, type Read, resultsIn, type Stage } from './stage.ts'
import { until } from './until.ts'

export { type BookedService, openService }

const CALL = `id toolName status input output error waitsFor expiresAt settledAt answeredByService
  answeredBy { id name } claimedBy { id name } message { id status } run { id status toolCalls { id } } inputSchema resultSchema
  approval { state quorum mayDecide inputDigest expiresAt escalatedAt approvers { id name }
    decisions { human { id name } approve reason counts } }`

const DECIDE = `mutation ($input: DecideToolCallInput!) {
  decideToolCall(input: $input) { __typename ... on DecideToolCallPayload { toolCall { ${CALL} } } ... on Error { message }
    ... on BadInputError { field } }
}`
const CLAIM = `mutation ($input: ClaimToolCallInput!) {
  claimToolCall(input: $input) { __typename ... on ClaimToolCallPayload { toolCall { ${CALL} } } ... on Error { message } }
}`
const SUBMIT = `mutation ($input: SubmitToolResultInput!) {
  submitToolResult(input: $input) { __typename ... on SubmitToolResultPayload { toolCall { ${CALL} } } ... on Error { message }
    ... on BadInputError { field } }
}`
const ONE = `query ($id: ID!) { node(id: $id) { ... on ToolCall { ${CALL} } } }`
const PENDING = `{ viewer { pendingToolCalls { ${CALL} } } }`

/** The actions of people on calls that wait for them, through GraphQL. */
export interface Deciders {
  /** Returns the whole result: its `__typename` and, on success, the call. */
  decide(person: { client: ParleyClient }, toolCallId: string, approve: boolean, more?: object): Promise<Read>
  claim(person: { client: ParleyClient }, toolCallId: string, release?: boolean): Promise<Read>
  submit(person: { client: ParleyClient }, toolCallId: string, result: unknown): Promise<Read>
  /** Returns the call; null if the viewer may not see it. */
  callFor(person: { client: ParleyClient }, toolCallId: string): Promise<Read>
  pendingOf(person: Person): Promise<Read[]>
  /** Returns the first call that waits for a decision by this person. */
  asked(person: Person): Promise<Read>
  /** Waits until the admin sees the call in this state and with this status. */
  callWhen(toolCallId: string, what: (call: Read) => boolean): Promise<Read>
}

export function decidersOn({ admin, ask }: Stage): Deciders {
  const callFor: Deciders['callFor'] = ({ client }, id) => ask(client, ONE, { id })
  const pendingOf = async ({ client }: Person) => (await ask(client, PENDING)).pendingToolCalls
  return {
    decide: ({ client }, toolCallId, approve, more = {}) =>
      ask(client, DECIDE, { input: { toolCallId, approve, ...more } }),
    claim: ({ client }, toolCallId, release = false) => ask(client, CLAIM, { input: { toolCallId, release } }),
    submit: ({ client }, toolCallId, result) => ask(client, SUBMIT, { input: { toolCallId, result } }),
    callFor,
    pendingOf,
    asked: (person) =>
      until(`${person.name} has a pending call`, async () =>
        (await pendingOf(person)).find(({ waitsFor }: Read) => waitsFor === 'DECISION'),
      ),
    callWhen: (id, what) =>
      until(`${id} has the expected state`, async () => {
        const call = await callFor({ client: admin }, id)
        return what(call) && call
      }),
  }
}

const SCHEMA = { type: 'object', properties: { amount: { type: 'integer' } }, required: ['amount'] }

/** Returns an HTTP tool that requires approval. */
export const refundTool = (service: Pick<BookedService, 'url'>, approval: object, more: object = {}) => ({
  name: 'refund',
  description: 'Gives money back.',
  inputSchema: SCHEMA,
  execution: 'HTTP',
  url: service.url,
  approval,
  ...more,
})

/** The input of a call of the refund tool. */
export const refund = (amount: number): ModelAction => ({ toolCall: 'refund', input: { amount } })

/** The fixture for the scenarios of decisions, which is available from the first test on. */
export interface DecisionPlay {
  parley: TestServer
  stage: Stage
  deciders: Deciders
  service: BookedService
  /** Does the same as `openRoom`, and adds a service that has received no calls yet. */
  room(tools: object[], first: ModelAction[], more?: object): ReturnType<typeof openRoom>
  /** Returns the results of the calls in the model's first step. */
  lastResults(): Promise<Read[]>
}

/** Does the same as `playScenarios`, with people who decide and a service for a tool. */
export function playDecisions(
  stack: TestApplicationOptions['stack'],
  settings: Record<string, string> = {},
): DecisionPlay {
  const play = {
    room(tools, first, more) {
      play.service.calls.length = 0
      delete play.service.answer
      return openRoom(play, tools, first, more)
    },
    lastResults: async () => resultsIn(await play.parley.models.request(({ step }) => step === 1)),
  } as DecisionPlay
  const take = (opened: Pick<DecisionPlay, 'parley' | 'stage'>) =>
    Object.assign(play, { ...opened, deciders: decidersOn(opened.stage) })
  playScenarios(stack, take, settings)
  beforeAll(async () => {
    play.service = await openService()
  })
  afterAll(() => play.service?.close())
  return play
}

/**
 * Creates three people in a space with an agent that has these tools. One of them sends the agent a message, and its first step
 * makes the given calls.
 */
export async function openRoom(
  { parley, stage }: { parley: TestServer; stage: Stage },
  tools: object[],
  first: ModelAction[],
  more: object = {},
) {
  const [alice, bob, carol, eve] = await Promise.all([
    stage.person('Alice'),
    stage.person('Bob'),
    stage.person('Carol'),
    stage.person('Eve'),
  ])
  const people = { alice, bob, carol, eve }
  const agent = await stage.bot('Ada', { toolset: 'ACTIVE_SPACE', tools: named(tools, people), ...named(more, people) })
  const space = await stage.space('Team', [alice, bob, carol, agent], { routing: 'BROADCAST' })
  parley.models.script(steps(first, [{ text: 'I have heard.' }]))
  const sent = await stage.say(alice, space, 'Give it back')
  return { ...people, agent, space, runId: sent.runs[0]?.id as string | undefined }
}

/** Replaces names such as "@alice" by ids. */
function named<T>(input: T, people: Record<string, Person>): T {
  const text = JSON.stringify(input).replace(/"@(\w+)"/g, (_, name) => JSON.stringify(people[name]?.id))
  return JSON.parse(text) as T
}

/** Sets a time of a call in the database to the past. */
export async function timeIsUp(
  { app }: Pick<TestServer, 'app'>,
  toolCallId: string,
  which: 'expiresAt' | 'escalatesAt',
): Promise<void> {
  const data = which === 'expiresAt' ? { expiresAt: new Date(0) } : { escalatesAt: new Date(0) }
  await app.platform.db.prisma.toolCall.update({ where: { id: toolCallId }, data })
}
