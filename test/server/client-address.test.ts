import type { IncomingMessage } from 'node:http'
import { expect, test } from 'vitest'
import { addressBehindProxy } from '../../src/server/http/client-address.ts'
import { startTestServer } from '../support/served.ts'

const seen = (remoteAddress: string | undefined, forwarded?: string | string[]) =>
  addressBehindProxy({
    socket: { remoteAddress },
    headers: forwarded === undefined ? {} : { 'x-forwarded-for': forwarded },
  } as unknown as IncomingMessage)

test.each([
  ['a proxy on the same machine', seen('127.0.0.1', '203.0.113.9'), '203.0.113.9'],
  ['a proxy in the private network', seen('::ffff:10.0.0.2', '2001:db8::9'), '2001:db8::9'],
  ['a client that makes up an address', seen('10.0.0.2', '198.51.100.1, 203.0.113.9'), '203.0.113.9'],
  ['a client that reaches the server directly', seen('8.8.8.8', '203.0.113.9'), '8.8.8.8'],
  ['a proxy that names no address', seen('10.0.0.2'), '10.0.0.2'],
  ['a proxy that names something else', seen('10.0.0.2', 'unknown'), '10.0.0.2'],
])('the address of %s', (_, found, expected) => {
  expect(found).toBe(expected)
})

test('behind a proxy, a client that requests too many sign-in emails does not use up the limit of others', async () => {
  const settings = {
    PARLEY_PUBLIC_URL: 'https://parley.example.org',
    PARLEY_SMTP_URL: 'smtp://127.0.0.1:9',
    PARLEY_MAIL_FROM: 'parley@example.org',
  }
  const parley = await startTestServer({ worker: false, isFresh: true, settings })
  const request = async (client: string) => {
    const headers = { 'content-type': 'application/json', 'x-parley-csrf': '1', 'x-forwarded-for': client }
    const body = JSON.stringify({ email: 'nobody@example.org' })
    return (await fetch(`${parley.origin}/auth/mail`, { method: 'POST', headers, body })).status
  }
  try {
    for (let n = 0; n < 60; n++) expect(await request('203.0.113.9')).toBe(202)
    expect(await request('203.0.113.9')).toBe(429)
    expect(await request('203.0.113.10')).toBe(202)
  } finally {
    await parley.close()
  }
})
