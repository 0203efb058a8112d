import { pino } from 'pino'
import { Registry } from 'prom-client'
import { expect, test } from 'vitest'
import { Prisma } from '../../src/generated/prisma/client.ts'
import { createMasking } from '../../src/graphql/masking.ts'
import { SlowConsumerError } from '../../src/lib/errors.ts'
import { isOverload } from '../../src/platform/database-errors.ts'

/** Masks an error. Returns the error that the client gets, and the log lines. */
function masked(error: unknown) {
  const lines: string[] = []
  const logger = pino({}, { write: (line) => lines.push(line) })
  const { message, extensions } = createMasking({ logger, metrics: new Registry() }, isOverload)(error)
  return { message, extensions, lines }
}

test('a subscriber that cannot keep up gets RATE_LIMITED, and nothing is logged', () => {
  const { message, extensions, lines } = masked(new SlowConsumerError())
  expect(extensions).toMatchObject({ code: 'RATE_LIMITED' })
  expect(message).toMatch(/Subscribe again, with the last cursor as `after`/)
  expect(lines).toEqual([])
})

test.each([
  new Error('timeout exceeded when trying to connect'),
  new Prisma.PrismaClientKnownRequestError('Transaction API error: Unable to start a transaction in the given time.', {
    code: 'P2028',
    clientVersion: '7',
  }),
])('an operation that gets no connection in time returns RATE_LIMITED, and logs a warning', (error) => {
  const { extensions, lines } = masked(error)
  expect(extensions).toMatchObject({ code: 'RATE_LIMITED', retryAfterMs: 5000, http: { status: 429 } })
  expect(lines.map((line) => JSON.parse(line))).toMatchObject([{ level: 40, error: error.message }])
})

test('an unexpected error is logged with an id, and the client gets only the id', () => {
  const { message, extensions, lines } = masked(new Error('hidden words'))
  expect(lines).toHaveLength(1)
  expect(JSON.parse(lines[0] ?? '')).toMatchObject({ level: 50, requestId: extensions['requestId'] })
  expect(lines[0]).toContain('hidden words')
  expect(message).not.toContain('hidden words')
})
