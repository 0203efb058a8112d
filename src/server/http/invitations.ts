import type { SignIns } from '../../access/sign-ins.ts'
import type { Domain } from '../../schema/domain.ts'
import { type Handler, sendJson } from './health.ts'
import type { Origins } from './origins.ts'

export const INVITATION_PATH = /^\/invitations\/([^/]+)$/

export interface InvitationParts {
  invitations: Pick<Domain['invitations'], 'redeem'>
  /** The console, which asks whether to sign in. Opening it does not use up the invitation. */
  page: Handler
  origins: Pick<Origins, 'allows'>
  signIns: Pick<SignIns, 'refuse'>
}

/** `/invitations/:code`: GET returns the page; the first POST returns 200 with a new token, later ones 404. */
export function createInvitationHandler({ invitations, page, origins, signIns }: InvitationParts): Handler {
  return async (request, response) => {
    if (request.method === 'GET' || request.method === 'HEAD') return page(request, response)
    const [, code = ''] = INVITATION_PATH.exec(new URL(request.url ?? '', 'http://localhost').pathname) ?? []
    if (request.method !== 'POST' || !origins.allows(request)) return refuse(response)
    const token = await invitations.redeem(code)
    if (token === null) {
      signIns.refuse(request.socket.remoteAddress)
      refuse(response)
    } else sendJson(response, 200, { token }, { 'cache-control': 'no-store' })
  }
}

function refuse(response: Parameters<Handler>[1]): void {
  sendJson(response, 404, {
    error: 'The invitation does not exist, has expired or was already used. Ask for a new one.',
  })
}
