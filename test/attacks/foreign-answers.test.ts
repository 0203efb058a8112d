import { spawnSync } from 'node:child_process'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { CreateAgentInput } from '../../src/agents/agent-input.ts'
import { startApplication, type TestApplication } from '../support/application.ts'
import { startMcpServer } from '../support/mcp-server.ts'
import { type ModelAction, steps } from '../support/model-server-script.ts'
import { callsOf } from '../support/space-tools.ts'

describe('responses that the database cannot store', () => {
  let parley: TestApplication
  let server: Server
  const received: { path: string; key: unknown }[] = []

  beforeAll(async () => {
    parley = await startApplication({ settings: { PARLEY_LOG_LEVEL: 'silent' } })
    server = createServer((request, response) => {
      received.push({ path: request.url ?? '', key: request.headers['idempotency-key'] })
      const isFailure = request.url?.includes('500')
      response.writeHead(isFailure ? 500 : 200, {
        'content-type': request.url?.includes('json') ? 'application/json' : 'text/plain',
      })
      response.end('{"a":\0\ud800}')
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  })
  afterAll(async () => {
    server?.close()
    await parley?.close()
  })
  beforeEach(() => {
    received.length = 0
    parley.models.reset()
  })

  const urlOf = (at: string) => `http://127.0.0.1:${(server.address() as AddressInfo).port}${at}`

  async function runWith(input: Partial<CreateAgentInput>, ...generations: ModelAction[][]) {
    const { human, space } = await parley.room('Ada', input)
    parley.models.script(steps(...generations))
    const { runs } = await parley.send(human, space.id, 'Go')
    return parley.runWhen(runs[0]?.id ?? '')
  }

  test.each(['/json', '/text', '/json-500', '/text-500'])(
    'such responses of an HTTP tool fail one call: %s',
    async (at) => {
      const theirs = { name: 'theirs', description: '', inputSchema: { type: 'object' }, execution: 'HTTP' as const }
      const run = await runWith({ tools: [{ ...theirs, url: urlOf(at) }] }, [{ toolCall: 'theirs', input: {} }])
      expect(run).toMatchObject({ status: 'COMPLETED', attempt: 1 })
      const [call] = await callsOf(parley, run.id)
      expect(call?.status).toBe(at === '/text' ? 'DONE' : 'FAILED')
      expect(received).toEqual([{ path: at, key: call?.id }])
    },
  )

  test.each<[string, object]>([
    ['a result that says it failed', { isError: true, content: [{ type: 'text', text: 'a\0\ud800' }] }],
    ['a result', { content: [{ type: 'text', text: 'a\0\ud800' }] }],
  ])('such responses of an MCP tool fail at most one call, which has a key: %s', async (_, answer) => {
    const mcp = await startMcpServer([{ name: 'pay', answer: () => answer }])
    const run = await runWith({ mcpServers: [{ name: 'bank', url: mcp.url }] }, [{ toolCall: 'bank__pay', input: {} }])
    expect(run).toMatchObject({ status: 'COMPLETED', attempt: 1 })
    const [call] = await callsOf(parley, run.id)
    const calls = mcp.received.filter(({ method }) => method === 'tools/call')
    expect(calls.map(({ headers }) => headers['idempotency-key'])).toEqual([call?.id])
    await mcp.close()
  })

  test('such responses from a model provider fail the run at its first request, and reveal no key', async () => {
    const key = 'azurekey0a1b2c3d4e5f60718293a4b5c6d7e8'
    const run = await runWith({}, [{ error: `bad \0\ud800 key ${key}`, status: 400 }])
    expect(run).toMatchObject({ status: 'FAILED', attempt: 1 })
    expect(run.error).toContain('bad')
    expect(run.error).not.toContain(key)
    expect(parley.models.requests).toHaveLength(1)
  })
})

test('an unhandled rejection is logged with an id and counted, and the process continues', () => {
  const module = path.resolve('src/app/rejections.ts')
  const script = `
    import { Registry } from 'prom-client'
    import { surviveRejections } from ${JSON.stringify(module)}
    const metrics = new Registry()
    surviveRejections({ error: (about) => console.log(JSON.stringify(about)) }, metrics)
    Promise.reject(new Error('nobody waits'))
    setTimeout(async () => console.log(await metrics.metrics()), 10)`
  const { status, stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' })
  expect(status).toBe(0)
  expect(stdout).toMatch(/"errorId":"[0-9a-f-]{36}","error":"Error: nobody waits/)
  expect(stdout).toContain('parley_unhandled_rejections_total 1')
})
