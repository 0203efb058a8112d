import type { IncomingMessage, ServerResponse } from 'node:http'
import { createBell } from '../../lib/async.ts'
import type { Clock } from '../../platform/clock.ts'

export interface HealthParts {
  /** Both must resolve within a second or two. */
  database(): Promise<boolean>
  realtime(): Promise<boolean>
  isDraining(): boolean
  clock: Clock
}

export type Handler = (request: IncomingMessage, response: ServerResponse) => Promise<void> | void

/** Reports in JSON whether the process is alive, and whether it can serve. */
export interface Health {
  live: Handler
  ready: Handler
  /**
   * Resolves once the prober (a load balancer or orchestrator) has received the draining status; at once if
   * nothing probes.
   */
  drainIsKnown(): Promise<void>
}

/** A drain waits for the next probe for this multiple of the probe interval, at most LONGEST_WAIT_MS. */
const PATIENCE = 1.5
const LONGEST_WAIT_MS = 10_000

export function createHealth({ database, realtime, isDraining, clock }: HealthParts): Health {
  let askedAt: number | null = null
  /** The time between the last two probes. */
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
      const [databaseAnswers, realtimeAnswers] = await Promise.all([database(), realtime()])
      const ready = databaseAnswers && realtimeAnswers && !isDraining()
      noteQuestion()
      if (isDraining()) response.once('close', () => told.ring())
      sendJson(response, ready ? 200 : 503, {
        status: ready ? 'ok' : isDraining() ? 'draining' : 'unavailable',
        database: databaseAnswers,
        realtime: realtimeAnswers,
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
  response.writeHead(status, {
    'content-type': 'application/json; charset=utf-8',
    'cache-control': 'no-store',
    ...headers,
  })
  response.end(JSON.stringify(body))
}
