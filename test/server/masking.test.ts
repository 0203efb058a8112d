import { pino } from 'pino'
import { Registry } from 'prom-client'
import { expect, test } from 'vitest'
import { SlowConsumerError } from '../../src/realtime/event-log.ts'
import { createMasking } from '../../src/server/http/masking.ts'

/** Masks an error, and answers with what the client gets and what the log got. */
function masked(error: unknown) {
  const lines: string[] = []
  const { message, extensions } = createMasking({
    logger: pino({}, { write: (line) => lines.push(line) }),
    metrics: new Registry(),
  })(error)
  return { message, extensions, lines }
}

test('a subscriber that cannot keep up is told so, and nobody is alarmed', () => {
  const { message, extensions, lines } = masked(new SlowConsumerError())
  expect(extensions).toMatchObject({ code: 'RATE_LIMITED' })
  expect(message).toMatch(/Subscribe again after the last cursor/)
  expect(lines).toEqual([])
})

test('what nobody expected is logged with an id, which is all that the client is told', () => {
  const { message, extensions, lines } = masked(new Error('hidden words'))
  expect(lines).toHaveLength(1)
  expect(JSON.parse(lines[0] ?? '')).toMatchObject({ level: 50, requestId: extensions['requestId'] })
  expect(lines[0]).toContain('hidden words')
  expect(message).not.toContain('hidden words')
})
