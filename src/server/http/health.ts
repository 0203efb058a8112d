import type { IncomingMessage, ServerResponse } from 'node:http'
import { createBell } from '../../lib/async.ts'
import type { Clock } from '../../platform/clock.ts'

export interface HealthParts {
  /** Each answers within a second or two. */
  database(): Promise<boolean>
  realtime(): Promise<boolean>
  isDraining(): boolean
  clock: Clock
}

export type Handler = (request: IncomingMessage, response: ServerResponse) => Promise<void> | void

/** Says in JSON whether the process lives, and whether it can serve. */
export interface Health {
  live: Handler
  ready: Handler
  /** Resolves once whoever looks (a balancer, an orchestrator) has been told of the drain; at once where nobody does. */
  drainIsKnown(): Promise<void>
}

/** A drain waits so many times as long as lies between two questions, and at most so many ms, for the next question. */
const PATIENCE = 1.5
const LONGEST_WAIT_MS = 10_000

export function createHealth({ database, realtime, isDraining, clock }: HealthParts): Health {
  let askedAt: number | null = null
  /** Between the last two questions: who asks in a rhythm is waited for. */
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
