import type { IncomingMessage } from 'node:http'
import { collectDefaultMetrics, Registry } from 'prom-client'
import type { SignIns } from '../../access/sign-ins.ts'
import { CHALLENGE } from '../../graphql/masking.ts'
import { RateLimitedError, UnauthenticatedError } from '../../lib/errors.ts'
import { gauge } from '../../lib/metrics.ts'
import { isAdmin } from '../../rules/permissions.ts'
import { authenticate, bearerOf } from './authentication.ts'
import { type Handler, sendJson } from './health.ts'

export interface MetricsParts {
  /** The registry that contains the metrics of all parts of the server. */
  others: Registry
  signIns: SignIns
  sockets(): number
  followed(): { topics: number; followers: number }
}

/** Serves Prometheus metrics to admins, and in response to requests from this machine. */
export function createMetrics({ others, signIns, sockets, followed }: MetricsParts): Handler {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  gauge(registry, 'parley_sockets', 'Open WebSockets of this process.', sockets)
  gauge(
    registry,
    'parley_refused_sign_ins',
    'Sign-ins that this process has rejected since it started.',
    signIns.refused,
  )
  gauge(
    registry,
    'parley_followed_topics',
    'Event log topics to which this process is subscribed.',
    () => followed().topics,
  )
  gauge(registry, 'parley_followers', 'Subscribers to event log topics in this process.', () => followed().followers)

  return async (request, response) => {
    if (!isLocal(request) && !(await isFromAdmin(request, signIns))) {
      sendJson(response, 401, { error: 'An ADMIN token is required.' }, CHALLENGE)
      return
    }
    const figures = await Promise.all([registry, others].map((one) => one.metrics()))
    response.writeHead(200, { 'content-type': registry.contentType, 'cache-control': 'no-store' })
    response.end(figures.join(''))
  }
}

/** Headers that are added by proxies, or by browsers to requests from pages of another origin. */
const FROM_ELSEWHERE = ['x-forwarded-for', 'x-forwarded-host', 'x-real-ip', 'forwarded', 'via', 'origin', 'referer']
const LOOPBACK_NAME = /^(localhost|127\.0\.0\.1|\[::1\])(:\d+)?$/i

/**
 * Whether a request comes directly from this machine. Its Host header must be a loopback host, and no local proxy
 * may have forwarded it.
 */
function isLocal({ socket, headers }: IncomingMessage): boolean {
  if (FROM_ELSEWHERE.some((name) => headers[name] !== undefined)) return false
  if (!LOOPBACK_NAME.test(headers.host ?? '')) return false
  return ['127.0.0.1', '::1', '::ffff:127.0.0.1'].includes(socket.remoteAddress ?? '')
}

async function isFromAdmin({ headers, socket }: IncomingMessage, signIns: SignIns): Promise<boolean> {
  const credentials = { bearer: bearerOf(headers.authorization), cookie: null, address: socket.remoteAddress }
  try {
    return isAdmin(await authenticate(signIns, credentials))
  } catch (error) {
    if (error instanceof UnauthenticatedError || error instanceof RateLimitedError) return false
    throw error
  }
}
