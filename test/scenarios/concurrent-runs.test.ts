import { describe, expect, test } from 'vitest'
import { RULE_STACKS } from '../support/application.ts'
import { CIRCLES } from '../support/circles.ts'
import { forAgent, type ModelRequest, type ModelScript, steps, when } from '../support/model-server-script.ts'
import type { TestServer } from '../support/served.ts'
import { gate } from '../support/space-tools.ts'
import { type Named, type Person, playScenarios, type Read, resultsIn, type Stage, wokenBy } from '../support/stage.ts'
import { say as says } from '../support/turns.ts'
import { until } from '../support/until.ts'

// The scenarios of requirement 001, through GraphQL: concurrent runs of one agent that see each other.

const TRIGGER = `mutation ($input: TriggerAgentInput!) {
  triggerAgent(input: $input) { ... on TriggerAgentPayload { run { id } } ... on Error { message } }
}`
const SUBMIT = `mutation ($input: SubmitToolResultInput!) {
  submitToolResult(input: $input) { ... on SubmitToolResultPayload { toolCall { id status } } ... on Error { message } }
}`
const RUN_EVENTS = 'subscription ($runId: ID!) { runEvents(runId: $runId) { __typename } }'
const ACTIVITY = `subscription ($spaceId: ID!) {
  agentActivity(spaceId: $spaceId) { agent { id } active runs { id status } }
}`
const FORM = { name: 'form', description: 'Shows a form.', inputSchema: { type: 'object' }, execution: 'SPACE' }

describe.each(RULE_STACKS)("001's scenarios through GraphQL, on the %s stack", (stack) => {
  let parley: TestServer
  let stage: Stage

  playScenarios(stack, (opened) => {
    parley = opened.parley
    stage = opened.stage
  })

  const agent = (name: string, more = {}) => stage.bot(name, { toolset: 'ACTIVE_SPACE', ...more })
  const space = (name: string, members: Named[], more: object = {}) =>
    stage.space(name, members, { routing: 'BROADCAST', ...more })
  const runOf = async (person: Person, place: Named, text: string): Promise<string> =>
    (await stage.say(person, place, text)).runs[0].id
  const plays = (name: string, trigger: string, script: ModelScript) =>
    parley.models.script(forAgent(name, when(wokenBy(trigger), script)))
  const running = (bot: Named, id: string) =>
    until(`${id} runs`, async () => (await stage.runsOf(bot)).find((run) => run.id === id && run.status === 'RUNNING'))
  const activeRunsIn = ({ instructions }: ModelRequest): string[] =>
    (instructions.split('ACTIVE RUNS:\n')[1] ?? '').split('\n\n')[0]?.split('\n') ?? []

  test.each(CIRCLES)(
    'two concurrent requests, in $circle: each run sees as much of the other as it may, until that run ends',
    async ({ confidential, people }) => {
      const [husam, ahmad] = [await stage.person('Husam'), await stage.person('Ahmad')]
      const bot = await agent('Assistant')
      const both = [husam, ahmad]
      const alpha = await space('Project Alpha', [...people([husam], both), bot], { confidential })
      const support = await space('Support', [...people([ahmad], both), bot], { confidential })
      const [reporting, checking, over] = [gate(), gate(), gate()]
      const look = { toolCall: 'get_my_runs', input: {} }
      plays(
        'Assistant',
        'pull Q4 report',
        steps([{ gate: reporting.promise }, look], [{ gate: over.promise }, look], [says('Q4: +12 %.')]),
      )
      plays('Assistant', 'check the deployment status', steps([{ gate: checking.promise }, says('All green.')]))
      const requestOf = (trigger: string, step: number) =>
        parley.models.request((request) => wokenBy(trigger)(request) && request.step === step)
      const first = await runOf(husam, alpha, 'pull Q4 report')
      await requestOf('pull Q4 report', 0)
      const second = await runOf(ahmad, support, 'check the deployment status')
      await requestOf('check the deployment status', 0)
      reporting.open()
      await requestOf('pull Q4 report', 1)
      checking.open()
      await stage.endedRuns(bot, 1)
      over.open()
      await stage.endedRuns(bot, 2)

      // A run in another confidential space is listed without content, because its label is not part of this run's label.
      const aboutOf = (words: string) => (confidential ? 'for others: nothing more of it is told here' : words)
      expect(activeRunsIn(await requestOf('pull Q4 report', 0))).toEqual([
        `- Run ${first} (this run) — triggered by Husam in "Project Alpha"`,
      ])
      expect(activeRunsIn(await requestOf('pull Q4 report', 1))).toEqual([
        `- Run ${first} (this run) — triggered by Husam in "Project Alpha"`,
        `- Run ${second} (running) — ${aboutOf('Ahmad in "Support": "check the deployment status"')}`,
      ])
      expect(activeRunsIn(await requestOf('pull Q4 report', 2))).toEqual([
        `- Run ${first} (this run) — triggered by Husam in "Project Alpha"`,
      ])
      const others = await requestOf('check the deployment status', 0)
      expect(activeRunsIn(others)).toEqual([
        `- Run ${second} (this run) — triggered by Ahmad in "Support"`,
        `- Run ${first} (running) — ${aboutOf('Husam in "Project Alpha": "pull Q4 report"')}`,
      ])
      const [listed] = resultsIn(await requestOf('pull Q4 report', 1))
      const told = {
        triggerType: 'space_message',
        triggerSummary: 'Ahmad in "Support": "check the deployment status"',
        activeSpaceId: support.id,
      }
      const startedAt = expect.stringMatching(/^\d{4}-\d\d-\d\dT/)
      expect(listed).toEqual({
        runs: [{ runId: second, status: 'running', startedAt, ...(confidential ? {} : told) }],
        totalActive: 2,
      })
      expect((await stage.messagesIn(alpha)).map(({ text }) => text)).toEqual(['pull Q4 report', 'Q4: +12 %.'])
      expect((await stage.messagesIn(support)).map(({ text }) => text)).toEqual([
        'check the deployment status',
        'All green.',
      ])
    },
  )

  test('an urgent message stops the stale run: its message stays INTERRUPTED, its end is published, and the urgent message gets its answer', async () => {
    const [designer, ceo] = [await stage.person('Designer'), await stage.person('CEO')]
    const bot = await agent('Ops')
    const alpha = await space('Project Alpha', [designer, ceo, bot])
    const never = gate()
    const review = 'The new layout is'
    const writing = { toolCall: 'send_message', input: { text: `${review} fine` } }
    plays('Ops', 'review', () => [{ ...writing, chunks: [`{"text":"${review}`, never.promise, ' fine"}'] }])
    plays('Ops', 'urgent', (request) => {
      const [listed] = resultsIn(request)
      return steps(
        [{ toolCall: 'get_my_runs', input: {} }],
        [{ toolCall: 'stop_run', input: { runId: listed?.runs[0]?.runId } }],
        [says('The deployment is canceled.')],
        [{ text: 'I stopped the review: the deployment is more urgent.' }],
      )(request)
    })
    const stale = await runOf(designer, alpha, 'Please review the new layout')
    const events = designer.client.subscribe<Read, object>(RUN_EVENTS, { runId: stale })
    await until('the review is being written', async () => (await stage.messagesIn(alpha))[1]?.text === review)
    const urgent = await runOf(ceo, alpha, 'urgent: cancel the deployment')
    const [stopped, done] = await stage.endedRuns(bot, 2)

    expect(stopped).toMatchObject({ id: stale, status: 'CANCELED' })
    expect(done).toMatchObject({
      id: urgent,
      status: 'COMPLETED',
      summary: 'I stopped the review: the deployment is more urgent.',
      triggerSummary: 'CEO in "Project Alpha": "urgent: cancel the deployment"',
    })
    expect(done.toolCalls.map(({ toolName }: Read) => toolName)).toEqual(['get_my_runs', 'stop_run', 'send_message'])
    expect(done.toolCalls[1].output).toEqual({ success: true, runId: stale, status: 'canceled' })
    const seen = await parley.models.request(wokenBy('urgent'))
    expect(activeRunsIn(seen)).toEqual([
      `- Run ${urgent} (this run) — triggered by CEO in "Project Alpha"`,
      `- Run ${stale} (running) — Designer in "Project Alpha": "Please review the new layout"`,
    ])
    expect(await events.ended).toBeNull()
    expect(events.seen.at(-1).runEvents.__typename).toBe('RunCanceled')
    expect((await stage.messagesIn(alpha)).map(({ text, status }) => `${status}: ${text}`)).toEqual([
      'COMPLETE: Please review the new layout',
      `INTERRUPTED: ${review}`,
      'COMPLETE: urgent: cancel the deployment',
      'COMPLETE: The deployment is canceled.',
    ])
  })

  test('a run history: the second Jira webhook for a ticket finds the first run, and is skipped', async () => {
    const husam = await stage.person('Husam')
    const bot = await agent('Triage')
    const alpha = await space('Project Alpha', [husam, bot])
    const filing = gate()
    const payload = { event: 'ticket_critical', ticketId: 'PROJ-123' }
    const input = { agentId: bot.id, serviceName: 'jira', payload }
    const jira = async () => (await stage.ask(stage.admin, TRIGGER, { input })).run.id as string
    parley.models.script(
      forAgent('Triage', steps([{ gate: filing.promise }, { text: 'PROJ-123 is assigned to Ahmad.' }])),
    )
    const first = await jira()
    await running(bot, first)
    plays('Triage', 'Husam', steps([says('Looking.')]))
    const asking = await runOf(husam, alpha, 'Anything new?')
    const asked = await parley.models.request(wokenBy('Anything new?'))
    expect(activeRunsIn(asked)).toEqual([
      `- Run ${asking} (this run) — triggered by Husam in "Project Alpha"`,
      `- Run ${first} (running) — The service "jira": ${JSON.stringify(JSON.stringify(payload))}`,
    ])
    await stage.endedRuns(bot, 1)
    filing.open()
    await stage.endedRuns(bot, 2)
    const known = 'I already processed this Jira ticket in a previous run.'
    parley.models.script(
      forAgent(
        'Triage',
        steps([{ toolCall: 'get_my_runs', input: { status: 'completed', limit: 5 } }], [{ text: known }]),
      ),
    )
    const second = await jira()
    const [, , repeat] = await stage.endedRuns(bot, 3)
    expect(repeat).toMatchObject({ id: second, status: 'COMPLETED', summary: known })
    expect(repeat.toolCalls[0].output).toMatchObject({
      runs: [
        { runId: asking, status: 'completed', triggerType: 'space_message' },
        {
          runId: first,
          status: 'completed',
          triggerType: 'service',
          triggerSummary: expect.stringContaining('jira'),
          summary: 'PROJ-123 is assigned to Ahmad.',
        },
      ],
      totalActive: 1,
    })
    expect((await stage.messagesIn(alpha)).map(({ text }) => text)).toEqual(['Anything new?', 'Looking.'])
  })

  test.each(['ACTIVE_SPACE', 'SPACE_TOOLS'])(
    'all spaces of an agent receive its activity: active, paused for a form, resumed and ended, wherever its run is (%s)',
    async (toolset) => {
      const [husam, ahmad] = [await stage.person('Husam'), await stage.person('Ahmad')]
      const bot = await agent('Clerk', { tools: [FORM], toolset })
      const here = await space('Project Alpha', [husam, bot])
      const there = await space('Support', [ahmad, bot])
      const [asking, closing] = [gate(), gate()]
      const input = toolset === 'SPACE_TOOLS' ? { targetSpaceId: here.id } : {}
      plays(
        'Clerk',
        'expense',
        steps([{ gate: asking.promise }, { toolCall: 'form', input }], [{ gate: closing.promise }, { text: 'Filed.' }]),
      )
      const watch = async ({ client }: Person, { id: spaceId }: Named) => {
        const live = client.subscribe<Read, object>(ACTIVITY, { spaceId })
        await live.first(() => true)
        const last = () => live.seen.at(-1).agentActivity
        const sees = (active: boolean, ...statuses: string[]) =>
          until(`it is ${active ? 'active' : 'inactive'} with ${statuses}`, () => {
            const { active: now, runs } = last()
            return now === active && runs.map(({ status }: Read) => status).join() === statuses.join()
          })
        return { sees, live }
      }
      const [near, far] = [await watch(husam, here), await watch(ahmad, there)]
      const id = await runOf(husam, here, 'expense report')
      await Promise.all([near.sees(true, 'RUNNING'), far.sees(true)])
      asking.open()
      await Promise.all([near.sees(false, 'WAITING_TOOL'), far.sees(false)])
      const [waiting] = (await stage.runsOf(bot))[0].toolCalls
      await stage.ask(husam.client, SUBMIT, { input: { toolCallId: waiting.id, result: { amount: 40 } } })
      await Promise.all([near.sees(true, 'RUNNING'), far.sees(true)])
      closing.open()
      await Promise.all([near.sees(false), far.sees(false)])
      expect((await stage.endedRuns(bot, 1))[0]).toMatchObject({ id, status: 'COMPLETED' })
      for (const { live } of [near, far]) live.stop()
    },
  )

  test('a message wakes every other agent member once, a response wakes the others again, and the exchange ends when all stay silent', async () => {
    const husam = await stage.person('Husam')
    const [writer, critic, editor] = [await agent('Writer'), await agent('Critic'), await agent('Editor')]
    const bots = [writer, critic, editor]
    const alpha = await space('Project Alpha', [husam, ...bots])
    plays('Writer', 'a slogan', steps([says('Ship it, sleep well.')]))
    plays('Critic', 'Ship it', steps([says('Too long.')]))
    await stage.say(husam, alpha, 'We need a slogan')
    const runs = (
      await Promise.all([stage.endedRuns(writer, 2), stage.endedRuns(critic, 2), stage.endedRuns(editor, 3)])
    ).flat()
    expect(runs.map(({ status }) => status)).toEqual(Array(7).fill('COMPLETED'))
    const messages = await stage.messagesIn(alpha)
    expect(messages.map(({ sender, text }) => `${sender.name}: ${text}`)).toEqual([
      'Husam: We need a slogan',
      'Writer: Ship it, sleep well.',
      'Critic: Too long.',
    ])
    const woken = messages.map(({ outcomes }) =>
      outcomes.map(({ agent, kind }: Read) => `${agent.name} ${kind}`).toSorted(),
    )
    expect(woken).toEqual([
      ['Critic SKIPPED', 'Editor SKIPPED', 'Writer RUN'],
      ['Critic RUN', 'Editor SKIPPED'],
      ['Editor SKIPPED', 'Writer SKIPPED'],
    ])
    const pairs = runs.map(({ id, triggerMessage }) => {
      const outcome = messages
        .find((message) => message.id === triggerMessage.id)
        .outcomes.find(({ run }: Read) => run.id === id)
      return `${triggerMessage.id} ${outcome.agent.id}`
    })
    expect(new Set(pairs).size).toBe(7)
    expect(new Set(runs.map(({ rootId }) => rootId)).size).toBe(1)
    expect(runs.map(({ depth }) => depth)).toEqual([0, 2, 0, 1, 0, 1, 2])
  })
})
