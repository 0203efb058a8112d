import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Viewer } from '../../src/access/viewer.ts'
import { TOOL_LIST } from '../../src/doors/mcp/tool-inputs.ts'
import { FORMS, rawClient, TASKS } from '../doors/mcp-client.ts'
import { SECRET, secretWorld } from '../support/secret-world.ts'
import { startTestServer, type TestServer } from '../support/served.ts'

// Tries everything of rights.test.ts through the other protocols: calls each protocol endpoint with each id of the test world,
// in every place that takes an id. The tools and their inputs are read from the endpoint's own list, so that new tools are
// included.

interface Stranger {
  name: string
  token: string
}

/** A response: its status and its whole content. */
interface Seen {
  what: string
  status: number
  text: string
}

describe('a stranger at the protocol endpoints', () => {
  let parley: TestServer
  let ids: Record<string, string>
  const strangers: Stranger[] = []
  beforeAll(async () => {
    parley = await startTestServer({
      worker: false,
      settings: { PARLEY_RATE_REQUESTS: '0', PARLEY_RATE_MESSAGES: '0', PARLEY_RATE_TRIGGERS: '0' },
    })
    ids = await secretWorld(parley)
    const service: Viewer = { scope: 'SERVICE', id: '', name: 'other', agentIds: [], tokenId: null, expiresAt: null }
    for (const viewer of [await parley.human('Mallory'), service])
      strangers.push({ name: viewer.scope, token: await parley.tokenOf(viewer) })
  })
  afterAll(() => parley?.close())

  /** Returns everything that a stranger could have changed. */
  async function stateOfWorld(): Promise<string> {
    const { prisma } = parley.app.platform.db
    const [spaceId, agentId] = [ids['spc'] ?? '', ids['agt'] ?? '']
    const rows = [
      await prisma.message.findMany({ where: { spaceId }, orderBy: { seq: 'asc' } }),
      await prisma.membership.findMany({ where: { spaceId }, orderBy: { entityId: 'asc' } }),
      await prisma.toolCall.findMany({ where: { spaceId } }),
      await prisma.run.findMany({ where: { triggerSpaceId: spaceId }, select: { id: true, status: true } }),
      await prisma.run.count({ where: { agentId } }),
      await prisma.inboxEvent.count({ where: { agentId } }),
      await prisma.taskPush.count(),
      await prisma.decision.count(),
    ]
    return JSON.stringify(rows, (_, value) => (typeof value === 'bigint' ? String(value) : value))
  }

  async function send(
    { token }: Stranger,
    path: string,
    body: object | null,
    headers: Record<string, string> = {},
  ): Promise<Seen> {
    const response = await fetch(`${parley.origin}${path}`, {
      method: body === null ? 'GET' : 'POST',
      headers: {
        authorization: `Bearer ${token}`,
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        ...headers,
      },
      ...(body === null ? {} : { body: JSON.stringify(body) }),
      // If a stream opens, read its beginning and disconnect.
      signal: AbortSignal.timeout(5000),
    })
    return { what: `${path} ${JSON.stringify(body)}`, status: response.status, text: await response.text() }
  }

  /** Calls the endpoint as each stranger. @returns what the endpoint has revealed */
  async function tryAll(calls: (stranger: Stranger, id: string) => Promise<Seen>[]): Promise<Seen[]> {
    const before = await stateOfWorld()
    const seen: Seen[] = []
    for (const stranger of strangers)
      for (const id of Object.values(ids)) seen.push(...(await Promise.all(calls(stranger, id))))
    expect(seen.filter(({ text }) => text.includes(SECRET))).toEqual([])
    expect(seen.filter(({ status }) => status >= 500)).toEqual([])
    expect(await stateOfWorld()).toBe(before)
    return seen
  }

  test('MCP: no tool, task, resource, prompt or stream reveals or changes anything', async () => {
    const capabilities = { ...TASKS, ...FORMS }
    /** Returns an input with the id in each place that takes a text. */
    const inputOf = ({ inputSchema }: (typeof TOOL_LIST)[number], id: string) => {
      const { properties = {} } = inputSchema as { properties?: Record<string, { type?: string }> }
      const textFor = (name: string, type: string | undefined) =>
        name === 'waitSeconds' ? 0 : type === 'boolean' ? true : type === 'string' ? id : undefined
      const given = Object.entries(properties).map(([name, { type }]) => [name, textFor(name, type)])
      return Object.fromEntries(given.filter(([, value]) => value !== undefined))
    }
    await tryAll(({ token }, id) => {
      const client = rawClient(parley, token)
      const ask = async (method: string, params: Record<string, unknown>): Promise<Seen> => {
        const { status, message } = await client.ask(method, params, { capabilities })
        return { what: `${method} ${JSON.stringify(params)}`, status, text: JSON.stringify(message) }
      }
      const listen = async (notifications: object): Promise<Seen> => {
        const left = new AbortController()
        const { seen, response } = await client.listen(notifications, { capabilities, signal: left.signal })
        left.abort()
        return { what: JSON.stringify(notifications), status: response.status, text: JSON.stringify(seen) }
      }
      return [
        ...TOOL_LIST.flatMap((tool) => {
          const params = { name: tool.name, arguments: inputOf(tool, id) }
          const requestState = { requestState: id, inputResponses: { [`${id}:`]: { action: 'accept', content: {} } } }
          return [ask('tools/call', params), ask('tools/call', { ...params, ...requestState })]
        }),
        ...['get', 'cancel'].map((method) => ask(`tasks/${method}`, { taskId: id })),
        ask('tasks/update', {
          taskId: id,
          inputResponses: { [`${id}:`]: { action: 'accept', content: { approve: true } } },
        }),
        ask('resources/read', { uri: `parley://spaces/${id}` }),
        ask('prompts/get', { name: id, arguments: { message: 'Hello' } }),
        listen({ resourceSubscriptions: [`parley://spaces/${id}`], taskIds: [id] }),
      ]
    })
    for (const { token } of strangers)
      for (const method of ['resources/list', 'prompts/list'])
        expect(JSON.stringify(await rawClient(parley, token).ask(method))).not.toContain(SECRET)
  })

  test('AG-UI: no path, rejoin or response reveals or changes anything', async () => {
    const runOf = (more: object) => ({
      threadId: 'stolen',
      runId: 'r',
      state: {},
      tools: [],
      context: [],
      messages: [],
      ...more,
    })
    const seen = await tryAll((stranger, id) => [
      send(stranger, `/ag-ui/spaces/${id}`, null),
      send(stranger, `/ag-ui/spaces/${id}?after=0-0`, null),
      send(stranger, `/ag-ui/spaces/${id}`, runOf({ messages: [{ id: 'm', role: 'user', content: 'Hello' }] })),
      send(
        stranger,
        `/ag-ui/spaces/${id}`,
        runOf({ resume: [{ interruptId: id, status: 'resolved', payload: true }] }),
      ),
      send(stranger, `/ag-ui/agents/${id}?threadId=${ids['spc']}`, null),
    ])
    expect(seen.filter(({ what, status }) => what.startsWith('/ag-ui/spaces') && status < 400)).toEqual([])
    const [agent = '', call = ''] = [ids['agt'], ids['tcl']]
    await tryAll((stranger) => [
      send(
        stranger,
        `/ag-ui/agents/${agent}`,
        runOf({ resume: [{ interruptId: call, status: 'resolved', payload: { result: 1 } }] }),
      ),
    ])
  })

  test('Open Responses: no model, response or conversation reveals or changes anything', async () => {
    const seen = await tryAll((stranger, id) => {
      const response = `resp_${id.split('_')[1]}`
      return [
        send(stranger, `/v1/responses/${response}`, null),
        send(stranger, `/v1/responses/${response}?stream=true`, null),
        send(stranger, `/v1/responses/${response}/cancel`, {}),
        send(stranger, '/v1/responses', { model: id, input: 'Hello', previous_response_id: response }),
      ]
    })
    expect(seen.filter(({ status }) => status < 400)).toEqual([])
  })

  test('A2A: no card, task or configuration reveals or changes anything', async () => {
    const headers = { 'a2a-version': '1.0' }
    const methods: [method: string, params: (id: string) => object][] = [
      ['GetTask', (id) => ({ id })],
      ['CancelTask', (id) => ({ id })],
      ['SubscribeToTask', (id) => ({ id })],
      ['ListTasks', (id) => ({ contextId: id, includeArtifacts: true })],
      ['SendMessage', (contextId) => ({ message: { messageId: 'm', contextId, parts: [{ text: 'Hello' }] } })],
      ['SendMessage', (taskId) => ({ message: { messageId: 'm', taskId, parts: [{ data: { inputResponses: {} } }] } })],
      ['CreateTaskPushNotificationConfig', (taskId) => ({ taskId, url: 'https://push.example.com/' })],
      ['GetTaskPushNotificationConfig', (taskId) => ({ taskId, id: 'one' })],
      ['ListTaskPushNotificationConfigs', (taskId) => ({ taskId })],
      ['DeleteTaskPushNotificationConfig', (taskId) => ({ taskId, id: 'one' })],
    ]
    const seen = await tryAll((stranger, id) => [
      ...['spaces', 'agents'].map((kind) => send(stranger, `/a2a/${kind}/${id}/.well-known/agent-card.json`, null)),
      ...['', `/spaces/${id}`].flatMap((path) =>
        methods.map(([method, params]) =>
          send(stranger, `/a2a${path}`, { jsonrpc: '2.0', id: 1, method, params: params(id) }, headers),
        ),
      ),
    ])
    const isShown = ({ status, text }: Seen) => status < 400 && !text.includes('"error"')
    expect(seen.filter((one) => isShown(one) && !/"tasks":\[\]|agents\/agt_/.test(one.what + one.text))).toEqual([])
  })
})
