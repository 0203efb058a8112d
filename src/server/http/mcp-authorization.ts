import { randomBytes } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { SIGN_IN } from '../../access/credential-lookups.ts'
import type { Rates } from '../../access/rates.ts'
import type { SignIns } from '../../access/sign-ins.ts'
import type { Viewer } from '../../access/viewer.ts'
import type { Domain } from '../../graphql/domain.ts'
import { networkOf } from '../../lib/addresses.ts'
import { NotFoundError, RateLimitedError, UnauthenticatedError } from '../../lib/errors.ts'
import { forRequester } from '../../lib/requester-context.ts'
import type { PublicUrl } from '../../platform/public-url.ts'
import { CONNECT_PATH } from '../../rules/connect-path.ts'
import { askedOriginOf } from './asked-origin.ts'
import { NO_STORE } from './auth.ts'
import { authenticate, bearerOf } from './authentication.ts'
import { mcpAttemptsOf, sessionCookiesOf, setMcpAttempt } from './cookies.ts'
import { type Handler, sendJson, sendTooMany } from './health.ts'
import { sendNoticePage } from './notice-page.ts'
import { parametersOf, pathOf } from './targets.ts'

/** The path to which an MCP server's authorization redirects a browser. */
export const MCP_CALLBACK_PATH = '/auth/mcp/callback'
/** The path of the link that a person follows to connect to the MCP server that a call waits for. */
export const MCP_CONNECT_PATH = new RegExp(`^${CONNECT_PATH}(tcl_[0-9a-f]{32})$`)

const TEXT = {
  'content-type': 'text/plain; charset=utf-8',
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cache-control': 'no-store',
}

const ATTEMPT_SECONDS = 15 * 60
/** The maximum number of authorizations that a browser may have in progress at the same time. */
const MOST_ATTEMPTS = 5
/**
 * How many requests (PARLEY_RATE_REQUESTS) the start of an authorization counts as. It counts as several because
 * the server then sends requests to the MCP server.
 */
const BEGIN_POINTS = 10

/** Whether a page of another origin sent the browser here. The person may not have intended this. */
const isFromElsewhere = ({ headers }: IncomingMessage) =>
  headers['sec-fetch-site'] === 'cross-site' || headers['sec-fetch-site'] === 'same-site'

export interface McpAuthorizationParts {
  domain: Pick<Domain, 'toolSetup' | 'callConnections'>
  signIns: SignIns
  rates: Pick<Rates, 'take'>
  publicUrl: Pick<PublicUrl, 'basePath' | 'origin' | 'to'>
}

/**
 * `GET /auth/mcp/calls/:id` redirects a signed-in person to the MCP server that their call waits for, and sets a
 * cookie that ties the authorization to their browser. If another site sent the person here, a page asks for
 * confirmation first. `GET /auth/mcp/callback` completes an authorization, and tells the person in plain text
 * whether it succeeded.
 */
export function createMcpAuthorization(parts: McpAuthorizationParts): { connect: Handler; callback: Handler } {
  const { signIns, rates, publicUrl } = parts
  const { toolSetup, callConnections } = parts.domain
  const home = { href: `${publicUrl.basePath}/`, label: 'Go to Parley' }

  /**
   * Returns the viewers who are signed in. There may be several, because the browser may send several session
   * cookies. A page that links here cannot read the response.
   */
  async function viewersOf(request: IncomingMessage): Promise<Viewer[]> {
    const bearer = bearerOf(request.headers.authorization)
    const address = request.socket.remoteAddress
    const cookies = bearer === null ? sessionCookiesOf(request.headers) : [null]
    const viewers = await Promise.all(
      cookies.map((cookie) =>
        authenticate(signIns, { bearer, cookie, address }).catch((error: unknown) => {
          if (error instanceof UnauthenticatedError) return null
          throw error
        }),
      ),
    )
    return viewers.filter((viewer) => viewer !== null)
  }

  /**
   * Returns the URL at which a viewer can connect to the server that a call waits for. Uses the first viewer that
   * the call waits for, and returns null if it waits for none of them.
   */
  async function connectionOf(viewers: readonly Viewer[], toolCallId: string) {
    for (const viewer of viewers) {
      try {
        return await callConnections.awaitedConnection(viewer, toolCallId)
      } catch (error) {
        if (!(error instanceof NotFoundError)) throw error
      }
    }
    return null
  }

  async function begin(request: IncomingMessage, response: ServerResponse): Promise<void> {
    await rates.take('requests', `mcp:${networkOf(request.socket.remoteAddress ?? 'unknown')}`, BEGIN_POINTS)
    const [, toolCallId = ''] = MCP_CONNECT_PATH.exec(pathOf(request)) ?? []
    const viewers = await viewersOf(request)
    if (viewers.length === 0)
      return sendNoticePage(response, {
        status: 401,
        title: 'Sign in first',
        text: ['This link is for one person. Sign in to Parley in this browser, and open the link again.'],
        links: [home],
      })
    const connection = await connectionOf(viewers, toolCallId)
    if (connection === null)
      return sendNoticePage(response, {
        status: 404,
        title: 'Nothing to connect',
        text: ['No call is waiting for you: the call has continued or ended, or the link is for another person.'],
        links: [home],
      })
    const { agentName, serverName } = connection
    if (isFromElsewhere(request))
      return sendNoticePage(response, {
        status: 200,
        title: `Connect to "${serverName}"?`,
        text: [
          `The agent "${agentName}" wants to use the MCP server "${serverName}" with your own authorization. Another site opened this page: continue only if you want to connect.`,
        ],
        links: [{ href: `${publicUrl.basePath}${CONNECT_PATH}${toolCallId}`, label: `Connect to "${serverName}"` }],
      })
    const browser = { attempt: randomBytes(16).toString('base64url'), secret: randomBytes(32).toString('base64url') }
    const redirectUrl = publicUrl.to(MCP_CALLBACK_PATH, askedOriginOf(request.headers))
    const begun = await toolSetup.beginForPerson(connection, { redirectUrl, browser })
    if (begun.type === 'failed')
      return sendNoticePage(response, {
        status: 502,
        title: 'Could not connect you',
        text: [begun.message],
        links: [home],
      })
    if (begun.type === 'connected') {
      await callConnections.connected(connection)
      return sendNoticePage(response, {
        status: 200,
        title: 'You are connected',
        text: [`You were already connected to the MCP server "${connection.serverName}". The agent continues.`],
        links: [home],
      })
    }
    const former = [...mcpAttemptsOf(request.headers).keys()]
    for (const key of former.slice(0, Math.max(0, former.length - MOST_ATTEMPTS + 1)))
      setMcpAttempt(request, response, { key, secret: null, maxAgeSeconds: 0 }, publicUrl)
    const { attempt: key, secret } = browser
    setMcpAttempt(request, response, { key, secret, maxAgeSeconds: ATTEMPT_SECONDS }, publicUrl)
    response.writeHead(303, { location: begun.url, ...NO_STORE, 'referrer-policy': 'no-referrer' }).end()
  }

  return {
    async connect(request, response) {
      // A link preview (HEAD) must not start an authorization.
      if (request.method === 'HEAD') return void response.writeHead(200, NO_STORE).end()
      if (request.method !== 'GET') return sendJson(response, 405, { error: 'Use GET.' }, { allow: 'GET' })
      try {
        await forRequester(SIGN_IN, () => begin(request, response))
      } catch (error) {
        if (!(error instanceof RateLimitedError)) throw error
        sendTooMany(response, error)
      }
    },
    async callback(request, response) {
      // A link preview (HEAD) must not use up the code.
      if (request.method === 'HEAD') return void response.writeHead(200, TEXT).end()
      const attempts = mcpAttemptsOf(request.headers)
      const { isAuthorized, message, person } = await toolSetup.finishAuthorization(parametersOf(request), (attempt) =>
        attempts.get(attempt),
      )
      if (person !== null) await callConnections.connected(person)
      response.writeHead(isAuthorized ? 200 : 400, TEXT).end(`${message}\n`)
    },
  }
}
