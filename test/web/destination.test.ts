import { expect, test } from 'vitest'
import { destinationOf } from '../../web/ui/destination.ts'

const PAGE = 'https://parley.example/spaces/spc_1#msg_2'

test.each([
  ['https://evil.example/x', 'evil.example'],
  ['HTTPS://evil.example', 'evil.example'],
  ['https:evil.example', null],
  ['http:evil.example', 'evil.example'],
  ['https:/evil.example', null],
  ['https:\\\\evil.example', 'evil.example'],
  ['//evil.example', 'evil.example'],
  ['/\\evil.example', 'evil.example'],
  ['\\\\evil.example', 'evil.example'],
  ['\t//evil.example', 'evil.example'],
  ['h\nttps://evil.example', 'evil.example'],
  ['https://parley.example@evil.example', 'evil.example'],
  ['https://parley.example:443@evil.example/', 'evil.example'],
  ['https://parley.example.evil.example', 'parley.example.evil.example'],
  ['https://p\u0430rley.example', 'xn--prley-4ve.example'],
  ['https://EVIL。example', 'evil.example'],
  ['https://parley.example:8443/', 'parley.example:8443'],
  ['http://parley.example/', 'parley.example'],
  ['https://[::1]/', '[::1]'],
  ['mailto:eve@evil.example', 'eve@evil.example'],
  ['/runs/run_1', null],
  ['#msg_3', null],
  ['https://parley.example/runs', null],
])('%j leads to %j on another server', (address, elsewhere) => {
  expect(destinationOf(address, PAGE)?.elsewhere).toBe(elsewhere)
})

test.each([
  'javascript:alert(1)',
  'JaVaScRiPt:alert(1)',
  '\u0001javascript:alert(1)',
  'data:text/html,x',
  'vbscript:x',
  'file:///etc',
  'blob:https://parley.example/1',
  'https://',
  'https://a b',
])('%j is not a link', (address) => {
  expect(destinationOf(address, PAGE)).toBeNull()
})

test('user information before the host is removed', () => {
  expect(destinationOf('https://parley.example:pass@evil.example/x', PAGE)?.href).toBe('https://evil.example/x')
})
