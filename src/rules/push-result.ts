/**
 * The result of sending a push message. `gone`: the subscription no longer works. `later`: the push service could not
 * accept the message now. `refused`: the service will never accept it.
 */
export type PushResult = 'sent' | 'gone' | 'later' | 'refused'

/** The outcome of the request to the push service, in the form that tools/custom/guarded-http.ts returns. */
export type PushOutcome = { type: 'answer' } | { type: 'failure'; code: string; response?: { status: number } }

/** Codes of failures that would occur for every later request to the endpoint. */
const NEVER_REACHED = ['BLOCKED_ADDRESS', 'BAD_URL']
const TIMEOUT_OR_TOO_MANY = [408, 425, 429]

export function pushResultOf(outcome: PushOutcome): PushResult {
  if (outcome.type === 'answer') return 'sent'
  if (NEVER_REACHED.includes(outcome.code)) return 'gone'
  const status = outcome.response?.status
  // The push service accepted the message, but its response exceeds the limit.
  if (outcome.code === 'TOO_LARGE') return 'refused'
  if (status === undefined) return 'later'
  if (status === 404 || status === 410) return 'gone'
  // A wrong clock or key of this server can also cause 401 and 403. Nobody should lose a subscription because of that.
  return status >= 500 || TIMEOUT_OR_TOO_MANY.includes(status) ? 'later' : 'refused'
}

/** The delay before each further attempt, in seconds. */
const RETRY_SECONDS = [2, 10, 60, 300, 1800]

/**
 * Returns the delay in seconds before the next attempt, after this number of refusals; null if there are no more
 * attempts.
 */
export function retrySecondsOf(refusals: number): number | null {
  return RETRY_SECONDS[refusals] ?? null
}
