/** The claims of an identity provider about a person. */
export type Claims = Readonly<Record<string, unknown>>

/** A value that a claim must have, or contain if it is a list. */
export interface ClaimCondition {
  name: string
  value: string
}

/** The condition for signing in (PARLEY_OIDC_ALLOW). */
export type SignInCondition =
  | { type: 'everyone' }
  /** Lower case, in ASCII. */
  | { type: 'domain'; domains: readonly string[] }
  | { type: 'claim'; claim: ClaimCondition }

/** Parses `name=value`. Returns null for any other form. */
export function parseClaimCondition(text: string): ClaimCondition | null {
  const [, name, value] = /^([^=]+)=(.+)$/s.exec(text) ?? []
  return name === undefined || value === undefined ? null : { name: name.trim(), value: value.trim() }
}
