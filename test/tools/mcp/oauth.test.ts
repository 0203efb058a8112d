import { createHash } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { OAuthClientProvider } from '@ai-sdk/mcp'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { resealAll } from '../../../src/operation/key-rotation.ts'
import { createSecretBox } from '../../../src/platform/secret-box.ts'
import { createMcpOAuth } from '../../../src/tools/mcp/oauth.ts'
import { type McpServer, startMcpServer } from '../../support/mcp-server.ts'
import { steps } from '../../support/model-server-script.ts'
import type { ParleyClient } from '../../support/parley-client.ts'
import { startTestServer, type TestServer } from '../../support/served.ts'
import type { Read } from '../../support/stage.ts'

describe('MCP servers with OAuth', () => {
  let parley: TestServer
  let admin: ParleyClient
  let mcp: McpServer
  /** The forms that the token endpoint received. */
  let forms: URLSearchParams[]
  /** The token that it will issue next. */
  let next: string
  /** Called before it issues a token. */
  let beforeToken: () => Promise<void>

  beforeAll(async () => {
    parley = await startTestServer()
    admin = await parley.clientOf(parley.admin)
  })
  afterAll(() => parley?.close())
  beforeEach(async () => {
    parley.models.reset()
    mcp = await startMcpServer([{ name: 'add', description: 'Adds.' }])
    mcp.authorization = 'Bearer token-1'
    next = 'token-1'
    forms = []
    beforeToken = async () => {}
    mcp.aside = answerOAuth
  })
  afterEach(() => mcp.close())

  function answerOAuth(request: IncomingMessage, response: ServerResponse): boolean {
    const { origin } = new URL(mcp.url)
    const send = (body: object, status = 200) => {
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
      return true
    }
    const path = request.url ?? ''
    if (path.startsWith('/.well-known/oauth-protected-resource'))
      return send({ resource: mcp.url, authorization_servers: [origin] })
    if (path.startsWith('/.well-known/oauth-authorization-server'))
      return send({
        issuer: origin,
        authorization_endpoint: `${origin}/authorize`,
        token_endpoint: `${origin}/token`,
        registration_endpoint: `${origin}/register`,
        response_types_supported: ['code'],
        grant_types_supported: ['authorization_code', 'refresh_token'],
        code_challenge_methods_supported: ['S256'],
        token_endpoint_auth_methods_supported: ['none'],
      })
    if (path === '/register') {
      request.resume()
      return send({ client_id: 'parley-1', redirect_uris: [`${parley.origin}/auth/mcp/callback`] }, 201)
    }
    if (path !== '/token') return false
    let body = ''
    request.on('data', (chunk) => (body += chunk))
    request.on('end', () => {
      const form = new URLSearchParams(body)
      forms.push(form)
      if (form.get('code') === 'bad') return send({ error: 'invalid_grant' }, 400)
      const given = { access_token: next, token_type: 'Bearer', refresh_token: `refresh of ${next}` }
      return beforeToken().then(() => send(given))
    })
    return true
  }

  const server = () => ({ name: 'math', url: mcp.url, oauth: 'SERVER' })

  async function connect(input: object): Promise<Read> {
    const query = `mutation ($input: ConnectMcpServerInput!) { connectMcpServer(input: $input) { __typename
      ... on ConnectMcpServerPayload { tools { name } authorizationUrl error } ... on Error { message }
      ... on BadInputError { field } } }`
    const { data, errors } = await admin.ask<Record<string, Read>>(query, { input })
    expect(errors).toBeUndefined()
    return data?.connectMcpServer
  }

  async function agentWith(servers: object[]): Promise<string> {
    const { id } = await parley.agent('Mina', { mcpServers: servers as never })
    return id
  }
  async function stateOf(agentId: string): Promise<Read> {
    const query = `{ agent(id: "${agentId}") { internals { mcpServers { oauth authorized } } } }`
    return (await admin.ask<Read>(query)).data?.agent.internals.mcpServers[0]
  }

  /** Begins an authorization. Returns the address at which the admin would authorize. */
  async function begin(agentId: string): Promise<URL> {
    const begun = await connect({ agentId, server: server() })
    expect(begun).toMatchObject({ tools: null, error: null })
    return new URL(begun.authorizationUrl)
  }
  async function comeBack(parameters: Record<string, string | null>): Promise<{ status: number; text: string }> {
    const given = Object.entries(parameters).flatMap(([name, value]) => (value === null ? [] : [[name, value]]))
    const response = await fetch(`${parley.origin}/auth/mcp/callback?${new URLSearchParams(given)}`)
    return { status: response.status, text: await response.text() }
  }
  /** Returns the provider with which a run connects to the server of an agent. */
  async function providerOf(agentId: string): Promise<OAuthClientProvider> {
    const row = await parley.app.platform.db.prisma.mcpServer.findFirstOrThrow({ where: { agentId } })
    return createMcpOAuth(parley.app.platform, { http: {} as never }).providerFor(row)
  }
  async function authorize(agentId: string): Promise<void> {
    const url = await begin(agentId)
    expect(await comeBack({ code: 'good', state: url.searchParams.get('state') })).toMatchObject({ status: 200 })
  }

  test('an admin authorizes once, and then the tools are available; the token is stored encrypted', async () => {
    const agentId = await agentWith([server()])
    const url = await begin(agentId)
    const asked = Object.fromEntries(url.searchParams)
    expect(url.href).toContain(`${new URL(mcp.url).origin}/authorize`)
    expect(asked).toMatchObject({
      response_type: 'code',
      client_id: 'parley-1',
      code_challenge_method: 'S256',
      redirect_uri: `${parley.origin}/auth/mcp/callback`,
    })
    const back = await comeBack({ code: 'good', state: asked.state ?? '' })
    expect(back).toMatchObject({ status: 200, text: expect.stringContaining('"math" is authorized') })
    const verifier = forms[0]?.get('code_verifier') ?? ''
    expect(createHash('sha256').update(verifier).digest('base64url')).toBe(asked.code_challenge)
    expect(await connect({ agentId, server: server() })).toMatchObject({ tools: [{ name: 'add' }], error: null })
    expect(await stateOf(agentId)).toEqual({ oauth: 'SERVER', authorized: true })
    const row = await parley.app.platform.db.prisma.mcpServer.findFirst({ where: { agentId } })
    expect(row?.oauthSealed).toMatch(/^v1\./)
    expect(JSON.stringify(row)).not.toContain('token-1')
    const { data } = await admin.ask<Read>(
      `{ auditLog(first: 20, targetId: "${agentId}") { edges { node { action } } } }`,
    )
    expect(data?.auditLog.edges.map(({ node }: Read) => node.action)).toContain('authorizeMcpServer')
  })

  test('a run sends the token, and refreshes it when the server no longer accepts it', async () => {
    const agentId = await agentWith([server()])
    await authorize(agentId)
    mcp.authorization = 'Bearer token-2'
    next = 'token-2'
    parley.models.script(steps([{ toolCall: 'math__add', input: {} }], [{ text: 'Done.' }]))
    const human = await parley.human('Husam')
    const space = await parley.space(human, [agentId])
    const { runs } = await parley.send(human, space.id, 'Add')
    const run = await parley.runWhen(runs[0]?.id ?? '')
    expect(run).toMatchObject({ status: 'COMPLETED', summary: 'Done.' })
    expect(forms.at(-1)?.get('refresh_token')).toBe('refresh of token-1')
    const called = mcp.received.filter(({ method }) => method === 'tools/call')
    expect(called.map(({ headers }) => headers.authorization)).toEqual(['Bearer token-2'])
  })

  test('a link works once, only with its state, and for the server where it began', async () => {
    const agentId = await agentWith([server()])
    const state = (await begin(agentId)).searchParams.get('state')
    expect(await comeBack({ code: 'good', state: 'forged' })).toMatchObject({ status: 400 })
    expect(await comeBack({ code: 'good', state: null })).toMatchObject({ status: 400 })
    expect(forms).toEqual([])
    expect(await comeBack({ code: 'good', state })).toMatchObject({ status: 200 })
    expect(await comeBack({ code: 'good', state })).toMatchObject({
      status: 400,
      text: expect.stringContaining('already'),
    })
    expect(forms).toHaveLength(1)
    const older = (await begin(await agentWith([server()]))).searchParams.get('state')
    expect(older).not.toBe(state)
  })

  test('of two requests with the same link, only one exchanges the code', async () => {
    const state = (await begin(await agentWith([server()]))).searchParams.get('state')
    const back = await Promise.all([1, 2].map(() => comeBack({ code: 'good', state })))
    expect(back.map(({ status }) => status).toSorted()).toEqual([200, 400])
    expect(forms).toHaveLength(1)
  })

  test('a server that is removed while its code is exchanged is not reported as authorized', async () => {
    const agentId = await agentWith([server()])
    const state = (await begin(agentId)).searchParams.get('state')
    beforeToken = async () => {
      const query = 'mutation ($input: UpdateAgentInput!) { updateAgent(input: $input) { __typename } }'
      await admin.ask(query, { input: { id: agentId, mcpServers: [] } })
    }
    const back = await comeBack({ code: 'good', state })
    expect(back).toMatchObject({ status: 400, text: expect.stringContaining('was removed or changed in the meantime') })
    const log = `{ auditLog(targetId: "${agentId}", action: "authorizeMcpServer") { edges { node { id } } } }`
    expect((await admin.ask<Read>(log)).data?.auditLog.edges).toEqual([])
  })

  test('a run that refreshes a token, or is refused, does not affect an authorization that an admin has begun', async () => {
    const agentId = await agentWith([server()])
    const state = (await begin(agentId)).searchParams.get('state')
    const provider = await providerOf(agentId)
    await provider.saveTokens({ access_token: 'refreshed', token_type: 'Bearer' })
    expect(await provider.clientInformation()).toMatchObject({ client_id: 'parley-1' })
    await provider.invalidateCredentials?.('tokens', { tokens: { access_token: 'refreshed', token_type: 'Bearer' } })
    expect(await comeBack({ code: 'good', state })).toMatchObject({ status: 200 })
  })

  test('a refused client is deleted with its tokens, unless another process has registered a new one', async () => {
    const agentId = await agentWith([server()])
    await authorize(agentId)
    const [older, newer] = [await providerOf(agentId), await providerOf(agentId)]
    await older.clientInformation()
    await newer.saveClientInformation?.({ client_id: 'parley-2' })
    await older.invalidateCredentials?.('all')
    expect(await newer.tokens()).toMatchObject({ access_token: 'token-1' })
    await newer.invalidateCredentials?.('all')
    expect(await newer.tokens()).toBeUndefined()
  })

  test('a refusal shows the server’s message, and an invalid code gives no token', async () => {
    const agentId = await agentWith([server()])
    const refused = (await begin(agentId)).searchParams.get('state')
    const back = await comeBack({ error: 'access_denied', error_description: 'Not today', state: refused })
    expect(back).toMatchObject({ status: 400, text: expect.stringContaining('Not today') })
    const state = (await begin(agentId)).searchParams.get('state')
    expect(await comeBack({ code: 'bad', state })).toMatchObject({ status: 400 })
    expect((await connect({ agentId, server: server() })).authorizationUrl).not.toBeNull()
  })

  test('a token is bound to the URL of its server: another URL, or NONE, deletes it', async () => {
    const agentId = await agentWith([server()])
    await authorize(agentId)
    const update = async (given: object) => {
      const query = `mutation ($input: UpdateAgentInput!) { updateAgent(input: $input) { ... on Error { message } } }`
      const { errors } = await admin.ask(query, { input: { id: agentId, mcpServers: [given] } })
      expect(errors).toBeUndefined()
      return stateOf(agentId)
    }
    expect(await update(server())).toEqual({ oauth: 'SERVER', authorized: true })
    const other = { ...server(), url: `${mcp.url}/other` }
    expect(await connect({ agentId, server: other })).toMatchObject({
      __typename: 'BadInputError',
      field: 'input.agentId',
    })
    expect(await update(other)).toEqual({ oauth: 'SERVER', authorized: false })
    expect(await update({ ...server(), oauth: 'NONE' })).toEqual({ oauth: 'NONE', authorized: false })
    expect(await connect({ server: server() })).toMatchObject({ __typename: 'BadInputError', field: 'input.agentId' })
    const both = { ...server(), headers: { Authorization: 'Bearer x' } }
    expect(await connect({ agentId, server: both })).toMatchObject({ field: 'input.server.headers' })
  })

  test('tokens are encrypted again when the key changes', async () => {
    const agentId = await agentWith([server()])
    await authorize(agentId)
    const { db, config } = parley.app.platform
    const sealed = async () => (await db.prisma.mcpServer.findFirst({ where: { agentId } }))?.oauthSealed ?? ''
    const before = await sealed()
    const rotation = await resealAll(db, createSecretBox('the next key of this server', config.secretKey))
    expect(rotation.failed).toEqual([])
    const after = await sealed()
    expect(after).not.toBe(before)
    const opened = createSecretBox('the next key of this server').open(after, `mcp-oauth:${agentId}:math`)
    expect(opened).toContain('token-1')
  })
})
