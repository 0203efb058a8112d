import { describe, expect, test } from 'vitest'
import { type ConfigError, readConfig } from '../../src/config.ts'

const FROM = { PARLEY_MAIL_FROM: 'Parley <parley@example.com>' }

function faultsOf(environment: Record<string, string>): string[] {
  try {
    readConfig(environment)
    return []
  } catch (error) {
    return (error as ConfigError).faults
  }
}

describe('the settings of mail', () => {
  test('are optional', () => {
    expect(readConfig({}).mail).toBeNull()
  })

  test.each([
    ['smtp://smtp.example.com', { host: 'smtp.example.com', port: 587, secure: false, requireTls: false, auth: null }],
    ['smtps://u:p%40ss@smtp.example.com', { port: 465, secure: true, auth: { user: 'u', pass: 'p@ss' } }],
    ['smtp://u:p@smtp.example.com:25', { port: 25, requireTls: true }],
    ['smtp://u:p@127.0.0.1:1025', { requireTls: false }],
    ['smtp://u:p@smtp.example.com?ignoreTLS=true', { requireTls: false, ignoreTls: true }],
    ['smtp://mail?tls.rejectUnauthorized=false', { verifiesCertificate: false }],
  ])('name a server: %s', (PARLEY_SMTP_URL, expected) => {
    expect(readConfig({ ...FROM, PARLEY_SMTP_URL }).mail).toMatchObject(expected)
  })

  test.each([
    'http://smtp.example.com',
    'smtp:',
    'smtp.example.com:587',
    'smtp://u:secret%@smtp.example.com',
    'smtp://u:secret@smtp.example.com?socket=x',
    'smtp://u:secret@smtp.example.com?requireTLS=yes',
  ])('an unusable server is reported without the password: %s', (PARLEY_SMTP_URL) => {
    const faults = faultsOf({ ...FROM, PARLEY_SMTP_URL })
    expect(faults).toEqual([expect.stringMatching(/^PARLEY_SMTP_URL: /)])
    expect(faults.join()).not.toContain('secret')
  })

  test.each([
    ['parley@example.com', { name: 'Parley', address: 'parley@example.com' }],
    ['Our Room <room@Example.com>', { name: 'Our Room', address: 'room@example.com' }],
    ['"Our Room" <room@example.com>', { name: 'Our Room', address: 'room@example.com' }],
  ])('name a sender: %s', (PARLEY_MAIL_FROM, from) => {
    expect(readConfig({ PARLEY_SMTP_URL: 'smtp://mail', PARLEY_MAIL_FROM }).mail?.from).toEqual(from)
  })

  test('use the user name of the mail server as the sender, if it is an address', () => {
    const settings = readConfig({ PARLEY_SMTP_URL: 'smtp://bot%40example.com:p@mail' })
    expect(settings.mail?.from.address).toBe('bot@example.com')
    expect(faultsOf({ PARLEY_SMTP_URL: 'smtp://mail' })).toEqual([expect.stringMatching(/^PARLEY_MAIL_FROM: required/)])
  })

  test.each(['nobody', 'A <b@c>, D <e@f>', 'A\nB <a@b>', '<>'])(
    'an invalid sender is an error: %j',
    (PARLEY_MAIL_FROM) => {
      expect(faultsOf({ PARLEY_SMTP_URL: 'smtp://mail', PARLEY_MAIL_FROM })).toEqual([
        expect.stringMatching(/^PARLEY_MAIL_FROM: must be an address/),
      ])
    },
  )

  test('need PARLEY_PUBLIC_URL for the links, unless only this machine reaches the server', () => {
    const mail = { ...FROM, PARLEY_SMTP_URL: 'smtp://mail' }
    const fault = [expect.stringMatching(/^PARLEY_PUBLIC_URL: required with PARLEY_SMTP_URL/)]
    expect(faultsOf({ ...mail, HOST: '0.0.0.0' })).toEqual(fault)
    const worker = { PARLEY_ROLE: 'worker', DATABASE_URL: 'postgresql://x/y', REDIS_URL: 'redis://x' }
    expect(faultsOf({ ...mail, ...worker })).toEqual(fault)
    const named = { ...mail, PARLEY_PUBLIC_URL: 'https://chat.example.com' }
    expect(faultsOf({ ...named, HOST: '0.0.0.0' })).toEqual([])
    expect(faultsOf({ ...named, ...worker })).toEqual([])
  })
})
