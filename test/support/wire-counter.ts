import { Redis } from 'ioredis'
import pg from 'pg'

/** The traffic of this process to PostgreSQL and Redis, without its periodic traffic. */
export interface Sent {
  /** The number of statements, including BEGIN and COMMIT, each of which is a round trip. */
  statements: number
  transactions: number
  /** The number of commands. Pipelined commands are counted one by one. */
  commands: number
}

/** Periodic statements: those for due jobs, leases and the leftovers of dead processes, and pg-boss's own. */
const BY_THE_CLOCK = [
  /^\s*\(SELECT 0 AS source/,
  /^\s*WITH claims AS MATERIALIZED/,
  /^\s*SELECT DISTINCT (r\.\*|w\."spaceId")/,
  /^\s*SELECT r\.id FROM "Run" r WHERE r\.status (IN|= 'QUEUED')/,
  /^\s*SELECT (p\.)?id FROM "Plan"/,
  /"Space"\."deletedAt" IS NOT NULL OFFSET/,
  /^\s*SELECT \* FROM "Entity" WHERE kind = 'HUMAN' AND "goneAt"/,
  /FROM "Notification"/,
  /pgboss\.|\b(FROM|INTO) job\b/,
]

export interface WireCounter {
  /** Returns the counts so far. */
  sent(): Sent
  /** Stops counting, and restores the drivers. */
  stop(): void
}

/** Counts at the drivers from now on. */
export function countSent(): WireCounter {
  const sent: Sent = { statements: 0, transactions: 0, commands: 0 }
  const { query } = pg.Client.prototype
  pg.Client.prototype.query = function (this: pg.Client, ...args: unknown[]) {
    const [given] = args as [string | { text?: string }]
    const text = typeof given === 'string' ? given : (given.text ?? '')
    if (!BY_THE_CLOCK.some((pattern) => pattern.test(text))) sent.statements += 1
    if (/^\s*commit/i.test(text)) sent.transactions += 1
    return query.apply(this, args as never)
  } as never
  const { sendCommand } = Redis.prototype
  Redis.prototype.sendCommand = function (this: Redis, ...args: Parameters<Redis['sendCommand']>) {
    if (args[0].name !== 'ping') sent.commands += 1
    return sendCommand.apply(this, args)
  }
  return {
    sent: () => ({ ...sent }),
    stop() {
      pg.Client.prototype.query = query
      Redis.prototype.sendCommand = sendCommand
    },
  }
}
