import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { HumanViewer, ServiceViewer, Viewer } from '../../src/access/viewer.ts'
import { newId } from '../../src/lib/ids.ts'
import { startTestServer, type TestServer } from '../support/served.ts'

const NODES = 'query ($ids: [ID!]!) { nodes(ids: $ids) { __typename id } }'

describe('objects that a viewer may not see do not exist for that viewer', () => {
  let parley: TestServer
  let ada: HumanViewer
  let eve: HumanViewer
  let agentId: string
  let spaceId: string
  let messageId: string
  let runId: string
  let toolCallId: string

  beforeAll(async () => {
    parley = await startTestServer({ worker: false })
    ada = await parley.human('Ada')
    eve = await parley.human('Eve')
    agentId = (await parley.agent('Echo')).id
    spaceId = (await parley.space(ada, [agentId])).id
    const sent = await parley.send(ada, spaceId, 'Hello')
    messageId = sent.message.id
    runId = sent.runs[0]?.id ?? ''
    toolCallId = newId('tcl')
    await parley.app.platform.db.prisma.toolCall.create({
      data: {
        id: toolCallId,
        runId,
        agentId,
        stepIndex: 0,
        modelCallId: 'c',
        toolName: 'secret',
        status: 'DONE',
        input: { a: 1 },
        output: 'o',
      },
    })
  })
  afterAll(() => parley?.close())

  async function ask<T>(viewer: Viewer, query: string, variables: object = {}): Promise<T> {
    const { data, errors } = await (await parley.clientOf(viewer)).ask<T>(query, variables)
    expect(errors).toBeUndefined()
    return data as T
  }
  const service = async (agentIds: string[] | null): Promise<ServiceViewer> => {
    const { accessToken } = await parley.app.domain.tokens.create(parley.admin, {
      grant: { service: { name: 'hook', agentIds } },
    })
    return { scope: 'SERVICE', id: accessToken.id, name: 'hook', agentIds, tokenId: accessToken.id, expiresAt: null }
  }

  test('node and nodes agree with the other fields: inaccessible, unknown and malformed ids each give null', async () => {
    const ids = [
      spaceId,
      messageId,
      runId,
      toolCallId,
      ada.id,
      agentId,
      newId('spc'),
      newId('stp'),
      'xyz_1',
      'nonsense',
      '',
    ]
    const own = await ask<{ nodes: ({ __typename: string } | null)[] }>(ada, NODES, { ids })
    expect(own.nodes.map((node) => node?.__typename ?? null)).toEqual([
      'Space',
      'Message',
      'Run',
      'ToolCall',
      'Human',
      'Agent',
      null,
      null,
      null,
      null,
      null,
    ])
    const foreign = await ask<{ nodes: ({ __typename: string } | null)[] }>(eve, NODES, { ids })
    expect(foreign.nodes.map((node) => node?.__typename ?? null)).toEqual([
      null,
      null,
      null,
      null,
      null,
      'Agent',
      null,
      null,
      null,
      null,
      null,
    ])
    const one = await ask<{ node: unknown; space: unknown; message: unknown; run: unknown }>(
      eve,
      'query ($s: ID!, $m: ID!, $r: ID!) { node(id: $s) { id } space(id: $s) { id } message(id: $m) { id } run(id: $r) { id } }',
      { s: spaceId, m: messageId, r: runId },
    )
    expect(one).toEqual({ node: null, space: null, message: null, run: null })
  })

  test('goals, plans, inbox events, tokens and webhooks are nodes for admins only', async () => {
    const [goal] = await parley.app.domain.goals.set(agentId, [{ description: 'Be kind' }])
    const { accessToken } = await parley.app.domain.tokens.create(parley.admin, { grant: { humanId: ada.id } })
    const ids = [goal?.id, accessToken.id]
    const types = async (viewer: Viewer) =>
      (await ask<{ nodes: ({ __typename: string } | null)[] }>(viewer, NODES, { ids })).nodes.map(
        (node) => node?.__typename ?? null,
      )
    expect(await types(parley.admin)).toEqual(['Goal', 'AccessToken'])
    expect(await types(ada)).toEqual([null, null])
  })

  test('only admins read internals, and the input and output of a tool that is not shown', async () => {
    const query = `query ($agent: ID!, $run: ID!) { agent(id: $agent) { name internals { instructions } }
      run(id: $run) { status internals { steps { edges { cursor } } } toolCalls { toolName status input output } } }`
    const variables = { agent: agentId, run: runId }
    expect(await ask(ada, query, variables)).toEqual({
      agent: { name: 'Echo', internals: null },
      run: {
        status: 'QUEUED',
        internals: null,
        toolCalls: [{ toolName: 'secret', status: 'DONE', input: null, output: null }],
      },
    })
    expect(await ask(parley.admin, query, variables)).toEqual({
      agent: { name: 'Echo', internals: { instructions: 'Answer briefly.' } },
      run: {
        status: 'QUEUED',
        internals: { steps: { edges: [] } },
        toolCalls: [{ toolName: 'secret', status: 'DONE', input: { a: 1 }, output: 'o' }],
      },
    })
  })

  test('only admins read the reasons of outcomes, and only the sender reads the idempotency key', async () => {
    const { message } = await parley.app.domain.sending.send(ada, { spaceId, text: 'Again', idempotencyKey: 'key-1' })
    const query = 'query ($id: ID!) { message(id: $id) { idempotencyKey outcomes { kind reason agent { name } } } }'
    const seenBy = async (viewer: Viewer) => (await ask<{ message: object }>(viewer, query, { id: message.id })).message
    expect(await seenBy(ada)).toEqual({
      idempotencyKey: 'key-1',
      outcomes: [{ kind: 'RUN', reason: null, agent: { name: 'Echo' } }],
    })
    expect(await seenBy(parley.admin)).toEqual({
      idempotencyKey: null,
      outcomes: [{ kind: 'RUN', reason: expect.any(String), agent: { name: 'Echo' } }],
    })
  })

  test('a run is visible in another space, without its trigger', async () => {
    const other = await parley.space(eve, [agentId])
    const { prisma } = parley.app.platform.db
    await prisma.runSpace.create({ data: { runId, spaceId: other.id } })
    const query =
      'query ($id: ID!) { run(id: $id) { triggerSummary triggerSpace { id } triggerMessage { id } activeSpace { id } } }'
    expect(await ask(ada, query, { id: runId })).toMatchObject({
      run: { triggerSummary: expect.stringContaining('Hello') },
    })
    expect(await ask(eve, query, { id: runId })).toEqual({
      run: { triggerSummary: 'Ada in another space', triggerSpace: null, triggerMessage: null, activeSpace: null },
    })
    await prisma.runSpace.deleteMany({ where: { runId, spaceId: other.id } })
  })

  test('a message from a run that another space triggered does not reveal that space', async () => {
    const other = await parley.space(eve, [agentId])
    const origin = {
      triggerType: 'SPACE_MESSAGE',
      triggerName: null,
      triggerSpaceId: spaceId,
      triggerSpaceName: 'Secret',
      triggerSenderName: 'Ada',
      triggerMessage: 'Hello',
    }
    const id = newId('msg')
    await parley.app.platform.db.prisma.message.create({
      data: {
        id,
        spaceId: other.id,
        seq: 1,
        senderId: agentId,
        status: 'COMPLETE',
        parts: [{ type: 'text', text: 'x' }],
        rootId: id,
        depth: 0,
        origin,
      },
    })
    const query =
      'query ($id: ID!) { message(id: $id) { origin { triggerType triggerSpaceId triggerSpaceName triggerSenderName triggerMessage } } }'
    const hidden = { triggerSpaceId: null, triggerSpaceName: null, triggerSenderName: null, triggerMessage: null }
    expect(await ask(eve, query, { id })).toEqual({ message: { origin: { triggerType: 'SPACE_MESSAGE', ...hidden } } })
    const { triggerName: _, ...whole } = origin
    expect(await ask(parley.admin, query, { id })).toEqual({ message: { origin: whole } })
  })

  test('a service sees the agents that its token grants, and nothing of spaces', async () => {
    const other = await parley.agent('Other')
    const query = `query ($a: ID!, $b: ID!, $s: ID!) { viewer { scope serviceName human { id } unreadCount } a: agent(id: $a) { name } b: agent(id: $b) { name }
      agents { edges { node { name } } } spaces { edges { cursor } } space(id: $s) { id } }`
    expect(await ask(await service([agentId]), query, { a: agentId, b: other.id, s: spaceId })).toEqual({
      viewer: { scope: 'SERVICE', serviceName: 'hook', human: null, unreadCount: 0 },
      a: { name: 'Echo' },
      b: null,
      agents: { edges: [{ node: { name: 'Echo' } }] },
      spaces: { edges: [] },
      space: null,
    })
  })

  test('a former member stays visible with id, name and kind', async () => {
    const bob = await parley.human('Bob')
    await parley.app.domain.members.add(parley.admin, { spaceId, entityId: bob.id })
    const { message } = await parley.send(bob, spaceId, 'Farewell')
    await parley.app.domain.members.remove(bob, { spaceId, entityId: bob.id })
    const query = 'query ($m: ID!, $h: ID!) { message(id: $m) { sender { id name kind } } node(id: $h) { id } }'
    expect(await ask(ada, query, { m: message.id, h: bob.id })).toEqual({
      message: { sender: { id: bob.id, name: 'Bob', kind: 'HUMAN' } },
      node: { id: bob.id },
    })
  })
})
