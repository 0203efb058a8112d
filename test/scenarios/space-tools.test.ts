import { Webhook } from 'standardwebhooks'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { createDeferred } from '../../src/lib/async.ts'
import { forAgent, type ModelAction, type ModelRequest, steps, when } from '../support/model-server-script.ts'
import type { ParleyClient } from '../support/parley-client.ts'
import { hasPostgres } from '../support/postgres.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'

const STACKS = (['embedded', 'postgres'] as const).filter((stack) => stack === 'embedded' || hasPostgres)

// biome-ignore lint/suspicious/noExplicitAny: answers, read freely by assertions
type Read = any

const AGENT = `mutation ($input: CreateAgentInput!) {
  createAgent(input: $input) { __typename ... on CreateAgentPayload { agent { id name toolset } } ... on Error { message } }
}`
const SPACE = `mutation ($input: CreateSpaceInput!) {
  createSpace(input: $input) { ... on CreateSpacePayload { space { id name routing adminAgent { id } } } ... on Error { message } }
}`
const SAY = `mutation ($input: SendMessageInput!) {
  sendMessage(input: $input) { __typename ... on SendMessagePayload { sentMessage { id } runs { id agent { id } } } ... on Error { message } }
}`
const PLAN = `mutation ($input: CreatePlanInput!) {
  createPlan(input: $input) { __typename ... on CreatePlanPayload { plan { id } } ... on Error { message } }
}`
const WEBHOOK = `mutation ($input: CreateWebhookInput!) {
  createWebhook(input: $input) { ... on CreateWebhookPayload { webhook { id url } secret } ... on Error { message } }
}`
const TRIGGER = `mutation ($input: TriggerAgentInput!) {
  triggerAgent(input: $input) { ... on TriggerAgentPayload { run { id } } ... on Error { message } }
}`
const MESSAGES = `query ($id: ID!) {
  space(id: $id) { messages { edges { node {
    id status text parts { __typename ... on TextPart { text } } sender { id name kind } mentionedAgent { id }
    run { id } origin { triggerType triggerName triggerSpaceId }
    outcomes { agent { id } kind run { id } } } } } }
}`
const RUNS = `query ($id: ID!) {
  agent(id: $id) { runs { edges { node { id status triggerType triggerSummary depth rootId summary
    triggerSpace { id } toolCalls { toolName status input output } } } } internals { goals { description status } } }
}`
const SPACE_EVENTS = `subscription ($spaceId: ID!) { spaceMessages(spaceId: $spaceId) { __typename
  ... on MessagePosted { message { id status sender { id } } } ... on MessageTextDelta { messageId partIndex offset delta }
  ... on MessageFinished { message { id status text } } } }`

const ENDED = ['COMPLETED', 'FAILED', 'CANCELED']

describe.each(STACKS)("000's scenarios through GraphQL, on the %s stack", (stack) => {
  let parley: TestServer
  let admin: ParleyClient

  beforeAll(async () => {
    parley = await startTestServer({ stack })
    admin = await parley.clientOf(parley.admin)
  })
  afterAll(() => parley?.close())
  beforeEach(() => {
    parley.models.reset()
    parley.models.script(() => [{ text: 'Nothing to do.' }])
  })

  async function ask(client: ParleyClient, operation: string, variables: object): Promise<Read> {
    const answered = await client.ask<Read>(operation, variables)
    expect(answered.errors).toBeUndefined()
    return answered.data
  }

  async function bot(name: string): Promise<{ id: string; name: string }> {
    const input = { name, instructions: 'Answer briefly.', model: 'openai.chat:test', toolset: 'SPACE_TOOLS' }
    return (await ask(admin, AGENT, { input })).createAgent.agent
  }

  /** A space under ADMIN routing; the first of its agents is the admin agent. */
  async function space(
    name: string,
    humanIds: string[],
    bots: { id: string }[],
  ): Promise<{ id: string; name: string }> {
    const memberIds = [...humanIds, ...bots.map(({ id }) => id)]
    const input = { name, routing: 'ADMIN', adminAgentId: bots[0]?.id, memberIds }
    return (await ask(admin, SPACE, { input })).createSpace.space
  }

  const messagesIn = async ({ id }: { id: string }): Promise<Read[]> =>
    (await ask(admin, MESSAGES, { id })).space.messages.edges.map(({ node }: Read) => node)
  const runsOf = async ({ id }: { id: string }): Promise<Read[]> =>
    (await ask(admin, RUNS, { id })).agent.runs.edges.map(({ node }: Read) => node).toReversed()
  const endedRuns = (agent: { id: string }, count: number): Promise<Read[]> =>
    until(`${count} runs have ended`, async () => {
      const runs = (await runsOf(agent)).filter(({ status }: Read) => ENDED.includes(status))
      return runs.length === count ? runs : null
    })

  const send = (spaceId: string, text: string, more: object = {}): ModelAction => ({
    toolCall: 'sendSpaceMessage',
    input: { spaceId, text, ...more },
  })
  const read = (spaceId: string): ModelAction => ({ toolCall: 'readSpaceMessages', input: { spaceId } })
  const promptOf = (request: ModelRequest) => request.messages.find(({ role }) => role === 'user')?.text ?? ''
  const wokenBy = (text: string) => (request: ModelRequest) =>
    (promptOf(request).split(/YOUR OTHER RUNS|RECENT/)[0] ?? '').includes(text)

  test('the weekly report: a plan reads two spaces, asks a third and waits, then reports in two', async () => {
    const husam = await parley.human('Husam')
    const client = await parley.clientOf(husam)
    const [reporter, data] = [await bot('Reporter'), await bot('Data Agent')]
    const engineering = await space('Engineering', [husam.id], [reporter])
    const finance = await space('Finance', [husam.id], [reporter])
    const leadership = await space('Leadership', [husam.id], [reporter])
    const metrics = await space('Data', [husam.id], [data, reporter])
    for (const [place, text] of [
      [engineering, 'Sprint 12 is done.'],
      [finance, 'We spent $1.9M.'],
    ] as const) {
      await ask(client, SAY, { input: { spaceId: place.id, text } })
    }
    await endedRuns(reporter, 2)
    const wait = { for: [{ type: 'agent' }] }
    const report = 'Weekly Report: Sprint 12 done, $1.9M spent, 42k users'
    parley.models.script(
      forAgent(
        'Reporter',
        when(
          wokenBy('Weekly Report'),
          steps(
            [read(engineering.id), read(finance.id)],
            [send(metrics.id, 'Pull Q4 metrics', { mention: data.id, wait })],
            [send(leadership.id, report), send(engineering.id, 'Summary posted to leadership')],
            [{ text: 'Reported.' }],
          ),
        ),
      ),
    )
    parley.models.script(forAgent('Data Agent', steps([send(metrics.id, '42k users')])))
    const schedule = { at: new Date(Date.now() + 300).toISOString() }
    const plan = { agentId: reporter.id, name: 'Weekly Report', instruction: 'Report to leadership.', schedule }
    expect((await ask(admin, PLAN, { input: plan })).createPlan.__typename).toBe('CreatePlanPayload')

    const run = (await endedRuns(reporter, 3))[2]
    expect(run).toMatchObject({ status: 'COMPLETED', triggerType: 'PLAN', depth: 0, summary: 'Reported.' })
    expect(run.toolCalls.map(({ toolName }: Read) => toolName)).toEqual([
      'readSpaceMessages',
      'readSpaceMessages',
      'sendSpaceMessage',
      'sendSpaceMessage',
      'sendSpaceMessage',
    ])
    expect(run.toolCalls[0].output.map(({ text }: Read) => text)).toEqual(['Sprint 12 is done.'])
    expect(run.toolCalls[2].output).toMatchObject({
      timedOut: false,
      reply: { text: '42k users', entityId: data.id, entityName: 'Data Agent', entityType: 'agent' },
    })
    const [posted] = await messagesIn(leadership)
    expect(posted).toMatchObject({
      status: 'COMPLETE',
      text: report,
      sender: { name: 'Reporter', kind: 'AGENT' },
      run: { id: run.id },
      origin: { triggerType: 'PLAN', triggerName: 'Weekly Report', triggerSpaceId: null },
    })
    expect((await messagesIn(engineering)).map(({ text }) => text)).toEqual([
      'Sprint 12 is done.',
      'Summary posted to leadership',
    ])
    const [asked, answered] = await messagesIn(metrics)
    expect(asked).toMatchObject({ text: 'Pull Q4 metrics', mentionedAgent: { id: data.id } })
    expect(asked.outcomes).toMatchObject([{ agent: { id: data.id }, kind: 'RUN' }])
    expect(answered).toMatchObject({ text: '42k users', run: { id: asked.outcomes[0].run.id } })
    expect((await endedRuns(data, 1))[0]).toMatchObject({ depth: 1, rootId: run.rootId })
  })

  test('the Jira webhook: a service wakes the agent, which asks another and tells the outcome', async () => {
    const husam = await parley.human('Husam')
    const client = await parley.clientOf(husam)
    const [ops, deploy] = [await bot('Ops Agent'), await bot('Deploy Agent')]
    const engineering = await space('Engineering', [husam.id], [ops, deploy])
    const wait = { for: [{ type: 'agent' }] }
    const alarm = '🚨 Critical ticket PROJ-123: Login broken after deploy #287'
    parley.models.script(
      forAgent(
        'Ops Agent',
        steps(
          [send(engineering.id, alarm, { mention: deploy.id, wait })],
          [send(engineering.id, 'Rollback complete. Login restored.')],
          [{ text: 'Handled.' }],
        ),
      ),
    )
    parley.models.script(forAgent('Deploy Agent', steps([send(engineering.id, 'Rolled back to #286.')])))
    const live = client.subscribe<Read, object>(SPACE_EVENTS, { spaceId: engineering.id })
    await live.first((event: Read) => event.spaceMessages.__typename === 'SpaceSnapshot')
    const created = (await ask(admin, WEBHOOK, { input: { agentId: ops.id, serviceName: 'jira' } })).createWebhook
    const body = JSON.stringify({ event: 'ticket_critical', ticketId: 'PROJ-123' })
    const at = new Date()
    const headers = {
      'content-type': 'application/json',
      'webhook-id': 'msg_1',
      'webhook-timestamp': String(Math.floor(at.getTime() / 1000)),
      'webhook-signature': new Webhook(created.secret).sign('msg_1', at, body),
    }
    const path = new URL(created.webhook.url).pathname
    expect((await fetch(`${parley.origin}${path}`, { method: 'POST', headers, body })).ok).toBe(true)

    const [run] = await endedRuns(ops, 1)
    expect(run).toMatchObject({ status: 'COMPLETED', triggerType: 'SERVICE' })
    const request = await parley.models.request(({ instructions }) => instructions.includes('You are Ops Agent'))
    expect(promptOf(request)).toContain('"ticketId":"PROJ-123"')
    expect(run.toolCalls[0].output).toMatchObject({
      sent: true,
      timedOut: false,
      reply: { text: 'Rolled back to #286.' },
    })
    const messages = await messagesIn(engineering)
    expect(messages.map(({ text }) => text)).toEqual([
      alarm,
      'Rolled back to #286.',
      'Rollback complete. Login restored.',
    ])
    expect(messages.map(({ origin }) => origin?.triggerName ?? null)).toEqual(['jira', null, 'jira'])
    const finished = await until('three have finished', () => {
      const ends = live.seen.filter((event: Read) => event.spaceMessages.__typename === 'MessageFinished')
      return ends.length === 3 && ends
    })
    expect(finished.map((event: Read) => event.spaceMessages.message.text)).toEqual(messages.map(({ text }) => text))
    const streamed = live.seen
      .filter((event: Read) => event.spaceMessages.messageId === messages[0].id)
      .map((event: Read) => event.spaceMessages.delta)
    expect(streamed.join('')).toBe(alarm)
    live.stop()
  })

  test('the duplicate morning report: the second run sees the first in its prompt and stays silent', async () => {
    const husam = await parley.human('Husam')
    const ops = await bot('Ops-Agent')
    const standup = await space('Standup', [husam.id], [ops])
    const reporting = createDeferred()
    const report = when(
      wokenBy('plan "morning-report"'),
      steps([{ gate: reporting.promise }, send(standup.id, 'Good morning!')]),
    )
    parley.models.script(forAgent('Ops-Agent', report))
    const redundant = "I'm already running the morning report in the other run. This trigger is redundant."
    parley.models.script(
      forAgent(
        'Ops-Agent',
        when(wokenBy('service "cron"'), () => [{ text: redundant }]),
      ),
    )
    const schedule = { at: new Date(Date.now() + 300).toISOString() }
    await ask(admin, PLAN, { input: { agentId: ops.id, name: 'morning-report', instruction: 'Report.', schedule } })
    const [first] = await until('the plan has fired', async () => {
      const runs = await runsOf(ops)
      return runs.length === 1 && runs[0].status === 'RUNNING' ? runs : null
    })
    const input = { agentId: ops.id, serviceName: 'cron', payload: { job: 'daily-trigger' } }
    const second = (await ask(admin, TRIGGER, { input })).triggerAgent.run
    const [silent] = await endedRuns(ops, 1)
    expect(silent).toMatchObject({ id: second.id, status: 'COMPLETED', summary: redundant, toolCalls: [] })
    const request = await parley.models.request(wokenBy('service "cron"'))
    expect(request.instructions).toContain('⚠ You currently have 1 other active run:')
    expect(request.instructions).toContain(`- ${first.id} (plan: morning-report, running, started `)
    expect(await messagesIn(standup)).toEqual([])
    reporting.resolve()
    await endedRuns(ops, 2)
    expect((await messagesIn(standup)).map(({ text }) => text)).toEqual(['Good morning!'])
  })

  test('the deferred headcount request: the second run leaves it to the first, which takes it up when it resumes', async () => {
    const husam = await parley.human('Husam')
    const client = await parley.clientOf(husam)
    const [assistant, financeAgent] = [await bot('AI Assistant'), await bot('Finance Agent')]
    const chat = await space("Husam's Chat", [husam.id], [assistant])
    const finance = await space('Finance', [husam.id], [financeAgent, assistant])
    const looking = createDeferred()
    const wait = { for: [{ type: 'agent' }], timeout: 120 }
    const note = 'Include headcount data in the Q4 budget report.'
    const reply = "Got it — I'll include headcount data in the report I'm already preparing."
    parley.models.script(
      forAgent(
        'AI Assistant',
        when(
          wokenBy('Get me the Q4 budget'),
          steps(
            [send(finance.id, 'Q4 budget?', { mention: financeAgent.id, wait })],
            [send(chat.id, 'Q4: $2.1M, 120 people.')],
          ),
        ),
      ),
    )
    parley.models.script(
      forAgent(
        'AI Assistant',
        when(
          wokenBy('Also include headcount data'),
          steps(
            [{ toolCall: 'getMyRuns', input: {} }],
            [send(chat.id, reply), { toolCall: 'setGoals', input: { goals: [{ description: note }] } }],
          ),
        ),
      ),
    )
    parley.models.script(forAgent('Finance Agent', steps([{ gate: looking.promise }, send(finance.id, '$2.1M.')])))
    const say = async (text: string) =>
      (await ask(client, SAY, { input: { spaceId: chat.id, text } })).sendMessage.runs[0]
    const first = await say('Get me the Q4 budget')
    await until('the first run waits', async () => (await runsOf(financeAgent)).length === 1)
    const second = await say('Also include headcount data')
    const [ended] = await endedRuns(assistant, 1)
    expect(ended).toMatchObject({ id: second.id, status: 'COMPLETED' })
    const prompted = await parley.models.request(wokenBy('Also include headcount data'))
    expect(prompted.instructions).toMatch(
      new RegExp(
        `- ${first.id} \\(message: Husam in Husam's Chat, in this space, running, started \\d+s ago\\) — waiting on sendSpaceMessage reply`,
      ),
    )
    expect(ended.toolCalls[0].output).toMatchObject({
      currentRunId: second.id,
      otherActiveRuns: [
        {
          runId: first.id,
          triggerType: 'space_message',
          triggerSource: "Husam in Husam's Chat",
          progress: { toolsCalled: ['sendSpaceMessage (waiting for reply)'] },
        },
      ],
    })
    looking.resolve()
    await endedRuns(assistant, 2)
    const resumed = await parley.models.request(
      (request) => wokenBy('Get me the Q4 budget')(request) && request.step === 1,
    )
    expect(resumed.instructions).toContain(`YOUR GOALS:\n- ${note}`)
    expect((await messagesIn(chat)).map(({ text }) => text)).toEqual([
      'Get me the Q4 budget',
      'Also include headcount data',
      reply,
      'Q4: $2.1M, 120 people.',
    ])
  })
})
