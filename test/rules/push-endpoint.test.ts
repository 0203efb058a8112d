import { createECDH, randomBytes } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { faultOfSubscription } from '../../src/rules/push-endpoint.ts'
import { type PushResult, pushResultOf, retrySecondsOf } from '../../src/rules/push-result.ts'

const keys = {
  p256dh: createECDH('prime256v1').generateKeys('base64url' as 'base64'),
  auth: randomBytes(16).toString('base64url'),
}
const fieldOf = (change: object) =>
  faultOfSubscription({ endpoint: 'https://push.example.com/a', ...keys, ...change })?.field ?? null

describe('a push subscription', () => {
  test.each([
    'https://fcm.googleapis.com/fcm/send/abc:def',
    'https://updates.push.services.mozilla.com/wpush/v2/abc',
    'https://web.push.apple.com:443/abc?x=1',
    'https://8.8.8.8/abc',
    'https://[2606:4700::1111]/abc',
  ])('is accepted at %s', (endpoint) => expect(fieldOf({ endpoint })).toBe(null))

  test.each([
    '',
    'nonsense',
    '/relative',
    'http://push.example.com/a',
    'ftp://push.example.com/a',
    'file:///etc/passwd',
    'javascript:alert(1)',
    'https://user@push.example.com/a',
    'https://user:password@push.example.com/a',
    'https://localhost/a',
    'https://localhost./a',
    'https://LOCALHOST:8443/a',
    'https://push.localhost/a',
    'https://redis/a',
    'https://metadata.google.internal/computeMetadata',
    'https://printer.local/a',
    'https://router.home.arpa/a',
    'https://127.0.0.1/a',
    'https://127.1/a',
    'https://0/a',
    'https://2130706433/a',
    'https://0x7f.0.0.1/a',
    'https://0177.0.0.1/a',
    'https://１２７.0.0.1/a',
    'https://10.0.0.8/a',
    'https://172.16.0.1/a',
    'https://192.168.1.1/a',
    'https://169.254.169.254/latest/meta-data',
    'https://168.63.129.16/a',
    'https://100.64.0.1/a',
    'https://224.0.0.1/a',
    'https://255.255.255.255/a',
    'https://[::]/a',
    'https://[::1]/a',
    'https://[::ffff:127.0.0.1]/a',
    'https://[64:ff9b::7f00:1]/a',
    'https://[fe80::1]/a',
    'https://[fd00::1]/a',
    `https://push.example.com/${'a'.repeat(2048)}`,
  ])('is refused at %s', (endpoint) => expect(fieldOf({ endpoint })).toBe('endpoint'))

  test('is refused without the keys that encrypt its messages', () => {
    for (const p256dh of ['', '\0', 'AA', keys.auth, `A${keys.p256dh.slice(1)}`, 'A'.repeat(1000)])
      expect([p256dh, fieldOf({ p256dh })]).toEqual([p256dh, 'p256dh'])
    for (const auth of ['', 'AA', keys.p256dh, '!!!!', randomBytes(17).toString('base64url')])
      expect([auth, fieldOf({ auth })]).toEqual([auth, 'auth'])
    expect(fieldOf({ auth: Buffer.from(keys.auth, 'base64url').toString('base64') })).toBe(null)
  })
})

describe('the response of a push service', () => {
  const status = (code: number) => ({ type: 'failure' as const, code: 'BAD_STATUS', response: { status: code } })
  test.each<[Parameters<typeof pushResultOf>[0], PushResult]>([
    [{ type: 'answer' }, 'sent'],
    [status(404), 'gone'],
    [status(410), 'gone'],
    [status(301), 'refused'],
    [status(400), 'refused'],
    [status(403), 'refused'],
    [status(413), 'refused'],
    [status(429), 'later'],
    [status(500), 'later'],
    [status(503), 'later'],
    [{ type: 'failure', code: 'TIMED_OUT' }, 'later'],
    [{ type: 'failure', code: 'UNREACHABLE' }, 'later'],
    [{ type: 'failure', code: 'CANCELED' }, 'later'],
    [{ type: 'failure', code: 'BLOCKED_ADDRESS' }, 'gone'],
    [{ type: 'failure', code: 'TOO_LARGE' }, 'refused'],
  ])('%j means %s', (outcome, result) => expect(pushResultOf(outcome)).toBe(result))

  test('causes a longer wait after each refusal, but not forever', () => {
    const waits = Array.from({ length: 10 }, (_, refusals) => retrySecondsOf(refusals))
    const given = waits.filter((seconds) => seconds !== null)
    expect(given).toEqual(given.toSorted((one, other) => one - other))
    expect(waits.at(-1)).toBe(null)
  })
})
