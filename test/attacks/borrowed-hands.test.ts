import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { newId } from '../../src/lib/ids.ts'
import { startTestServer, type TestServer } from '../support/served.ts'

const CREATE = `mutation ($memberIds: [ID!]) { createSpace(input: { name: "Mine", memberIds: $memberIds }) {
  __typename ... on CreateSpacePayload { space { id } } ... on Error { message } } }`
const ADD = `mutation ($spaceId: ID!, $entityId: ID!) { addMember(input: { spaceId: $spaceId, entityId: $entityId }) { __typename } }`
const UPDATE = `mutation ($input: UpdateAgentInput!) { updateAgent(input: $input) {
  __typename ... on BadInputError { field message } } }`

describe('other people’s objects', () => {
  let parley: TestServer

  beforeAll(async () => {
    parley = await startTestServer({ worker: false })
  })
  afterAll(() => parley?.close())

  const someone = async (name: string) => {
    const human = await parley.human(name)
    return { human, client: await parley.clientOf(human) }
  }
  const typeOf = async (client: Awaited<ReturnType<typeof someone>>['client'], query: string, variables: object) => {
    const { data, errors } = await client.ask<Record<string, { __typename: string }>>(query, variables)
    return Object.values(data ?? {})[0]?.__typename ?? JSON.stringify(errors)
  }

  test.each([
    ['EVERYONE', 'CreateSpacePayload', 'CreateSpacePayload'],
    ['SHARES_SPACE', 'ForbiddenError', 'CreateSpacePayload'],
    ['ADMINS', 'ForbiddenError', 'ForbiddenError'],
  ] as const)('nobody else can add to a space an agent that is addable by %s', async (addableBy, stranger, known) => {
    const agent = await parley.agent('Confidant', { addableBy })
    const alice = await someone('Alice')
    const mallory = await someone('Mallory')
    const asAdmin = await parley.clientOf(parley.admin)
    expect(await typeOf(asAdmin, CREATE, { memberIds: [agent.id, alice.human.id] })).toBe('CreateSpacePayload')
    expect(await typeOf(mallory.client, CREATE, { memberIds: [agent.id] })).toBe(stranger)
    expect(await typeOf(alice.client, CREATE, { memberIds: [agent.id] })).toBe(known)
    const { id: spaceId } = await parley.space(mallory.human, [])
    const added = await typeOf(mallory.client, ADD, { spaceId, entityId: agent.id })
    expect(added).toBe(stranger === 'ForbiddenError' ? stranger : 'AddMemberPayload')
  })

  test('an agent is a member of at most 1,000 spaces', async () => {
    const agent = await parley.agent('Popular')
    const { client } = await someone('Ada')
    const { prisma } = parley.app.platform.db
    const spaces = Array.from({ length: 1000 }, () => ({
      id: newId('spc'),
      name: 'One of many',
      routing: 'BROADCAST' as const,
    }))
    await prisma.space.createMany({ data: spaces })
    await prisma.membership.createMany({ data: spaces.map(({ id }) => ({ spaceId: id, entityId: agent.id })) })
    expect(await typeOf(client, CREATE, { memberIds: [agent.id] })).toBe('LimitExceededError')
  })

  test('a human creates at most 100 spaces a day; spaces that an admin creates for the human do not count', async () => {
    const { human, client } = await someone('Busy')
    const { prisma } = parley.app.platform.db
    const spaces = Array.from({ length: 99 }, () => ({
      id: newId('spc'),
      name: 'Mine',
      routing: 'BROADCAST' as const,
      creatorId: human.id,
    }))
    await prisma.space.createMany({ data: spaces })
    expect(await typeOf(client, CREATE, {})).toBe('CreateSpacePayload')
    expect(await typeOf(client, CREATE, {})).toBe('LimitExceededError')
    const asAdmin = await parley.clientOf(parley.admin)
    expect(await typeOf(asAdmin, CREATE, { memberIds: [human.id] })).toBe('CreateSpacePayload')
    await prisma.space.updateMany({ where: { creatorId: human.id }, data: { createdAt: new Date(0) } })
    expect(await typeOf(client, CREATE, {})).toBe('CreateSpacePayload')
  })

  test('a redirect to another origin drops the secret headers', async () => {
    const client = await parley.clientOf(parley.admin)
    const tool = (changes: object) => ({
      name: 'pay',
      description: '',
      inputSchema: { type: 'object' },
      execution: 'HTTP',
      url: 'https://bank.example/pay',
      ...changes,
    })
    const server = (changes: object) => ({ name: 'jira', url: 'https://jira.example/mcp', ...changes })
    const headers = { authorization: 'Bearer of-the-bank' }
    const { id } = await parley.agent('Keeper', {
      tools: [tool({ headers })] as never,
      mcpServers: [server({ headers })],
    })
    const change = async (input: object) =>
      ((await client.ask<{ updateAgent: object }>(UPDATE, { input: { id, ...input } })).data?.updateAgent ?? {}) as {
        __typename?: string
        field?: string
      }
    expect(await change({ tools: [tool({ url: 'https://bank.example/other' })] })).toMatchObject({
      __typename: 'UpdateAgentPayload',
    })
    expect(await change({ tools: [tool({ url: 'https://evil.example/pay' })] })).toMatchObject({
      __typename: 'BadInputError',
      field: 'input.tools.0.headers',
    })
    expect(await change({ mcpServers: [server({ url: 'https://evil.example/mcp' })] })).toMatchObject({
      __typename: 'BadInputError',
      field: 'input.mcpServers.0.headers',
    })
    const [kept] = await parley.app.platform.db.prisma.agentTool.findMany({ where: { agentId: id } })
    expect(kept).toMatchObject({ url: 'https://bank.example/other', headerNames: ['authorization'] })
    expect(await change({ tools: [tool({ url: 'https://new.example/', headers: null })] })).toMatchObject({
      __typename: 'UpdateAgentPayload',
    })
    expect(await change({ mcpServers: [server({ url: 'https://new.example/', headers: { a: 'b' } })] })).toMatchObject({
      __typename: 'UpdateAgentPayload',
    })
  })
})
