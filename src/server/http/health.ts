import type { IncomingMessage, ServerResponse } from 'node:http'

export interface HealthParts {
  /** Each answers within a second or two. */
  database(): Promise<boolean>
  realtime(): Promise<boolean>
  isDraining(): boolean
}

export type Handler = (request: IncomingMessage, response: ServerResponse) => Promise<void> | void

/** Says in JSON whether the process lives, and whether it can serve. */
export function createHealth({ database, realtime, isDraining }: HealthParts): { live: Handler; ready: Handler } {
  return {
    live: (_, response) => sendJson(response, 200, { status: 'ok' }),
    async ready(_, response) {
      const [databaseAnswers, realtimeAnswers] = await Promise.all([database(), realtime()])
      const ready = databaseAnswers && realtimeAnswers && !isDraining()
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
