/** The log for the operator. A pino logger fits. */
export interface RealtimeLogger {
  info(details: object, message: string): void
  warn(details: object, message: string): void
}
