import { Webhook } from 'standardwebhooks'
import { describe, expect, test } from 'vitest'
import { createDeferred } from '../../src/lib/async.ts'
import { RULE_STACKS } from '../support/application.ts'
import { CIRCLES } from '../support/circles.ts'
import { forAgent, type ModelAction, steps, when } from '../support/model-server-script.ts'
import type { TestServer } from '../support/served.ts'
import { sayIn } from '../support/space-tools.ts'
import { playScenarios, promptOf, type Read, type Stage, wokenBy } from '../support/stage.ts'
import { until } from '../support/until.ts'

const PLAN = `mutation ($input: CreatePlanInput!) {
  createPlan(input: $input) { __typename ... on CreatePlanPayload { plan { id } } ... on Error { message } }
}`
const WEBHOOK = `mutation ($input: CreateWebhookInput!) {
  createWebhook(input: $input) { ... on CreateWebhookPayload { webhook { id url } secret } ... on Error { message } }
}`
const TRIGGER = `mutation ($input: TriggerAgentInput!) {
  triggerAgent(input: $input) { ... on TriggerAgentPayload { run { id } } ... on Error { message } }
}`
const SPACE_EVENTS = `subscription ($spaceId: ID!) { spaceMessages(spaceId: $spaceId) { __typename
  ... on MessagePosted { message { id status sender { id } } } ... on MessageTextDelta { messageId partIndex offset delta }
  ... on MessageFinished { message { id status text } } } }`

describe.each(RULE_STACKS)("000's scenarios through GraphQL, on the %s stack", (stack) => {
  let parley: TestServer
  let stage: Stage

  playScenarios(stack, (opened) => {
    parley = opened.parley
    stage = opened.stage
  })

  const read = (spaceId: string): ModelAction => ({ toolCall: 'readSpaceMessages', input: { spaceId } })

  test.each(CIRCLES)(
    'the weekly report, in $circle: a plan reads two spaces, asks a third and waits, then reports in two',
    async ({ confidential }) => {
      const husam = await stage.person('Husam')
      const [reporter, data] = [await stage.bot('Reporter'), await stage.bot('Data Agent')]
      const engineering = await stage.space('Engineering', [husam, reporter], { confidential })
      const finance = await stage.space('Finance', [husam, reporter], { confidential })
      const leadership = await stage.space('Leadership', [husam, reporter], { confidential })
      const metrics = await stage.space('Data', [husam, data, reporter], { confidential })
      for (const [place, text] of [
        [engineering, 'Sprint 12 is done.'],
        [finance, 'We spent $1.9M.'],
      ] as const) {
        await stage.say(husam, place, text)
      }
      await stage.endedRuns(reporter, 2)
      const wait = { for: [{ type: 'agent' }] }
      const report = 'Weekly Report: Sprint 12 done, $1.9M spent, 42k users'
      parley.models.script(
        forAgent(
          'Reporter',
          when(
            wokenBy('Weekly Report'),
            steps(
              [read(engineering.id), read(finance.id)],
              [sayIn(metrics.id, 'Pull Q4 metrics', { mention: data.id, wait })],
              [sayIn(leadership.id, report), sayIn(engineering.id, 'Summary posted to leadership')],
              [{ text: 'Reported.' }],
            ),
          ),
        ),
      )
      parley.models.script(forAgent('Data Agent', steps([sayIn(metrics.id, '42k users')])))
      const schedule = { afterSeconds: 1 }
      const plan = { agentId: reporter.id, name: 'Weekly Report', instruction: 'Report to leadership.', schedule }
      expect((await stage.ask(stage.admin, PLAN, { input: plan })).__typename).toBe('CreatePlanPayload')

      const run = (await stage.endedRuns(reporter, 3))[2]
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
      const [posted] = await stage.messagesIn(leadership)
      expect(posted).toMatchObject({
        status: 'COMPLETE',
        text: report,
        sender: { name: 'Reporter', kind: 'AGENT' },
        run: { id: run.id },
        origin: { triggerType: 'PLAN', triggerName: 'Weekly Report', triggerSpaceId: null },
      })
      expect((await stage.messagesIn(engineering)).map(({ text }) => text)).toEqual([
        'Sprint 12 is done.',
        'Summary posted to leadership',
      ])
      const [asked, answered] = await stage.messagesIn(metrics)
      expect(asked).toMatchObject({ text: 'Pull Q4 metrics', mentionedAgent: { id: data.id } })
      expect(asked.outcomes).toMatchObject([{ agent: { id: data.id }, kind: 'RUN' }])
      expect(answered).toMatchObject({ text: '42k users', run: { id: asked.outcomes[0].run.id } })
      expect((await stage.endedRuns(data, 1))[0]).toMatchObject({ depth: 1, rootId: run.rootId })
    },
  )

  test.each(CIRCLES)(
    'the Jira webhook, in $circle: a service wakes the agent, which asks another and reports the outcome',
    async ({ confidential }) => {
      const husam = await stage.person('Husam')
      const [ops, deploy] = [await stage.bot('Ops Agent'), await stage.bot('Deploy Agent')]
      const engineering = await stage.space('Engineering', [husam, ops, deploy], { confidential })
      const wait = { for: [{ type: 'agent' }] }
      const alarm = '🚨 Critical ticket PROJ-123: Login broken after deploy #287'
      parley.models.script(
        forAgent(
          'Ops Agent',
          steps(
            [sayIn(engineering.id, alarm, { mention: deploy.id, wait })],
            [sayIn(engineering.id, 'Rollback complete. Login restored.')],
            [{ text: 'Handled.' }],
          ),
        ),
      )
      parley.models.script(forAgent('Deploy Agent', steps([sayIn(engineering.id, 'Rolled back to #286.')])))
      const live = husam.client.subscribe<Read, object>(SPACE_EVENTS, { spaceId: engineering.id })
      await live.first((event: Read) => event.spaceMessages.__typename === 'SpaceSnapshot')
      const created = await stage.ask(stage.admin, WEBHOOK, { input: { agentId: ops.id, serviceName: 'jira' } })
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

      const [run] = await stage.endedRuns(ops, 1)
      expect(run).toMatchObject({ status: 'COMPLETED', triggerType: 'SERVICE' })
      const request = await parley.models.request(({ instructions }) => instructions.includes('You are Ops Agent'))
      expect(promptOf(request)).toContain('"ticketId":"PROJ-123"')
      expect(run.toolCalls[0].output).toMatchObject({
        sent: true,
        timedOut: false,
        reply: { text: 'Rolled back to #286.' },
      })
      const messages = await stage.messagesIn(engineering)
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
      // The reply is complete as a part before its message is, which ends with the sender's run, possibly after the last run.
      const textsFinished = finished.map((event: Read) => event.spaceMessages.message.text)
      expect(textsFinished.toSorted()).toEqual(messages.map(({ text }) => text).toSorted())
      const streamed = live.seen
        .filter((event: Read) => event.spaceMessages.messageId === messages[0].id)
        .map((event: Read) => event.spaceMessages.delta)
      expect(streamed.join('')).toBe(alarm)
      live.stop()
    },
  )

  test('the duplicate morning report: the second run sees the first in its prompt and posts nothing', async () => {
    const husam = await stage.person('Husam')
    const ops = await stage.bot('Ops-Agent')
    const standup = await stage.space('Standup', [husam, ops])
    const reporting = createDeferred()
    const report = when(
      wokenBy('plan "morning-report"'),
      steps([{ gate: reporting.promise }, sayIn(standup.id, 'Good morning!')]),
    )
    parley.models.script(forAgent('Ops-Agent', report))
    const redundant = "I'm already running the morning report in the other run. This trigger is redundant."
    parley.models.script(
      forAgent(
        'Ops-Agent',
        when(wokenBy('service "cron"'), () => [{ text: redundant }]),
      ),
    )
    const schedule = { afterSeconds: 1 }
    await stage.ask(stage.admin, PLAN, {
      input: { agentId: ops.id, name: 'morning-report', instruction: 'Report.', schedule },
    })
    const [first] = await until('the plan has fired', async () => {
      const runs = await stage.runsOf(ops)
      return runs.length === 1 && runs[0].status === 'RUNNING' ? runs : null
    })
    const input = { agentId: ops.id, serviceName: 'cron', payload: { job: 'daily-trigger' } }
    const second = (await stage.ask(stage.admin, TRIGGER, { input })).run
    const [silent] = await stage.endedRuns(ops, 1)
    expect(silent).toMatchObject({ id: second.id, status: 'COMPLETED', summary: redundant, toolCalls: [] })
    const request = await parley.models.request(wokenBy('service "cron"'))
    expect(request.instructions).toContain('⚠ You currently have 1 other active run:')
    expect(request.instructions).toContain(`- ${first.id} (plan: morning-report, running, started `)
    expect(await stage.messagesIn(standup)).toEqual([])
    reporting.resolve()
    await stage.endedRuns(ops, 2)
    expect((await stage.messagesIn(standup)).map(({ text }) => text)).toEqual(['Good morning!'])
  })

  test.each(CIRCLES)(
    'the deferred headcount request, in $circle: the second run leaves the request to the first, which handles it after it resumes',
    async ({ confidential }) => {
      const husam = await stage.person('Husam')
      const [assistant, financeAgent] = [await stage.bot('AI Assistant'), await stage.bot('Finance Agent')]
      const chat = await stage.space("Husam's Chat", [husam, assistant], { confidential })
      const finance = await stage.space('Finance', [husam, financeAgent, assistant], { confidential })
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
              [sayIn(finance.id, 'Q4 budget?', { mention: financeAgent.id, wait })],
              [sayIn(chat.id, 'Q4: $2.1M, 120 people.')],
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
              [sayIn(chat.id, reply), { toolCall: 'setGoals', input: { goals: [{ description: note }] } }],
            ),
          ),
        ),
      )
      parley.models.script(forAgent('Finance Agent', steps([{ gate: looking.promise }, sayIn(finance.id, '$2.1M.')])))
      const say = async (text: string) => (await stage.say(husam, chat, text)).runs[0]
      const first = await say('Get me the Q4 budget')
      await until('the first run waits', async () => (await stage.runsOf(financeAgent)).length === 1)
      const second = await say('Also include headcount data')
      const [ended] = await stage.endedRuns(assistant, 1)
      expect(ended).toMatchObject({ id: second.id, status: 'COMPLETED' })
      const prompted = await parley.models.request(wokenBy('Also include headcount data'))
      expect(prompted.instructions).toMatch(
        new RegExp(
          `- ${first.id} \\(message: Husam in Husam's Chat, in this space, running, started \\d{4}-\\S+Z\\) — waiting on sendSpaceMessage reply`,
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
      await stage.endedRuns(assistant, 2)
      const resumed = await parley.models.request(
        (request) => wokenBy('Get me the Q4 budget')(request) && request.step === 1,
      )
      expect(resumed.instructions).toContain(`YOUR GOALS:\n- ${JSON.stringify(note)}`)
      expect((await stage.messagesIn(chat)).map(({ text }) => text)).toEqual([
        'Get me the Q4 budget',
        'Also include headcount data',
        reply,
        'Q4: $2.1M, 120 people.',
      ])
    },
  )
})
