import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { HumanViewer } from '../../src/access/viewer.ts'
import { RULE_STACKS } from '../support/application.ts'
import { CIRCLES } from '../support/circles.ts'
import { startMcpServer } from '../support/mcp-server.ts'
import type { ParleyClient } from '../support/parley-client.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { delegates, enter, mentions, say, skips, type Turn, takesTurns } from '../support/turns.ts'
import { until } from '../support/until.ts'

// The example conversations of requirement 002, and the other two outcomes within a chain, through GraphQL. They check the
// messages in order, the number of runs, and the prompt of each agent. Each runs in a space, and also in a thread.

const CREATE_AGENT = `mutation ($input: CreateAgentInput!) { createAgent(input: $input) { ... on CreateAgentPayload { agent { id name } } ... on Error { message } } }`
const CREATE_SPACE = `mutation ($input: CreateSpaceInput!) { createSpace(input: $input) { ... on CreateSpacePayload { space { id name routing } } ... on Error { message } } }`
const SEND = `mutation ($input: SendMessageInput!) { sendMessage(input: $input) { ... on SendMessagePayload { sentMessage { id } runs { id agent { name } } } ... on Error { message } } }`
const ADD_MEMBER = 'mutation ($input: AddMemberInput!) { addMember(input: $input) { __typename } }'
const CREATE_PLAN = `mutation ($input: CreatePlanInput!) { createPlan(input: $input) { ... on CreatePlanPayload { plan { id } } ... on Error { message } } }`
const SPACE = `query ($id: ID!) { space(id: $id) { messages { edges { node { id threadRoot { id } text sender { name } mentionedAgent { name }
  parts { ... on ToolCallPart { toolCall { toolName input } } } outcomes { kind agent { name } } } } } } }`
const RUNS = `query ($id: ID!) { agent(id: $id) { name activeRuns { id }
  runs { edges { node { id status depth rootId chain { id depth replyStack { reason agent { name } } } triggerSpace { name }
    toolCalls { toolName output } } } } } }`
const CHAIN = 'query ($id: ID!) { run(id: $id) { chain { depth replyStack { reason agent { name } } } } }'
const IMAGE = {
  name: 'generateImage',
  description: 'Makes an image.',
  inputSchema: { type: 'object', properties: { of: { type: 'string' } }, required: ['of'] },
  execution: 'INTERNAL',
  visible: true,
}

interface Agent {
  id: string
  name: string
}

interface RunNode {
  id: string
  agent: string
  status: string
  depth: number
  chain: { id: string; depth: number; replyStack: unknown[] } | null
  triggerSpace: { name: string } | null
  toolCalls: { toolName: string; output: unknown }[]
}

interface MessageNode {
  id: string
  threadRoot: { id: string } | null
  text: string
  sender: Agent
  mentionedAgent: Agent | null
  parts: { toolCall?: { toolName: string; input: unknown } }[]
  outcomes: { kind: string; agent: Agent }[]
}

const PLACES = RULE_STACKS.flatMap((stack) => ['in a space', 'in a thread'].map((place) => ({ stack, place })))

describe.each(PLACES)('seed 002 $place, on the $stack stack', ({ stack, place }) => {
  let parley: TestServer
  let admin: ParleyClient
  let husam: HumanViewer
  let client: ParleyClient
  /** By space: the first message of its thread. Empty if the test runs outside threads. */
  const roots = new Map<string, string>()

  beforeAll(async () => {
    parley = await startTestServer({ stack })
    admin = await parley.clientOf(parley.admin)
    husam = await parley.human('حسام')
    client = await parley.clientOf(husam)
  })
  afterAll(() => parley?.close())
  beforeEach(() => parley.models.reset())

  async function answerOf<Answer>(asker: ParleyClient, operation: string, variables: object = {}): Promise<Answer> {
    const { data, errors } = await asker.ask<Record<string, Answer>>(operation, variables)
    expect(errors).toBeUndefined()
    return Object.values(data ?? {})[0] as Answer
  }

  async function agent(name: string, more: object = {}): Promise<Agent> {
    const play = { instructions: 'Play your part.', model: 'openai.chat:test' }
    const input = { name, ...play, mind: 'STATELESS', toolset: 'ACTIVE_SPACE', ...more }
    return (await answerOf<{ agent: Agent }>(admin, CREATE_AGENT, { input })).agent
  }

  /** Creates agents with these names, which get their turns in this order. */
  async function agents<Names extends string[]>(...names: Names): Promise<{ [Index in keyof Names]: Agent }> {
    const made: Agent[] = []
    for (const name of names) made.push(await agent(name))
    return made as { [Index in keyof Names]: Agent }
  }

  async function space(name: string, members: Agent[], confidential = false): Promise<{ id: string; name: string }> {
    const isPlain = place === 'in a space'
    const memberIds = isPlain ? members.map(({ id }) => id) : []
    const input = { name, routing: 'MENTION_CHAIN', memberIds, confidential }
    const { space } = await answerOf<{ space: { id: string; name: string } }>(client, CREATE_SPACE, { input })
    if (isPlain) return space
    // The first message wakes no agent.
    const first = { spaceId: space.id, text: 'The thread hangs on this.' }
    const { sentMessage } = await answerOf<{ sentMessage: { id: string } }>(client, SEND, { input: first })
    roots.set(space.id, sentMessage.id)
    for (const { id: entityId } of members)
      await answerOf(admin, ADD_MEMBER, { input: { spaceId: space.id, entityId } })
    return space
  }

  /**
   * Posts as the human, and waits until the chain that the message starts has ended. Everything happens in the thread, if there
   * is one. Returns the first agent.
   */
  async function hears(spaceId: string, text: string): Promise<string[]> {
    const rootId = roots.get(spaceId)
    const input = { spaceId, text, replyToId: rootId ?? null }
    const { runs } = await answerOf<{ runs: { agent: Agent }[] }>(client, SEND, { input })
    await chainsRest()
    for (const { threadRoot } of await messagesIn(spaceId)) expect(threadRoot?.id).toBe(rootId)
    return runs.map(({ agent }) => agent.name)
  }

  function chainsRest(): Promise<unknown> {
    return until(
      'every chain has ended',
      async () => (await parley.app.platform.db.prisma.chain.count({ where: { holderId: { not: null } } })) === 0,
    )
  }

  async function messagesIn(spaceId: string): Promise<MessageNode[]> {
    type Answer = { messages: { edges: { node: MessageNode }[] } }
    const { messages } = await answerOf<Answer>(client, SPACE, { id: spaceId })
    return messages.edges.flatMap(({ node }) => (node.id === roots.get(spaceId) ? [] : [node]))
  }

  async function conversation(spaceId: string): Promise<string[]> {
    return (await messagesIn(spaceId)).map(
      ({ sender, mentionedAgent, text }) =>
        `${sender.name}${mentionedAgent ? ` → ${mentionedAgent.name}` : ''}: ${text}`,
    )
  }

  /**
   * Returns, for each message, the agents that it woke. Checks that the message was not routed to any others, except its
   * sender.
   */
  async function wokenBy(spaceId: string): Promise<string[][]> {
    return (await messagesIn(spaceId)).map(({ outcomes }) => {
      expect(outcomes.every(({ kind }) => kind === 'RUN' || kind === 'NOT_ROUTED')).toBe(true)
      return outcomes.flatMap(({ kind, agent: { name } }) => (kind === 'RUN' ? [name] : []))
    })
  }

  /** Returns the prompts of an agent's runs, in order. */
  const promptsOf = ({ name }: Agent): string[] =>
    parley.models.requests
      .filter(({ instructions, step }) => step === 0 && instructions.startsWith(`You are ${name},`))
      .map(({ messages }) => messages.at(-1)?.text ?? '')

  /** Returns the runs of these agents, oldest first. */
  async function runsOf(...cast: Agent[]): Promise<RunNode[]> {
    type Answer = Agent & { activeRuns: unknown[]; runs: { edges: { node: Omit<RunNode, 'agent'> }[] } }
    const found = await Promise.all(cast.map(({ id }) => answerOf<Answer>(admin, RUNS, { id })))
    expect(found.flatMap(({ activeRuns }) => activeRuns)).toEqual([])
    const runs = found.flatMap(({ name, runs }) => runs.edges.map(({ node }) => ({ ...node, agent: name })))
    return runs.sort((a, b) => (a.id < b.id ? -1 : 1))
  }

  const story = (runs: RunNode[]) => runs.map(({ agent, status }) => `${agent} ${status}`)
  const plays = ({ name }: Agent, ...turns: Turn[]) => takesTurns(parley.models, name, ...turns)

  test('simple: one agent responds, the other never runs', async () => {
    const [demo, research] = await agents('Demo Agent', 'Research Agent')
    const room = await space('Lobby', [demo, research])
    plays(demo, [[say('Good morning حسام!')]])
    expect(await hears(room.id, 'good morning!')).toEqual(['Demo Agent'])
    expect(await conversation(room.id)).toEqual(['حسام: good morning!', 'Demo Agent: Good morning حسام!'])
    const runs = await runsOf(demo, research)
    expect(story(runs)).toEqual(['Demo Agent COMPLETED'])
    expect(runs[0]?.chain).toMatchObject({ depth: 1, replyStack: [] })
  })

  test('a name in a text wakes no agent, whether a person or an agent wrote it', async () => {
    const [demo, research] = await agents('Demo Agent J', 'Research Agent J')
    const room = await space('Lobby J', [demo, research])
    plays(demo, [[say('@Research Agent J, can you take over?')]])
    expect(await hears(room.id, '@Research Agent J, what do you think?')).toEqual(['Demo Agent J'])
    expect(await wokenBy(room.id)).toEqual([['Demo Agent J'], []])
    expect(story(await runsOf(demo, research))).toEqual(['Demo Agent J COMPLETED'])
  })

  test('hand-off: the delegator posts nothing, the right agent responds with the data of its MCP server', async () => {
    const answer = () => ({ content: [{ type: 'text', text: '31 °C, clear' }] })
    const server = await startMcpServer([{ name: 'forecast', description: 'The weather.', answer }])
    const research = await agent('Research Agent B')
    const demo = await agent('Demo Agent B', { mcpServers: [{ name: 'weather', url: server.url }] })
    const room = await space('Lobby B', [research, demo])
    plays(research, [[delegates(demo, 'has MCP tools for weather')]])
    plays(demo, [[{ toolCall: 'weather__forecast', input: {} }], [say('It is 31 °C and clear.')]])
    expect(await hears(room.id, "what's the weather like?")).toEqual(['Research Agent B'])
    await server.close()
    expect(await conversation(room.id)).toEqual([
      "حسام: what's the weather like?",
      'Demo Agent B: It is 31 °C and clear.',
    ])
    expect(await wokenBy(room.id)).toEqual([['Demo Agent B'], []])
    const runs = await runsOf(research, demo)
    expect(story(runs)).toEqual(['Research Agent B CANCELED', 'Demo Agent B COMPLETED'])
    expect(runs[1]?.toolCalls[0]).toEqual({ toolName: 'weather__forecast', output: '31 °C, clear' })
    const [prompt] = promptsOf(demo)
    expect(prompt).toContain('Delegated to you by Research Agent B: "has MCP tools for weather"')
    expect(prompt).toContain("what's the weather like?")
  })

  test('fire-and-forget mention: two agents respond with one message each', async () => {
    const demo = await agent('Demo Agent C', { toolset: 'SPACE_TOOLS', tools: [IMAGE] })
    const research = await agent('Research Agent C')
    const room = await space('Lobby C', [demo, research])
    const [spaceId, targetSpaceId] = [room.id, room.id]
    plays(demo, [
      [
        { toolCall: 'sendSpaceMessage', input: { spaceId, text: "Here's the image!" } },
        { toolCall: 'generateImage', input: { of: 'quantum computing', targetSpaceId } },
      ],
      [mentions(research, 'user wants research too', false)],
    ])
    plays(research, [[say("Here's what I found...")]])
    await hears(room.id, 'research quantum computing and make me an image about it')
    expect(await conversation(room.id)).toEqual([
      'حسام: research quantum computing and make me an image about it',
      "Demo Agent C → Research Agent C: Here's the image!",
      "Research Agent C: Here's what I found...",
    ])
    const [, shown] = await messagesIn(room.id)
    expect(shown?.parts).toEqual([{}, { toolCall: { toolName: 'generateImage', input: { of: 'quantum computing' } } }])
    expect(await wokenBy(room.id)).toEqual([['Demo Agent C'], ['Research Agent C'], []])
    expect(story(await runsOf(demo, research))).toEqual(['Demo Agent C COMPLETED', 'Research Agent C COMPLETED'])
    const [prompt] = promptsOf(research)
    expect(prompt).toContain('You were mentioned by Demo Agent C: "user wants research too"')
    expect(prompt).not.toContain('waits for your reply')
  })

  test('an agent with waits reads that an agent mentioned here starts only after the run', async () => {
    const named = await agent('Demo Agent I', { toolset: 'SPACE_TOOLS' })
    const entered = await agent('Research Agent I')
    const room = await space('Lobby I', [named, entered])
    plays(named, [[mentions(entered)]])
    plays(entered, [])
    await hears(room.id, 'good morning!')
    const toldNotToWait = parley.models.requests
      .filter(({ step }) => step === 0)
      .map(({ instructions }) => instructions.includes('wakes when your run has ended: do not wait for it'))
    expect(toldNotToWait).toEqual([true, false])
  })

  test('reply stack: an agent needs the output of another to continue', async () => {
    const [hr, finance] = await agents('HR Agent D', 'Finance Agent D')
    const room = await space('Lobby D', [hr, finance])
    plays(
      hr,
      [
        [
          say("I'll prepare the report. Let me get the salary data first."),
          mentions(finance, 'need January salary sheet', true),
        ],
      ],
      [[say("Here's the complete payroll report based on the salary data...")]],
    )
    plays(finance, [[say("Here's the salary data: ...")]])
    await hears(room.id, 'prepare the monthly payroll report')
    expect(await conversation(room.id)).toEqual([
      'حسام: prepare the monthly payroll report',
      "HR Agent D → Finance Agent D: I'll prepare the report. Let me get the salary data first.",
      "Finance Agent D: Here's the salary data: ...",
      "HR Agent D: Here's the complete payroll report based on the salary data...",
    ])
    const runs = await runsOf(hr, finance)
    expect(story(runs)).toEqual(['HR Agent D COMPLETED', 'Finance Agent D COMPLETED', 'HR Agent D COMPLETED'])
    expect(runs.map(({ depth }) => depth)).toEqual([0, 1, 2])
    expect(new Set(runs.map(({ chain }) => chain?.id)).size).toBe(1)
    expect(runs[0]?.chain).toMatchObject({ depth: 3, replyStack: [] })
    expect(await wokenBy(room.id)).toEqual([['HR Agent D'], ['Finance Agent D'], ['HR Agent D'], []])
    expect(promptsOf(finance)[0]).toContain(
      'You were mentioned by HR Agent D: "need January salary sheet" (It waits for your reply.)',
    )
    expect(promptsOf(hr)[1]).toContain(
      'You are called back. You had asked: "need January salary sheet". Finance Agent D has responded',
    )
    expect(promptsOf(hr)[1]).toContain('"text":"Here\'s the salary data: ..."')
  })

  test('nested reply stack: each agent gets exactly the reply that it needs', async () => {
    const [hr, finance, data] = await agents('HR Agent E', 'Finance Agent E', 'Data Agent E')
    const room = await space('Lobby E', [hr, finance, data])
    const stacks: string[][] = []
    const look = async (runId: string) => {
      type Answer = { chain: { depth: number; replyStack: { reason: string; agent: Agent }[] } }
      const { chain } = await answerOf<Answer>(admin, CHAIN, { id: runId })
      stacks.push([`${chain.depth}`, ...chain.replyStack.map(({ agent, reason }) => `${agent.name}: ${reason}`)])
    }
    plays(
      hr,
      [[say("I'll compile the review. Getting financial data first."), mentions(finance, 'need Q4 numbers', true)]],
      [[say("Here's the complete quarterly business review: ...")]],
    )
    plays(
      finance,
      [[say('I need the raw data first.'), mentions(data, 'need Q4 raw sales data', true)]],
      [[say('Here are the Q4 financials based on the data: ...')]],
    )
    plays(data, [[say("Here's the Q4 raw data: ...")]])
    parley.models.script(async ({ step, instructions }) => {
      if (step === 0) await look(/- Run (run_\w+) \(this run\)/.exec(instructions)?.[1] ?? '')
      return undefined
    })
    await hears(room.id, 'prepare the quarterly business review')
    expect(await conversation(room.id)).toEqual([
      'حسام: prepare the quarterly business review',
      "HR Agent E → Finance Agent E: I'll compile the review. Getting financial data first.",
      'Finance Agent E → Data Agent E: I need the raw data first.',
      "Data Agent E: Here's the Q4 raw data: ...",
      'Finance Agent E: Here are the Q4 financials based on the data: ...',
      "HR Agent E: Here's the complete quarterly business review: ...",
    ])
    expect((await runsOf(hr, finance, data)).map(({ agent }) => agent[0])).toEqual(['H', 'F', 'D', 'F', 'H'])
    const [waits, waitsToo] = ['HR Agent E: need Q4 numbers', 'Finance Agent E: need Q4 raw sales data']
    expect(stacks).toEqual([['1'], ['2', waits], ['3', waits, waitsToo], ['4', waits], ['5']])
    expect(await wokenBy(room.id)).toEqual([[hr.name], [finance.name], [data.name], [finance.name], [hr.name], []])
    expect(promptsOf(finance)[1]).toContain('Data Agent E has responded')
    expect(promptsOf(hr)[1]).toContain('Finance Agent E has responded')
  })

  test('a skip in the chain: the requester is called back, sees the skip, and continues without the reply', async () => {
    const [hr, finance] = await agents('HR Agent G', 'Finance Agent G')
    const room = await space('Lobby G', [hr, finance])
    plays(
      hr,
      [[say('Let me get the salary data first.'), mentions(finance, 'need January salary sheet', true)]],
      [[say("Here's the report, without salaries.")]],
    )
    plays(finance, [[skips('January is not closed yet')]])
    await hears(room.id, 'prepare the monthly payroll report')
    expect(await conversation(room.id)).toEqual([
      'حسام: prepare the monthly payroll report',
      'HR Agent G → Finance Agent G: Let me get the salary data first.',
      "HR Agent G: Here's the report, without salaries.",
    ])
    const [, asked] = await messagesIn(room.id)
    expect(asked?.outcomes).toEqual([{ kind: 'SKIPPED', agent: { name: 'Finance Agent G' } }])
    expect(promptsOf(hr)[1]).toContain('Finance Agent G skipped: it posted nothing here: "January is not closed yet"')
    expect(story(await runsOf(hr, finance))).toEqual(
      ['HR Agent G', 'Finance Agent G', 'HR Agent G'].map((name) => `${name} COMPLETED`),
    )
  })

  test("a delegation in the chain: the requested agent delegates, and its delegate's reply calls the requester back", async () => {
    const [hr, finance, data] = await agents('HR Agent H', 'Finance Agent H', 'Data Agent H')
    const room = await space('Lobby H', [hr, finance, data])
    plays(hr, [[say('Getting the numbers.'), mentions(finance, 'need Q4 numbers', true)]], [[say('Done.')]])
    plays(finance, [[delegates(data, 'has the raw data')]])
    plays(data, [[say("Here's the Q4 raw data: ...")]])
    await hears(room.id, 'prepare the quarterly business review')
    expect(await conversation(room.id)).toEqual([
      'حسام: prepare the quarterly business review',
      'HR Agent H → Finance Agent H: Getting the numbers.',
      "Data Agent H: Here's the Q4 raw data: ...",
      'HR Agent H: Done.',
    ])
    expect(await wokenBy(room.id)).toEqual([[hr.name], [data.name], [hr.name], []])
    const runs = await runsOf(hr, finance, data)
    expect(story(runs)).toEqual([
      'HR Agent H COMPLETED',
      'Finance Agent H CANCELED',
      'Data Agent H COMPLETED',
      'HR Agent H COMPLETED',
    ])
    expect(runs[0]?.chain).toMatchObject({ depth: 4, replyStack: [] })
    expect(promptsOf(data)[0]).toContain('Delegated to you by Finance Agent H: "has the raw data"')
    expect(promptsOf(hr)[1]).toContain('Data Agent H has responded')
  })

  test.each(CIRCLES)(
    'cross-space, in $circle: a plan, entering a space, a mention there, and the call-back in that space',
    async ({ confidential }) => {
      const [hr, finance] = await agents('HR Agent F', 'Finance Agent F')
      const hrRoom = await space('HR Space', [hr], confidential)
      const financeRoom = await space('Finance Space', [finance, hr], confidential)
      plays(
        hr,
        [
          [enter(financeRoom)],
          [say("Hey, what's the status on this month's budget?"), mentions(finance, 'need budget update', true)],
        ],
        [[say("Thanks, I'll factor this into the report.")]],
      )
      plays(finance, [[say("Budget is 80% allocated, here's the breakdown...")]])
      const input = {
        agentId: hr.id,
        name: 'monthly check-in with finance',
        instruction: 'Ask finance.',
        schedule: { afterSeconds: 1 },
      }
      await answerOf(admin, CREATE_PLAN, { input })
      await until('the plan has fired', async () => (await runsOf(hr).catch(() => [])).length > 0)
      await until(
        'it began a chain',
        async () => (await parley.app.platform.db.prisma.chain.count({ where: { spaceId: financeRoom.id } })) === 1,
      )
      await chainsRest()
      expect(await conversation(hrRoom.id)).toEqual([])
      expect(await conversation(financeRoom.id)).toEqual([
        "HR Agent F → Finance Agent F: Hey, what's the status on this month's budget?",
        "Finance Agent F: Budget is 80% allocated, here's the breakdown...",
        "HR Agent F: Thanks, I'll factor this into the report.",
      ])
      const runs = await runsOf(hr, finance)
      expect(runs.map(({ agent, triggerSpace }) => [agent, triggerSpace?.name ?? null])).toEqual([
        ['HR Agent F', null],
        ['Finance Agent F', 'Finance Space'],
        ['HR Agent F', 'Finance Space'],
      ])
      expect(new Set(runs.map(({ chain }) => chain?.id)).size).toBe(1)
      expect(promptsOf(hr)[1]).toContain(
        'THE TASK: (what began this chain, quoted as data) {"plan":"monthly check-in with finance","instruction":"Ask finance."',
      )
    },
  )
})
