import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, request as httpRequest, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startTestServer, type TestServer } from '../../test/support/served.ts'

const KITS = path.resolve(import.meta.dirname, '..')
const KIT = path.join(KITS, 'node_modules/@modelcontextprotocol/conformance/dist/index.js')

/**
 * The scenarios that do not call tools, prompts and resources of the kit's own example server. Two more are left out: the door
 * offers neither logging nor completions (`logging-set-level`, `completion-complete`), and `dns-rebinding-protection` is for
 * servers without authentication: the token, which the proxy adds here, is what a page of another site does not have.
 */
const SCENARIOS = ['server-initialize', 'ping', 'tools-list', 'resources-list', 'prompts-list']

describe('the conformance kit of the protocol', () => {
  let parley: TestServer
  let proxy: Server
  let results: string
  beforeAll(async () => {
    parley = await startTestServer({ worker: false })
    const human = await parley.human('Ada')
    await parley.space(human, [])
    await parley.agent('Bot')
    proxy = await startProxy(parley.server.port, await parley.tokenOf(human))
    results = await mkdtemp(path.join(tmpdir(), 'parley-conformance-'))
  })
  afterAll(async () => {
    proxy?.close()
    await parley?.close()
    await rm(results, { recursive: true, force: true })
  })

  test.each(SCENARIOS)('%s', async (scenario) => {
    const url = `http://localhost:${(proxy.address() as AddressInfo).port}/mcp`
    const { code, output } = await run(['server', '--url', url, '--scenario', scenario, '--output-dir', results])
    expect([code, output]).toEqual([0, expect.stringContaining('0 failed')])
  })
})

/** The kit cannot send a token: the proxy adds it, and leaves the rest of the request as it is. */
function startProxy(port: number, token: string): Promise<Server> {
  const server = createServer((request, response) => {
    const headers = { ...request.headers, authorization: `Bearer ${token}` }
    const { method, url } = request
    const onward = httpRequest({ host: '127.0.0.1', port, method, path: url, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers)
      answer.pipe(response)
    })
    onward.on('error', () => response.destroy())
    request.pipe(onward)
  })
  return new Promise((resolve) => server.listen(0, () => resolve(server)))
}

function run(options: string[]): Promise<{ code: number; output: string }> {
  return new Promise((resolve) => {
    execFile(process.execPath, [KIT, ...options], (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : Number(error.code ?? 1), output: stdout + stderr }),
    )
  })
}
