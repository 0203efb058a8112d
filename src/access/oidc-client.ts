import { createRemoteJWKSet, type JWTPayload, type JWTVerifyGetKey, customFetch as joseFetch, jwtVerify } from 'jose'
import * as openid from 'openid-client'
import type { OidcProviderSettings } from '../config/oidc.ts'
import type { Claims } from '../lib/claims.ts'
import { messageOf } from '../lib/errors.ts'
import { isObject } from '../lib/json.ts'
import { isTokensFault, PUBLIC_KEY_ALGORITHMS } from './jwt.ts'

/** Why a sign-in through a provider failed. */
export type OidcFault =
  /** The provider cannot be reached, is slow, or has an internal error. */
  | 'unreachable'
  /** The person did not consent, or the provider rejected the person. */
  | 'refused'
  /** The code is unknown, was used, or has expired. */
  | 'expired'
  /** The response is meant for another server or browser, or comes from another provider. */
  | 'invalid'
  /** The clocks of the provider and this server differ too much. */
  | 'clock'
  /** This server's settings do not match its registration at the provider. */
  | 'misconfigured'

/** A failed sign-in. `detail` is for the log and contains no secrets. */
export class OidcError extends Error {
  readonly fault: OidcFault
  readonly detail: string
  constructor(fault: OidcFault, detail: string) {
    super(`Sign-in failed: ${fault}`)
    this.fault = fault
    this.detail = detail.slice(0, LONGEST_DETAIL)
  }
}

/** Values that bind the provider's response to one request of one browser. */
export interface OidcChecks {
  state: string
  nonce: string
  codeVerifier: string
}

/** The account that a provider has authenticated. */
export interface OidcAccount {
  issuer: string
  subject: string
  /** The id of the provider's session. A logout request can contain it. */
  sid: string | null
  /** When the provider issued the ID token, according to the provider's clock, in seconds since 1970. */
  issuedAt: number
  claims: Claims
}

/** A provider's verified request to end one session, or all sessions of an account. */
export interface OidcLogout {
  issuer: string
  subject: string | null
  sid: string | null
  jti: string
  /** When the provider issued the token, according to the provider's clock, in seconds since 1970. */
  issuedAt: number
  /** When the token becomes too old to be accepted. */
  expiresAt: Date
}

/** A client of one identity provider. It reads the provider's metadata on first use. */
export interface OidcClient {
  /** Returns the URL to which the browser must be redirected. @throws OidcError */
  authorizationUrl(redirectUri: string, checks: OidcChecks): Promise<URL>
  /**
   * Exchanges the code with which the browser returned, and verifies the tokens.
   * @param returnedTo the redirect URI, with the query of the browser's request
   * @throws OidcError
   */
  finish(returnedTo: URL, checks: OidcChecks): Promise<OidcAccount>
  /** Verifies a logout token. Returns null if it is not valid. @throws OidcError if the provider cannot be reached */
  verifyLogout(token: string): Promise<OidcLogout | null>
}

interface OidcClientParts {
  /** A `fetch` that limits the size of responses. */
  fetch: typeof globalThis.fetch
  now(): number
}

const SCOPE = 'openid profile email'
const REQUEST_TIMEOUT_SECONDS = 10
const DISCOVERY_TIMEOUT_SECONDS = 5
const DISCOVERY_ATTEMPTS = 2
/** How long the metadata is used before it is read again. */
const METADATA_MS = 3_600_000
/** After a failure to read the metadata, requests fail for this time without another attempt. */
const PAUSE_MS = 1000
/** The minimum time between two attempts to read the keys again because of an unknown key id. */
const KEYS_COOLDOWN_MS = 1000
/** The accepted difference between the clocks. */
const CLOCK_TOLERANCE_SECONDS = 60
/**
 * The maximum age of a logout token. Providers send logout tokens immediately. The specification recommends two
 * minutes.
 */
const LOGOUT_AGE_SECONDS = 300
const LONGEST_ID = 255
const LONGEST_DETAIL = 500
const LOGOUT_EVENT = 'http://schemas.openid.net/event/backchannel-logout'

interface Discovered {
  /** The configurations in the order in which they are tried. They differ in how the client authenticates. */
  configurations: openid.Configuration[]
  issuer: string
  keys: JWTVerifyGetKey
}

export function createOidcClient(settings: OidcProviderSettings, { fetch, now }: OidcClientParts): OidcClient {
  const issuer = new URL(settings.issuer)
  let known: { discovered: Discovered; readAt: number } | null = null
  let reading: Promise<Discovered> | null = null
  let failed: { error: OidcError; at: number } | null = null

  /** Treats a redirect as an error, because the tokens and secrets in a request must not be sent to another address. */
  const send = (url: string, { body, ...init }: { body?: unknown; method?: string }) =>
    fetch(url, {
      ...init,
      body: body instanceof URLSearchParams ? body.toString() : (body as string | null | undefined),
      redirect: 'error',
    })

  async function read(): Promise<Discovered> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await discover()
      } catch (error) {
        const fault = faultOf(error)
        if (attempt >= DISCOVERY_ATTEMPTS || fault.fault !== 'unreachable') throw fault
      }
    }
  }

  async function discover(): Promise<Discovered> {
    const found = await openid.discovery(issuer, settings.clientId, undefined, undefined, {
      [openid.customFetch]: send as openid.CustomFetch,
      timeout: DISCOVERY_TIMEOUT_SECONDS,
      execute: issuer.protocol === 'http:' ? [openid.allowInsecureRequests] : [],
    })
    const metadata = found.serverMetadata()
    if (metadata.jwks_uri === undefined) throw new OidcError('misconfigured', "the provider's metadata has no jwks_uri")
    const keys = createRemoteJWKSet(new URL(metadata.jwks_uri), {
      cooldownDuration: KEYS_COOLDOWN_MS,
      timeoutDuration: REQUEST_TIMEOUT_SECONDS * 1000,
      [joseFetch]: send as typeof globalThis.fetch,
    })
    const configurations = authenticationsOf(metadata.token_endpoint_auth_methods_supported, settings.clientSecret).map(
      (authentication) => {
        const client = { [openid.clockTolerance]: CLOCK_TOLERANCE_SECONDS, ...skewOf(now) }
        const one = new openid.Configuration(metadata, settings.clientId, client, authentication)
        one[openid.customFetch] = send as openid.CustomFetch
        one.timeout = REQUEST_TIMEOUT_SECONDS
        if (issuer.protocol === 'http:') openid.allowInsecureRequests(one)
        return one
      },
    )
    return { configurations, issuer: metadata.issuer, keys }
  }

  /**
   * Reads the metadata once for all waiting callers. If the provider cannot be reached, returns the previous metadata.
   */
  async function discovered(): Promise<Discovered> {
    if (known !== null && now() - known.readAt < METADATA_MS) return known.discovered
    if (failed !== null && now() - failed.at < PAUSE_MS) {
      if (known !== null) return known.discovered
      throw failed.error
    }
    reading ??= read().finally(() => {
      reading = null
    })
    try {
      const discovered = await reading
      known = { discovered, readAt: now() }
      failed = null
      return discovered
    } catch (error) {
      failed = { error: faultOf(error), at: now() }
      if (known !== null) return known.discovered
      throw failed.error
    }
  }

  /**
   * Exchanges the code. If the provider rejects the client's authentication method, tries the other method and uses it
   * from then on.
   */
  async function exchange({ configurations }: Discovered, returnedTo: URL, checks: OidcChecks) {
    for (;;) {
      const [configuration, ...others] = configurations as [openid.Configuration, ...openid.Configuration[]]
      try {
        const tokens = await openid.authorizationCodeGrant(configuration, returnedTo, {
          expectedState: checks.state,
          expectedNonce: checks.nonce,
          pkceCodeVerifier: checks.codeVerifier,
          idTokenExpected: true,
        })
        return { configuration, tokens }
      } catch (error) {
        const isClientRefused = error instanceof openid.ResponseBodyError && error.error === 'invalid_client'
        if (!isClientRefused || others.length === 0) throw error
        configurations.splice(0, configurations.length, ...others)
      }
    }
  }

  const verify = async (token: string, { keys }: Discovered, options: object = {}) => {
    const { payload } = await jwtVerify(token, keys, {
      algorithms: PUBLIC_KEY_ALGORITHMS,
      clockTolerance: CLOCK_TOLERANCE_SECONDS,
      currentDate: new Date(now()),
      ...options,
    })
    return payload
  }

  return {
    async authorizationUrl(redirectUri, { state, nonce, codeVerifier }) {
      const { configurations } = await discovered()
      try {
        return openid.buildAuthorizationUrl(configurations[0] as openid.Configuration, {
          redirect_uri: redirectUri,
          scope: SCOPE,
          state,
          nonce,
          code_challenge: await openid.calculatePKCECodeChallenge(codeVerifier),
          code_challenge_method: 'S256',
        })
      } catch (error) {
        throw faultOf(error)
      }
    },
    async finish(returnedTo, checks) {
      const found = await discovered()
      try {
        const { configuration, tokens } = await exchange(found, returnedTo, checks)
        const claims = await verify(tokens.id_token ?? '', found)
        const { iss, sub, sid, iat = 0 } = claims
        if (!isId(sub) || typeof iss !== 'string')
          throw new OidcError('invalid', 'the subject is empty or has more than 255 characters')
        const more =
          configuration.serverMetadata().userinfo_endpoint === undefined
            ? {}
            : await openid.fetchUserInfo(configuration, tokens.access_token, sub)
        return { issuer: iss, subject: sub, sid: isId(sid) ? sid : null, issuedAt: iat, claims: { ...more, ...claims } }
      } catch (error) {
        throw faultOf(error)
      }
    },
    async verifyLogout(token) {
      const found = await discovered()
      try {
        const payload = await verify(token, found, {
          issuer: found.issuer,
          audience: settings.clientId,
          maxTokenAge: LOGOUT_AGE_SECONDS,
        })
        return logoutIn(payload)
      } catch (error) {
        if (isTokensFault(error)) return null
        throw faultOf(error)
      }
    },
  }
}

/** Checks those claims that jose does not check (OpenID Connect Back-Channel Logout 1.0, section 2.6). */
function logoutIn({ iss = '', sub, sid, jti, iat = 0, exp = 0, events, nonce }: JWTPayload): OidcLogout | null {
  const isLogout = isObject(events) && isObject(events[LOGOUT_EVENT])
  // A token with a nonce is an ID token.
  if (!isLogout || nonce !== undefined || !isId(jti) || !(isId(sub) || isId(sid))) return null
  const acceptedUntil = Math.max(iat + LOGOUT_AGE_SECONDS, exp) + CLOCK_TOLERANCE_SECONDS
  return {
    issuer: iss,
    subject: isId(sub) ? sub : null,
    sid: isId(sid) ? sid : null,
    jti,
    issuedAt: iat,
    expiresAt: new Date(acceptedUntil * 1000),
  }
}

/** Whether a value is an id that can be stored: PostgreSQL text cannot contain NUL. */
const isId = (value: unknown): value is string =>
  typeof value === 'string' && value !== '' && value.length <= LONGEST_ID && !value.includes('\0')

/** Corrects the clock of `openid-client`, which otherwise uses the system clock. */
const skewOf = (now: () => number) => ({ [openid.clockSkew]: Math.round((now() - Date.now()) / 1000) })

/**
 * Returns the methods with which the client can authenticate. A provider without a list supports client_secret_basic.
 */
function authenticationsOf(supported: readonly string[] = ['client_secret_basic'], secret: string | null) {
  if (secret === null) return [openid.None()]
  const methods = [
    ...(supported.includes('client_secret_basic') ? [openid.ClientSecretBasic(secret)] : []),
    ...(supported.includes('client_secret_post') ? [openid.ClientSecretPost(secret)] : []),
  ]
  return methods.length === 0 ? [openid.ClientSecretBasic(secret)] : methods
}

/**
 * Error codes that indicate wrong settings: the provider does not know this client, or rejects its secret or
 * redirect URI.
 */
const OF_SETTINGS = new Set(['invalid_client', 'unauthorized_client', 'unsupported_grant_type', 'invalid_scope'])
/** Temporary error codes in the response to the browser. */
const OF_THE_MOMENT = new Set(['server_error', 'temporarily_unavailable'])

function faultOf(error: unknown): OidcError {
  if (error instanceof OidcError) return error
  if (error instanceof openid.AuthorizationResponseError || error instanceof openid.ResponseBodyError) {
    const { error: code } = error
    const detail = `${code} ${error.error_description ?? ''}`.trim()
    if (code === 'invalid_grant') return new OidcError('expired', detail)
    if (OF_SETTINGS.has(code)) return new OidcError('misconfigured', detail)
    if (OF_THE_MOMENT.has(code) || (error instanceof openid.ResponseBodyError && error.status >= 500))
      return new OidcError('unreachable', detail)
    return new OidcError(error instanceof openid.AuthorizationResponseError ? 'refused' : 'invalid', detail)
  }
  if (isTokensFault(error)) return new OidcError('invalid', messageOf(error))
  const { code } = error as { code?: unknown }
  const cause = (error as Error).cause
  const detail = cause instanceof Error ? `${messageOf(error)}: ${cause.message}` : messageOf(error)
  switch (code) {
    case 'OAUTH_JWT_TIMESTAMP_CHECK_FAILED':
      return new OidcError('clock', detail)
    case 'OAUTH_JSON_ATTRIBUTE_COMPARISON_FAILED':
    case 'OAUTH_HTTP_REQUEST_FORBIDDEN':
    case 'OAUTH_MISSING_SERVER_METADATA':
    case 'OAUTH_INVALID_SERVER_METADATA':
      return new OidcError('misconfigured', detail)
    case 'OAUTH_JWT_CLAIM_COMPARISON_FAILED':
    case 'OAUTH_INVALID_RESPONSE':
    case 'OAUTH_UNSUPPORTED_OPERATION':
    case 'OAUTH_JWT_USERINFO_EXPECTED':
      return new OidcError('invalid', detail)
    default:
      return new OidcError('unreachable', detail)
  }
}
