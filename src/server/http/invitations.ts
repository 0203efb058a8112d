import { SIGN_IN } from '../../access/credential-lookups.ts'
import type { SignIns } from '../../access/sign-ins.ts'
import type { StartLink } from '../../access/start-link.ts'
import type { Domain } from '../../graphql/domain.ts'
import { RateLimitedError } from '../../lib/errors.ts'
import { forRequester } from '../../lib/requester-context.ts'
import { type Handler, sendJson, sendTooMany } from './health.ts'
import type { Origins } from './origins.ts'
import { pathOf } from './targets.ts'

/** The paths of pages with a code for one sign-in: invitations, and the link that the server prints at its start. */
export const INVITATION_PATH = /^\/(invitations|sign-in)\/([^/]+)$/

export interface InvitationParts {
  invitations: Pick<Domain['invitations'], 'redeem'>
  startLink: Pick<StartLink, 'redeem'>
  /**
   * The console's page, which asks for confirmation before signing in. Opening the page does not use up the
   * invitation.
   */
  page: Handler
  origins: Pick<Origins, 'allows'>
  signIns: Pick<SignIns, 'redeem'>
}

/**
 * Handles `/invitations/:code` and `/sign-in/:code`. GET returns the page. The first POST returns 200 with a new
 * token; later ones return 404, or 429 after too many requests.
 */
export function createInvitationHandler({ invitations, startLink, page, origins, signIns }: InvitationParts): Handler {
  return async (request, response) => {
    if (request.method === 'GET' || request.method === 'HEAD') return page(request, response)
    const [, kind, code = ''] = INVITATION_PATH.exec(pathOf(request)) ?? []
    if (request.method !== 'POST' || !origins.allows(request)) return refuse(response)
    const redeem = () => (kind === 'sign-in' ? startLink : invitations).redeem(code)
    try {
      const token = await forRequester(SIGN_IN, () => signIns.redeem(request.socket.remoteAddress, redeem))
      if (token === null) refuse(response)
      else sendJson(response, 200, { token }, { 'cache-control': 'no-store' })
    } catch (error) {
      if (!(error instanceof RateLimitedError)) throw error
      sendTooMany(response, error)
    }
  }
}

function refuse(response: Parameters<Handler>[1]): void {
  sendJson(response, 404, {
    error: 'The link does not exist, has expired or was already used. Ask for a new one.',
  })
}
