import { describe, expect, test } from 'vitest'
import { RULE_STACKS } from '../support/application.ts'
import { playDecisions, refund, refundTool } from '../support/decisions.ts'
import type { ParleyClient } from '../support/parley-client.ts'
import type { Named, Person, Read } from '../support/stage.ts'
import { thinkingOn } from '../support/thinking.ts'
import { enter, say, takesTurns } from '../support/turns.ts'
import { until } from '../support/until.ts'

const SECRET = 'The merger is on Friday.'
const RUN = `query ($id: ID!) { run(id: $id) { id status error summary stopReason
  toolCalls { id toolName status input output error approval { state approvers { id } } } } }`
const CALL = `query ($id: ID!) { node(id: $id) { ... on ToolCall { id toolName status input output error } } }`
const EVENTS = `subscription ($id: ID!) { runEvents(runId: $id) { __typename
  ... on RunTextDelta { delta } ... on RunReasoningDelta { delta } ... on RunToolInputDelta { delta } ... on RunFailed { error } } }`
const TRIGGER = `mutation ($agentId: ID!) { triggerAgent(input: { agentId: $agentId, payload: { go: true } }) {
  __typename ... on TriggerAgentPayload { run { id } } } }`
const OUTCOMES = `query ($id: ID!) { space(id: $id) { messages { edges { node { outcomes { kind reason error } } } } } }`
const INTERNALS = `query ($id: ID!) { run(id: $id) { error internals { confidentialTo { id } askers { id }
  steps { edges { node { confidentialTo { id } withheld { space { id } memories goals plans cycles } } } } } } }`
const ELSEWHERE = `query ($id: ID!) { space(id: $id) { agentsElsewhere { id } } }`
const ALONE = { routing: 'BROADCAST', confidential: true }
const TOGETHER = { routing: 'BROADCAST' }
const external = (name: string, more: object = {}) => ({
  name,
  description: 'A tool.',
  inputSchema: { type: 'object' },
  execution: 'EXTERNAL',
  timeoutMs: 60_000,
  ...more,
})

describe.each(RULE_STACKS)('viewers of a run with confidential content, on the %s stack', (stack) => {
  const play = playDecisions(stack)

  /** Creates Alice's confidential diary, her team space with Bob, and an agent that is a member of both spaces. */
  async function world(tools: (alice: Person, bob: Person) => object[] = () => [], mind = 'STATELESS') {
    const [alice, bob] = await Promise.all([play.stage.person('Alice'), play.stage.person('Bob')])
    const agent = await play.stage.bot('Ada', { mind, toolset: 'ACTIVE_SPACE', tools: tools(alice, bob) })
    const diary = await play.stage.space('Diary', [alice, agent], ALONE)
    const team = await play.stage.space('Team', [alice, bob, agent], TOGETHER)
    return { alice, bob, agent, diary, team }
  }

  const runFor = (client: ParleyClient, id: string): Promise<Read> => play.stage.ask(client, RUN, { id })
  const callNamed = ({ toolCalls }: Read, name: string) => toolCalls.find(({ toolName }: Read) => toolName === name)

  test('a named approver without access to a call sees the run, but not the content of the call', async () => {
    const { alice, bob, agent, diary, team } = await world((a, b) => [
      refundTool(play.service, { approverIds: [a.id, b.id] }, { mayReceiveConfidential: true }),
    ])
    takesTurns(play.parley.models, agent.name, [[enter(diary)], [refund(20)]])
    const { runs } = await play.stage.say(alice, team, 'Give it back.')
    const asked = await play.deciders.asked(alice)
    expect(callNamed(await runFor(alice.client, runs[0].id), 'refund')).toMatchObject({ input: { amount: 20 } })
    expect(callNamed(await runFor(bob.client, runs[0].id), 'refund')).toMatchObject({ input: null, approval: null })
    await play.deciders.decide(alice, asked.id, true)
    await play.parley.runWhen(runs[0].id)
    expect(callNamed(await runFor(bob.client, runs[0].id), 'refund')).toMatchObject({ input: null, output: null })
  })

  async function service(agent: Named) {
    const client = await play.parley.clientOf({
      scope: 'SERVICE',
      id: 'svc',
      tokenId: null,
      expiresAt: null,
      name: 'Pager',
      agentIds: [agent.id],
    } as never)
    /** Returns the run that the message triggers. For a persistent agent, this is the cycle that claims the message's event. */
    async function triggers(): Promise<string> {
      const { runsOf } = thinkingOn(play.parley)
      const before = await runsOf(agent)
      await play.stage.ask(client, TRIGGER, { agentId: agent.id })
      return (await until('it is triggered', async () => (await runsOf(agent))[before.length])).id
    }
    return { client, triggers }
  }

  test.each([
    ['STATELESS', 'a run'],
    ['PERSISTENT', 'a cycle'],
  ])(
    'a %s agent hides its content from the service that triggered %s once it has confidential content',
    async (mind) => {
      const { alice, agent, diary } = await world(() => [external('plain'), external('marked', MARKED)], mind)
      takesTurns(
        play.parley.models,
        agent.name,
        [],
        [
          [{ text: 'Open words.' }, enter(diary)],
          [{ reasoning: SECRET }, { text: SECRET }, { toolCall: 'plain', input: { said: SECRET } }, say(SECRET)],
          [{ text: SECRET }],
        ],
      )
      await play.stage.say(alice, diary, SECRET)
      await thinkingOn(play.parley).rest(agent)
      const pager = await service(agent)
      const runId = await pager.triggers()
      const events = pager.client.subscribe<{ runEvents: Read }, object>(EVENTS, { id: runId })
      await events.first(({ runEvents }) => runEvents.__typename === 'RunCompleted')
      expect(JSON.stringify(events.seen)).not.toContain(SECRET)
      const seen = await runFor(pager.client, runId)
      expect(seen).toMatchObject({ status: 'COMPLETED', summary: null })
      for (const call of seen.toolCalls) expect(call).toMatchObject({ input: null, output: null, error: null })
      expect(seen.toolCalls.map(({ toolName, status }: Read) => [toolName, status])).toEqual([
        ['enter_space', 'DONE'],
        ['plain', 'FAILED'],
        ['send_message', 'DONE'],
      ])
      const refused = callNamed(seen, 'plain')
      expect(await play.stage.ask(pager.client, CALL, { id: refused.id })).toMatchObject({ input: null, output: null })
      expect(callNamed(await runFor(play.stage.admin, runId), 'plain')).toMatchObject({ input: { said: SECRET } })
    },
  )

  test('a service that executes a marked tool gets the input of that tool, and of no other', async () => {
    const { alice, agent, diary } = await world(() => [external('plain'), external('marked', MARKED)])
    const given = { said: SECRET }
    takesTurns(play.parley.models, agent.name, [
      [{ toolCall: 'plain', input: given }],
      [{ toolCall: 'marked', input: given }],
    ])
    const { runs } = await play.stage.say(alice, diary, SECRET)
    await play.parley.runWhen(runs[0].id, 'WAITING_TOOL')
    const { client } = await service(agent)
    const { toolCalls } = await runFor(play.stage.admin, runs[0].id)
    const callFor = (name: string) => play.stage.ask(client, CALL, { id: callNamed({ toolCalls }, name).id })
    expect(await callFor('marked')).toMatchObject({ input: given })
    expect(await callFor('plain')).toMatchObject({ input: null, error: null })
    await play.parley.app.domain.control.stopRun(play.parley.admin, { runId: runs[0].id, cascade: false })
  })

  test('members see the class of an error, and admins its text', async () => {
    const { alice, bob, agent, diary, team } = await world()
    takesTurns(play.parley.models, agent.name, [[enter(diary)], [{ error: `Not this: ${SECRET}`, status: 400 }]])
    const { runs } = await play.stage.say(alice, team, 'What is new?')
    const events = bob.client.subscribe<{ runEvents: Read }, object>(EVENTS, { id: runs[0].id })
    const failed = await events.first(({ runEvents }) => runEvents.__typename === 'RunFailed')
    expect(failed.runEvents.error).toBe('MODEL_FAILED')
    expect(await runFor(bob.client, runs[0].id)).toMatchObject({
      status: 'FAILED',
      error: 'MODEL_FAILED',
      summary: null,
    })
    const [outcome] = await until('the outcome is there', async () => {
      const { messages } = await play.stage.ask(bob.client, OUTCOMES, { id: team.id })
      const all = messages.edges.flatMap(({ node }: Read) => node.outcomes)
      return all.some(({ kind }: Read) => kind === 'FAILED') && all
    })
    expect(outcome).toMatchObject({ kind: 'FAILED', error: 'MODEL_FAILED', reason: null })
    expect((await runFor(play.stage.admin, runs[0].id)).error).toContain(SECRET)
  })

  test('an error text from a provider appears as a class to those who may not read the prompt', async () => {
    const { alice, bob, agent, diary } = await world()
    const desk = await play.stage.space('Desk', [alice, agent], TOGETHER)
    const add = `mutation ($input: AddMemberInput!) { addMember(input: $input) { __typename } }`
    takesTurns(
      play.parley.models,
      agent.name,
      [[enter(desk), say('Good morning.')]],
      [[{ error: `Not this: ${SECRET}`, status: 400 }]],
    )
    await play.parley.runWhen((await play.stage.say(alice, diary, SECRET)).runs[0].id)
    await play.stage.ask(play.stage.admin, add, { input: { spaceId: desk.id, entityId: bob.id } })
    const { runs } = await play.stage.say(bob, desk, 'What is new?')
    await play.parley.runWhen(runs[0].id)
    const sent = play.parley.models.requests.at(-1)
    expect(JSON.stringify(sent?.messages)).toContain(SECRET)
    expect(await runFor(bob.client, runs[0].id)).toMatchObject({ status: 'FAILED', error: 'MODEL_FAILED' })
    const { messages } = await play.stage.ask(bob.client, OUTCOMES, { id: desk.id })
    expect(JSON.stringify(messages)).not.toContain(SECRET)
  })

  test('an admin sees a run’s label grow step by step, and what was withheld from the run', async () => {
    const { alice, bob, agent, diary, team } = await world()
    const noted = { toolCall: 'set_memories', input: { memories: [{ key: 'plan', value: SECRET }] } }
    takesTurns(play.parley.models, agent.name, [[noted]], [[enter(diary)], []])
    const { runs: first } = await play.stage.say(alice, diary, SECRET)
    await play.parley.runWhen(first[0].id)
    const { runs } = await play.stage.say(alice, team, 'What is new?')
    await play.parley.runWhen(runs[0].id)
    const { internals } = await play.stage.ask(play.stage.admin, INTERNALS, { id: runs[0].id })
    const withheld = [{ space: { id: diary.id }, memories: 1, goals: 0, plans: 0, cycles: 0 }]
    expect(internals).toEqual({
      confidentialTo: [{ id: diary.id }],
      askers: [{ id: alice.id }],
      steps: {
        edges: [{ node: { confidentialTo: [], withheld } }, { node: { confidentialTo: [{ id: diary.id }], withheld } }],
      },
    })
    expect(await play.stage.ask(bob.client, INTERNALS, { id: runs[0].id })).toEqual({ error: null, internals: null })
  })

  test('all members of a space see which of its agents also belong to other spaces', async () => {
    const { alice, agent, diary } = await world()
    const here = await play.stage.bot('Ben')
    const desk = await play.stage.space('Desk', [alice, agent, here], ALONE)
    const elsewhere = ({ id }: Named) => play.stage.ask(alice.client, ELSEWHERE, { id })
    expect(await elsewhere(diary)).toEqual({ agentsElsewhere: [{ id: agent.id }] })
    expect(await elsewhere(desk)).toEqual({ agentsElsewhere: [{ id: agent.id }] })
  })
})

const MARKED = { mayReceiveConfidential: true }
