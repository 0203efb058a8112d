import { expect, test } from 'vitest'
import { returnPathIn } from '../../web/shell/return-path.ts'

const MINUTE_MS = 60_000
const stored = (path: unknown, keptAtMs: unknown = 0) => JSON.stringify({ path, keptAtMs })

test.each(['/', '/spaces/spc_1?to=x#msg_2', '/search?q=//evil.example'])('%j is stored for 15 minutes', (path) => {
  expect(returnPathIn(stored(path), 15 * MINUTE_MS)).toBe(path)
  expect(returnPathIn(stored(path), 15 * MINUTE_MS + 1)).toBe('/')
})

test.each([
  null,
  '',
  'null',
  '{',
  stored(null),
  stored('/waiting', 'x'),
  stored('//evil.example'),
  stored('/\\evil.example'),
  stored('/\t/evil.example'),
  stored('https://evil.example/'),
  stored('javascript:alert(1)'),
])('%j leads to the start page', (value) => {
  expect(returnPathIn(value, 0)).toBe('/')
})
