import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { HumanViewer } from '../../src/access/viewer.ts'
import type { ParleyClient } from '../support/parley-client.ts'
import { hasPostgres } from '../support/postgres.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { delegates, enter, mentions, say, type Turn, takesTurns } from '../support/turns.ts'
import { until } from '../support/until.ts'

// The six example conversations of seed 002, through GraphQL: who says what, in which order, in how many runs.

const CREATE_AGENT = `mutation ($input: CreateAgentInput!) { createAgent(input: $input) { ... on CreateAgentPayload { agent { id name } } ... on Error { message } } }`
const CREATE_SPACE = `mutation ($input: CreateSpaceInput!) { createSpace(input: $input) { ... on CreateSpacePayload { space { id name routing } } ... on Error { message } } }`
const SEND = `mutation ($input: SendMessageInput!) { sendMessage(input: $input) { ... on SendMessagePayload { sentMessage { id } runs { id agent { name } } } ... on Error { message } } }`
const CREATE_PLAN = `mutation ($input: CreatePlanInput!) { createPlan(input: $input) { ... on CreatePlanPayload { plan { id } } ... on Error { message } } }`
const SPACE = `query ($id: ID!) { space(id: $id) { messages { edges { node { text sender { name } mentionedAgent { name }
  outcomes { kind agent { name } } } } } } }`
const RUNS = `query { agents(first: 50) { edges { node { name activeRuns { id }
  runs { edges { node { id status depth rootId chain { id depth replyStack { reason } } triggerSpace { name } } } } } } } }`

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
}

describe.each(['embedded', ...(hasPostgres ? (['postgres'] as const) : [])] as const)(
  'seed 002 on the %s stack',
  (stack) => {
    let parley: TestServer
    let admin: ParleyClient
    let husam: HumanViewer
    let client: ParleyClient

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

    /** Agents of these names, in this order of turn. */
    async function agents<Names extends string[]>(...names: Names): Promise<{ [Index in keyof Names]: Agent }> {
      const made: Agent[] = []
      for (const name of names) {
        const input = {
          name,
          instructions: 'Play your part.',
          model: 'openai.chat:test',
          mind: 'STATELESS',
          toolset: 'ACTIVE_SPACE',
        }
        made.push((await answerOf<{ agent: Agent }>(admin, CREATE_AGENT, { input })).agent)
      }
      return made as { [Index in keyof Names]: Agent }
    }

    async function space(name: string, members: Agent[]): Promise<{ id: string; name: string }> {
      const input = { name, routing: 'MENTION_CHAIN', memberIds: members.map(({ id }) => id) }
      return (await answerOf<{ space: { id: string; name: string } }>(client, CREATE_SPACE, { input })).space
    }

    /** The human says something, and the chain that it sets off comes to its end. Answers with who was picked first. */
    async function hears(spaceId: string, text: string): Promise<string[]> {
      const { runs } = await answerOf<{ runs: { agent: Agent }[] }>(client, SEND, { input: { spaceId, text } })
      await chainsRest()
      return runs.map(({ agent }) => agent.name)
    }

    function chainsRest(): Promise<unknown> {
      return until(
        'every chain has ended',
        async () => (await parley.app.platform.db.prisma.chain.count({ where: { holderId: { not: null } } })) === 0,
      )
    }

    async function conversation(spaceId: string): Promise<string[]> {
      type Answer = { messages: { edges: { node: { text: string; sender: Agent; mentionedAgent: Agent | null } }[] } }
      const { messages } = await answerOf<Answer>(client, SPACE, { id: spaceId })
      return messages.edges.map(
        ({ node }) => `${node.sender.name}${node.mentionedAgent ? ` → ${node.mentionedAgent.name}` : ''}: ${node.text}`,
      )
    }

    /** Every run of these agents, oldest first. */
    async function runsOf(...cast: Agent[]): Promise<RunNode[]> {
      type Answer = {
        edges: { node: Agent & { activeRuns: unknown[]; runs: { edges: { node: Omit<RunNode, 'agent'> }[] } } }[]
      }
      const { edges } = await answerOf<Answer>(admin, RUNS)
      const own = edges.filter(({ node }) => cast.some(({ name }) => name === node.name))
      expect(own.flatMap(({ node }) => node.activeRuns)).toEqual([])
      const runs = own.flatMap(({ node }) => node.runs.edges.map((run) => ({ ...run.node, agent: node.name })))
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

    test('hand-off: the delegator says nothing, the right agent answers', async () => {
      const [research, demo] = await agents('Research Agent B', 'Demo Agent B')
      const room = await space('Lobby B', [research, demo])
      plays(research, [[delegates(demo, 'has MCP tools for weather')]])
      plays(demo, [[say('It is 31 degrees and clear.')]])
      expect(await hears(room.id, "what's the weather like?")).toEqual(['Research Agent B'])
      expect(await conversation(room.id)).toEqual([
        "حسام: what's the weather like?",
        'Demo Agent B: It is 31 degrees and clear.',
      ])
      expect(story(await runsOf(research, demo))).toEqual(['Research Agent B CANCELED', 'Demo Agent B COMPLETED'])
      const asked = await parley.models.request(({ instructions }) => instructions.includes('You are Demo Agent B'))
      expect(asked.messages.at(-1)?.text).toContain('Delegated to you by Research Agent B: "has MCP tools for weather"')
      expect(asked.messages.at(-1)?.text).toContain("what's the weather like?")
    })

    test('fire-and-forget mention: two agents respond', async () => {
      const [demo, research] = await agents('Demo Agent C', 'Research Agent C')
      const room = await space('Lobby C', [demo, research])
      plays(demo, [[say("Here's the image!")], [mentions(research, 'user wants research too', false)]])
      plays(research, [[say("Here's what I found...")]])
      await hears(room.id, 'research quantum computing and make me an image about it')
      expect(await conversation(room.id)).toEqual([
        'حسام: research quantum computing and make me an image about it',
        "Demo Agent C → Research Agent C: Here's the image!",
        "Research Agent C: Here's what I found...",
      ])
      expect(story(await runsOf(demo, research))).toEqual(['Demo Agent C COMPLETED', 'Research Agent C COMPLETED'])
    })

    test('reply stack: an agent needs the output of another to go on', async () => {
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
    })

    test('nested reply stack: each agent gets exactly what it needed', async () => {
      const [hr, finance, data] = await agents('HR Agent E', 'Finance Agent E', 'Data Agent E')
      const room = await space('Lobby E', [hr, finance, data])
      const stacks: string[][] = []
      const look = async () => {
        const chain = await parley.app.platform.db.prisma.chain.findFirstOrThrow({ where: { spaceId: room.id } })
        const waiting = chain.replyStack as { entityId: string }[]
        stacks.push(waiting.map(({ entityId }) => (entityId === hr.id ? 'HR' : 'Finance')))
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
      parley.models.script(async ({ step }) => {
        if (step === 0) await look()
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
      expect(stacks).toEqual([[], ['HR'], ['HR', 'Finance'], ['HR'], []])
    })

    test('cross-space: a plan, a space entered, a mention there, and the call-back in that space', async () => {
      const [hr, finance] = await agents('HR Agent F', 'Finance Agent F')
      const hrRoom = await space('HR Space', [hr])
      const financeRoom = await space('Finance Space', [finance, hr])
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
    })
  },
)
