import type { IncomingMessage, ServerResponse } from 'node:http'
import type { SignIns } from '../../access/sign-ins.ts'
import type { Viewer } from '../../access/viewer.ts'
import type { Domain } from '../../graphql/domain.ts'
import { CrossSiteError, UnauthenticatedError } from '../../lib/errors.ts'
import type { PublicUrl } from '../../platform/public-url.ts'
import { type AuthBodies, answering, NO_STORE } from './auth.ts'
import type { Authentication } from './authentication.ts'
import { addressBehindProxy } from './client-address.ts'
import { browserOf, checkPage, requireKeptCookie, sessionCookiesOf, setSessionCookie } from './cookies.ts'
import { type Handler, sendJson } from './health.ts'
import type { Origins } from './origins.ts'
import { pathOf } from './targets.ts'

/** The path of the link in an email. */
export const MAIL_LINK_PATH = /^\/auth\/mail\/([^/]+)$/

export interface MailLinkParts {
  mailLinks: Pick<Domain['mailLinks'], 'isConfigured' | 'requestSignIn' | 'describe' | 'use'>
  /** The console's page, which asks for confirmation before it uses the link. */
  page: Handler
  signIns: Pick<SignIns, 'redeem' | 'countMail'>
  authentication: Authentication
  origins: Pick<Origins, 'allows'>
  publicUrl: Pick<PublicUrl, 'basePath' | 'origin'>
  bodies: AuthBodies
}

const USED_UP = 'The link does not exist, has expired or was already used. Ask for a new one.'

/**
 * `POST /auth/mail` sends a link by email. `GET /auth/mail/:code` returns a page or, to clients that accept only
 * JSON, a description of the link. A GET does not use up the link, because email scanners follow links. `POST
 * /auth/mail/:code` uses the link.
 */
export function createMailLinkHandlers(parts: MailLinkParts): { request: Handler; link: Handler } {
  const { mailLinks, page, signIns, authentication, origins, publicUrl, bodies } = parts

  async function request(request: IncomingMessage, response: ServerResponse): Promise<void> {
    checkPage(request, origins)
    if (!mailLinks.isConfigured)
      return sendJson(response, 404, { error: 'This server cannot send email: its operator must set PARLEY_SMTP_URL.' })
    signIns.countMail(publicUrl.origin === null ? request.socket.remoteAddress : addressBehindProxy(request))
    const { email } = await bodies.json(request)
    if (typeof email !== 'string')
      return sendJson(response, 400, { error: 'The body must be JSON with an address: { "email": "…" }.' })
    await mailLinks.requestSignIn(email)
    sendJson(response, 202, { expiresInSeconds: 900 }, NO_STORE)
  }

  async function use(request: IncomingMessage, response: ServerResponse, code: string): Promise<void> {
    checkPage(request, origins)
    requireKeptCookie(request, publicUrl)
    const { name } = await bodies.json(request)
    const input = {
      name: typeof name === 'string' ? name : null,
      viewer: await viewerOf(request, response),
      browser: browserOf(request),
    }
    const used = await signIns.redeem(request.socket.remoteAddress, () => mailLinks.use(code, input))
    if (used === null) return sendJson(response, 404, { error: USED_UP })
    if (used.type === 'confirmed') return sendJson(response, 200, { email: used.email }, NO_STORE)
    setSessionCookie(request, response, used.cookie, publicUrl)
    sendJson(response, 200, { scope: 'HUMAN', spaceIds: used.spaceIds }, NO_STORE)
  }

  /** Returns the viewer of the request; null if the request has no credentials, as is usual for a sign-in by email. */
  async function viewerOf(request: IncomingMessage, response: ServerResponse): Promise<Viewer | null> {
    if (request.headers.authorization === undefined && sessionCookiesOf(request.headers).length !== 1) return null
    return authentication.viewerOf(request, response).catch((error: unknown) => {
      if (error instanceof UnauthenticatedError || error instanceof CrossSiteError) return null
      throw error
    })
  }

  async function describe(request: IncomingMessage, response: ServerResponse, code: string): Promise<void> {
    const described = await signIns.redeem(request.socket.remoteAddress, () => mailLinks.describe(code))
    if (described === null) sendJson(response, 404, { error: USED_UP })
    else sendJson(response, 200, described, NO_STORE)
  }

  return {
    request: answering('POST', request),
    link(request, response) {
      const [, code = ''] = MAIL_LINK_PATH.exec(pathOf(request)) ?? []
      if (request.method === 'POST') return answering('POST', (...both) => use(...both, code))(request, response)
      const wantsJson = request.method === 'GET' && request.headers.accept === 'application/json'
      if (wantsJson) return answering('GET', (...both) => describe(...both, code))(request, response)
      if (request.method === 'GET' || request.method === 'HEAD') return page(request, response)
      sendJson(response, 405, { error: 'Use GET or POST.' }, { allow: 'GET, HEAD, POST' })
    },
  }
}
