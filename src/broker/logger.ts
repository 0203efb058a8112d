/** The log for the operator. A pino logger matches this type. */
export interface BrokerLogger {
  info(details: object, message: string): void
  warn(details: object, message: string): void
}
