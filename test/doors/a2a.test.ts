import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import type { HumanViewer } from '../../src/access/viewer.ts'
import type { ToolInput } from '../../src/agents/custom-tools.ts'
import { newId } from '../../src/lib/ids.ts'
import { steps } from '../support/model-server-script.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'
import { readEvents } from './mcp-client.ts'

const DEPLOY: ToolInput = {
  name: 'deploy',
  description: 'Deploys.',
  inputSchema: { type: 'object', properties: { to: { type: 'string' } }, required: ['to'] },
  execution: 'INTERNAL',
  approval: { quorum: 1 },
}
const CARD = '/.well-known/agent-card.json'

describe('the A2A server', () => {
  let parley: TestServer
  beforeAll(async () => {
    parley = await startTestServer()
  })
  afterAll(() => parley?.close())
  beforeEach(() => parley.models.reset())

  let n = 0
  const message = (text: string, more: object = {}) => ({
    message: { messageId: `m-${++n}`, role: 'ROLE_USER', parts: [{ text }], ...more },
  })

  async function clientOf(human: HumanViewer) {
    const authorization = `Bearer ${await parley.tokenOf(human)}`
    const post = (path: string, body: unknown, headers: Record<string, string> = { 'a2a-version': '1.0' }) =>
      fetch(`${parley.origin}${path}`, {
        method: 'POST',
        headers: {
          authorization,
          'content-type': 'application/json',
          accept: 'application/json, text/event-stream',
          ...headers,
        },
        body: JSON.stringify(body),
      })
    return {
      post,
      get: (path: string) => fetch(`${parley.origin}${path}`, { headers: { authorization } }),
      // biome-ignore lint/suspicious/noExplicitAny: the content can have any shape
      async ask(path: string, method: string, params: object = {}): Promise<any> {
        const response = await post(path, { jsonrpc: '2.0', id: 1, method, params })
        return response.json()
      },
      async stream(path: string, method: string, params: object) {
        const response = await post(path, { jsonrpc: '2.0', id: 1, method, params })
        // biome-ignore lint/suspicious/noExplicitAny: the content can have any shape
        const seen: any[] = []
        const ended = readEvents(response, (event) => seen.push((event as { result: unknown }).result))
        return { seen, ended }
      },
    }
  }

  test('agents, spaces and the server have cards, which only their viewers can read', async () => {
    const { human, agent, space } = await parley.room()
    const client = await clientOf(human)
    for (const [path, name] of [
      [`/a2a/agents/${agent.id}`, agent.name],
      [`/a2a/spaces/${space.id}`, space.name],
    ])
      expect(await (await client.get(`${path}${CARD}`)).json()).toMatchObject({
        name,
        supportedInterfaces: [{ url: `${parley.origin}${path}`, protocolBinding: 'JSONRPC', protocolVersion: '1.0' }],
        capabilities: { streaming: true, pushNotifications: true },
      })
    expect((await (await fetch(`${parley.origin}${CARD}`)).json()).name).toBe('Parley')
    const stranger = await clientOf(await parley.human('Eve'))
    expect((await stranger.get(`/a2a/spaces/${space.id}${CARD}`)).status).toBe(404)
    expect((await fetch(`${parley.origin}/a2a/spaces/${space.id}${CARD}`)).status).toBe(401)
  })

  test('a message gets an answer, and repeating it posts nothing again', async () => {
    const human = await parley.human('Ada')
    const agent = await parley.agent('Bot')
    parley.models.script(steps([{ toolCall: 'send_message', input: { text: 'At noon.' } }]))
    const client = await clientOf(human)
    const path = `/a2a/agents/${agent.id}`
    const sent = message('When?')
    const { result } = await client.ask(path, 'SendMessage', sent)
    expect(result.task).toMatchObject({
      status: { state: 'TASK_STATE_COMPLETED' },
      artifacts: [{ name: 'Bot', parts: [{ text: 'At noon.' }] }],
      metadata: { 'urn:parley:a2a:cursor': { cursor: expect.any(String) } },
    })
    const { id, contextId } = result.task
    expect((await client.ask(path, 'SendMessage', { message: { ...sent.message, contextId } })).result.task.id).toBe(id)
    expect((await client.ask(path, 'GetTask', { id })).result).toMatchObject({ id, contextId })
    expect((await client.ask(path, 'ListTasks', { contextId })).result.tasks).toMatchObject([{ contextId }])
    expect((await client.ask(path, 'CancelTask', { id })).error.code).toBe(-32002)
    expect((await client.ask(path, 'SubscribeToTask', { id })).error.code).toBe(-32004)
    expect((await client.ask(path, 'SendMessage', message('More', { taskId: id }))).error.code).toBe(-32004)
    const other = await parley.agent('Other')
    expect((await client.ask(`/a2a/agents/${other.id}`, 'GetTask', { id })).error.code).toBe(-32001)
    const stranger = await clientOf(await parley.human('Eve'))
    for (const method of ['GetTask', 'CancelTask', 'SubscribeToTask'])
      expect((await stranger.ask(path, method, { id })).error.code).toBe(-32001)
    expect((await stranger.ask(`/a2a/spaces/${contextId}`, 'SendMessage', message('Hi'))).error.code).toBe(-32602)
  })

  test('a client that leaves a stream early causes no error', async () => {
    const { human, space } = await parley.room()
    parley.models.script(() => [{ hang: true }])
    const client = await clientOf(human)
    const path = `/a2a/spaces/${space.id}`
    const configuration = { returnImmediately: true }
    const { id } = (await client.ask(path, 'SendMessage', { ...message('Go'), configuration })).result.task
    const { logger, log } = parley.app.platform
    const errors = vi.spyOn(logger, 'error')
    const before = log.stats().followers
    const response = await client.post(path, { jsonrpc: '2.0', id: 1, method: 'SubscribeToTask', params: { id } })
    const reader = response.body?.getReader()
    await reader?.read()
    expect(log.stats().followers).toBeGreaterThan(before)
    await reader?.cancel()
    await until('nobody follows the task', () => log.stats().followers === before)
    await client.ask(path, 'CancelTask', { id })
    expect(errors.mock.calls).toEqual([])
    errors.mockRestore()
  })

  test('a stream sends the task, its text, and its end; a second client joins in the middle', async () => {
    const { human, space } = await parley.room()
    const { promise: gate, resolve: open } = Promise.withResolvers<void>()
    parley.models.script(
      steps([{ gate }, { toolCall: 'send_message', input: { text: 'One, two.' } }], [{ text: 'Done.' }]),
    )
    const client = await clientOf(human)
    const path = `/a2a/spaces/${space.id}`
    const first = await client.stream(path, 'SendStreamingMessage', message('Count'))
    const task = await until('the task is sent', () => first.seen[0]?.task)
    const second = await client.stream(path, 'SubscribeToTask', { id: task.id })
    await until('the task is sent to the second client', () => second.seen[0]?.task)
    open()
    await Promise.all([first.ended, second.ended])
    for (const { seen } of [first, second]) {
      const texts = new Map<string, string>(
        seen[0].task.artifacts.map(({ artifactId, parts }: { artifactId: string; parts: { text: string }[] }) => [
          artifactId,
          parts[0]?.text ?? '',
        ]),
      )
      for (const { artifactUpdate } of seen)
        if (artifactUpdate !== undefined) {
          const { artifactId, parts } = artifactUpdate.artifact
          texts.set(artifactId, (artifactUpdate.append ? (texts.get(artifactId) ?? '') : '') + parts[0].text)
        }
      expect([...texts.values()]).toEqual(['One, two.'])
      expect(seen.at(-1).statusUpdate.status.state).toBe('TASK_STATE_COMPLETED')
    }
  })

  test('a call that waits for a decision is INPUT_REQUIRED, and is answered by a message of the task', async () => {
    const { human, agent, space } = await parley.room('Ada', { tools: [DEPLOY] })
    parley.models.script(steps([{ toolCall: 'deploy', input: { to: 'test' } }], [{ text: 'Deployed.' }]))
    const client = await clientOf(human)
    const path = `/a2a/agents/${agent.id}`
    const { result } = await client.ask(path, 'SendMessage', message('Deploy', { contextId: space.id }))
    const { id, status } = result.task
    expect(status.state).toBe('TASK_STATE_INPUT_REQUIRED')
    const [key = ''] = Object.keys(status.message.parts[1].data.inputRequests)
    expect((await client.ask(path, 'SendMessage', message('yes', { taskId: id }))).error.code).toBe(-32602)
    const data = { inputResponses: { [key]: { action: 'accept', content: { approve: true } } } }
    const answer = message('', { taskId: id, parts: [{ data }] })
    expect((await client.ask(path, 'SendMessage', answer)).result.task.status.state).toBe('TASK_STATE_COMPLETED')
  })

  test('a revoked token ends its streams and waits, with an error', async () => {
    const { human, space } = await parley.room()
    parley.models.script(() => [{ hang: true }])
    const { domain } = parley.app
    const { accessToken, secret } = await domain.tokens.create(parley.admin, { grant: { humanId: human.id } })
    const post = (method: string, params: object) =>
      fetch(`${parley.origin}/a2a/spaces/${space.id}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json', 'a2a-version': '1.0' },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
      })
    // biome-ignore lint/suspicious/noExplicitAny: the content can have any shape
    const seen: any[] = []
    const ended = readEvents(await post('SendStreamingMessage', message('Go')), (event) => seen.push(event))
    const wait = post('SendMessage', message('Go on'))
    await until('both messages are posted', async () => (await parley.messages(space.id)).length === 2)
    await domain.tokens.revoke(parley.admin, { id: accessToken.id })
    expect((await wait).status).toBe(401)
    await ended
    expect(seen.at(-1)).toMatchObject({ error: { data: { code: 'UNAUTHENTICATED' } } })
  })

  test('a call whose input is too long for a form can only be decided in the console', async () => {
    const { human, agent, space } = await parley.room('Ada', { tools: [DEPLOY] })
    const client = await clientOf(human)
    const path = `/a2a/agents/${agent.id}`
    const callWith = async (to: string) => {
      parley.models.script(steps([{ toolCall: 'deploy', input: { to } }], [{ text: 'Deployed.' }]))
      const { result } = await client.ask(path, 'SendMessage', message('Deploy', { contextId: space.id }))
      expect(result.task.status.state).toBe('TASK_STATE_INPUT_REQUIRED')
      const [{ text }, { data }] = result.task.status.message.parts
      return { id: result.task.id, text, inputRequests: data.inputRequests }
    }
    const long = await callWith(`${'x'.repeat(5000)}evil`)
    expect(long).toMatchObject({ text: expect.stringContaining('console'), inputRequests: {} })
    await client.ask(path, 'CancelTask', { id: long.id })
    const bidi = await callWith('a\u202eb')
    expect(bidi.text).toContain('a\\u202eb')
    await client.ask(path, 'CancelTask', { id: bidi.id })
  })

  test('a task has all its replies, even if many other messages are between them', async () => {
    const { human, agent, space } = await parley.room()
    const { promise: gate, resolve: open } = Promise.withResolvers<void>()
    parley.models.script(steps([{ gate }, { toolCall: 'send_message', input: { text: 'At last.' } }], [{ text: '' }]))
    const client = await clientOf(human)
    const path = `/a2a/agents/${agent.id}`
    const params = { ...message('Go', { contextId: space.id }), configuration: { returnImmediately: true } }
    const { id } = (await client.ask(path, 'SendMessage', params)).result.task
    const { prisma } = parley.app.platform.db
    const { lastSeq } = await prisma.space.update({ where: { id: space.id }, data: { lastSeq: { increment: 60 } } })
    const rows = Array.from({ length: 60 }, (_, at) => {
      const other = newId('msg')
      const parts = [{ type: 'text', text: `${at}` }]
      const place = { spaceId: space.id, senderId: human.id, seq: lastSeq - 59 + at, rootId: other, depth: 0 }
      return { id: other, status: 'COMPLETE' as const, parts, ...place }
    })
    await prisma.message.createMany({ data: rows })
    open()
    const task = await until('the task is completed', async () => {
      const { result } = await client.ask(path, 'GetTask', { id })
      return result.status.state === 'TASK_STATE_COMPLETED' ? result : null
    })
    expect(task.artifacts).toMatchObject([{ parts: [{ text: 'At last.' }] }])
  })

  test('a message that woke two agents is listed as one task; filters are applied or refused', async () => {
    const { human, space } = await parley.room()
    const other = await parley.agent('Other')
    await parley.app.domain.members.add(human, { spaceId: space.id, entityId: other.id })
    parley.models.script(({ step }) => (step === 0 ? [{ text: 'Done.' }] : []))
    const client = await clientOf(human)
    const path = `/a2a/spaces/${space.id}`
    const { id } = (await client.ask(path, 'SendMessage', message('Go'))).result.task
    const list = async (params: object) => client.ask(path, 'ListTasks', params)
    expect((await list({})).result.tasks.map((task: { id: string }) => task.id)).toEqual([id])
    const { tasks: listed, pageSize } = (await list({})).result
    expect(listed[0]).not.toHaveProperty('artifacts')
    expect(pageSize).toBe(50)
    expect((await list({ includeArtifacts: true })).result.tasks[0]).toHaveProperty('artifacts')
    expect((await list({ pageSize: 1 })).result.tasks).toHaveLength(1)
    expect((await list({ status: 'TASK_STATE_COMPLETED' })).result.tasks).toHaveLength(1)
    expect((await list({ status: 'TASK_STATE_WORKING' })).result.tasks).toEqual([])
    expect((await list({ status: 'DONE' })).error.code).toBe(-32602)
    expect((await list({ statusTimestampAfter: '2026-01-01T00:00:00Z' })).error.code).toBe(-32602)
  })

  test('a run is canceled', async () => {
    const { human, space } = await parley.room()
    parley.models.script(() => [{ hang: true }])
    const client = await clientOf(human)
    const path = `/a2a/spaces/${space.id}`
    const params = { ...message('Go'), configuration: { returnImmediately: true } }
    const { result } = await client.ask(path, 'SendMessage', params)
    expect(result.task.status.state).toBe('TASK_STATE_WORKING')
    await client.ask(path, 'CancelTask', { id: result.task.id })
    await until('the task is canceled', async () => {
      const { result: task } = await client.ask(path, 'GetTask', { id: result.task.id })
      return task.status.state === 'TASK_STATE_CANCELED'
    })
  })

  test('unknown versions, methods and parts are refused as the protocol requires', async () => {
    const { human, space } = await parley.room()
    const client = await clientOf(human)
    const path = `/a2a/spaces/${space.id}`
    const codeOf = async (body: unknown, headers?: Record<string, string>) =>
      (await (await client.post(path, body, headers)).json()).error.code
    const get = { jsonrpc: '2.0', id: 1, method: 'GetTask', params: { id: 'x' } }
    expect(await codeOf(get, {})).toBe(-32009)
    expect(await codeOf(get, { 'a2a-version': '2.0' })).toBe(-32009)
    expect(await codeOf(get)).toBe(-32001)
    expect(await codeOf({ ...get, method: 'nothing' })).toBe(-32601)
    expect(await codeOf({ ...get, method: 'CreateTaskPushNotificationConfig' })).toBe(-32001)
    expect(await codeOf({ ...get, method: 'GetExtendedAgentCard' })).toBe(-32007)
    expect(await codeOf([get])).toBe(-32600)
    expect(await codeOf(null)).toBe(-32600)
    expect(await codeOf({ ...get, params: 7 })).toBe(-32602)
    const send = (parts: unknown, more: object = {}) => ({
      ...get,
      method: 'SendMessage',
      params: { message: { messageId: 'x', role: 'ROLE_USER', parts, ...more } },
    })
    expect(await codeOf(send([{ url: 'http://127.0.0.1/' }]))).toBe(-32005)
    expect(await codeOf(send('Hi'))).toBe(-32602)
    expect(await codeOf(send([{ text: 'Hi' }], { contextId: `spc_${'0'.repeat(32)}` }))).toBe(-32602)
    expect(await codeOf(send([{ text: 'Hi' }], { messageId: '' }))).toBe(-32602)
    expect(await parley.messages(space.id)).toEqual([])
  })
})
