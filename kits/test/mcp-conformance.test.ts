import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createServer, request as httpRequest, type IncomingMessage, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { ToolInput } from '../../src/agents/custom-tools.ts'
import { forAgent, type ModelScript, steps } from '../../test/support/model-server-script.ts'
import { startTestServer, type TestServer } from '../../test/support/served.ts'

const KITS = path.resolve(import.meta.dirname, '..')
const KIT = path.join(KITS, 'node_modules/@modelcontextprotocol/conformance')
/** The scenarios and checks that are expected to fail, each with a reason. A listed check that passes is an error too. */
const EXPECTED = path.join(KITS, 'mcp-expected-failures.yaml')
const REVISION = '2026-07-28'

/** The scenarios of the Tasks extension, which the requirements list but do not score. */
const TASKS = [
  ...readFileSync(path.join(KIT, `requirements/${REVISION}.yaml`), 'utf8').matchAll(/scenario: (tasks-[\w-]+)/g),
].map(([, scenario = '']) => scenario)
/** The scenarios of 2025-11-25 that do not need the kit's fixtures. */
const LEGACY = ['server-initialize', 'ping', 'tools-list', 'resources-list', 'prompts-list']

const DELETE: ToolInput = {
  name: 'delete_file',
  description: 'Deletes a file.',
  inputSchema: { type: 'object', properties: { filename: { type: 'string' } } },
  execution: 'INTERNAL',
  approval: { quorum: 1 },
}
const SLEEPS = /sleep for (\d+) s/

describe('the conformance kit of the protocol', () => {
  let parley: TestServer
  let proxy: Server
  let url: string
  beforeAll(async () => {
    parley = await startTestServer({ settings: { PARLEY_RATE_REQUESTS: '0', PARLEY_RATE_MESSAGES: '0' } })
    const human = await parley.human('Ada')
    await parley.space(human, [])
    const [sleeper, failing] = [await parley.agent('Sleeper'), await parley.agent('Failing')]
    const [one, two] = [await parley.agent('One', { tools: [DELETE] }), await parley.agent('Two', { tools: [DELETE] })]
    const rounds = await parley.agent('Rounds', { tools: [DELETE] })
    const asks = (agent: { id: string }, text: string) => ({
      name: 'ask_agent',
      arguments: { agentId: agent.id, text },
    })
    const call = { toolCall: 'delete_file', input: { filename: 'x' } }
    parley.models.script(sleeping)
    parley.models.script(forAgent('Failing', () => [{ error: 'no', status: 400 }]))
    parley.models.script(forAgent('One', steps([call], [{ text: 'Done.' }])))
    parley.models.script(forAgent('Two', steps([call, call], [{ text: 'Done.' }])))
    parley.models.script(forAgent('Rounds', steps([call], [call], [{ text: 'Done.' }])))
    proxy = await startProxy(parley.server.port, await parley.tokenOf(human), {
      greet: () => ({ name: 'list_spaces', arguments: {} }),
      slow_compute: ({ seconds }) => asks(sleeper, `sleep for ${Number(seconds ?? 0)} s`),
      failing_job: () => asks(failing, 'fail'),
      confirm_delete: () => asks(one, 'delete one file'),
      multi_input: () => asks(two, 'delete two files'),
      test_error_handling: () => ({ name: 'stop_run', arguments: { runId: `run_${'0'.repeat(32)}` } }),
      test_input_required_result_elicitation: () => asks(one, 'delete one file'),
      test_input_required_result_request_state: () => asks(one, 'delete one file'),
      test_input_required_result_tampered_state: () => asks(one, 'delete one file'),
      test_input_required_result_multi_round: () => asks(rounds, 'delete one file after the other'),
    })
    url = `http://localhost:${(proxy.address() as AddressInfo).port}/mcp`
  })
  afterAll(async () => {
    proxy?.closeAllConnections()
    proxy?.close()
    await parley?.close()
  })

  test(`all scored scenarios of ${REVISION}`, async () => {
    const { code, output } = await run(['server', '--url', url, '--requirements', REVISION])
    expect(code, output).toBe(0)
  }, 300_000)

  test.each(TASKS)('%s', async (scenario) => {
    const options = ['--scenario', scenario, '--spec-version', REVISION, '--force']
    const { code, output } = await run(['server', '--url', url, ...options])
    expect(code, output).toBe(0)
  })

  test.each(LEGACY)('%s, as in 2025-11-25', async (scenario) => {
    const options = ['--scenario', scenario, '--spec-version', '2025-11-25']
    const { code, output } = await run(['server', '--url', url, ...options])
    expect(code, output).toBe(0)
  })
})

/** The model of an agent that waits for the time in its last message before it answers. */
const sleeping: ModelScript = ({ messages, step }) => {
  const text = messages.findLast(({ role }) => role === 'user')?.text ?? ''
  const [, seconds = '0'] = SLEEPS.exec(text) ?? []
  return step > 0
    ? [{ text: 'Done.' }]
    : [{ delayMs: Number(seconds) * 1000 }, { toolCall: 'send_message', input: { text: 'Awake.' } }]
}

interface ToolCall {
  name: string
  arguments: object
}

/** For each tool that the kit expects, the call of Parley's endpoint that replaces it. */
type Fixtures = Record<string, (input: Record<string, unknown>) => ToolCall>

/**
 * The kit cannot send a token, and calls tools of its own example server. The proxy adds the token, and translates calls of
 * these tools (with the header that names the tool) and answers to questions. It passes on the rest of the requests, and all
 * responses, unchanged.
 */
function startProxy(port: number, token: string, fixtures: Fixtures): Promise<Server> {
  const server = createServer(async (request, response) => {
    const { method, url } = request
    const sent = await bodyOf(request)
    const { body, toolName } = translated(sent, fixtures)
    const headers = { ...request.headers, authorization: `Bearer ${token}`, 'content-length': Buffer.byteLength(body) }
    if (toolName !== null && request.headers['mcp-name'] === toolName.from)
      Object.assign(headers, { 'mcp-name': toolName.to })
    const onward = httpRequest({ host: '127.0.0.1', port, method, path: url, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers)
      answer.pipe(response)
    })
    onward.on('error', () => response.destroy())
    response.on('close', () => onward.destroy())
    onward.end(body)
  })
  return new Promise((resolve) => server.listen(0, () => resolve(server)))
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks).toString()
}

function translated(body: string, fixtures: Fixtures): { body: string; toolName: { from: string; to: string } | null } {
  let message: { method?: string; params?: Record<string, unknown> }
  try {
    message = JSON.parse(body)
  } catch {
    return { body, toolName: null }
  }
  const { method, params = {} } = message
  const name = String(params['name'])
  const call =
    method === 'tools/call' && Object.hasOwn(fixtures, name)
      ? fixtures[name]?.((params['arguments'] ?? {}) as Record<string, unknown>)
      : undefined
  const answers = answersIn(params['inputResponses'])
  if (call === undefined && answers === null) return { body, toolName: null }
  const translated = { ...params, ...call, ...(answers === null ? {} : { inputResponses: answers }) }
  return {
    body: JSON.stringify({ ...message, params: translated }),
    toolName: call === undefined ? null : { from: name, to: call.name },
  }
}

/**
 * Turns each answer to a question into a denial. The server responds to a denied call at once, while an approved call would
 * wait for its service.
 */
function answersIn(inputResponses: unknown): object | null {
  if (typeof inputResponses !== 'object' || inputResponses === null) return null
  const denied = Object.entries(inputResponses).map(([key, response]) => [
    key,
    typeof response === 'object' ? { ...response, content: { approve: false } } : response,
  ])
  return Object.fromEntries(denied)
}

function run(options: string[]): Promise<{ code: number; output: string }> {
  const all = [path.join(KIT, 'dist/index.js'), ...options, '--expected-failures', EXPECTED]
  return new Promise((resolve) => {
    execFile(process.execPath, all, { maxBuffer: 64 * 1024 * 1024 }, (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : Number(error.code ?? 1), output: stdout + stderr }),
    )
  })
}
