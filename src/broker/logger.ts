/** The logger of the broker. A pino logger is assignable to this type. */
export interface BrokerLogger {
  info(details: object, message: string): void
  warn(details: object, message: string): void
}
