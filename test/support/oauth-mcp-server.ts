import { createHash } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { type McpServer, type ServedTool, startMcpServer } from './mcp-server.ts'

/**
 * An MCP server that requires a token of each user, together with its authorization server. It supports the code flow with
 * PKCE, registration of clients, access tokens that expire, and refresh tokens that work once.
 */
export interface OAuthMcpServer extends McpServer {
  /** Gives a user's consent at the address to which a browser was sent. Returns the URL to which the browser returns. */
  consent(authorizationUrl: string, user: string): URL
  /** The users on whose behalf tools were called, oldest first. */
  calledBy(): string[]
  /** Rejects all access tokens from now on; with `all`, no refresh token either. */
  expire(what?: 'access' | 'all'): void
  /** The refresh tokens that were sent, oldest first. */
  refreshes: string[]
  /** If set, a refresh is answered only when this resolves. */
  beforeRefresh: () => Promise<void>
  /** Called when tokens have been refreshed. */
  afterRefresh: () => void
  /** Every token that was issued. */
  given: string[]
}

interface Code {
  user: string
  challenge: string
  redirectUri: string
}

export async function startOAuthMcpServer(tools: ServedTool[]): Promise<OAuthMcpServer> {
  const mcp = await startMcpServer(tools)
  const { origin } = new URL(mcp.url)
  const codes = new Map<string, Code>()
  const access = new Map<string, string>()
  const refresh = new Map<string, string>()
  const users = new Map<string, string>()
  let count = 0

  const server: OAuthMcpServer = Object.assign(mcp, {
    refreshes: [] as string[],
    given: [] as string[],
    beforeRefresh: async () => {},
    afterRefresh: () => {},
    consent(authorizationUrl: string, user: string) {
      const asked = new URL(authorizationUrl).searchParams
      const code = `code-${++count}-of-${user}`
      const redirectUri = asked.get('redirect_uri') ?? ''
      codes.set(code, { user, challenge: asked.get('code_challenge') ?? '', redirectUri })
      const back = new URL(redirectUri)
      back.search = String(new URLSearchParams({ code, state: asked.get('state') ?? '' }))
      return back
    },
    calledBy: () =>
      mcp.received
        .filter(({ method }) => method === 'tools/call')
        .map(({ headers }) => users.get(String(headers.authorization)) ?? 'nobody'),
    expire(what: 'access' | 'all' = 'access') {
      access.clear()
      if (what === 'all') refresh.clear()
    },
  })

  function tokensFor(user: string) {
    const [token, again] = [`access-${++count}-of-${user}`, `refresh-${count}-of-${user}`]
    access.set(`Bearer ${token}`, user)
    users.set(`Bearer ${token}`, user)
    refresh.set(again, user)
    server.given.push(token, again)
    return { access_token: token, refresh_token: again, token_type: 'Bearer' }
  }

  async function exchange(form: URLSearchParams): Promise<object | null> {
    if (form.get('grant_type') === 'refresh_token') {
      const sent = form.get('refresh_token') ?? ''
      server.refreshes.push(sent)
      await server.beforeRefresh()
      const user = refresh.get(sent)
      refresh.delete(sent)
      if (user === undefined) return null
      const tokens = tokensFor(user)
      server.afterRefresh()
      return tokens
    }
    const code = codes.get(form.get('code') ?? '')
    codes.delete(form.get('code') ?? '')
    const challenge = createHash('sha256')
      .update(form.get('code_verifier') ?? '')
      .digest('base64url')
    const isRight = code?.challenge === challenge && code.redirectUri === form.get('redirect_uri')
    return code !== undefined && isRight ? tokensFor(code.user) : null
  }

  mcp.aside = (request: IncomingMessage, response: ServerResponse) => {
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
    if (path === '/register' || path === '/token') {
      let body = ''
      request.on('data', (chunk) => (body += chunk))
      request.on('end', async () => {
        if (path === '/register')
          return send({ client_id: `client-${++count}`, redirect_uris: JSON.parse(body).redirect_uris }, 201)
        const tokens = await exchange(new URLSearchParams(body))
        return tokens === null ? send({ error: 'invalid_grant' }, 400) : send(tokens)
      })
      return true
    }
    if (request.method !== 'POST' || access.has(String(request.headers.authorization))) return false
    request.resume()
    response.writeHead(401, { 'www-authenticate': 'Bearer realm="mail"' }).end()
    return true
  }
  return server
}
