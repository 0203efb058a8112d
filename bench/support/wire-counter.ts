import { Redis } from 'ioredis'
import pg from 'pg'

/** What this process has sent to PostgreSQL and Redis. */
export interface Sent {
  /** Statements, BEGIN and COMMIT among them: each is a round trip. */
  statements: number
  transactions: number
  /** Commands; those that go out together count one by one. */
  commands: number
}

/** Counts at the drivers from now on. @returns the counts so far */
export function countSent(): () => Sent {
  const sent: Sent = { statements: 0, transactions: 0, commands: 0 }
  const { query } = pg.Client.prototype
  pg.Client.prototype.query = function (this: pg.Client, ...args: unknown[]) {
    const [given] = args as [string | { text?: string }]
    const text = typeof given === 'string' ? given : (given.text ?? '')
    sent.statements += 1
    if (/^\s*commit/i.test(text)) sent.transactions += 1
    return query.apply(this, args as never)
  } as never
  const { sendCommand } = Redis.prototype
  Redis.prototype.sendCommand = function (this: Redis, ...args: Parameters<Redis['sendCommand']>) {
    sent.commands += 1
    return sendCommand.apply(this, args)
  }
  return () => ({ ...sent })
}
