import type { IncomingMessage } from 'node:http'
import { collectDefaultMetrics, Gauge, Registry } from 'prom-client'
import type { Tokens } from '../../access/tokens.ts'
import { UnauthenticatedError } from '../../lib/errors.ts'
import { authenticate } from './authentication.ts'
import { type Handler, sendJson } from './health.ts'
import { CHALLENGE } from './masking.ts'

export interface MetricsParts {
  /** The figures of other parts, if there are any. */
  others: Registry | null
  tokens: Pick<Tokens, 'authenticate'>
  sockets(): number
  followed(): { topics: number; followers: number }
}

/** Figures for Prometheus, for admins and for who asks on the machine itself. */
export function createMetrics({ others, tokens, sockets, followed }: MetricsParts): Handler {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  const gauge = (name: string, help: string, read: () => number) =>
    new Gauge({
      name,
      help,
      registers: [registry],
      collect() {
        this.set(read())
      },
    })
  gauge('parley_sockets', 'WebSockets open in this process.', sockets)
  gauge('parley_followed_topics', 'Event log topics that this process follows.', () => followed().topics)
  gauge('parley_followers', 'Followers of event log topics in this process.', () => followed().followers)

  return async (request, response) => {
    if (!isLocal(request) && !(await isAdmin(request, tokens))) {
      sendJson(response, 401, { error: 'An ADMIN token is required.' }, CHALLENGE)
      return
    }
    const figures = await Promise.all([registry, ...(others === null ? [] : [others])].map((one) => one.metrics()))
    response.writeHead(200, { 'content-type': registry.contentType, 'cache-control': 'no-store' })
    response.end(figures.join(''))
  }
}

/** Asked on the machine itself, and not through a proxy that runs there. */
function isLocal({ socket, headers }: IncomingMessage): boolean {
  const proxied = headers['x-forwarded-for'] !== undefined || headers['forwarded'] !== undefined
  return !proxied && ['127.0.0.1', '::1', '::ffff:127.0.0.1'].includes(socket.remoteAddress ?? '')
}

async function isAdmin({ headers }: IncomingMessage, tokens: Pick<Tokens, 'authenticate'>): Promise<boolean> {
  try {
    return (await authenticate(tokens, headers.authorization)).scope === 'ADMIN'
  } catch (error) {
    if (error instanceof UnauthenticatedError) return false
    throw error
  }
}
