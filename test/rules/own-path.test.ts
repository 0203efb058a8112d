import { expect, test } from 'vitest'
import { ownPathOf } from '../../src/rules/own-path.ts'

test.each(['/', '/spaces/spc_1', '/spaces/spc_1?x=1#msg_2', '/spaces/spc_1?next=https://example.com', '/authors'])(
  '%s is a path of this server',
  (path) => {
    expect(ownPathOf(path)).toBe(path)
  },
)

test.each([
  null,
  '',
  'spaces',
  'https://evil.example',
  '//evil.example',
  '/\\evil.example',
  '\\\\evil.example',
  '/\t/evil.example',
  '/\n/evil.example',
  '\t//evil.example',
  '/x/..//evil.example',
  '/.//evil.example',
  '/%2e//evil.example',
  'javascript:alert(1)',
  'http:evil.example',
  '/auth/oidc/default',
  '/x/../auth/sign-out',
  `/${'a'.repeat(1000)}`,
])('%j becomes the start page', (path) => {
  expect(ownPathOf(path)).toBe('/')
})
