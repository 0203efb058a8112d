import { createRemoteJWKSet, errors, type JWTPayload, type JWTVerifyGetKey, jwtVerify } from 'jose'
import type { Config } from '../config.ts'
import { messageOf, RateLimitedError } from '../lib/errors.ts'

/** The claims of a JWT whose signature, issuer, audience and times have been checked. */
export interface SignIn {
  subject: string
  /** When the token expires; null if it has no `exp`. */
  expiresAt: Date | null
}

/**
 * Verifies a JWT. Returns null if the token is invalid.
 * @throws Error if the issuer's keys cannot be fetched; RateLimitedError, without another request to the issuer, for
 * some seconds after that
 */
export type VerifyJwt = (token: string) => Promise<SignIn | null>

/** Algorithms for public keys. A shared secret is only used with HS256, to prevent algorithm confusion. */
export const PUBLIC_KEY_ALGORITHMS = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
]
const CLOCK_TOLERANCE_SECONDS = 5

/**
 * Creates the JWT verifier from the settings. Returns null if sign-in with JWTs is not configured. Tests pass `keys`,
 * which replace the keys at AUTH_JWKS_URL.
 */
export function createJwtVerifier(
  settings: Config['jwt'],
  now: () => number,
  keys?: JWTVerifyGetKey,
): VerifyJwt | null {
  const { secret, jwksUrl, issuer, audience, allowUnbounded } = settings
  if (secret === null && jwksUrl === null) return null
  const shared = {
    ...(issuer === null ? {} : { issuer }),
    ...(audience === null ? {} : { audience }),
    requiredClaims: allowUnbounded ? ['sub'] : ['sub', 'exp'],
    clockTolerance: CLOCK_TOLERANCE_SECONDS,
  }
  const remote = keys ?? (jwksUrl === null ? null : pausing(createRemoteJWKSet(new URL(jwksUrl)), now))
  const secretKey = new TextEncoder().encode(secret ?? '')

  return async (token) => {
    const options = { ...shared, currentDate: new Date(now()) }
    try {
      const { payload } =
        remote === null
          ? await jwtVerify(token, secretKey, { ...options, algorithms: ['HS256'] })
          : await jwtVerify(token, remote, { ...options, algorithms: PUBLIC_KEY_ALGORITHMS })
      return signInOf(payload)
    } catch (error) {
      if (isTokensFault(error)) return null
      if (remote === null || error instanceof RateLimitedError) throw error
      throw new Error(`The keys at AUTH_JWKS_URL (${jwksUrl}) could not be fetched: ${messageOf(error)}`, {
        cause: error,
      })
    }
  }
}

/** The pause after a failure before the next request to the issuer. */
const PAUSE_MS = 10_000

/**
 * Pauses requests to the issuer after a failure. Without the pause, every token would cause a request while the keys
 * cannot be fetched.
 */
function pausing(remote: ReturnType<typeof createRemoteJWKSet>, now: () => number): JWTVerifyGetKey {
  let until = 0
  return async (header, token) => {
    const leftMs = until - now()
    if (leftMs > 0 && !remote.fresh)
      throw new RateLimitedError(
        'Sign-in is unavailable because the signing keys cannot be fetched; try again later.',
        leftMs,
      )
    try {
      return await remote(header, token)
    } catch (error) {
      if (!isTokensFault(error)) until = now() + PAUSE_MS
      throw error
    }
  }
}

function signInOf({ sub, exp }: JWTPayload): SignIn | null {
  if (typeof sub !== 'string' || sub === '') return null
  return { subject: sub, expiresAt: exp === undefined ? null : new Date(exp * 1000) }
}

/** Whether an error means that the token is invalid. False if the keys could not be fetched. */
export function isTokensFault(error: unknown): boolean {
  return (
    error instanceof errors.JWTClaimValidationFailed ||
    error instanceof errors.JWTExpired ||
    error instanceof errors.JWTInvalid ||
    error instanceof errors.JWSInvalid ||
    error instanceof errors.JWSSignatureVerificationFailed ||
    error instanceof errors.JWKSNoMatchingKey ||
    error instanceof errors.JWKSMultipleMatchingKeys ||
    error instanceof errors.JOSEAlgNotAllowed ||
    error instanceof errors.JOSENotSupported
  )
}
