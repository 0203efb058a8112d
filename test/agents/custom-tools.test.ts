import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type CustomTools, createCustomTools, type ToolInput } from '../../src/agents/custom-tools.ts'
import { createMcpServers, type McpServerInput, type McpServers } from '../../src/agents/mcp-servers.ts'
import { openHeaders } from '../../src/agents/outgoing-request.ts'
import { TOOLS } from '../../src/tools/built-in-tools.ts'
import { type Domain, openDomain } from '../support/domain.ts'
import { hasPostgres } from '../support/postgres.ts'

const SECRET = 'Bearer hunter2'

describe.skipIf(!hasPostgres)('the tools and MCP servers of agents', () => {
  let domain: Domain
  let tools: CustomTools
  let servers: McpServers
  beforeAll(async () => {
    domain = await openDomain()
    tools = createCustomTools(domain.platform)
    servers = createMcpServers(domain.platform)
  })
  afterAll(() => domain.close())

  const internal = (name: string): ToolInput => ({
    name,
    description: 'A tool',
    inputSchema: { type: 'object' },
    execution: 'INTERNAL',
  })
  const http = (name: string, rest: Partial<ToolInput> = {}): ToolInput => ({
    ...internal(name),
    execution: 'HTTP',
    url: 'https://example.com/hook',
    ...rest,
  })
  const toolsOf = async (agentId: string) => (await tools.listMany([agentId])).get(agentId) ?? []
  const change = (id: string, changes: { tools?: ToolInput[]; mcpServers?: McpServerInput[] }) =>
    domain.agents.update(domain.admin, { id, ...changes })

  describe('tools', () => {
    test('an omitted field has the default of the execution', async () => {
      const executions = ['HTTP', 'SPACE', 'EXTERNAL', 'INTERNAL'] as const
      const inputs = executions.map((execution) =>
        execution === 'HTTP' ? http('http') : { ...internal(execution.toLowerCase()), execution },
      )
      const { id } = await domain.agent('Toolbox', { tools: inputs })
      expect((await toolsOf(id)).map(({ name, visible, timeoutMs }) => [name, visible, timeoutMs])).toEqual([
        ['http', false, 30_000],
        ['space', true, 600_000],
        ['external', false, 600_000],
        ['internal', false, 30_000],
      ])
    })

    test.each<[string, Partial<ToolInput>]>([
      ['name', { name: '' }],
      ['name', { name: 'x'.repeat(65) }],
      ['name', { name: 'with space' }],
      ['inputSchema', { inputSchema: 'nonsense' }],
      ['inputSchema', { inputSchema: { type: 'object', description: 'x'.repeat(262_144) } }],
      ['description', { description: 'nul\0' }],
      ['visible', { execution: 'SPACE', visible: false }],
      ['timeoutMs', { timeoutMs: 0 }],
      ['timeoutMs', { execution: 'SPACE', timeoutMs: 2_147_483_648 }],
      ['url', { execution: 'HTTP' }],
      ['url', { execution: 'HTTP', url: 'ftp://example.com' }],
      ['url', { execution: 'HTTP', url: 'https://user:secret@example.com' }],
      ['url', { execution: 'HTTP', url: 'nonsense' }],
      ['url', { execution: 'INTERNAL', url: 'https://example.com' }],
      ['headers', { execution: 'EXTERNAL', headers: { a: 'b' } }],
    ])('an invalid %s is refused with the name of the field: %j', async (field, rest) => {
      const creating = domain.agent('Some agent', { tools: [internal('fine'), { ...internal('bad'), ...rest }] })
      await expect(creating).rejects.toMatchObject({ code: 'BAD_INPUT', field: `input.tools.1.${field}` })
    })

    test('a tool cannot have the name of a built-in tool or of another tool', async () => {
      const names = Object.values(TOOLS).flatMap((tools) => tools.flatMap((tool) => Object.values(tool.names)))
      for (const name of [...new Set(names), 'fine']) {
        const creating = domain.agent('Some agent', { tools: [internal('fine'), internal(name)] })
        await expect(creating).rejects.toMatchObject({ code: 'BAD_INPUT', field: 'input.tools.1.name' })
      }
    })

    test('replacing the list keeps its order', async () => {
      const { id } = await domain.agent('Toolbox', { tools: ['a', 'b', 'c'].map(internal) })
      await change(id, { tools: ['d', 'c', 'a'].map(internal) })
      expect((await toolsOf(id)).map(({ name }) => name)).toEqual(['d', 'c', 'a'])
      await domain.agents.update(domain.admin, { id, name: 'Renamed' })
      expect(await toolsOf(id)).toHaveLength(3)
      await change(id, { tools: [] })
      expect(await toolsOf(id)).toEqual([])
    })
  })

  describe('headers', () => {
    const headersIn = async (id: string) =>
      (await toolsOf(id)).map((tool) => openHeaders('tool', tool, domain.platform.secretBox))

    test('are stored sealed, and only their names can be read', async () => {
      const { id } = await domain.agent('Caller', { tools: [http('call', { headers: { Authorization: SECRET } })] })
      const [tool] = await toolsOf(id)
      expect(tool).toMatchObject({ headerNames: ['Authorization'] })
      expect(JSON.stringify(tool)).not.toContain('hunter2')
      expect(await headersIn(id)).toEqual([{ Authorization: SECRET }])
    })

    test('stay with the tool of the same name when absent, are removed by null, change when given', async () => {
      const first = [http('a', { headers: { A: '1' } }), http('b', { headers: { B: '2' } })]
      const { id } = await domain.agent('Caller', { tools: first })
      await change(id, { tools: [http('b'), http('a', { url: 'https://example.com/elsewhere' }), http('c')] })
      expect(await headersIn(id)).toEqual([{ B: '2' }, { A: '1' }, {}])
      await change(id, { tools: [http('a', { headers: null }), http('b', { headers: { C: '3' } })] })
      expect(await headersIn(id)).toEqual([{}, { C: '3' }])
      expect((await toolsOf(id)).map(({ headerNames }) => headerNames)).toEqual([[], ['C']])
      await change(id, { tools: [http('a'), http('b')] })
      expect(await headersIn(id)).toEqual([{}, { C: '3' }])
    })

    test('a sealed header value cannot be opened for another tool', async () => {
      const { id } = await domain.agent('Caller', { tools: [http('a', { headers: { A: '1' } })] })
      const [tool] = await toolsOf(id)
      expect(() => openHeaders('tool', { ...tool!, name: 'b' }, domain.platform.secretBox)).toThrow()
    })

    test.each([
      ['a list', ['a']],
      ['a text', SECRET],
      ['a value that is no text', { Authorization: 1 }],
      ['a line break in a value', { Authorization: `${SECRET}\r\nX: y` }],
      ['a character that HTTP does not carry', { Authorization: `${SECRET} €` }],
      ['a name that HTTP does not allow', { 'a b': SECRET }],
      ['a name given twice', { Authorization: SECRET, authorization: SECRET }],
      ['a header of the connection', { 'Content-Length': SECRET }],
      ['far too much', { Authorization: SECRET.repeat(2000) }],
    ])('%s is refused, without repeating the value', async (_, headers) => {
      const refusal = await domain.agent('Caller', { tools: [http('a', { headers })] }).catch((error) => error)
      expect(refusal).toMatchObject({ code: 'BAD_INPUT', field: 'input.tools.0.headers' })
      expect(refusal.message).not.toContain('hunter2')
    })
  })

  describe('MCP servers', () => {
    const jira = (rest: Partial<McpServerInput> = {}): McpServerInput => ({
      name: 'jira',
      url: 'https://mcp.example',
      ...rest,
    })
    const serversOf = async (agentId: string) => (await servers.listMany([agentId])).get(agentId) ?? []

    test('all of their tools are allowed unless a list restricts them', async () => {
      const mcpServers = [
        jira(),
        jira({ name: 'some', allowedTools: ['a', 'a'] }),
        jira({ name: 'none', allowedTools: [] }),
      ]
      const { id } = await domain.agent('Connected', { mcpServers })
      const read = (await serversOf(id)).map(({ name, allowedTools }) => [name, allowedTools])
      expect(read).toEqual([
        ['jira', null],
        ['some', ['a']],
        ['none', []],
      ])
    })

    test('headers stay when omitted, as with tools', async () => {
      const { id } = await domain.agent('Connected', { mcpServers: [jira({ headers: { Authorization: SECRET } })] })
      await change(id, { mcpServers: [jira({ allowedTools: ['a'] })] })
      const [server] = await serversOf(id)
      expect(server).toMatchObject({ headerNames: ['Authorization'], allowedTools: ['a'] })
      expect(openHeaders('mcp', server!, domain.platform.secretBox)).toEqual({ Authorization: SECRET })
      await change(id, { mcpServers: [jira({ headers: null })] })
      expect((await serversOf(id))[0]).toMatchObject({ headerNames: [], headersSealed: null })
    })

    test('the fingerprints of a server are deleted when its URL changes', async () => {
      const { prisma } = domain.platform.db
      const { id } = await domain.agent('Connected', { mcpServers: [jira()] })
      const trusted = async (agentId: string) =>
        (await prisma.mcpServer.findFirstOrThrow({ where: { agentId } })).fingerprints
      await prisma.mcpServer.updateMany({ where: { agentId: id }, data: { fingerprints: { search: 'abc' } } })
      await change(id, { mcpServers: [jira({ allowedTools: ['search'] })] })
      expect(await trusted(id)).toEqual({ search: 'abc' })
      await change(id, { mcpServers: [jira({ url: 'https://other.example' })] })
      expect(await trusted(id)).toEqual({})
    })

    test.each<[string, Partial<McpServerInput>]>([
      ['name', { name: 'a b' }],
      ['name', { name: 'a__b' }],
      ['name', { name: 'first' }],
      ['url', { url: 'stdio:x' }],
      ['url', { url: 'http://user@example.com' }],
      ['headers', { headers: 1 }],
      ['allowedTools', { allowedTools: [''] }],
    ])('an invalid %s is refused with the name of the field: %j', async (field, rest) => {
      const creating = domain.agent('Connected', { mcpServers: [jira({ name: 'first' }), jira(rest)] })
      await expect(creating).rejects.toMatchObject({ code: 'BAD_INPUT', field: `input.mcpServers.1.${field}` })
    })
  })
})
