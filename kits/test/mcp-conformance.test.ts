import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { forAgent, steps } from '../../test/support/model-server-script.ts'
import { startTestServer, type TestServer } from '../../test/support/served.ts'
import { promptOf } from '../../test/support/stage.ts'
import { type Names, startProxy } from './mcp-proxy.ts'

const KITS = path.resolve(import.meta.dirname, '..')
const KIT = path.join(KITS, 'node_modules/@modelcontextprotocol/conformance/dist/index.js')

const OF_2025 = [
  'server-initialize',
  'ping',
  'tools-list',
  'resources-list',
  'prompts-list',
  'dns-rebinding-protection',
]

/**
 * The scenarios that the kit scores for servers of 2026-07-28, in the order of its `requirements/2026-07-28.yaml`, without
 * `tools-call-with-progress`: how many changes of its runs a call reports depends on the speed of the machine.
 */
const SCORED = [
  'server-stateless',
  'completion-complete',
  'tools-list',
  ...['simple-text', 'image', 'audio', 'embedded-resource', 'mixed-content', 'error'].map(
    (what) => `tools-call-${what}`,
  ),
  'server-sse-multiple-streams',
  'resources-list',
  'resources-read-text',
  'resources-read-binary',
  'resources-templates-read',
  'sep-2164-resource-not-found',
  'prompts-list',
  'prompts-get-simple',
  'prompts-get-with-args',
  'prompts-get-embedded-resource',
  'prompts-get-with-image',
  'dns-rebinding-protection',
  'caching',
  ...[
    'basic-elicitation',
    'basic-sampling',
    'basic-list-roots',
    'request-state',
    'multiple-input-requests',
    'multi-round',
    'missing-input-response',
    'non-tool-request',
    'result-type',
    'unsupported-methods',
    'tampered-state',
    'capability-check',
    'ignore-extra-params',
    'validate-input',
  ].map((what) => `input-required-result-${what}`),
]
/** The extension Tasks, and scenarios that the kit's own server does not pass yet. */
const OTHERS = [
  ...[
    'lifecycle',
    'capability-negotiation',
    'wire-fields',
    'request-state-removal',
    'mrtr-input',
    'request-headers',
    'dispatch-and-envelope',
    'status-notifications',
    'required-task-error',
    'mrtr-composition',
  ].map((what) => `tasks-${what}`),
  'json-schema-2020-12',
  'http-header-validation',
  'http-custom-header-server-validation',
]

/**
 * The scenarios, or single checks of a scenario, that Parley does not pass, with the reason. The kit fails if one of them
 * passes. docs/guide/mcp.md lists them.
 */
const EXCEPTIONS: Record<string, string> = {
  'completion-complete': 'no completions',
  'tools-call-image': 'tools answer with text and data',
  'tools-call-audio': 'tools answer with text and data',
  'tools-call-embedded-resource': 'tools answer with text and data',
  'tools-call-mixed-content': 'tools answer with text and data',
  'resources-read-binary': 'resources are JSON',
  'prompts-get-embedded-resource': 'prompts are text',
  'prompts-get-with-image': 'prompts are text',
  'dns-rebinding-protection:localhost-host-rebinding-rejected':
    'for servers without authentication: a page of another site does not have the token, which the proxy adds here',
  'server-stateless:sep-2575-server-rejects-undeclared-capability': 'no tool needs sampling',
  'server-stateless:sep-2575-missing-capability-http-400': 'no tool needs sampling',
  'input-required-result-basic-sampling': 'no sampling, which 2026-07-28 deprecates',
  'input-required-result-basic-list-roots': 'no roots, which 2026-07-28 deprecates',
  'input-required-result-multiple-input-requests': 'no sampling and no roots',
  'input-required-result-capability-check': 'no sampling',
  'input-required-result-non-tool-request': 'prompts ask nothing',
  'input-required-result-multi-round:sep-2322-multi-round-r2':
    'the state names the message, and is the same in each round, which the protocol allows',
  'input-required-result-ignore-extra-params:sep-2322-ignore-unexpected-params':
    'the scenario sends answers without the state that belongs to them',
  'tasks-lifecycle:sep-2663-tasks-get-status-failed': 'no task fails as a protocol error',
  'tasks-required-task-error': 'no tool needs Tasks',
  'tasks-mrtr-composition': 'a client with Tasks is asked by its task',
  'json-schema-2020-12': "calls a tool of the kit's server for its schema",
  'http-custom-header-server-validation': 'no tool has headers of its own',
  'tasks-request-headers:tasks-headers-tolerate-mcp-method-on-tools-call': "expects the text of the kit's own tool",
}

const DEPLOY = {
  name: 'deploy',
  description: 'Deploys.',
  inputSchema: { type: 'object', properties: { to: { type: 'string' } }, required: ['to'] },
  execution: 'INTERNAL',
  approval: { quorum: 1 },
} as const

describe('the conformance kit of the protocol', () => {
  let parley: TestServer
  let proxy: Server
  let folder: string
  beforeAll(async () => {
    parley = await startTestServer({ settings: { PARLEY_RATE_REQUESTS: '0', PARLEY_RATE_MESSAGES: '0' } })
    const human = await parley.human('Ada')
    const [quick, slow, failing, careful, twice, both] = await Promise.all([
      ...['Quick', 'Slow', 'Failing'].map((name) => parley.agent(name)),
      ...['Careful', 'Twice', 'Both'].map((name) => parley.agent(name, { tools: [DEPLOY] })),
    ])
    const say = { toolCall: 'send_message', input: { text: 'Done.' } }
    const deploy = { toolCall: 'deploy', input: { to: 'test' } }
    parley.models.script(steps([say]))
    const waitOf = /Wait (\d+) s/
    const seconds = (prompt: string) => Number(waitOf.exec(prompt.split('RECENT')[0] ?? '')?.[1] ?? 0)
    parley.models.script(
      forAgent('Slow', (request) =>
        request.step === 0 ? [{ delayMs: seconds(promptOf(request)) * 1000 }, say] : [{ text: 'Done.' }],
      ),
    )
    parley.models.script(
      forAgent('Failing', async () => {
        // Long enough for a task.
        await new Promise((resolve) => setTimeout(resolve, 1000))
        return [{ error: 'The model is broken.', status: 400 }]
      }),
    )
    parley.models.script(forAgent('Careful', steps([deploy], [say])))
    parley.models.script(forAgent('Twice', steps([deploy], [deploy], [say])))
    parley.models.script(forAgent('Both', steps([deploy, deploy], [say])))
    const room = await parley.space(human, [quick!.id], { name: 'Room 123' })
    const ask = (agent: { id: string } | undefined, text = 'Go', more: object = {}) => ({
      name: 'ask_agent',
      arguments: { agentId: agent?.id ?? '', text, ...more },
    })
    const names: Names = {
      tools: {
        greet: () => ({ name: 'list_spaces', arguments: {} }),
        slow_compute: ({ seconds: wait }) => ask(slow, `Wait ${wait} s.`),
        failing_job: () => ask(failing),
        protocol_error_job: () => ask(failing),
        confirm_delete: () => ask(careful),
        multi_input: () => ask(both),
        test_tool_with_task: () => ask(careful),
        test_simple_text: () => ({ name: 'list_spaces', arguments: {} }),
        test_logging_tool: () => ({ name: 'list_spaces', arguments: {} }),
        test_error_handling: () => ({ name: 'read_messages', arguments: { spaceId: 'none' } }),
        test_streaming_elicitation: () => ask(careful, 'Go', { waitSeconds: 0 }),
        test_input_required_result_elicitation: () => ask(careful),
        test_input_required_result_request_state: () => ask(careful),
        test_input_required_result_tampered_state: () => ask(careful),
        test_input_required_result_multi_round: () => ask(twice),
      },
      resources: {
        'test://static-text': `parley://spaces/${room.id}`,
        'test://template/123/data': `parley://spaces/${room.id}`,
      },
      prompts: {
        test_simple_prompt: () => ({ name: quick!.id, arguments: { message: 'Hello' } }),
        test_prompt_with_arguments: (given) => ({
          name: quick!.id,
          arguments: { message: Object.values(given).join(' ') },
        }),
      },
      inputKey: 'user_name',
    }
    proxy = await startProxy({ port: parley.server.port, token: await parley.tokenOf(human), names })
    folder = await mkdtemp(path.join(tmpdir(), 'parley-conformance-'))
    const lines = Object.keys(EXCEPTIONS).map((name) => `  - ${name}`)
    await writeFile(
      path.join(folder, 'exceptions.yml'),
      `server:${lines.length === 0 ? ' []' : ''}\n${lines.join('\n')}\n`,
    )
  })
  afterAll(async () => {
    proxy?.close()
    await parley?.close()
    await rm(folder, { recursive: true, force: true })
  })

  async function pass(scenario: string, version: string): Promise<void> {
    const url = `http://localhost:${(proxy.address() as AddressInfo).port}/mcp`
    // Forced: the kit runs extensions with no version by itself.
    const given = ['--url', url, '--scenario', scenario, '--spec-version', version, '--force', '--output-dir', folder]
    const { code, output } = await run(['server', ...given, '--expected-failures', path.join(folder, 'exceptions.yml')])
    expect(code, output).toBe(0)
  }

  test('docs/guide/mcp.md lists the exceptions', async () => {
    const page = await readFile(path.resolve(KITS, '../docs/guide/mcp.md'), 'utf8')
    const names = Object.keys(EXCEPTIONS).flatMap((name) => name.split(':'))
    expect(names.filter((name) => !page.includes(`\`${name}\``))).toEqual([])
  })

  // The kit waits for half a second for some answers, which a busy machine may miss.
  const options = { retry: 2 }
  test.each(OF_2025)('2025-11-25: %s', options, (scenario) => pass(scenario, '2025-11-25'))
  test.each([...SCORED, ...OTHERS])('2026-07-28: %s', options, (scenario) => pass(scenario, '2026-07-28'))
})

function run(options: string[]): Promise<{ code: number; output: string }> {
  return new Promise((resolve) => {
    execFile(process.execPath, [KIT, ...options], (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : Number(error.code ?? 1), output: stdout + stderr }),
    )
  })
}
