/**
 * The result of a push message. `gone`: the subscription no longer works. `later`: the push service did not accept the
 * message now. `refused`: the service will never accept it.
 */
export type PushResult = 'sent' | 'gone' | 'later' | 'refused'

/** The outcome of the request to the push service, as tools/custom/guarded-http.ts returns it. */
export type PushOutcome = { type: 'answer' } | { type: 'failure'; code: string; response?: { status: number } }

/** Codes of failures that would occur again for each further request to the endpoint. */
const NEVER_REACHED = ['BLOCKED_ADDRESS', 'BAD_URL']
const TIMEOUT_OR_TOO_MANY = [408, 425, 429]

export function pushResultOf(outcome: PushOutcome): PushResult {
  if (outcome.type === 'answer') return 'sent'
  if (NEVER_REACHED.includes(outcome.code)) return 'gone'
  const status = outcome.response?.status
  // The server accepted the message, but its response is longer than the limit.
  if (outcome.code === 'TOO_LARGE') return 'refused'
  if (status === undefined) return 'later'
  if (status === 404 || status === 410) return 'gone'
  // 401 and 403 may result from this server's clock or keys, and nobody should lose a subscription because of that.
  return status >= 500 || TIMEOUT_OR_TOO_MANY.includes(status) ? 'later' : 'refused'
}

/** The seconds before each further attempt. */
const RETRY_SECONDS = [2, 10, 60, 300, 1800]

/** Returns the seconds until the next attempt after this many refusals; null if there is no further attempt. */
export function retrySecondsOf(refusals: number): number | null {
  return RETRY_SECONDS[refusals] ?? null
}
