import { SIGN_IN } from '../../access/credential-lookups.ts'
import type { SignIns } from '../../access/sign-ins.ts'
import type { StartLink } from '../../access/start-link.ts'
import type { Domain } from '../../graphql/domain.ts'
import { RateLimitedError } from '../../lib/errors.ts'
import { forRequester } from '../../lib/requester-context.ts'
import { type Handler, sendJson, sendTooMany } from './health.ts'
import type { Origins } from './origins.ts'
import { pathOf } from './targets.ts'

/** Pages that sign in once: those of invitations, and of the link that the server prints when it starts. */
export const INVITATION_PATH = /^\/(invitations|sign-in)\/([^/]+)$/

export interface InvitationParts {
  invitations: Pick<Domain['invitations'], 'redeem'>
  startLink: Pick<StartLink, 'redeem'>
  /** The console, which asks whether to sign in. Opening it does not use up the invitation. */
  page: Handler
  origins: Pick<Origins, 'allows'>
  signIns: Pick<SignIns, 'redeem'>
}

/**
 * `/invitations/:code` and `/sign-in/:code`: GET returns the page; the first POST returns 200 with a new token, later
 * ones 404, and 429 after too many of them.
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
