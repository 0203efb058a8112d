import { randomUUID } from 'node:crypto'
import type { Logger } from 'pino'
import type { Registry } from 'prom-client'
import { messageOf } from '../lib/errors.ts'
import { counter } from '../lib/metrics.ts'

/**
 * A rejection that nobody waits for is a fault of ours in one piece of work: it is logged with an id and counted
 * (`parley_unhandled_rejections_total`), and everybody else's work goes on. Node would end the process. Answers with the way to stop.
 */
export function surviveRejections(logger: Pick<Logger, 'error'>, metrics: Registry): () => void {
  const rejections = counter(
    metrics,
    'parley_unhandled_rejections_total',
    'Unhandled promise rejections: errors of the server, each logged with its id.',
  )
  const onRejection = (reason: unknown) => {
    rejections.inc()
    const error = reason instanceof Error ? (reason.stack ?? reason.message) : messageOf(reason)
    logger.error({ errorId: randomUUID(), error }, 'unhandled promise rejection')
  }
  process.on('unhandledRejection', onRejection)
  return () => void process.off('unhandledRejection', onRejection)
}
