/** The log for the operator. A pino logger fits. */
export interface BrokerLogger {
  info(details: object, message: string): void
  warn(details: object, message: string): void
}
