import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { HumanViewer, Viewer } from '../../src/access/viewer.ts'
import { newId } from '../../src/lib/ids.ts'
import { hasPostgres } from '../support/postgres.ts'
import { BOUNDS, type Cost, countRoundTrips } from '../support/round-trips.ts'
import { startTestServer, type TestServer } from '../support/served.ts'

const RUN = `id status triggerType triggerSummary stepCount usage { totalTokens } summary error depth rootId
  agent { id name } triggerSpace { id name } triggerMessage { id text } activeSpace { id }
  chain { id depth replyStack { reason agent { name } } } toolCalls { id toolName input } pendingToolCalls { id } queuedAt`
const TOOL_CALL =
  'id toolName status input output error agent { id name } run { id status } message { id seq } createdAt'
const MESSAGE = `id seq status text createdAt space { id name unreadCount } sender { id name ... on Agent { model description } }
  parts { id index ... on TextPart { text } ... on ToolCallPart { toolCall { ${TOOL_CALL} } } }
  mentionedAgent { id name mind } run { ${RUN} } origin { triggerSpaceId triggerSenderName }
  outcomes { kind reason agent { id name } run { id status } }`
const AGENT = `id name kind description model mind toolset active activeRuns { id status } createdAt
  runs(first: 5) { pageInfo { hasNextPage } edges { cursor node { id triggerSummary } } }`
const INTERNALS = `internals { instructions maxSteps phases { fromStep } cycle { minRecentCycles } tools { name headerNames }
  mcpServers { name } memories { key } goals { id description } plans { id name agent { name } }
  inbox(first: 2) { edges { node { id type } } } consciousness { cycleCount } }`
const SPACE = `id name routing unreadCount adminAgent { id name } members { id name kind ... on Agent { model active } }
  lastMessage { id text sender { name } } firstUnreadMessage { id seq } createdAt`

const SPACES = `{ viewer { unreadCount pendingToolCalls { id run { id } } }
  spaces(first: 20) { pageInfo { hasNextPage endCursor } edges { cursor node { ${SPACE} messages(last: 5) { edges { node { id text sender { id } } } } } } } }`
const MESSAGES = `query ($id: ID!) { space(id: $id) { id messages(last: 100) { pageInfo { hasPreviousPage } edges { cursor node { ${MESSAGE} } } } } }`
const AGENTS = `{ agents(first: 20) { edges { node { ${AGENT} } } } }`
const ADMINS_AGENTS = `{ agents(first: 20) { edges { node { ${AGENT} ${INTERNALS} } } } }`
const STEPS = `query ($ids: [ID!]!) { nodes(ids: $ids) { id ... on Run { internals { steps(first: 3) { edges { node { id index model } } } } } } }`
const NODES = `query ($ids: [ID!]!) { nodes(ids: $ids) { id __typename ... on Space { name streamCursor } ... on Message { text } ... on Run { status streamCursor } ... on ToolCall { toolName } ... on Agent { model } } }`

describe.skipIf(!hasPostgres)('the number of SQL statements', () => {
  let parley: TestServer
  let statements = 0
  const { query } = pg.Client.prototype

  beforeAll(async () => {
    parley = await startTestServer({ stack: 'postgres', worker: false, settings: { PARLEY_ROLE: 'api' } })
    const database = new URL(parley.stores.settings['DATABASE_URL'] ?? '').pathname.slice(1)
    pg.Client.prototype.query = function (this: pg.Client, ...args: unknown[]) {
      // Other applications, which wait for later test files, also send statements periodically.
      if (this.database === database) statements += 1
      return query.apply(this, args as never)
    } as never
  })
  afterAll(async () => {
    pg.Client.prototype.query = query
    await parley?.close()
  })

  /** Returns the statements of an operation over HTTP, including its authentication. */
  async function cost(viewer: Viewer, operation: string, variables: object = {}): Promise<number> {
    const client = await parley.clientOf(viewer)
    const before = statements
    const { data, errors } = await client.ask(operation, variables)
    expect(errors).toBeUndefined()
    expect(data).toBeTruthy()
    return statements - before
  }

  /**
   * Creates a human with `size` objects of each kind: spaces, agents, messages in the first space, runs, tool calls and
   * outcomes.
   */
  async function world(size: number) {
    const { prisma } = parley.app.platform.db
    const human = await parley.human('Ada')
    const count = Math.min(size, 20)
    const agents = await Promise.all(Array.from({ length: count }, (_, i) => parley.agent(`Agent ${i} of ${size}`)))
    const spaces = []
    for (let i = 0; i < Math.max(count, 2); i++)
      spaces.push(
        await parley.space(
          human,
          agents.slice(0, i + 1).map(({ id }) => id),
        ),
      )
    for (const agent of agents) {
      await parley.app.domain.memories.set(agent.id, [{ key: 'k', value: 'v' }])
      await parley.app.domain.goals.set(agent.id, [{ description: 'g' }])
    }
    const ids: string[] = [human.id, ...agents.map(({ id }) => id), ...spaces.map(({ id }) => id)]
    for (const space of spaces.slice(1)) await addMessage(space.id, agents[0]!.id, 1, space.id)
    for (let seq = 1; seq <= size; seq++) {
      ids.push(
        ...(await addMessage(spaces[0]!.id, agents[seq % count]!.id, seq, spaces[1 + (seq % (spaces.length - 1))]!.id)),
      )
    }
    for (const [index, { id }] of spaces.entries()) {
      await prisma.space.update({ where: { id }, data: { lastSeq: index === 0 ? size : 1 } })
    }
    return { human, spaceId: spaces[0]!.id, ids }
  }

  /** Creates a message by an agent, its run and its visible tool call, as the engine leaves them. */
  async function addMessage(spaceId: string, agentId: string, seq: number, triggerSpaceId: string): Promise<string[]> {
    const { prisma } = parley.app.platform.db
    const [runId, messageId, toolCallId, chainId] = [newId('run'), newId('msg'), newId('tcl'), newId('chn')]
    const trigger = {
      triggerType: 'SPACE_MESSAGE' as const,
      triggerSpaceId,
      triggerMessageId: messageId,
      triggerSummary: 'x',
    }
    await prisma.chain.create({ data: { id: chainId, spaceId, replyStack: [{ entityId: agentId, reason: null }] } })
    await prisma.run.create({
      data: {
        id: runId,
        agentId,
        status: 'RUNNING',
        activeSpaceId: spaceId,
        depth: 0,
        rootId: runId,
        chainId,
        ...trigger,
      },
    })
    await prisma.runSpace.create({ data: { runId, spaceId } })
    const parts = [
      { type: 'text', text: `message ${seq}` },
      { type: 'tool', toolCallId },
    ]
    const origin = {
      triggerType: 'SPACE_MESSAGE',
      triggerName: null,
      triggerSpaceId,
      triggerSpaceName: 's',
      triggerSenderName: 'n',
      triggerMessage: 't',
    }
    await prisma.message.create({
      data: {
        id: messageId,
        spaceId,
        seq,
        senderId: agentId,
        status: 'REQUIRES_ACTION',
        parts,
        runId,
        rootId: runId,
        depth: 1,
        mentionedAgentId: agentId,
        origin,
      },
    })
    await prisma.toolCall.create({
      data: {
        id: toolCallId,
        runId,
        agentId,
        stepIndex: 0,
        modelCallId: 'c',
        toolName: 't',
        execution: 'SPACE',
        status: 'WAITING',
        input: {},
        messageId,
        spaceId,
      },
    })
    await prisma.outcome.create({ data: { messageId, agentId, kind: 'RUN', runId } })
    const step = {
      id: newId('stp'),
      runId,
      index: 0,
      model: 'demo',
      messagesKept: 0,
      messagesAdded: [],
      assistant: {},
      startedAt: new Date(),
    }
    await prisma.step.create({ data: step })
    return [runId, messageId, toolCallId]
  }

  test('depends on the fields, not on the number of rows', async () => {
    const one = await world(1)
    const many = await world(100)
    const operations: [name: string, viewer: (human: HumanViewer) => Viewer, operation: string, most: number][] = [
      ['spaces', (human) => human, SPACES, 25],
      ['messages', (human) => human, MESSAGES, 35],
      ['agents', (human) => human, AGENTS, 12],
      ['agents and their internals', () => parley.admin, ADMINS_AGENTS, 25],
      ['steps', () => parley.admin, STEPS, 12],
      ['nodes', (human) => human, NODES, 18],
    ]
    for (const [name, viewerOf, operation, most] of operations) {
      const few = await cost(viewerOf(one.human), operation, { id: one.spaceId, ids: one.ids })
      const all = await cost(viewerOf(many.human), operation, { id: many.spaceId, ids: many.ids })
      // Two fields that look up the same kind of row need one statement if the lookups coincide, and otherwise two.
      expect(Math.abs(all - few), `${name}: ${few} statements for one row, ${all} for a hundred`).toBeLessThanOrEqual(3)
      expect(Math.max(few, all), name).toBeLessThanOrEqual(most)
    }
  }, 60_000)

  test('of a page of A2A tasks does not depend on the size of the page, even with artifacts', async () => {
    const { human, spaceId } = await world(50)
    const token = await parley.tokenOf(human)
    async function costOfPage(pageSize: number, includeArtifacts: boolean): Promise<number> {
      const before = statements
      const response = await fetch(`${parley.origin}/a2a`, {
        method: 'POST',
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json', 'a2a-version': '1.0' },
        body: JSON.stringify({
          jsonrpc: '2.0',
          id: 1,
          method: 'ListTasks',
          params: { contextId: spaceId, pageSize, includeArtifacts },
        }),
      })
      const { result } = (await response.json()) as { result: { tasks: { artifacts?: object[] }[] } }
      expect(result.tasks).toHaveLength(pageSize)
      expect(result.tasks.every(({ artifacts }) => artifacts?.length === (includeArtifacts ? 1 : undefined))).toBe(true)
      return statements - before
    }
    for (const includeArtifacts of [false, true]) {
      const [few, all] = [await costOfPage(2, includeArtifacts), await costOfPage(50, includeArtifacts)]
      expect(all - few, `${few} statements for two tasks, ${all} for fifty`).toBeLessThanOrEqual(3)
      expect(all).toBeLessThanOrEqual(45)
    }
  }, 60_000)
})

describe.skipIf(!hasPostgres)('the round trips to PostgreSQL and Redis', () => {
  let costs: Cost[]

  beforeAll(async () => {
    costs = await countRoundTrips()
  })

  test.for(Object.entries(BOUNDS))('the round trips of %s stay within their bound', ([what, bound]) => {
    const cost = costs.find((one) => one.what === what)
    expect(cost, `${cost?.statements} statements, ${cost?.commands} commands`).toSatisfy(
      (one: Cost) => one.statements <= bound.statements && one.commands <= bound.commands,
    )
  })
})
