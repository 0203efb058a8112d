import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { exportJWK, generateKeyPair, SignJWT } from 'jose'
import { afterEach, describe, expect, test } from 'vitest'
import { createJwtVerifier } from '../../src/access/jwt.ts'

describe("sign-in with an issuer's keys", () => {
  let server: Server | undefined
  afterEach(() => server?.close())

  /** Starts an issuer that serves its keys at a URL. */
  async function issuer() {
    const { publicKey, privateKey } = await generateKeyPair('RS256')
    const jwk = { ...(await exportJWK(publicKey)), kid: 'one', alg: 'RS256' }
    server = createServer((_, response) => response.end(JSON.stringify({ keys: [jwk] })))
    await new Promise<void>((resolve) => server?.listen(0, '127.0.0.1', resolve))
    const jwksUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/jwks`
    const signed = (kid: string) => new SignJWT().setProtectedHeader({ alg: 'RS256', kid }).setSubject('ada')
    return {
      settings: { secret: null, jwksUrl, issuer: null, audience: null, allowUnbounded: false },
      jwk,
      privateKey,
      signed,
    }
  }

  test('a signed token is valid until it expires; a token without an expiry is valid only if the settings allow it', async () => {
    const { settings, signed, privateKey } = await issuer()
    const verify = createJwtVerifier(settings, Date.now)!
    const endless = await signed('one').sign(privateKey)
    expect(await verify(endless)).toBeNull()
    const lenient = createJwtVerifier({ ...settings, allowUnbounded: true }, Date.now)!
    expect(await lenient(endless)).toEqual({ subject: 'ada', expiresAt: null })
    const end = new Date(Math.ceil(Date.now() / 1000) * 1000 + 60_000)
    expect(await verify(await signed('one').setExpirationTime(end).sign(privateKey))).toMatchObject({ expiresAt: end })
  })

  test('only tokens with the right audience and issuer are valid', async () => {
    const { settings, signed, privateKey } = await issuer()
    const own = { ...settings, issuer: 'https://id.example', audience: 'parley' }
    const tokenOf = (from: string | null, ...audience: string[]) => {
      const token = signed('one').setExpirationTime('1h')
      if (from !== null) token.setIssuer(from)
      if (audience.length > 0) token.setAudience(audience)
      return token.sign(privateKey)
    }
    const good = [await tokenOf('https://id.example', 'parley'), await tokenOf('https://id.example', 'mail', 'parley')]
    const foreign = [
      await tokenOf('https://id.example', 'mail'),
      await tokenOf('https://id.example', 'parley-staging'),
      await tokenOf('https://id.example'),
      await tokenOf('https://evil.example', 'parley'),
      await tokenOf(null, 'parley'),
    ]
    // With `allowUnbounded`, a token needs no expiry, and needs no audience if the settings have none.
    for (const allowUnbounded of [false, true]) {
      const verify = createJwtVerifier({ ...own, allowUnbounded }, Date.now)!
      for (const token of good) expect(await verify(token)).toMatchObject({ subject: 'ada' })
      for (const token of foreign) expect(await verify(token)).toBeNull()
    }
    const lenient = createJwtVerifier({ ...own, audience: null, allowUnbounded: true }, Date.now)!
    expect(await Promise.all(foreign.map(async (token) => (await lenient(token)) !== null))).toEqual([
      true,
      true,
      true,
      false,
      false,
    ])
  })

  test('a key that the issuer does not publish, and the public key used as a shared secret, are refused', async () => {
    const { settings, signed, privateKey, jwk } = await issuer()
    const verify = createJwtVerifier(settings, Date.now)!
    expect(await verify(await signed('two').sign(privateKey))).toBeNull()
    const confused = new SignJWT().setProtectedHeader({ alg: 'HS256', kid: 'one' }).setSubject('ada')
    expect(await verify(await confused.sign(new TextEncoder().encode(JSON.stringify(jwk))))).toBeNull()
    expect(await verify('not.a.token')).toBeNull()
  })

  test('an unreachable issuer is reported as an outage with the name of the setting, not as an invalid token', async () => {
    const { settings, signed, privateKey } = await issuer()
    const token = await signed('one').sign(privateKey)
    server?.close()
    server?.closeAllConnections()
    await expect(createJwtVerifier(settings, Date.now)!(token)).rejects.toThrow(`AUTH_JWKS_URL (${settings.jwksUrl})`)
  })

  test('a failing issuer is called once every few seconds, however many tokens arrive', async () => {
    const { settings, signed, privateKey } = await issuer()
    let asked = 0
    server?.removeAllListeners('request')
    server?.on('request', (_, response) => {
      asked += 1
      response.writeHead(500).end()
    })
    let now = Date.now()
    const verify = createJwtVerifier(settings, () => now)!
    const token = await signed('one').setExpirationTime('1h').sign(privateKey)
    await expect(verify(token)).rejects.toThrow('AUTH_JWKS_URL')
    for (let n = 0; n < 20; n += 1) await expect(verify(token)).rejects.toMatchObject({ code: 'RATE_LIMITED' })
    expect(asked).toBe(1)
    now += 11_000
    await expect(verify(token)).rejects.toThrow('AUTH_JWKS_URL')
    expect(asked).toBe(2)
  })

  test('without a secret and without keys, external sign-in is off', () => {
    expect(
      createJwtVerifier({ secret: null, jwksUrl: null, issuer: null, audience: null, allowUnbounded: false }, Date.now),
    ).toBeNull()
  })
})
