import type { IncomingMessage } from 'node:http'
import type { Domain } from '../../graphql/domain.ts'
import { DomainError, type DomainErrorCode, RateLimitedError, UnauthenticatedError } from '../../lib/errors.ts'
import { forRequester } from '../../lib/requester-context.ts'
import { BodyRefusedError, createBodyReader } from './body.ts'
import { type Handler, sendJson } from './health.ts'
import { pathOf } from './targets.ts'

export const WEBHOOK_PATH = /^\/hooks\/agents\/([^/]+)$/

const STATUS_OF: Record<DomainErrorCode, number> = {
  BAD_INPUT: 400,
  FORBIDDEN: 403,
  NOT_FOUND: 404,
  CONFLICT: 409,
  LIMIT_EXCEEDED: 422,
  RATE_LIMITED: 429,
}

/**
 * The requester to which the database statements of webhook deliveries are charged. All deliveries share it,
 * because anybody can send one.
 */
const WEBHOOKS = 'webhooks'
/** The time limit for a body. */
const BODY_TIMEOUT_MS = 10_000
/** The memory limit for the incomplete bodies of webhooks, whose senders are not authenticated yet. */
const MOST_UNFINISHED_BYTES = 32 * 1024 * 1024

/** `POST /hooks/agents/:webhookId` returns 202 with the id of the run, or an error. */
export function createWebhookHandler(
  { webhooks, rates }: Pick<Domain, 'rates'> & { webhooks: Pick<Domain['webhooks'], 'receive'> },
  { timeoutMs = BODY_TIMEOUT_MS, mostUnfinishedBytes = MOST_UNFINISHED_BYTES } = {},
): Handler {
  // Webhooks have their own body reader, because unauthenticated senders must not use up the memory for the bodies
  // of viewers.
  const bodies = createBodyReader({ timeoutMs, mostUnfinishedBytes })
  return async (request, response) => {
    const [, webhookId = ''] = WEBHOOK_PATH.exec(pathOf(request)) ?? []
    try {
      const body = async (mostBytes: number) => {
        await rates.take('triggers', webhookId)
        return bodies.read(request, { mostBytes, owner: webhookId })
      }
      const accepted = await forRequester(WEBHOOKS, () => webhooks.receive(webhookId, headersOf(request), body))
      sendJson(response, 202, { runId: accepted.runId })
    } catch (error) {
      const [status, message] = answerTo(error)
      sendJson(response, status, { error: message }, retryHeaderOf(error))
    }
  }
}

/**
 * Returns the response to an expected failure.
 * @throws `error` if the sender did not cause the error
 */
function answerTo(error: unknown): [status: number, message: string] {
  if (error instanceof BodyRefusedError) return [error.status, error.message]
  if (error instanceof UnauthenticatedError) return [401, error.message]
  if (error instanceof DomainError) return [STATUS_OF[error.code], error.message]
  throw error
}

function retryHeaderOf(error: unknown): Record<string, string> {
  return error instanceof RateLimitedError ? { 'retry-after': String(Math.ceil(error.retryAfterMs / 1000)) } : {}
}

function headersOf({ headers }: IncomingMessage): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)]))
}
