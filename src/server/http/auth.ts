import type { IncomingMessage, ServerResponse } from 'node:http'
import { SIGN_IN } from '../../access/credential-lookups.ts'
import type { Rates } from '../../access/rates.ts'
import type { SignIns } from '../../access/sign-ins.ts'
import type { Domain } from '../../graphql/domain.ts'
import {
  BadInputError,
  ConflictError,
  ForbiddenError,
  messageOf,
  RateLimitedError,
  UnauthenticatedError,
} from '../../lib/errors.ts'
import { decodeUtf8 } from '../../lib/exact-json.ts'
import { forRequester } from '../../lib/requester-context.ts'
import type { PublicUrl } from '../../platform/public-url.ts'
import type { Authentication } from './authentication.ts'
import { BodyRefusedError, createBodyReader } from './body.ts'
import { browserOf, checkPage, setSessionCookie, trustedCookiesOf } from './cookies.ts'
import { type Handler, sendJson, sendTooMany } from './health.ts'
import type { Origins } from './origins.ts'

export interface AuthParts {
  sessions: Pick<Domain['sessions'], 'open' | 'signOut'>
  signIns: SignIns
  authentication: Authentication
  rates: Pick<Rates, 'take'>
  origins: Pick<Origins, 'allows'>
  publicUrl: Pick<PublicUrl, 'basePath' | 'origin'>
  bodies: AuthBodies
  /** The methods by which people can sign in without a token. */
  ways: { mail: boolean }
}

/** Reads the bodies of sign-in requests. */
export interface AuthBodies {
  /**
   * Returns the properties of the JSON object in a body. Returns an empty object if the body is not a JSON object.
   * @throws BodyRefusedError
   */
  json(request: IncomingMessage): Promise<Record<string, unknown>>
  /** Returns the fields of a form. @throws BodyRefusedError */
  form(request: IncomingMessage): Promise<URLSearchParams>
}

const LARGEST_BODY_BYTES = 16 * 1024
/** The maximum size of a form. Forms contain a signed token from an identity provider. */
const LARGEST_FORM_BYTES = 64 * 1024
const BODY_TIMEOUT_MS = 10_000
const MOST_UNFINISHED_BYTES = 4 * 1024 * 1024

/** Opens, describes and ends sessions: `POST /auth/token`, `GET /auth/session`, `POST /auth/sign-out`. */
export function createAuthHandlers(parts: AuthParts): Record<string, Handler> {
  const { sessions, signIns, authentication, rates, origins, publicUrl, bodies, ways } = parts

  async function signIn(request: IncomingMessage, response: ServerResponse): Promise<void> {
    checkPage(request, origins)
    const address = request.socket.remoteAddress ?? 'unknown'
    const { token } = await bodies.json(request)
    if (typeof token !== 'string' || token === '')
      return sendJson(response, 400, { error: 'The body must be JSON with a token: { "token": "…" }.' })
    const viewer = await signIns.signIn(token, address)
    if (viewer === null)
      return sendJson(response, 401, { error: 'The token is unknown, revoked or expired. Sign in with another one.' })
    await rates.take('requests', viewer)
    setSessionCookie(request, response, await sessions.open(viewer, browserOf(request)), publicUrl)
    sendJson(response, 200, { scope: viewer.scope }, NO_STORE)
  }

  async function signOut(request: IncomingMessage, response: ServerResponse): Promise<void> {
    // A request from another site's page carries no cookie, but its response could make the browser delete the cookie.
    checkPage(request, origins)
    const cookies = trustedCookiesOf(request, origins)
    if (cookies.length > 0) await sessions.signOut(cookies)
    setSessionCookie(request, response, null, publicUrl)
    response.writeHead(204, NO_STORE).end()
  }

  /**
   * Describes the viewer of a bearer token or session cookie. A request without either is not an error here,
   * although it is one for operations.
   */
  async function describeSession(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const scope = await authentication.viewerOf(request, response).then(
      (viewer) => viewer.scope,
      (error: unknown) => {
        if (error instanceof UnauthenticatedError) return null
        throw error
      },
    )
    sendJson(response, 200, { scope, mail: ways.mail }, NO_STORE)
  }

  return {
    '/auth/token': answering('POST', signIn),
    '/auth/sign-out': answering('POST', signOut),
    '/auth/session': answering('GET', describeSession),
  }
}

export const NO_STORE = { 'cache-control': 'no-store' }

/** Returns a handler for one method. Expected failures become responses. */
export function answering(
  method: 'GET' | 'POST',
  handle: (request: IncomingMessage, response: ServerResponse) => Promise<void>,
): Handler {
  return async (request, response) => {
    if (request.method !== method) return sendJson(response, 405, { error: `Use ${method}.` }, { allow: method })
    try {
      await forRequester(SIGN_IN, () => handle(request, response))
    } catch (error) {
      // The client disconnected before the request was complete, so it cannot receive a response.
      if (request.destroyed && !request.complete) return
      const status = statusOf(error)
      if (error instanceof RateLimitedError) sendTooMany(response, error)
      else if (status !== null) sendJson(response, status, { error: messageOf(error) })
      else throw error
    }
  }
}

/** Returns the HTTP status of an expected failure; null for any other error. */
function statusOf(error: unknown): number | null {
  if (error instanceof BodyRefusedError) return error.status
  if (error instanceof BadInputError) return 400
  if (error instanceof ConflictError) return 409
  return error instanceof ForbiddenError ? 403 : null
}

export function createAuthBodies(): AuthBodies {
  const bodies = createBodyReader({ timeoutMs: BODY_TIMEOUT_MS, mostUnfinishedBytes: MOST_UNFINISHED_BYTES })
  const read = (request: IncomingMessage, mostBytes: number) =>
    bodies.read(request, { mostBytes, owner: request.socket.remoteAddress ?? 'unknown' })
  return {
    async json(request) {
      const body = await read(request, LARGEST_BODY_BYTES)
      try {
        const parsed: unknown = JSON.parse(decodeUtf8(body))
        return typeof parsed === 'object' && parsed !== null ? (parsed as Record<string, unknown>) : {}
      } catch {
        return {}
      }
    },
    async form(request) {
      return new URLSearchParams((await read(request, LARGEST_FORM_BYTES)).toString())
    },
  }
}
