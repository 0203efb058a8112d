import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Logger } from 'pino'
import { isOwnOrigin } from './asked-origin.ts'

/** Decides which web pages may use the server, namely pages of the server's own origin and of allowed origins. */
export interface Origins {
  /**
   * Whether a request is allowed. Clients that are not browsers send no origin and are allowed. Each refused origin
   * is logged once.
   */
  allows(request: Pick<IncomingMessage, 'headers'>): boolean
  /** Allows a page of an allowed origin to read the response. */
  welcome(request: Pick<IncomingMessage, 'headers'>, response: Pick<ServerResponse, 'setHeader'>): void
}

/** The maximum number of origins that are logged, because anybody can make up origins. */
const MOST_LOGGED = 20

export function createOrigins(allowed: readonly string[], logger: Pick<Logger, 'warn'>): Origins {
  const logged = new Set<string>()

  function logRefused(origin: string): void {
    if (logged.has(origin) || logged.size >= MOST_LOGGED) return
    logged.add(origin)
    logger.warn(
      { origin },
      'refused a request from a web page of another origin; if the origin is yours, add it to PARLEY_ALLOWED_ORIGINS',
    )
  }

  return {
    welcome({ headers: { origin } }, response) {
      if (origin === undefined || !allowed.includes(origin)) return
      response.setHeader('access-control-allow-origin', origin)
      response.setHeader('vary', 'origin')
    },
    allows({ headers }) {
      const { origin } = headers
      if (origin === undefined || allowed.includes(origin) || isOwnOrigin(headers)) return true
      logRefused(origin.slice(0, 200))
      return false
    },
  }
}
