import type { IncomingMessage, ServerResponse } from 'node:http'
import { SIGN_IN } from '../../access/credential-lookups.ts'
import type { SignIns } from '../../access/sign-ins.ts'
import type { StartLink } from '../../access/start-link.ts'
import type { Domain } from '../../graphql/domain.ts'
import { RateLimitedError } from '../../lib/errors.ts'
import { forRequester } from '../../lib/requester-context.ts'
import type { PublicUrl } from '../../platform/public-url.ts'
import { answering, NO_STORE } from './auth.ts'
import { browserOf, checkPage, requireKeptCookie, setSessionCookie } from './cookies.ts'
import { type Handler, sendJson, sendTooMany } from './health.ts'
import type { Origins } from './origins.ts'
import { pathOf } from './targets.ts'

/**
 * The paths of pages that contain a code for one sign-in: invitations, and the link that the server prints when it
 * starts.
 */
export const INVITATION_PATH = /^\/(invitations|sign-in)\/([^/]+)$/
/** The path from which the page of an invitation gets its description and its session. */
export const INVITATION_SESSION_PATH = /^\/auth\/invitations\/([^/]+)$/

export interface InvitationParts {
  invitations: Pick<Domain['invitations'], 'describe' | 'redeem' | 'accept'>
  startLink: Pick<StartLink, 'redeem'>
  /**
   * The console's page, which asks for confirmation before signing in. Opening the page does not use up the
   * invitation.
   */
  page: Handler
  origins: Pick<Origins, 'allows'>
  publicUrl: Pick<PublicUrl, 'basePath' | 'origin'>
  signIns: Pick<SignIns, 'redeem'>
}

const USED_UP = 'The link does not exist, has expired or was already used. Ask for a new one.'

/**
 * `link` handles `/invitations/:code` and `/sign-in/:code`: GET returns the page. The first POST, which programs
 * use, returns 200 with a new token. Later ones return 404, or 429 after too many requests.
 *
 * `session` handles `/auth/invitations/:code`: GET describes an invitation, as `/auth/mail/:code` does. The first
 * POST sets the cookie of a new session. It creates no token, because a token would stay valid after a sign-out.
 */
export function createInvitationHandlers(parts: InvitationParts): { link: Handler; session: Handler } {
  const { invitations, startLink, page, origins, publicUrl, signIns } = parts

  async function describe(request: IncomingMessage, response: ServerResponse, code: string): Promise<void> {
    const described = await signIns.redeem(request.socket.remoteAddress, () => invitations.describe(code))
    if (described === null) refuse(response)
    else sendJson(response, 200, { purpose: 'INVITE', email: null, isNew: false, ...described }, NO_STORE)
  }

  async function accept(request: IncomingMessage, response: ServerResponse, code: string): Promise<void> {
    checkPage(request, origins)
    requireKeptCookie(request, publicUrl)
    const accept = () => invitations.accept(code, browserOf(request))
    const cookie = await signIns.redeem(request.socket.remoteAddress, accept)
    if (cookie === null) return refuse(response)
    setSessionCookie(request, response, cookie, publicUrl)
    sendJson(response, 200, { scope: 'HUMAN', spaceIds: [] }, NO_STORE)
  }

  return {
    async link(request, response) {
      if (request.method === 'GET' || request.method === 'HEAD') return page(request, response)
      const [, kind, code = ''] = INVITATION_PATH.exec(pathOf(request)) ?? []
      if (request.method !== 'POST' || !origins.allows(request)) return refuse(response)
      const redeem = () => (kind === 'sign-in' ? startLink : invitations).redeem(code)
      try {
        const token = await forRequester(SIGN_IN, () => signIns.redeem(request.socket.remoteAddress, redeem))
        if (token === null) refuse(response)
        else sendJson(response, 200, { token }, NO_STORE)
      } catch (error) {
        if (!(error instanceof RateLimitedError)) throw error
        sendTooMany(response, error)
      }
    },
    session(request, response) {
      const [, code = ''] = INVITATION_SESSION_PATH.exec(pathOf(request)) ?? []
      if (request.method === 'GET') return answering('GET', (...both) => describe(...both, code))(request, response)
      return answering('POST', (...both) => accept(...both, code))(request, response)
    },
  }
}

function refuse(response: ServerResponse): void {
  sendJson(response, 404, { error: USED_UP })
}
