/** The claims that an identity provider makes about a person. */
export type Claims = Readonly<Record<string, unknown>>

/** A value that a claim must equal or, if the claim is a list, must contain. */
export interface ClaimCondition {
  name: string
  value: string
}

/** The condition for signing in (PARLEY_OIDC_ALLOW). */
export type SignInCondition =
  | { type: 'everyone' }
  /** The domains, in lower-case ASCII. */
  | { type: 'domain'; domains: readonly string[] }
  | { type: 'claim'; claim: ClaimCondition }

/** Parses `name=value`. Returns null for any other form. */
export function parseClaimCondition(text: string): ClaimCondition | null {
  const [, name, value] = /^([^=]+)=(.+)$/s.exec(text) ?? []
  return name === undefined || value === undefined ? null : { name: name.trim(), value: value.trim() }
}
