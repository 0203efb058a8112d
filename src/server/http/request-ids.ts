import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { Logger } from 'pino'
import { logContext, onBehalfOf } from '../../lib/log-context.ts'
import type { Handler } from './health.ts'
import { pathOf } from './targets.ts'

export const REQUEST_ID_HEADER = 'x-request-id'
/** Matches ids that are safe to log unchanged. */
const USABLE = /^[\w.:=+/-]{1,128}$/

/** Gives each request an id unless the client or its proxy has set one, and returns the id in the response. */
export function underItsId(handle: Handler, logger: Logger): Handler {
  return (request, response) => {
    const given = request.headers[REQUEST_ID_HEADER]
    const requestId = typeof given === 'string' && USABLE.test(given) ? given : randomUUID()
    response.setHeader(REQUEST_ID_HEADER, requestId)
    return onBehalfOf({ requestId }, () => {
      if (logger.isLevelEnabled('debug')) tellOfItsEnd(logger, request, response)
      return handle(request, response)
    })
  }
}

function tellOfItsEnd(logger: Logger, ...[request, response]: Parameters<Handler>): void {
  const since = performance.now()
  const { method } = request
  const told = logger.child(logContext() ?? {})
  response.once('close', () => {
    const ms = Math.round(performance.now() - since)
    told.debug({ method, path: pathToTell(request), status: response.statusCode, ms }, 'answered a request')
  })
}

/**
 * Returns the path without secrets: without the query string, and without the code of an invitation, start link,
 * join link or email. A proxy may have added a path prefix that the server does not know.
 */
export function pathToTell(request: IncomingMessage): string {
  return pathOf(request).replace(/\/(invitations|sign-in|join|auth\/mail)\/.*/, '/$1/…')
}
