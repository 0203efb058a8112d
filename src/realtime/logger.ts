/** What is said to the operator; a pino logger fits. */
export interface RealtimeLogger {
  info(details: object, message: string): void
  warn(details: object, message: string): void
}
