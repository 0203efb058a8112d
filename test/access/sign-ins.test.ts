import { expect, test } from 'vitest'
import { createSignIns } from '../../src/access/sign-ins.ts'
import { RateLimitedError } from '../../src/lib/errors.ts'

const signIns = () => createSignIns({ tokens: {}, sessions: {} } as never, { warn: () => {} })

/** Requests emails with sign-in links, and returns how many of the requests were accepted. */
function accepted(counter: ReturnType<typeof signIns>, addresses: readonly string[]): number {
  return addresses.filter((address) => {
    try {
      counter.countMail(address)
      return true
    } catch (error) {
      expect(error).toBeInstanceOf(RateLimitedError)
      expect((error as RateLimitedError).retryAfterMs).toBeGreaterThan(0)
      return false
    }
  }).length
}
const times = (count: number, addressOf: (index: number) => string) =>
  Array.from({ length: count }, (_, i) => addressOf(i))

test('one email address may request 60 emails a minute, independent of emails to other addresses', () => {
  const counter = signIns()
  expect(
    accepted(
      counter,
      times(100, () => '192.0.2.1'),
    ),
  ).toBe(60)
  expect(accepted(counter, ['192.0.2.2', '192.0.2.1'])).toBe(1)
})

test('the addresses of one IPv6 network count as one', () => {
  expect(
    accepted(
      signIns(),
      times(100, (index) => `2001:db8:1:2::${index.toString(16)}`),
    ),
  ).toBe(60)
})

test('all addresses together may request 1,200, and refused requests of one do not count against the others', () => {
  const counter = signIns()
  accepted(
    counter,
    times(5000, () => '198.51.100.1'),
  )
  expect(
    accepted(
      counter,
      times(1300, (index) => `10.0.${index >> 8}.${index & 255}`),
    ),
  ).toBe(1140)
})
