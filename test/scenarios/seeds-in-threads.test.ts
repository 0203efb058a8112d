import { describe, expect, test } from 'vitest'
import { createDeferred } from '../../src/lib/async.ts'
import { RULE_STACKS } from '../support/application.ts'
import { forAgent, steps, when } from '../support/model-server-script.ts'
import type { TestServer } from '../support/served.ts'
import { sayIn } from '../support/space-tools.ts'
import { type Named, type Person, playScenarios, type Read, type Stage, wokenBy } from '../support/stage.ts'
import { answer, skip } from '../support/thinking.ts'
import { enter, say } from '../support/turns.ts'
import { until } from '../support/until.ts'

const ADD = 'mutation ($input: AddMemberInput!) { addMember(input: $input) { __typename ... on Error { message } } }'
const UPDATE =
  'mutation ($input: UpdateSpaceInput!) { updateSpace(input: $input) { __typename ... on Error { message } } }'
const PLACES = `query ($id: ID!) { space(id: $id) { messages(last: 100) { edges { node {
  id text sender { name } threadRoot { id } outcomes { kind reason agent { name } } } } } } }`

// One example of each requirement, begun in a thread. Those of requirement 002 are all in mention-chain.test.ts, both in and
// outside of a thread.
describe.each(RULE_STACKS)('examples of the seeds in a thread, on the %s stack', (stack) => {
  let parley: TestServer
  let stage: Stage
  playScenarios(stack, (opened) => ({ parley, stage } = opened))

  interface Thread extends Named {
    rootId: string
  }

  /** Creates a space in which the first message of the thread was posted before the agents joined. */
  async function thread(name: string, person: Person, agents: Named[], input: object): Promise<Thread> {
    const space = await stage.space(name, [person], { routing: 'BROADCAST' })
    const rootId = (await stage.say(person, space, 'The thread hangs on this.')).sentMessage.id
    for (const { id: entityId } of agents) await stage.ask(stage.admin, ADD, { input: { spaceId: space.id, entityId } })
    await stage.ask(stage.admin, UPDATE, { input: { id: space.id, ...input } })
    return { ...space, rootId }
  }
  const reply = (person: Person, { rootId, ...space }: Thread, text: string): Promise<Read> =>
    stage.say(person, space, text, { replyToId: rootId })
  const admin = ({ id: adminAgentId }: Named) => ({ routing: 'ADMIN', adminAgentId })
  const nodesOf = async ({ id }: Named): Promise<Read[]> =>
    (await stage.ask(stage.admin, PLACES, { id })).messages.edges.map(({ node }: Read) => node)
  /** Returns the messages of a space in order: those in the thread, and those outside of it, each without the first message. */
  async function talk({ rootId, ...space }: Thread): Promise<{ inThread: string[]; outside: string[] }> {
    const lines = (await nodesOf(space)).filter(({ id }) => id !== rootId)
    const of = (isIn: boolean) =>
      lines.flatMap(({ text, sender, threadRoot }) =>
        (threadRoot?.id === rootId) === isIn ? [`${sender.name}: ${text}`] : [],
      )
    return { inThread: of(true), outside: of(false) }
  }

  test('000, collaboration: the admin agent asks another and waits, and both answer in the thread', async () => {
    const husam = await stage.person('Husam')
    const [assistant, data] = [await stage.bot('Assistant'), await stage.bot('Data Agent')]
    const desk = await thread('Desk', husam, [assistant, data], admin(assistant))
    const wait = { for: [{ type: 'agent' }] }
    const asks = sayIn(desk.id, 'How many users?', { mention: data.id, wait })
    parley.models.script(forAgent('Assistant', steps([asks], [sayIn(desk.id, 'We have 42k users.')])))
    parley.models.script(forAgent('Data Agent', steps([sayIn(desk.id, '42k.')])))
    await reply(husam, desk, 'How big are we?')
    await stage.endedRuns(assistant, 1)
    await stage.endedRuns(data, 1)
    expect(await talk(desk)).toEqual({
      inThread: [
        'Husam: How big are we?',
        'Assistant: How many users?',
        'Data Agent: 42k.',
        'Assistant: We have 42k users.',
      ],
      outside: [],
    })
  })

  test('001, deduplication: a second run sees the first, and leaves the answer in the thread to it', async () => {
    const husam = await stage.person('Husam')
    const agent = await stage.bot('Aware')
    const desk = await thread('Desk', husam, [agent], admin(agent))
    const working = createDeferred()
    const works = steps([{ gate: working.promise }, sayIn(desk.id, 'It is $2.1M.')])
    parley.models.script(forAgent('Aware', steps([{ toolCall: 'getMyRuns', input: {} }], [{ text: 'Redundant.' }])))
    parley.models.script(forAgent('Aware', when(wokenBy('Get me the budget'), works)))
    const first = (await reply(husam, desk, 'Get me the budget')).runs[0]
    await until('the first run works', async () => (await stage.runsOf(agent))[0]?.status === 'RUNNING')
    await reply(husam, desk, 'The budget?')
    const [second] = await stage.endedRuns(agent, 1)
    expect(second.toolCalls[0].output).toMatchObject({ otherActiveRuns: [{ runId: first.id, status: 'running' }] })
    working.resolve()
    await stage.endedRuns(agent, 2)
    expect(await talk(desk)).toEqual({
      inThread: ['Husam: Get me the budget', 'Husam: The budget?', 'Aware: It is $2.1M.'],
      outside: [],
    })
  })

  test('003, active context: messages go to the space entered last, and to the thread where the run began', async () => {
    const husam = await stage.person('Husam')
    const agent = await stage.bot('Switch', { toolset: 'ACTIVE_SPACE' })
    const desk = await thread('Design Team', husam, [agent], admin(agent))
    const other = await thread('Dev Updates', husam, [agent], admin(agent))
    parley.models.script(
      forAgent(
        'Switch',
        steps(
          [say("Here's the report")],
          [enter(other)],
          [say('FYI, the report is ready')],
          [enter(desk)],
          [say('I also notified the team in Dev Updates')],
        ),
      ),
    )
    await reply(husam, desk, 'Send the report to the dev channel')
    await stage.endedRuns(agent, 1)
    expect(await talk(desk)).toEqual({
      inThread: [
        'Husam: Send the report to the dev channel',
        "Switch: Here's the report",
        'Switch: I also notified the team in Dev Updates',
      ],
      outside: [],
    })
    expect(await talk(other)).toEqual({ inThread: [], outside: ['Switch: FYI, the report is ready'] })
  })

  test('004, Engineering: one mind answers in the thread, and two leave only their reasons', async () => {
    const ahmad = await stage.person('Ahmad')
    const mind = { mind: 'PERSISTENT', toolset: 'ACTIVE_SPACE' }
    const bots = [
      await stage.bot('FrontendBot', mind),
      await stage.bot('BackendBot', mind),
      await stage.bot('OpsBot', mind),
    ]
    const desk = await thread('Engineering', ahmad, bots, { routing: 'BROADCAST' })
    parley.models.script(forAgent('FrontendBot', answer('Sure, checking now...')))
    parley.models.script(forAgent('BackendBot', () => skip('addressed to FrontendBot')))
    parley.models.script(forAgent('OpsBot', () => skip('not ops-related')))
    const text = 'Hey FrontendBot, can you check the CSS on the login page?'
    const { sentMessage } = await reply(ahmad, desk, text)
    const outcomes = await until('all have decided', async () => {
      const node = (await nodesOf(desk)).find(({ id }) => id === sentMessage.id)
      const found = node.outcomes.map(({ agent, kind, reason }: Read) => [agent.name, kind, reason]).toSorted()
      return found.filter(([, kind]: string[]) => kind === 'SKIPPED').length === 2 ? found : null
    })
    expect(outcomes).toEqual([
      ['BackendBot', 'SKIPPED', 'addressed to FrontendBot'],
      ['FrontendBot', 'INBOX', 'BROADCAST wakes every agent in the space except the sender.'],
      ['OpsBot', 'SKIPPED', 'not ops-related'],
    ])
    await until('the answer is posted', async () => (await talk(desk)).inThread.length === 2)
    expect(await talk(desk)).toEqual({
      inThread: [`Ahmad: ${text}`, 'FrontendBot: Sure, checking now...'],
      outside: [],
    })
  })
})
