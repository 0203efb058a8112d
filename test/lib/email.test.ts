import { describe, expect, test } from 'vitest'
import { checkEmail, emailKeyOf, normalEmail } from '../../src/lib/email.ts'

describe('an e-mail address', () => {
  test.each([
    [' ada@example.com ', 'ada@example.com'],
    ['Ada.L+x@Example.COM', 'Ada.L+x@example.com'],
    ['ada@bücher.example', 'ada@xn--bcher-kva.example'],
    ['ada@localhost', 'ada@localhost'],
  ])('is stored trimmed, with its domain in lower case: %s', (text, stored) => {
    expect(normalEmail(text)).toBe(stored)
  })

  test.each([
    '',
    'ada',
    '@example.com',
    'ada@',
    'ada@example.com\r\nBcc: eve@example.com',
    'ada\r\n@example.com',
    'a b@example.com',
    '"a b"@example.com',
    'ada@example.com,eve@example.com',
    'ada@example.com>',
    'Ada <ada@example.com>',
    'ada@eve@example.com',
    '.ada@example.com',
    'ada..l@example.com',
    'ada@-example.com',
    'ada@example..com',
    'ada@[127.0.0.1]',
    'ada@127.0.0.1',
    'ｅva@example.com',
    'mıke@example.com',
    `${'a'.repeat(65)}@example.com`,
    `a@${'b'.repeat(63)}.${'b'.repeat(63)}.${'b'.repeat(63)}.${'b'.repeat(63)}`,
  ])('is refused if it is invalid, or could be more than one: %j', (text) => {
    expect(normalEmail(text)).toBeNull()
    expect(() => checkEmail(text, 'input.email')).toThrow(/not an email address/)
  })

  test('is compared without regard to case', () => {
    expect(emailKeyOf('Ada@example.com')).toBe(emailKeyOf('ada@example.com'))
  })
})
