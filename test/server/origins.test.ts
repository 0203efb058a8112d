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

test('pages from here and from allowed origins are let in, and so is what is no browser', () => {
  const { from, logged } = origins(['https://app.example'])
  expect([from(), from('http://here.example:4000'), from('https://app.example')]).toEqual([true, true, true])
  expect(logged).toEqual([])
})

test('a foreign origin is refused each time, and logged once with what to set', () => {
  const { from, logged } = origins()
  expect([from('https://evil.example'), from('https://evil.example'), from('null')]).toEqual([false, false, false])
  expect(logged).toEqual([
    [{ origin: 'https://evil.example' }, expect.stringContaining('PARLEY_ALLOWED_ORIGINS')],
    [{ origin: 'null' }, expect.stringContaining('PARLEY_ALLOWED_ORIGINS')],
  ])
  for (let n = 0; n < 1000; n++) from(`https://${n}.example`)
  expect(logged.length).toBeLessThan(50)
})
