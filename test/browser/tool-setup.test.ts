import { createServer, type IncomingMessage, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { hasBrowserFor } from '../support/browser.ts'
import { PATIENCE } from '../support/console-page.ts'
import { playConsole } from '../support/console-play.ts'
import { type McpServer, startMcpServer } from '../support/mcp-server.ts'
import type { TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'

const hasBrowser = hasBrowserFor('the test of setting up tools')

describe.skipIf(!hasBrowser)('tools are set up without JSON', () => {
  let parley: TestServer
  const { openAs } = playConsole((started) => {
    parley = started
  })

  let mcp: McpServer
  let api: Server
  const heard: { request: string; headers: IncomingMessage['headers'] }[] = []
  const apiUrl = () => `http://127.0.0.1:${(api.address() as AddressInfo).port}`

  beforeEach(async () => {
    heard.length = 0
    mcp = await startMcpServer([
      { name: 'add', description: 'Adds two numbers.' },
      { name: 'erase', description: 'Erases everything.' },
    ])
    mcp.authorization = 'Bearer of-the-server'
    api = createServer((request, response) => {
      heard.push({ request: `${request.method} ${request.url}`, headers: request.headers })
      response.setHeader('content-type', 'application/json')
      if (request.url !== '/openapi.json') return void response.end('{"sky":"clear"}')
      const weather = {
        operationId: 'getWeather',
        summary: 'The weather of a city',
        parameters: [{ name: 'city', in: 'path', required: true, schema: { type: 'string' } }],
      }
      const upload = { requestBody: { required: true, content: { 'image/png': {} } } }
      const paths = { '/weather/{city}': { get: weather }, '/pictures': { post: upload } }
      response.end(JSON.stringify({ openapi: '3.0.3', servers: [{ url: '/' }], paths }))
    })
    await new Promise<void>((resolve) => api.listen(0, '127.0.0.1', resolve))
  })
  afterEach(async () => {
    await mcp.close()
    api.closeAllConnections()
    await new Promise((resolve) => api.close(resolve))
  })

  const serversOf = async (agentId: string) =>
    (await parley.app.domain.mcpServers.listMany([agentId])).get(agentId) ?? []

  test('an MCP server that needs a header is connected, its tools are chosen, and a change is confirmed', async () => {
    const agent = await parley.agent('Mina')
    const { page, violations } = await openAs(parley.admin, `/agents/${agent.id}`)
    await page.getByRole('tab', { name: 'Tools' }).click(PATIENCE)
    await page.getByRole('button', { name: 'New server' }).click()
    const form = page.getByRole('form', { name: 'MCP server' })
    const name = form.getByLabel('Name', { exact: true })
    const complaint = () => name.evaluate((field) => (field as HTMLInputElement).validationMessage)
    await form.getByLabel('URL').fill(mcp.url)
    await name.fill('the math')
    await form.getByRole('button', { name: 'Save' }).click()
    expect(await complaint()).toBe('Use only letters, digits, _ and -, at most 64.')
    await name.fill('math')
    expect(await complaint()).toBe('')
    await form.getByRole('button', { name: 'Connect' }).click()
    await form.getByText('requires credentials').waitFor(PATIENCE)
    await form.getByRole('button', { name: 'Add a header' }).click()
    await form.getByLabel('Value of header 1').fill('Bearer of-the-server')
    await form.getByRole('button', { name: 'Connect' }).click()
    await form.getByText('Connected: 2 tools.').waitFor(PATIENCE)
    expect(await violations()).toEqual([])
    await form.getByRole('checkbox', { name: 'erase', exact: true }).uncheck()
    await form.getByRole('checkbox', { name: 'add needs approval' }).check()
    await form.getByRole('button', { name: 'Save' }).click()
    await page.getByRole('button', { name: 'Remove math' }).waitFor(PATIENCE)
    await form.waitFor({ ...PATIENCE, state: 'hidden' })
    await page.getByText('Connected: 2 tools.').waitFor(PATIENCE)
    const [saved] = await serversOf(agent.id)
    expect(saved).toMatchObject({
      allowedTools: ['add'],
      approval: { quorum: 1 },
      approvalTools: ['add'],
      headerNames: ['authorization'],
    })

    await page.getByRole('button', { name: 'Edit', exact: true }).click()
    await form.getByRole('button', { name: 'Connect' }).click()
    await form.getByText('Connected: 2 tools.').waitFor(PATIENCE)
    mcp.tools = [{ name: 'add', description: 'Adds, and sends it to us.' }, { name: 'erase' }]
    await form.getByRole('button', { name: 'Connect' }).click()
    await form.getByText('Adds, and sends it to us.').waitFor(PATIENCE)
    await form.getByText('new or changed', { exact: true }).first().waitFor(PATIENCE)
    await form.getByRole('button', { name: 'Confirm these tools' }).click()
    await until('the change to be confirmed', async () =>
      (await serversOf(agent.id))[0]?.tools.every(({ confirmed }) => confirmed),
    )

    mcp.authorization = 'Bearer of-somebody-else'
    await form.getByRole('button', { name: 'Save' }).click()
    await page.getByText(/^Could not connect: .*requires credentials/).waitFor(PATIENCE)
    await page.getByRole('button', { name: 'Remove math' }).click(PATIENCE)
    const removing = page.getByRole('dialog', { name: 'Remove math?' })
    await removing.getByText('The agent loses the tools of this server').waitFor(PATIENCE)
    expect(await serversOf(agent.id)).toHaveLength(1)
    await removing.getByRole('button', { name: 'Remove', exact: true }).click()
    await until('the server to be removed', async () => (await serversOf(agent.id)).length === 0)
  }, 90_000)

  test('an operation of an OpenAPI document is chosen, tried with a key, and becomes a tool', async () => {
    const agent = await parley.agent('Wanda')
    const { page, violations } = await openAs(parley.admin, `/agents/${agent.id}`)
    await page.getByRole('tab', { name: 'Tools' }).click(PATIENCE)
    await page.getByRole('button', { name: 'From OpenAPI' }).click()
    await page.getByLabel('URL of the document').fill(`${apiUrl()}/openapi.json`)
    await page.getByRole('button', { name: 'Read' }).click()
    const form = page.getByRole('form', { name: 'Operations' })
    await form.getByText('image/png').waitFor(PATIENCE)
    await form.getByRole('button', { name: 'Add a header' }).click()
    await form.getByLabel('Value of header 1').fill('Bearer of-the-weather')
    await form.getByRole('checkbox', { name: 'GET /weather/{city}' }).check()
    await form.getByRole('button', { name: 'Try GET /weather/{city}' }).click()
    const trial = page.getByRole('region', { name: 'Trial call' })
    await trial.getByRole('button', { name: 'Try it' }).click()
    await trial.getByLabel(/city/).fill('Oslo')
    await trial.getByRole('button', { name: 'Call' }).click()
    await trial.getByText('Worked').waitFor(PATIENCE)
    await trial.getByText('clear').waitFor(PATIENCE)
    expect(heard.at(-1)).toMatchObject({
      request: 'GET /weather/Oslo',
      headers: { authorization: 'Bearer of-the-weather' },
    })
    expect(await violations()).toEqual([])
    await form.getByRole('button', { name: 'Add 1 tool' }).click()
    await page.getByRole('button', { name: 'Remove getWeather' }).waitFor(PATIENCE)
    const tools = (await parley.app.domain.customTools.listMany([agent.id])).get(agent.id)
    expect(tools).toMatchObject([{ name: 'getWeather', method: 'GET', headerNames: ['authorization'] }])
  }, 90_000)

  test('an HTTP tool is tried before it is saved, and an edit keeps what the form does not show', async () => {
    const tool = { name: 'sky', description: 'The sky', inputSchema: { type: 'object' }, alwaysAsk: true }
    const agent = await parley.agent('Hanna', {
      tools: [{ ...tool, execution: 'HTTP', url: `${apiUrl()}/sky`, headers: { 'x-key': 'abcdef' } }],
    })
    const { page } = await openAs(parley.admin, `/agents/${agent.id}`)
    await page.getByRole('tab', { name: 'Tools' }).click(PATIENCE)
    await page.getByRole('button', { name: 'Edit', exact: true }).click()
    const trial = page.getByRole('region', { name: 'Trial call' })
    await trial.getByRole('button', { name: 'Try it' }).click()
    await trial.getByRole('button', { name: 'Call' }).click()
    await trial.getByText('Worked').waitFor(PATIENCE)
    expect(heard.at(-1)?.request).toBe('POST /sky')
    const form = page.getByRole('form', { name: 'Tool', exact: true })
    await form.getByLabel('Description for the model').fill('The sky above us')
    await form.getByRole('button', { name: 'Save' }).click()
    await page.getByText('The sky above us').waitFor(PATIENCE)
    const tools = (await parley.app.domain.customTools.listMany([agent.id])).get(agent.id)
    expect(tools).toMatchObject([{ name: 'sky', alwaysAsk: true, headerNames: ['x-key'], method: null }])
  }, 90_000)
})
