import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type McpServer, startMcpServer } from '../../support/mcp-server.ts'
import { steps } from '../../support/model-server-script.ts'
import { startTestServer, type TestServer } from '../../support/served.ts'

const ADD = {
  name: 'add',
  description: 'Adds two numbers.',
  inputSchema: { type: 'object', properties: { a: { type: 'number' }, b: { type: 'number' } } },
  answer: ({ a, b }: Record<string, unknown>) => ({ content: [{ type: 'text', text: String(Number(a) + Number(b)) }] }),
}

describe("an agent's MCP servers", () => {
  let parley: TestServer
  let server: McpServer

  beforeAll(async () => {
    parley = await startTestServer()
  })
  afterAll(() => parley?.close())
  beforeEach(async () => {
    parley.models.reset()
    server = await startMcpServer([ADD, { name: 'erase', answer: () => ({ content: [] }) }])
  })
  afterEach(() => server.close())

  async function runWith(name: string, url: string, allowedTools: string[] | null = null) {
    const human = await parley.human('Husam')
    const headers = { authorization: 'Bearer of-the-server' }
    const agent = await parley.agent(name, { mcpServers: [{ name: 'math', url, headers, allowedTools }] })
    const space = await parley.space(human, [agent.id])
    const again = async () => {
      const { runs } = await parley.send(human, space.id, 'Add')
      return parley.runWhen(runs[0]?.id ?? '')
    }
    return { agent, again }
  }

  test('provide their allowed tools, named by server and tool, and get their own headers', async () => {
    parley.models.script(steps([{ toolCall: 'math__add', input: { a: 2, b: 3 } }], [{ text: 'Five.' }]))
    const { again } = await runWith('Adder', server.url, ['add'])
    const run = await again()
    expect(run).toMatchObject({ status: 'COMPLETED', summary: 'Five.' })
    const { toolNames } = await parley.models.request(() => true)
    expect(toolNames.filter((name) => name.startsWith('math__'))).toEqual(['math__add'])
    const [call] = (await parley.app.domain.toolCalls.ofRuns([run.id])).get(run.id) ?? []
    expect(call).toMatchObject({ toolName: 'math__add', status: 'DONE', output: '5' })
    expect(server.received.find(({ method }) => method === 'tools/call')?.headers.authorization).toBe(
      'Bearer of-the-server',
    )
  })

  test('lose only their tools, not the run, when they are down', async () => {
    parley.models.script(() => [{ text: 'Without them.' }])
    const { again } = await runWith('Alone', 'http://127.0.0.1:9/')
    expect(await again()).toMatchObject({ status: 'COMPLETED', summary: 'Without them.' })
    const { toolNames } = await parley.models.request(() => true)
    expect(toolNames).toContain('send_message')
    expect(toolNames.some((name) => name.startsWith('math__'))).toBe(false)
  })

  test('show admins which tools a run could not use, and why', async () => {
    server.tools = [
      ADD,
      { name: 'dangling', inputSchema: { type: 'object', properties: { a: { $ref: '#/$defs/no' } } } },
    ]
    parley.models.script(() => [{ text: 'Seen.' }])
    const { agent, again } = await runWith('Mender', server.url)
    await again()
    const admin = await parley.clientOf(parley.admin)
    const { data } = await admin.ask(
      'query ($id: ID!) { agent(id: $id) { internals { mcpServers { problems { toolName reason } } } } }',
      { id: agent.id },
    )
    expect(data).toMatchObject({
      agent: {
        internals: {
          mcpServers: [{ problems: [{ toolName: 'dangling', reason: expect.stringContaining('#/$defs/no') }] }],
        },
      },
    })
    expect((await parley.models.request(() => true)).toolNames).not.toContain('math__dangling')
  })

  test('lose a tool that changed after its first use, until an admin confirms it', async () => {
    parley.models.script(() => [{ text: 'Seen.' }])
    const { agent, again } = await runWith('Wary', server.url, ['add'])
    await again()
    const { prisma } = parley.app.platform.db
    const known = await prisma.mcpServer.findFirstOrThrow({ where: { agentId: agent.id } })
    expect(Object.keys(known.fingerprints as object)).toEqual(['add', 'erase'])
    await prisma.mcpServer.updateMany({
      where: { agentId: agent.id },
      data: { fingerprints: { add: 'another definition' } },
    })
    parley.models.reset()
    parley.models.script(() => [{ text: 'Seen.' }])
    await again()
    expect((await parley.models.request(() => true)).toolNames).not.toContain('math__add')
    await parley.app.domain.mcpServers.confirm(parley.admin, { agentId: agent.id, serverName: 'math' })
    parley.models.reset()
    parley.models.script(() => [{ text: 'Seen.' }])
    await again()
    expect((await parley.models.request(() => true)).toolNames).toContain('math__add')
  })
})
