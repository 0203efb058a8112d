import { pino } from 'pino'
import { Registry } from 'prom-client'
import { expect, test } from 'vitest'
import { createMasking } from '../../src/graphql/masking.ts'
import { SlowConsumerError } from '../../src/lib/errors.ts'

/** Masks an error, and returns the client's error and the log lines. */
function masked(error: unknown) {
  const lines: string[] = []
  const { message, extensions } = createMasking({
    logger: pino({}, { write: (line) => lines.push(line) }),
    metrics: new Registry(),
  })(error)
  return { message, extensions, lines }
}

test('a subscriber that cannot keep up gets RATE_LIMITED, and nothing is logged', () => {
  const { message, extensions, lines } = masked(new SlowConsumerError())
  expect(extensions).toMatchObject({ code: 'RATE_LIMITED' })
  expect(message).toMatch(/Subscribe again after the last cursor/)
  expect(lines).toEqual([])
})

test('an unexpected error is logged with an id, and the client gets only the id', () => {
  const { message, extensions, lines } = masked(new Error('hidden words'))
  expect(lines).toHaveLength(1)
  expect(JSON.parse(lines[0] ?? '')).toMatchObject({ level: 50, requestId: extensions['requestId'] })
  expect(lines[0]).toContain('hidden words')
  expect(message).not.toContain('hidden words')
})
