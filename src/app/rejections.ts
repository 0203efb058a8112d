import { randomUUID } from 'node:crypto'
import type { Logger } from 'pino'
import type { Registry } from 'prom-client'
import { messageOf } from '../lib/errors.ts'
import { counter } from '../lib/metrics.ts'

/**
 * Keeps the process alive after an unhandled rejection, which would otherwise terminate it. Logs the rejection with an id and
 * counts it (`parley_unhandled_rejections_total`). Returns a function that removes the handler.
 */
export function surviveRejections(logger: Pick<Logger, 'error'>, metrics: Registry): () => void {
  const rejections = counter(
    metrics,
    'parley_unhandled_rejections_total',
    'Unhandled promise rejections: bugs in the server, each logged with an id.',
  )
  const onRejection = (reason: unknown) => {
    rejections.inc()
    const error = reason instanceof Error ? (reason.stack ?? reason.message) : messageOf(reason)
    logger.error({ errorId: randomUUID(), error }, 'unhandled promise rejection')
  }
  process.on('unhandledRejection', onRejection)
  return () => void process.off('unhandledRejection', onRejection)
}
