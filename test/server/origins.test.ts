import { expect, test } from 'vitest'
import { createOrigins } from '../../src/server/http/origins.ts'

function origins(allowed: string[] = []) {
  const logged: object[] = []
  const { allows } = createOrigins(allowed, { warn: (...said: unknown[]) => void logged.push(said) } as never)
  return {
    logged,
    from: (origin?: string) => allows({ headers: { host: 'here.example:4000', ...(origin ? { origin } : {}) } }),
  }
}

test('pages from the same origin and from allowed origins may connect, and so may clients that are not browsers', () => {
  const { from, logged } = origins(['https://app.example'])
  expect([from(), from('http://here.example:4000'), from('https://app.example')]).toEqual([true, true, true])
  expect(logged).toEqual([])
})

test('a foreign origin is refused each time, and logged once with the setting that would allow it', () => {
  const { from, logged } = origins()
  expect([from('https://evil.example'), from('https://evil.example'), from('null')]).toEqual([false, false, false])
  expect(logged).toEqual([
    [{ origin: 'https://evil.example' }, expect.stringContaining('PARLEY_ALLOWED_ORIGINS')],
    [{ origin: 'null' }, expect.stringContaining('PARLEY_ALLOWED_ORIGINS')],
  ])
  for (let n = 0; n < 1000; n++) from(`https://${n}.example`)
  expect(logged.length).toBeLessThan(50)
})

test.each([
  ['chat.example:443', 'https://chat.example', true],
  ['chat.example', 'https://chat.example', true],
  ['chat.example:80', 'http://chat.example', true],
  ['chat.example:443', 'http://chat.example', false],
  ['chat.example:8443', 'https://chat.example', false],
  ['chat.example:8443', 'https://chat.example:8443', true],
  ['chat.example', 'https://evil.example', false],
  ['chat.example', 'null', false],
])('a default port in the Host header is that of the page’s scheme: %s, %s', (host, origin, isAllowed) => {
  const { allows } = createOrigins([], { warn: () => {} } as never)
  expect(allows({ headers: { host, origin } })).toBe(isAllowed)
})

test('the host that a proxy forwards counts as the server’s own host', () => {
  const { allows } = createOrigins([], { warn: () => {} } as never)
  const headers = { host: 'api:4000', 'x-forwarded-host': 'chat.example' }
  expect(allows({ headers: { ...headers, origin: 'https://chat.example' } })).toBe(true)
  expect(allows({ headers: { ...headers, origin: 'https://evil.example' } })).toBe(false)
})
