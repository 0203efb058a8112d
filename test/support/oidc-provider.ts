import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { exportJWK, generateKeyPair, importJWK, type JWK, SignJWT } from 'jose'
import Provider from 'oidc-provider'

/** The provider's claims about each person, by login. */
export type Accounts = Record<string, Record<string, unknown>>

/** A real identity provider (`oidc-provider`) in this process, with login forms that accept any password. */
export interface TestIdentityProvider {
  issuer: string
  /** The claims, which tests can change at any time. */
  accounts: Accounts
  /** The redirect URIs of the client `parley`, which must be set before the first request. */
  allow(origin: string, names: readonly string[]): void
  /** Signs with new keys from now on, and drops all sessions. */
  rotateKeys(): Promise<void>
  /**
   * Signs a logout token with the provider's key. `claims` and `header` replace those of a valid token; undefined removes a
   * claim.
   */
  logoutToken(claims: Record<string, unknown>, header?: Record<string, unknown>): Promise<string>
  /** If set, the claims of a person are returned only when this resolves, after the code was exchanged. */
  beforeClaims: () => Promise<void>
  /** How many codes were exchanged, and how many were refused. */
  exchanges: number
  /** Whether requests are answered with 503. */
  isDown: boolean
  close(): Promise<void>
}

export const CLIENT = { id: 'parley', secret: 'the secret of the client parley' }

export async function startIdentityProvider(): Promise<TestIdentityProvider> {
  const accounts: Accounts = {}
  let redirectUris: string[] = []
  let logoutUri = ''
  let handle: RequestListener | null = null
  let isDown = false
  let beforeClaims = async () => {}
  let exchanges = 0
  const server: Server = createServer(async (request, response) => {
    if (isDown) return void response.writeHead(503).end()
    if (request.url === '/token') exchanges += 1
    if (request.url === '/me') await beforeClaims()
    handle ??= listenerOf()
    handle(request, response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  let keys = [await newKey()]

  function listenerOf(): RequestListener {
    const provider = new Provider(issuer, {
      clients: [
        {
          client_id: CLIENT.id,
          client_secret: CLIENT.secret,
          redirect_uris: redirectUris,
          backchannel_logout_uri: logoutUri,
          backchannel_logout_session_required: true,
        },
      ],
      jwks: { keys: keys as never },
      cookies: { keys: ['test'] },
      claims: { email: ['email', 'email_verified'], profile: ['name', 'picture', 'groups'], openid: ['sub'] },
      features: { devInteractions: { enabled: true }, backchannelLogout: { enabled: true } },
      // The library's own dispatcher refuses addresses of this machine.
      fetch: (url: string, { dispatcher: _, ...options }: { dispatcher?: unknown }) => fetch(url, options),
      findAccount: (_: unknown, sub: string) =>
        accounts[sub] === undefined ? undefined : { accountId: sub, claims: () => ({ sub, ...accounts[sub] }) },
    } as never)
    return provider.callback()
  }

  return {
    issuer,
    accounts,
    allow(origin, names) {
      redirectUris = names.map((name) => `${origin}/auth/oidc/${name}/callback`)
      logoutUri = `${origin}/auth/oidc/${names[0]}/logout`
      handle = null
    },
    async rotateKeys() {
      keys = [await newKey()]
      handle = null
    },
    async logoutToken(claims, header = {}) {
      const now = Math.floor(Date.now() / 1000)
      const valid = {
        iss: issuer,
        aud: CLIENT.id,
        iat: now,
        exp: now + 120,
        jti: `jti-${++made}`,
        events: { 'http://schemas.openid.net/event/backchannel-logout': {} },
      }
      const [key] = keys as [JWK]
      const signed = new SignJWT({ ...valid, ...claims } as never)
      return signed
        .setProtectedHeader({ alg: 'RS256', kid: key.kid ?? '', ...header })
        .sign(await importJWK(key, 'RS256'))
    },
    get beforeClaims() {
      return beforeClaims
    },
    set beforeClaims(value) {
      beforeClaims = value
    },
    get exchanges() {
      return exchanges
    },
    set exchanges(value) {
      exchanges = value
    },
    get isDown() {
      return isDown
    },
    set isDown(value) {
      isDown = value
    },
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

let made = 0
async function newKey(): Promise<JWK> {
  const { privateKey } = await generateKeyPair('RS256', { extractable: true })
  made += 1
  return { ...(await exportJWK(privateKey)), kid: `key-${made}`, use: 'sig', alg: 'RS256' }
}

/** A browser without scripts. It stores cookies by origin and path, and follows redirects one by one. */
export function createCookieJar() {
  const cookies: { origin: string; path: string; name: string; value: string }[] = []

  async function request(url: string, init: RequestInit = {}): Promise<Response> {
    const { origin, pathname } = new URL(url)
    const sent = cookies.filter((one) => one.origin === origin && pathname.startsWith(one.path))
    const cookie = sent.map(({ name, value }) => `${name}=${value}`).join('; ')
    const headers = { ...(init.headers as Record<string, string>), ...(cookie === '' ? {} : { cookie }) }
    const answer = await fetch(url, { ...init, headers, redirect: 'manual' })
    for (const line of answer.headers.getSetCookie()) {
      const [pair = '', ...attributes] = line.split('; ')
      const [name = '', ...value] = pair.split('=')
      const path = attributes.find((one) => /^path=/i.test(one))?.slice(5) ?? '/'
      const at = cookies.findIndex((one) => one.origin === origin && one.name === name && one.path === path)
      if (at >= 0) cookies.splice(at, 1)
      const isGone = attributes.some((one) => /^max-age=0$/i.test(one)) || /expires=Thu, 01 Jan 1970/i.test(line)
      if (!isGone) cookies.push({ origin, path, name, value: value.join('=') })
    }
    return answer
  }

  /**
   * Follows redirects until there is another response, or until `stop` returns true for a URL. Returns the response and the
   * URL.
   */
  async function follow(url: string, init: RequestInit = {}, stop: (url: string) => boolean = () => false) {
    let [at, answer] = [url, await request(url, init)]
    for (let hops = 0; hops < 20; hops += 1) {
      const location = answer.headers.get('location')
      if (location === null) break
      at = new URL(location, at).href
      if (stop(at)) break
      answer = await request(at)
    }
    return { url: at, answer }
  }

  return {
    request,
    follow,
    cookies,
    valueOf: (name: string) => cookies.find((one) => one.name === name)?.value ?? null,
  }
}

export type CookieJar = ReturnType<typeof createCookieJar>

/** Signs in at the provider from a page of Parley, and stops before the browser returns. @returns the URL of the callback */
export async function signInAtProvider(
  jar: CookieJar,
  start: string,
  { login, consents = true }: { login: string; consents?: boolean },
): Promise<string> {
  const isCallback = (url: string) => /\/callback\?/.test(url)
  let { url, answer } = await jar.follow(start, {}, isCallback)
  for (let forms = 0; forms < 3 && !isCallback(url); forms += 1) {
    const page = await answer.text()
    const action = /<form[^>]* action="([^"]+)"/.exec(page)?.[1]
    if (action === undefined) throw new Error(`no form at ${url}: ${page.slice(0, 500)}`)
    const isLogin = page.includes('name="login"')
    if (!isLogin && !consents) {
      const abort = /href="([^"]+\/abort)"/.exec(page)?.[1] ?? ''
      ;({ url, answer } = await jar.follow(new URL(abort, url).href, {}, isCallback))
      continue
    }
    const body = new URLSearchParams(isLogin ? { prompt: 'login', login, password: 'any' } : { prompt: 'consent' })
    ;({ url, answer } = await jar.follow(new URL(action, url).href, { method: 'POST', body }, isCallback))
  }
  return url
}
