import { domainToASCII } from 'node:url'
import type { ClaimCondition, Claims, SignInCondition } from '../lib/claims.ts'
import { normalEmail } from '../lib/email.ts'
import { LONGEST_NAME } from '../lib/validate.ts'

/** Why a person may not sign in. */
export type SignInRefusal = 'no-email' | 'unverified-email' | 'other-domain' | 'no-claim'

/** Returns why a person may not sign in; null if signing in is allowed. */
export function refusalOf(condition: SignInCondition, claims: Claims): SignInRefusal | null {
  switch (condition.type) {
    case 'everyone':
      return null
    case 'claim':
      return hasClaim(claims, condition.claim) ? null : 'no-claim'
    case 'domain': {
      const { email } = claims
      if (typeof email !== 'string' || !email.includes('@')) return 'no-email'
      // An account can contain an address that nobody has verified, so the claim `email_verified` of OpenID Connect
      // must be true.
      if (claims.email_verified !== true) return 'unverified-email'
      const domain = domainToASCII(email.slice(email.lastIndexOf('@') + 1).toLowerCase())
      return condition.domains.includes(domain) ? null : 'other-domain'
    }
  }
}

/**
 * Whether a claim has a value, or is a list that contains it. A claim's name can be a path (`realm_access.roles`). It
 * is read as a path only if no claim has this exact name.
 */
export function hasClaim(claims: Claims, { name, value }: ClaimCondition): boolean {
  const claim = Object.hasOwn(claims, name) ? claims[name] : valueAt(claims, name.split('.'))
  const values: unknown[] = Array.isArray(claim) ? claim : [claim]
  return values.some((one) => ['string', 'number', 'boolean'].includes(typeof one) && String(one) === value)
}

function valueAt(claims: Claims, path: readonly string[]): unknown {
  return path.reduce<unknown>(
    (within, key) =>
      typeof within === 'object' && within !== null && Object.hasOwn(within, key)
        ? (within as Record<string, unknown>)[key]
        : undefined,
    claims,
  )
}

/**
 * Returns the first name in the claims that Parley accepts. Shortens it, and removes line breaks and control
 * characters.
 */
export function nameIn(claims: Claims): string | null {
  const { name, given_name: given, family_name: family, preferred_username: username, nickname, email } = claims
  const full = [given, family].filter((part) => typeof part === 'string').join(' ')
  for (const candidate of [name, full, nickname, username, email]) {
    if (typeof candidate !== 'string') continue
    const cleaned = candidate
      .slice(0, 4 * LONGEST_NAME)
      .replaceAll(/[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]+/gu, ' ')
      .toWellFormed()
    const shortened = [...cleaned.trim()].slice(0, LONGEST_NAME).join('').trim()
    if (shortened !== '') return shortened
  }
  return null
}

/** Returns the address that the provider has verified; null if there is none. */
export function verifiedEmailIn({ email, email_verified: isVerified }: Claims): string | null {
  return typeof email === 'string' && isVerified === true ? normalEmail(email) : null
}
