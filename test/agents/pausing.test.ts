import { Webhook as Signer } from 'standardwebhooks'
import { describe, expect, test } from 'vitest'
import { RULE_STACKS } from '../support/application.ts'
import { forAgent, steps } from '../support/model-server-script.ts'
import type { TestServer } from '../support/served.ts'
import { gate } from '../support/space-tools.ts'
import { type Named, playScenarios, type Read, type Stage } from '../support/stage.ts'
import { until } from '../support/until.ts'

const PAUSE = `mutation ($input: UpdateAgentInput!) {
  updateAgent(input: $input) { ... on UpdateAgentPayload { agent { paused } } ... on Error { message } }
}`
const TRIGGER = `mutation ($input: TriggerAgentInput!) {
  triggerAgent(input: $input) { __typename ... on TriggerAgentPayload { run { id } } ... on Error { message } }
}`
const RETRY = `mutation ($id: ID!) { retryRun(input: { runId: $id }) { __typename ... on Error { message } } }`
const PLAN = `mutation ($input: CreatePlanInput!) { createPlan(input: $input) { ... on CreatePlanPayload { plan { id } } } }`
const RUN_PLAN = `mutation ($id: ID!) {
  runPlanNow(input: { id: $id }) { __typename ... on RunPlanNowPayload { firing { id result dueAt run { id } } } }
}`
const FIRINGS = `query ($id: ID!) {
  node(id: $id) { ... on Plan { firings { edges { node { id result dueAt firedAt run { id agent { id } } } } } } }
}`

describe.each(RULE_STACKS)('a paused agent, on the %s stack', (stack) => {
  let parley: TestServer
  let stage: Stage
  playScenarios(stack, (opened) => {
    ;({ parley, stage } = opened)
  })

  const pause = async ({ id }: Named, paused = true) =>
    expect(await stage.ask(stage.admin, PAUSE, { input: { id, paused } })).toEqual({ agent: { paused } })
  /** Returns the outcomes of the space's last message, by agent. */
  const outcomes = async (space: Named): Promise<Record<string, string>> => {
    const message = (await stage.messagesIn(space)).at(-1)
    return Object.fromEntries(message.outcomes.map(({ agent, kind }: Read) => [agent.name, kind]))
  }

  test('does not wake, and each message gets the outcome PAUSED; after resuming it wakes again', async () => {
    const husam = await stage.person('Husam')
    const [ada, bob] = [await stage.bot('Ada'), await stage.bot('Bob')]
    const space = await stage.space('Team', [husam, ada, bob], { routing: 'BROADCAST' })
    await pause(ada)
    expect((await stage.say(husam, space, 'One')).runs).toMatchObject([{ agent: { name: 'Bob' } }])
    expect(await outcomes(space)).toEqual({ Ada: 'PAUSED', Bob: expect.stringMatching(/^(RUN|SKIPPED)$/) })
    await pause(ada, false)
    expect((await stage.say(husam, space, 'Two')).runs).toHaveLength(2)
    await Promise.all([stage.endedRuns(ada, 1), stage.endedRuns(bob, 2)])
  })

  test('finishes its running work; its queued runs wait until it resumes', async () => {
    const husam = await stage.person('Husam')
    const ada = await stage.bot('Ada', { maxConcurrentRuns: 1 })
    const bob = await stage.bot('Bob')
    const [space, other] = [await stage.space('Team', [husam, ada]), await stage.space('Other', [husam, bob])]
    const held = gate()
    parley.models.script(
      forAgent('Ada', (request) => (request.step === 0 ? [{ gate: held.promise }, { text: 'Done.' }] : undefined)),
    )
    await stage.say(husam, space, 'One')
    await until('the first run is running', () => parley.models.requests.length > 0)
    await stage.say(husam, space, 'Two')
    await pause(ada)
    held.open()
    await stage.endedRuns(ada, 1)
    await stage.say(husam, other, 'Workers claim what they can')
    await stage.endedRuns(bob, 1)
    expect((await stage.runsOf(ada)).map(({ status }) => status)).toEqual(['COMPLETED', 'QUEUED'])
    await pause(ada, false)
    await stage.endedRuns(ada, 2)
  })

  test('does not start a run that was queued by a process that had not yet seen the pause', async () => {
    const husam = await stage.person('Husam')
    const ada = await stage.bot('Ada', { maxConcurrentRuns: 1 })
    const space = await stage.space('Team', [husam, ada])
    const held = gate()
    parley.models.script(forAgent('Ada', () => [{ gate: held.promise }, { text: 'Done.' }]))
    await stage.say(husam, space, 'One')
    await until('the first run is running', () => parley.models.requests.length > 0)
    await stage.say(husam, space, 'Two')
    await pause(ada)
    held.open()
    await stage.endedRuns(ada, 1)
    const { prisma } = parley.app.platform.db
    const second = { agentId: ada.id, startedAt: null }
    // Creates the row that another process leaves if its insert commits after the pause.
    await prisma.run.updateMany({ where: second, data: { claimableAt: new Date() } })
    await until('workers have polled for it', async () => {
      const run = await prisma.run.findFirst({ where: { agentId: ada.id }, orderBy: { id: 'desc' } })
      return run?.claimableAt === null
    })
    expect((await stage.runsOf(ada)).map(({ status }) => status)).toEqual(['COMPLETED', 'QUEUED'])
    await pause(ada, false)
    await stage.endedRuns(ada, 2)
  })

  test('a persistent agent reads the events of the pause after it resumes', async () => {
    const husam = await stage.person('Husam')
    const ada = await stage.bot('Ada', { mind: 'PERSISTENT' })
    const bob = await stage.bot('Bob')
    const space = await stage.space('Team', [husam, ada, bob], { routing: 'BROADCAST' })
    await pause(ada)
    await stage.say(husam, space, 'What did I miss?')
    await stage.endedRuns(bob, 1)
    expect([await outcomes(space), await stage.runsOf(ada)]).toMatchObject([{ Ada: 'INBOX' }, []])
    await pause(ada, false)
    await stage.endedRuns(ada, 1)
    expect(parley.models.requests.map(({ messages }) => messages.at(-1)?.text)).toContainEqual(
      expect.stringMatching(/^INBOX[\s\S]*What did I miss\?/),
    )
  })

  test('is skipped when turns are assigned, and mentioning it is an error for people and agents', async () => {
    const husam = await stage.person('Husam')
    const [ada, bob] = [await stage.bot('Ada'), await stage.bot('Bob')]
    const chain = await stage.space('Chain', [husam, ada, bob], { routing: 'MENTION_CHAIN' })
    const team = await stage.space('Team', [husam, bob, ada])
    await pause(ada)
    for (const text of ['One', 'Two'])
      expect((await stage.say(husam, chain, text)).runs).toMatchObject([{ agent: { name: 'Bob' } }])
    expect(await outcomes(chain)).toEqual({ Ada: 'PAUSED', Bob: expect.stringMatching(/^(RUN|SKIPPED)$/) })
    expect(await stage.say(husam, chain, 'Ada?', { mentionedAgentId: ada.id })).toMatchObject({
      __typename: 'BadInputError',
      message: expect.stringContaining('paused'),
    })
    await stage.endedRuns(bob, 2)
    const attempts: [Named, string, object][] = [
      [team, 'sendSpaceMessage', { spaceId: team.id, text: 'Ada?', mention: ada.id }],
      [chain, 'mentionAgent', { targetAgentEntityId: ada.id }],
      [chain, 'delegate', { targetAgentEntityId: ada.id }],
    ]
    const refusals: Read[] = []
    for (const [index, [space, toolCall, input]] of attempts.entries()) {
      parley.models.script(steps([{ toolCall, input }], [{ text: 'Then not.' }]))
      await stage.say(husam, space, 'Ask Ada')
      const run = (await stage.endedRuns(bob, 3 + index)).at(-1)
      refusals.push(...run.toolCalls.map(({ output }: Read) => output.error))
    }
    expect(refusals.map(({ code }) => code)).toEqual(['AGENT_PAUSED', 'AGENT_PAUSED', 'AGENT_PAUSED'])
    // Bob himself is not a possible target.
    for (const { message } of refusals.slice(1)) expect(message).toContain('No other agent here')
  })

  test.each(['STATELESS', 'PERSISTENT'])(
    'gives the same response to a repeated service call as before the pause: %s',
    async (mind) => {
      const ada = await stage.bot('Ada', { mind })
      const input = { agentId: ada.id, serviceName: 'Jira', payload: { issue: 7 }, idempotencyKey: 'once' }
      const first = await stage.ask(stage.admin, TRIGGER, { input })
      expect(first).toMatchObject({ __typename: 'TriggerAgentPayload' })
      await stage.endedRuns(ada, 1)
      await pause(ada)
      expect(await stage.ask(stage.admin, TRIGGER, { input })).toEqual(first)
      const other = { input: { ...input, idempotencyKey: 'twice' } }
      expect(await stage.ask(stage.admin, TRIGGER, other)).toMatchObject({ __typename: 'ConflictError' })
    },
  )

  test('is not woken by services, webhooks, plans or a retry, which get an error', async () => {
    const husam = await stage.person('Husam')
    const ada = await stage.bot('Ada')
    const space = await stage.space('Team', [husam, ada])
    parley.models.script(() => [{ error: 'Broken.', status: 400 }])
    await stage.say(husam, space, 'Fail')
    const [failed] = await stage.endedRuns(ada, 1)
    const { plan } = await stage.ask(stage.admin, PLAN, {
      input: { agentId: ada.id, name: 'Report', instruction: 'Write it.', schedule: { cron: '0 0 1 1 *' } },
    })
    const { webhook, secret } = await parley.app.domain.webhooks.create(parley.admin, {
      agentId: ada.id,
      serviceName: 'Jira',
    })
    await pause(ada)
    const conflict = { __typename: 'ConflictError' }
    const input = { agentId: ada.id, serviceName: 'Jira', payload: {} }
    expect(await stage.ask(stage.admin, TRIGGER, { input })).toMatchObject(conflict)
    expect(await stage.ask(husam.client, RETRY, { id: failed.id })).toMatchObject(conflict)
    expect(await stage.ask(stage.admin, RUN_PLAN, { id: plan.id })).toMatchObject(conflict)
    const sentAt = new Date()
    const response = await fetch(`${parley.origin}/hooks/agents/${webhook.id}`, {
      method: 'POST',
      headers: {
        'webhook-id': 'msg_1',
        'webhook-timestamp': String(Math.floor(sentAt.getTime() / 1000)),
        'webhook-signature': new Signer(secret).sign('msg_1', sentAt, '{}'),
      },
      body: '{}',
    })
    expect(response.status).toBe(409)
    expect(await stage.runsOf(ada)).toHaveLength(1)
  })

  test('a plan can be run manually between its slots, and its inbox events do not pile up', async () => {
    const [bob, ada] = [await stage.bot('Bob'), await stage.bot('Ada', { mind: 'PERSISTENT' })]
    const husam = await stage.person('Husam')
    const space = await stage.space('Thoughts', [husam, ada], { routing: 'BROADCAST' })
    const planFor = async ({ id: agentId }: Named) =>
      (
        await stage.ask(stage.admin, PLAN, {
          input: { agentId, name: 'Report', instruction: 'Write it.', schedule: { cron: '0 0 1 1 *' } },
        })
      ).plan
    const runNow = async (id: string) => (await stage.ask(stage.admin, RUN_PLAN, { id })).firing
    const [plan, thought] = [await planFor(bob), await planFor(ada)]
    const firing = await runNow(plan.id)
    const [run] = await stage.endedRuns(bob, 1)
    expect(firing).toMatchObject({ result: 'RUN', run: { id: run.id } })
    const held = gate()
    parley.models.script(forAgent('Ada', () => [{ gate: held.promise }, { text: 'Thought.' }]))
    await stage.say(husam, space, 'Think for long')
    await until('a cycle is running', () =>
      parley.models.requests.some(({ instructions }) => instructions.includes('Ada')),
    )
    expect([(await runNow(thought.id)).result, (await runNow(thought.id)).result]).toEqual(['INBOX', 'STILL_WAITING'])
    held.open()
    const [, cycle] = await stage.endedRuns(ada, 2)
    const { firings } = await stage.ask(stage.admin, FIRINGS, { id: thought.id })
    expect(firings.edges.map(({ node }: Read) => [node.result, node.run?.id ?? null])).toEqual([
      ['STILL_WAITING', null],
      ['INBOX', cycle.id],
    ])
  })
})
