import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { HumanViewer } from '../../src/access/viewer.ts'
import type { ToolInput } from '../../src/agents/custom-tools.ts'
import { FORMS, rawClient, TASKS } from '../doors/mcp-client.ts'
import { type AgUiEvent, userMessage } from '../support/ag-ui.ts'
import { steps } from '../support/model-server-script.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'

// Reads everything that other people can make long through each protocol. No response and no event may exceed
// PARLEY_MAX_RESPONSE_BYTES. The newest part of the content must be shown, or the rest must be on the next page.

const LIMIT = 64 * 1024
/** Room for the lines around an event, and for the fields around the result of a JSON-RPC response. */
const FRAME_BYTES = 1024
/** A text of quotes. Each quote takes two bytes in JSON, and four in JSON within JSON. */
const LONG = '"'.repeat(5000)
const POSTS = 12

const DEPLOY: ToolInput = {
  name: 'deploy',
  description: 'Deploys.',
  inputSchema: { type: 'object', properties: { notes: { type: 'string' } } },
  execution: 'INTERNAL',
  approval: { quorum: 1 },
}

describe('responses of the protocol endpoints', () => {
  let parley: TestServer
  let ada: HumanViewer
  let token: string
  beforeAll(async () => {
    parley = await startTestServer({
      settings: {
        PARLEY_MAX_RESPONSE_BYTES: String(LIMIT),
        PARLEY_RATE_REQUESTS: '0',
        PARLEY_RATE_MESSAGES: '0',
        PARLEY_DIRECTORY: 'everyone',
      },
    })
    ada = await parley.human('Ada')
    token = await parley.tokenOf(ada)
  })
  afterAll(() => parley?.close())
  beforeEach(() => parley.models.reset())

  const number = (n: number) => `<${n}>`
  /** Creates an agent that answers a message with more text than fits into a response, in numbered messages. */
  function answersAtLength(): void {
    const posts = Array.from({ length: POSTS }, (_, n) => ({
      toolCall: 'send_message',
      input: { text: `${LONG}${number(n + 1)}` },
    }))
    parley.models.script(steps(posts))
  }

  function sizeOf(text: string): string {
    expect(Buffer.byteLength(text)).toBeLessThanOrEqual(LIMIT + FRAME_BYTES)
    return text
  }

  async function send(path: string, body: object | null, headers: Record<string, string> = {}): Promise<Response> {
    const response = await fetch(`${parley.origin}${path}`, {
      method: body === null ? 'GET' : 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json', ...headers },
      ...(body === null ? {} : { body: JSON.stringify(body) }),
    })
    return response
  }

  /** Returns a JSON response, after checking its size. */
  async function ask(path: string, body: object | null, headers = {}): Promise<AgUiEvent> {
    const response = await send(path, body, headers)
    const text = sizeOf(await response.text())
    expect({ status: response.status, text: response.status === 200 ? '' : text }).toEqual({ status: 200, text: '' })
    return JSON.parse(text)
  }

  /** Returns the events of a stream, after checking their sizes. */
  async function events(path: string, body: object | null, headers = {}): Promise<AgUiEvent[]> {
    const response = await send(path, body, { accept: 'application/json, text/event-stream', ...headers })
    const blocks = (await response.text()).split('\n\n').map(sizeOf)
    const data = blocks.flatMap((block) => block.split('\n').filter((line) => line.startsWith('data: {')))
    return data.map((line) => JSON.parse(line.slice('data: '.length)))
  }

  const last = number(POSTS)
  const jsonOf = (value: unknown) => JSON.stringify(value)

  test('of Open Responses leave out the oldest output, in the last event of a stream too', async () => {
    answersAtLength()
    const bot = await parley.agent('Bot')
    const body = { model: bot.id, input: 'Go' }
    const whole = await ask('/v1/responses', body)
    const isShort = (response: AgUiEvent) =>
      expect([response.status, response.output.length < POSTS, jsonOf(response.output.at(-1)).includes(last)]).toEqual([
        'completed',
        true,
        true,
      ])
    isShort(whole)
    isShort(await ask(`/v1/responses/${whole.id}`, null))
    for (const streamed of [
      await events('/v1/responses', { ...body, stream: true }),
      await events(`/v1/responses/${whole.id}?stream=true`, null),
    ]) {
      expect(streamed.at(-1).type).toBe('response.completed')
      isShort(streamed.at(-1).response)
      const texts = streamed.flatMap(({ type, text }) => (type === 'response.output_text.done' ? [text] : []))
      expect(texts).toEqual(Array.from({ length: POSTS }, (_, n) => `${LONG}${number(n + 1)}`))
    }
  })

  test('of chat completions have the newest text, and each text in its own chunk', async () => {
    answersAtLength()
    const bot = await parley.agent('Bot')
    const body = { model: bot.id, messages: [{ role: 'user', content: 'Go' }] }
    const { choices } = await ask('/v1/chat/completions', body)
    expect(choices[0].message.content.endsWith(last)).toBe(true)
    expect(choices[0].message.content).not.toContain(number(1))
    const key = { 'idempotency-key': 'the same' }
    for (const repeat of [false, true]) {
      const chunks = await events('/v1/chat/completions', { ...body, stream: true }, key)
      const text = chunks.map((chunk) => chunk.choices[0]?.delta.content ?? '').join('')
      expect({ repeat, text: text.split('\n\n').map((one: string) => one.slice(LONG.length)) }).toEqual({
        repeat,
        text: Array.from({ length: POSTS }, (_, n) => number(n + 1)),
      })
    }
  })

  test('of models are as many as fit, and a request is refused if its own fields leave no room for output', async () => {
    const agents = []
    for (let n = 0; n < 30; n++) agents.push(await parley.agent(`Talker ${n}`, { description: '"'.repeat(2000) }))
    const { data } = await ask('/v1/models', null)
    expect(data.length).toBeGreaterThan(5)
    for (const { id } of agents) expect((await ask(`/v1/models/${id}`, null)).id).toBe(id)
    const tools = [{ type: 'function', name: 'x', description: 'x'.repeat(LIMIT) }]
    const refused = await send('/v1/responses', { model: agents[0]?.id, input: 'Go', tools })
    expect([refused.status, sizeOf(await refused.text()).includes('at most')]).toEqual([400, true])
    expect(parley.models.requests).toEqual([])
  })

  test('of AG-UI begin with the newest messages, and repeat no event that is too long', async () => {
    answersAtLength()
    const space = await parley.space(ada, [(await parley.agent('Bot')).id])
    const path = `/ag-ui/spaces/${space.id}`
    const input = { threadId: 't', runId: 'r', state: {}, tools: [], context: [] }
    const streamed = await events(path, { ...input, messages: [userMessage('Go')] })
    expect(streamed.at(-1)).toMatchObject({ type: 'RUN_FINISHED', outcome: { type: 'success' } })
    const snapshot = (await events(path, null)).find(({ type }) => type === 'MESSAGES_SNAPSHOT')
    expect(snapshot.messages.length).toBeGreaterThan(2)
    expect(snapshot.messages.at(-1).content.endsWith(last)).toBe(true)
    expect(jsonOf(snapshot)).not.toContain(number(1))
  })

  const rpc = (method: string, params: object) => ({ jsonrpc: '2.0', id: 1, method, params })
  const A2A = { 'a2a-version': '1.0' }
  const message = (text: string) => ({
    message: { messageId: crypto.randomUUID(), role: 'ROLE_USER', parts: [{ text }] },
  })

  test('of A2A say that artifacts are missing, in tasks, lists and streams', async () => {
    answersAtLength()
    const bot = await parley.agent('Bot', { description: '"'.repeat(4000) })
    const space = await parley.space(ada, [bot.id])
    const path = `/a2a/spaces/${space.id}`
    const first = (await ask(path, rpc('SendMessage', message('Go')), A2A)).result.task
    for (const task of [first, (await ask(path, rpc('GetTask', { id: first.id }), A2A)).result]) {
      expect(task.artifacts.length).toBeGreaterThan(1)
      expect(task.metadata).toEqual({ 'urn:parley:a2a:cursor': { isCut: true } })
    }
    const streamed = await events(path, rpc('SendStreamingMessage', message('Go on')), A2A)
    expect(streamed.map(({ error }) => error ?? null).filter((error) => error !== null)).toEqual([])
    expect(jsonOf(streamed).includes('TASK_STATE_COMPLETED')).toBe(true)
    await ask(path, rpc('SendMessage', message('Once more')), A2A)
    const ids: string[] = []
    for (let pageToken = ''; ; ) {
      const { result } = await ask(path, rpc('ListTasks', { includeArtifacts: true, pageToken }), A2A)
      ids.push(...result.tasks.map(({ id }: { id: string }) => id))
      pageToken = result.nextPageToken
      if (pageToken === '') break
    }
    expect(ids).toHaveLength(3)
    await ask(`/a2a/agents/${bot.id}/.well-known/agent-card.json`, null)
  })

  test('of A2A and MCP ask about the first calls if many wait, and about the others when these are answered', async () => {
    const notes = '"'.repeat(1500)
    const calls = Array.from({ length: 20 }, () => ({ toolCall: 'deploy', input: { notes } }))
    parley.models.script(steps(calls, [{ text: 'Done.' }]))
    const bot = await parley.agent('Deployer', { tools: [DEPLOY] })
    const space = await parley.space(ada, [bot.id])
    const path = `/a2a/spaces/${space.id}`
    const { task } = (await ask(path, rpc('SendMessage', message('Deploy')), A2A)).result
    expect(task.status.state).toBe('TASK_STATE_INPUT_REQUIRED')
    const { inputRequests } = task.status.message.parts[1].data
    const asked = Object.keys(inputRequests)
    expect(asked.length).toBeGreaterThan(0)
    expect(asked.length).toBeLessThan(20)
    await until('all calls wait', async () => {
      const pending = (await mcp('tools/call', { name: 'list_pending', arguments: { limit: 100 } })).structuredContent
      return pending.hasMore && pending.calls.length > 2
    })
    const described = await mcp('tasks/get', { taskId: task.id })
    expect(described.status).toBe('input_required')
    expect(Object.keys(described.inputRequests).length).toBeLessThan(20)
    const inputResponses = Object.fromEntries(
      asked.map((key) => [key, { action: 'accept', content: { approve: false } }]),
    )
    const answer = { messageId: crypto.randomUUID(), taskId: task.id, parts: [{ data: { inputResponses } }] }
    const configuration = { returnImmediately: true }
    const after = (await ask(path, rpc('SendMessage', { message: answer, configuration }), A2A)).result.task
    const next = Object.keys(after.status.message.parts[1].data.inputRequests)
    expect(next.length).toBeGreaterThan(0)
    expect(next.filter((key) => asked.includes(key))).toEqual([])
    const interrupted = await events(`/ag-ui/spaces/${space.id}`, null)
    expect(interrupted.at(-1).outcome.type).toBe('interrupt')
    await ask(path, rpc('CancelTask', { id: task.id }), A2A)
  })

  async function mcp(method: string, params: Record<string, unknown> = {}): Promise<AgUiEvent> {
    const { message: answer } = await rawClient(parley, token).ask(method, params, {
      capabilities: { ...TASKS, ...FORMS },
    })
    sizeOf(jsonOf(answer))
    return answer.result ?? answer
  }
  const tool = async (name: string, args: object) =>
    (await mcp('tools/call', { name, arguments: args })).structuredContent

  test('of MCP have fewer messages, and the next page has the others', async () => {
    answersAtLength()
    const bot = await parley.agent('Bot', { description: '"'.repeat(4000) })
    const space = await parley.space(ada, [bot.id], { description: '"'.repeat(1000) })
    const sent = await mcp('tools/call', { name: 'send_message', arguments: { spaceId: space.id, text: 'Go' } })
    const { result } = await until('the task has ended', async () => {
      const task = await mcp('tasks/get', { taskId: sent.taskId })
      return task.status === 'completed' && task
    })
    expect(result.content[0].text).toContain('There are more replies')
    const seqs: number[] = []
    for (let before: string | undefined; ; ) {
      const page = await tool('read_messages', { spaceId: space.id, before })
      seqs.unshift(...page.messages.map(({ seq }: { seq: number }) => seq))
      if (!page.hasOlder) break
      before = page.messages[0].id
    }
    expect(seqs).toEqual(Array.from({ length: POSTS + 1 }, (_, n) => n + 1))
    const { contents } = await mcp('resources/read', { uri: `parley://spaces/${space.id}` })
    expect(contents[0].text).toContain(last)
    for (let n = 0; n < 30; n++) await parley.space(ada, [], { description: '"'.repeat(3000) })
    for (const [method, field] of [
      ['resources/list', 'resources'],
      ['prompts/list', 'prompts'],
    ] as const) {
      const { [field]: listed, nextCursor } = await mcp(method)
      expect(listed.length).toBeGreaterThan(1)
      if (nextCursor !== undefined) expect((await mcp(method, { cursor: nextCursor }))[field].length).toBeGreaterThan(0)
    }
    expect((await tool('list_spaces', {})).nextCursor).toEqual(expect.any(String))
    const echoed = await mcp('prompts/get', { name: bot.id, arguments: { message: 'x'.repeat(LIMIT) } })
    expect(echoed.error.message).toContain(`would exceed ${LIMIT} bytes`)
  })
})
