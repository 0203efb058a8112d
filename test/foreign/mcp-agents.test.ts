import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type McpServer, startMcpServer } from '../support/mcp-server.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { type Named, openStage, type Person, type Read, type Stage } from '../support/stage.ts'

const TEXT = { type: 'object', properties: { question: { type: 'string' } }, required: ['question'] }
const UPDATE = `mutation ($input: UpdateAgentInput!) { updateAgent(input: $input) { __typename ... on Error { message } } }`

describe('agents that are tools of MCP servers', () => {
  let parley: TestServer
  let stage: Stage
  let ada: Person
  let mcp: McpServer

  beforeAll(async () => {
    mcp = await startMcpServer()
    parley = await startTestServer({ settings: { PARLEY_ALLOW_PRIVATE_TOOLS: 'true' } })
    stage = await openStage(parley)
    ada = await stage.person('Ada')
  })
  afterAll(async () => {
    await parley?.close()
    await mcp?.close()
  })
  beforeEach(() => {
    mcp.received = []
  })

  /** The number of rooms so far. Each has its own URL, because lists of tools are cached by URL. */
  let count = 0
  async function room(tool: object, server: object = {}): Promise<{ agent: Named; space: Named; url: string }> {
    mcp.tools = [
      {
        name: 'answer',
        inputSchema: TEXT,
        answer: ({ question }) => ({ content: [{ type: 'text', text: `About ${question}` }] }),
        ...tool,
      },
    ]
    const url = `${mcp.url}?${++count}`
    const agent = await stage.bot('Oracle', {
      model: 'mcp:oracle/answer',
      toolset: 'ACTIVE_SPACE',
      mcpServers: [{ name: 'oracle', url, ...server }],
    })
    return { agent, url, space: await stage.space('Team', [ada, agent], { routing: 'BROADCAST' }) }
  }
  const textsIn = async (space: Named) => (await stage.messagesIn(space)).map(({ text }: Read) => text)
  const calls = () => mcp.received.filter(({ method }) => method === 'tools/call')

  test('the tool is called with the message, and its result is the answer', async () => {
    const { agent, space } = await room({})
    await stage.say(ada, space, 'rain')
    expect(await stage.endedRuns(agent, 1)).toMatchObject([{ status: 'COMPLETED' }])
    expect(await textsIn(space)).toEqual(['rain', 'About rain'])
    expect(calls().map(({ params }) => params)).toMatchObject([{ name: 'answer', arguments: { question: 'rain' } }])
  })

  test('a tool that fails, has no text, or has changed, fails the run', async () => {
    const failing = await room({
      answer: () => ({ isError: true, content: [{ type: 'text', text: 'Out of order.' }] }),
    })
    await stage.say(ada, failing.space, 'rain')
    expect(await stage.endedRuns(failing.agent, 1)).toMatchObject([{ status: 'FAILED', error: 'Out of order.' }])
    const textless = await room({
      inputSchema: { type: 'object', properties: { n: { type: 'number' } }, required: ['n'] },
    })
    await stage.say(ada, textless.space, 'rain')
    expect(await stage.endedRuns(textless.agent, 1)).toMatchObject([
      { status: 'FAILED', error: expect.stringContaining('cannot answer messages') },
    ])
    const { agent, space, url } = await room({})
    await stage.ask(stage.admin, UPDATE, {
      input: { id: agent.id, mcpServers: [{ name: 'oracle', url, allowedTools: [] }] },
    })
    await stage.say(ada, space, 'rain')
    expect(await stage.endedRuns(agent, 1)).toMatchObject([
      { status: 'FAILED', error: expect.stringContaining('does not offer the tool "answer"') },
    ])
  })

  test('no confidential content is sent, unless the server may receive it', async () => {
    const { agent, space } = await room({})
    const secret = await stage.space('Secret', [ada, agent], { routing: 'BROADCAST', confidential: true })
    await stage.say(ada, secret, 'canary')
    expect(await stage.endedRuns(agent, 1)).toMatchObject([{ status: 'FAILED' }])
    expect(calls()).toEqual([])
    await stage.say(ada, space, 'rain')
    expect((await stage.endedRuns(agent, 2)).at(-1)).toMatchObject({ status: 'COMPLETED' })
  })
})
