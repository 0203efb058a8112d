import { type CallToolResult, Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { HumanViewer } from '../../src/access/viewer.ts'
import { RULE_STACKS } from '../../test/support/application.ts'
import { steps } from '../../test/support/model-server-script.ts'
import { startTestServer, type TestServer } from '../../test/support/served.ts'
import { until } from '../../test/support/until.ts'

const DEPLOY = {
  name: 'deploy',
  description: 'Deploys.',
  inputSchema: { type: 'object', properties: { to: { type: 'string' } }, required: ['to'] },
  execution: 'INTERNAL',
  approval: { quorum: 1 },
} as const

describe.each(RULE_STACKS)("the protocol's own client, on the %s stack", (stack) => {
  let parley: TestServer
  const clients: Client[] = []
  beforeAll(async () => {
    parley = await startTestServer({ stack })
  })
  afterAll(async () => {
    await Promise.all(clients.map((client) => client.close()))
    await parley?.close()
  })
  beforeEach(() => parley.models.reset())

  async function connect(human: HumanViewer, mode: 'legacy' | { pin: string }, elicitation?: 'accept' | 'decline') {
    const capabilities = elicitation === undefined ? {} : { elicitation: { form: {} } }
    const client = new Client({ name: 'kit', version: '1' }, { capabilities, versionNegotiation: { mode } })
    const asked: string[] = []
    if (elicitation !== undefined)
      client.setRequestHandler('elicitation/create', ({ params }) => {
        asked.push(params.message)
        return elicitation === 'accept' ? { action: 'accept', content: { approve: true } } : { action: 'decline' }
      })
    const headers = { authorization: `Bearer ${await parley.tokenOf(human)}` }
    await client.connect(
      new StreamableHTTPClientTransport(new URL(`${parley.origin}/mcp`), { requestInit: { headers } }),
    )
    clients.push(client)
    return { client, asked }
  }

  const textOf = ({ content }: CallToolResult) => (content[0]?.type === 'text' ? content[0].text : '')

  test.each([
    ['2025-11-25', 'legacy'],
    ['2026-07-28', { pin: '2026-07-28' }],
  ] as const)('in %s it lists, sends, reads, and gets prompts', async (_, mode) => {
    const { human, agent, space } = await parley.room()
    parley.models.script(steps([{ toolCall: 'send_message', input: { text: 'Hello, Ada.' } }]))
    const { client } = await connect(human, mode)
    const { tools } = await client.listTools()
    expect(tools.map(({ name }) => name)).toContain('ask_agent')
    const sent = await client.callTool({ name: 'send_message', arguments: { spaceId: space.id, text: 'Hi' } })
    expect(textOf(sent)).toContain('Hello, Ada.')
    const { resources } = await client.listResources()
    const { contents } = await client.readResource({ uri: resources[0]?.uri ?? '' })
    expect(JSON.stringify(contents)).toContain('Hello, Ada.')
    const { prompts } = await client.listPrompts()
    const prompt = prompts.find(({ name }) => name.endsWith(agent.id))
    const { messages } = await client.getPrompt({ name: prompt?.name ?? '', arguments: { message: 'How are you?' } })
    expect(JSON.stringify(messages)).toContain('How are you?')
    await expect(client.readResource({ uri: 'parley://spaces/none' })).rejects.toThrow()
  })

  test.each([
    ['accept', 'DONE'],
    ['decline', 'FAILED'],
  ] as const)('a waiting decision is presented to the user, who can %s it', async (action, status) => {
    const { human, space } = await parley.room('Ada', { tools: [DEPLOY] })
    parley.models.script(steps([{ toolCall: 'deploy', input: { to: 'test' } }], [{ text: 'Seen.' }]))
    const { client, asked } = await connect(human, { pin: '2026-07-28' }, action)
    const result = await client.callTool({ name: 'send_message', arguments: { spaceId: space.id, text: 'Deploy' } })
    expect(asked).toEqual([expect.stringContaining('deploy')])
    const { outcomes } = result.structuredContent as { outcomes: { runId: string }[] }
    const runId = outcomes[0]?.runId ?? ''
    expect((await parley.app.domain.toolCalls.ofRuns([runId])).get(runId)).toMatchObject([{ status }])
    const ownMessages = (await parley.messages(space.id)).filter(({ senderId }) => senderId === human.id)
    expect(ownMessages).toHaveLength(1)
  })

  test('it is notified of changes to a space', async () => {
    const human = await parley.human('Ada')
    const space = await parley.space(human, [])
    const { client } = await connect(human, { pin: '2026-07-28' })
    const updated: string[] = []
    client.setNotificationHandler('notifications/resources/updated', ({ params }) => void updated.push(params.uri))
    const uri = `parley://spaces/${space.id}`
    const subscription = await client.listen({ resourceSubscriptions: [uri] })
    await parley.send(human, space.id, 'One')
    await until('the change is reported', () => updated.length > 0)
    expect(updated).toContain(uri)
    await subscription.close()
  })
})
