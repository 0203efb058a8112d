import type { IncomingMessage, ServerResponse } from 'node:http'
import { createBell } from '../../lib/async.ts'
import type { RateLimitedError } from '../../lib/errors.ts'
import type { Clock } from '../../platform/clock.ts'

export interface HealthParts {
  /** Returns the reason why the database cannot be used; null if it can. Must resolve within a second or two. */
  database(): Promise<string | null>
  realtime(): Promise<boolean>
  isDraining(): boolean
  clock: Clock
}

export type Handler = (request: IncomingMessage, response: ServerResponse) => Promise<void> | void

/** Reports in JSON whether the process is alive, and whether it accepts requests. */
export interface Health {
  live: Handler
  ready: Handler
  /**
   * Resolves once the prober (a load balancer or orchestrator) has received the draining status. If there is no
   * prober, resolves immediately.
   */
  drainIsKnown(): Promise<void>
}

/**
 * The maximum wait for the next probe while draining, in multiples of the probe interval. LONGEST_WAIT_MS is the
 * upper limit.
 */
const PATIENCE = 1.5
const LONGEST_WAIT_MS = 10_000

export function createHealth({ database, realtime, isDraining, clock }: HealthParts): Health {
  let askedAt: number | null = null
  /** The time between the last two probes, in ms. */
  let betweenMs = 0
  const told = createBell()

  function noteQuestion(): void {
    const now = clock.now()
    if (askedAt !== null) betweenMs = now - askedAt
    askedAt = now
  }

  return {
    async drainIsKnown() {
      if (askedAt === null) return
      const leftMs = Math.min(PATIENCE * betweenMs, LONGEST_WAIT_MS) - (clock.now() - askedAt)
      if (leftMs > 0) await told.wait(leftMs, new AbortController().signal)
    },
    live: (_, response) => sendJson(response, 200, { status: 'ok' }),
    async ready(_, response) {
      const [databaseFault, isRealtimeUp] = await Promise.all([database(), realtime()])
      const ready = databaseFault === null && isRealtimeUp && !isDraining()
      noteQuestion()
      if (isDraining()) response.once('close', () => told.ring())
      sendJson(response, ready ? 200 : 503, {
        status: ready ? 'ok' : isDraining() ? 'draining' : 'unavailable',
        database: databaseFault === null,
        realtime: isRealtimeUp,
        ...(databaseFault === null ? {} : { reason: databaseFault }),
      })
    },
  }
}

export function sendJson(
  response: ServerResponse,
  status: number,
  body: object,
  headers: Record<string, string> = {},
): void {
  sendJsonText(response, status, JSON.stringify(body), headers)
}

/** Sends a JSON body that has already been serialized. */
export function sendJsonText(
  response: ServerResponse,
  status: number,
  text: string,
  headers: Record<string, string> = {},
): void {
  response.writeHead(status, {
    'content-type': 'application/json; charset=utf-8',
    'cache-control': 'no-store',
    ...headers,
  })
  response.end(text)
}

/** Sends status 429 and the time after which the client may try again. */
export function sendTooMany(response: ServerResponse, { message, retryAfterMs }: RateLimitedError): void {
  sendJson(response, 429, { error: message }, { 'retry-after': String(Math.max(1, Math.ceil(retryAfterMs / 1000))) })
}
