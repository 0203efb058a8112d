import { domainToASCII } from 'node:url'
import { z } from 'zod'
import { type ClaimCondition, parseClaimCondition, type SignInCondition } from '../lib/claims.ts'
import { isLoopback } from '../lib/loopback.ts'
import { readJsonSetting } from './json-setting.ts'

/** An identity provider through which people sign in with OpenID Connect. */
export interface OidcProviderSettings {
  /** The provider's name in paths: `/auth/oidc/<name>`. */
  name: string
  issuer: string
  clientId: string
  /** The secret of the client; null for a public client. */
  clientSecret: string | null
  /** The provider's name as the console shows it. */
  label: string
}

export interface OidcSettings {
  /** The identity providers. Empty if OpenID Connect is not configured. */
  providers: readonly OidcProviderSettings[]
  allow: SignInCondition
  /** The claim that makes a person an admin; null if no claim does. */
  admin: ClaimCondition | null
}

/** The settings, and one line for each fault and warning. The lines contain no secrets. */
export interface ReadOidc {
  settings: OidcSettings
  faults: string[]
  warnings: string[]
}

/** The name of the provider that PARLEY_OIDC_ISSUER configures. */
const SINGLE = 'default'
const MOST_PROVIDERS = 20
/** Variables that have no effect unless a provider is configured. */
const OF_PROVIDERS = ['PARLEY_OIDC_ALLOW', 'PARLEY_OIDC_ADMIN']

const LABELS: [suffix: string, label: string][] = [
  ['accounts.google.com', 'Google'],
  ['login.microsoftonline.com', 'Microsoft'],
  ['.okta.com', 'Okta'],
]

const text = z.string().min(1, 'must not be empty')
const issuer = text
  .max(2000)
  .refine(isIssuer, 'must be a URL like https://id.example.com, without user, query or fragment')
  .refine(
    (value) => !value.includes('/.well-known/'),
    'must be the issuer itself, without /.well-known/openid-configuration',
  )
const PROVIDER = z.strictObject({
  name: z.string().regex(/^[a-z0-9][a-z0-9_-]{0,31}$/, 'must consist of 1 to 32 characters: a-z, 0-9, - and _'),
  issuer,
  clientId: text,
  clientSecret: text.optional(),
  label: text.max(100, 'must have at most 100 characters').optional(),
})

/**
 * Reads PARLEY_OIDC_ISSUER and the variables of its client, the list PARLEY_OIDC, PARLEY_OIDC_ALLOW and
 * PARLEY_OIDC_ADMIN.
 */
export function readOidc(environment: Record<string, string | undefined>): ReadOidc {
  const faults: string[] = []
  const single = singleProvider(environment, faults)
  const providers = [...single, ...listedProviders(environment.PARLEY_OIDC, faults)]
  const names = providers.map(({ name }) => name)
  for (const name of new Set(names.filter((one, at) => names.indexOf(one) !== at)))
    faults.push(`PARLEY_OIDC: there are several providers with the name ${JSON.stringify(name)}`)
  if (providers.length > MOST_PROVIDERS) faults.push(`PARLEY_OIDC: at most ${MOST_PROVIDERS} providers`)

  const isUsed = Boolean(environment.PARLEY_OIDC_ISSUER || environment.PARLEY_OIDC)
  if (!isUsed) {
    for (const name of OF_PROVIDERS.filter((one) => environment[one]))
      faults.push(`${name}: needs PARLEY_OIDC_ISSUER or PARLEY_OIDC`)
  }
  const allow = readAllow(environment.PARLEY_OIDC_ALLOW)
  if (isUsed && !environment.PARLEY_OIDC_ALLOW)
    faults.push(
      'PARLEY_OIDC_ALLOW: required with OpenID Connect; set who may sign in: everyone, domain:example.com or claim:name=value',
    )
  else if (environment.PARLEY_OIDC_ALLOW && allow === null)
    faults.push('PARLEY_OIDC_ALLOW: must be everyone, domain:example.com,example.org or claim:name=value')
  const admin = environment.PARLEY_OIDC_ADMIN ? parseClaimCondition(environment.PARLEY_OIDC_ADMIN) : null
  if (environment.PARLEY_OIDC_ADMIN && admin === null) faults.push('PARLEY_OIDC_ADMIN: must have the form name=value')
  const warnings = providers.filter(({ issuer: url }) => isSentInClear(url)).map(({ name }) => inClear(name))
  return { settings: { providers, allow: allow ?? NOBODY, admin }, faults, warnings }
}

/** A condition that nobody meets. It is used without identity providers. */
const NOBODY: SignInCondition = { type: 'domain', domains: [] }

function singleProvider(environment: Record<string, string | undefined>, faults: string[]): OidcProviderSettings[] {
  const { PARLEY_OIDC_ISSUER: url, PARLEY_OIDC_CLIENT_ID: clientId, PARLEY_OIDC_CLIENT_SECRET: secret } = environment
  if (!url) {
    if (clientId) faults.push('PARLEY_OIDC_CLIENT_ID: needs PARLEY_OIDC_ISSUER')
    if (secret) faults.push('PARLEY_OIDC_CLIENT_SECRET: needs PARLEY_OIDC_ISSUER')
    return []
  }
  const { error } = issuer.safeParse(url)
  faults.push(...(error?.issues ?? []).map(({ message }) => `PARLEY_OIDC_ISSUER: ${message}`))
  if (!clientId) faults.push('PARLEY_OIDC_CLIENT_ID: required with PARLEY_OIDC_ISSUER')
  if (error !== undefined || !clientId) return []
  return [{ name: SINGLE, issuer: url, clientId, clientSecret: secret || null, label: labelOf(url) }]
}

function listedProviders(value: string | undefined, faults: string[]): OidcProviderSettings[] {
  if (!value) return []
  const read = readJsonSetting(value)
  if (read.type === 'fault') {
    faults.push(`PARLEY_OIDC: ${read.fault}`)
    return []
  }
  const { data, error } = z.array(PROVIDER).min(1, 'must contain at least one provider').safeParse(read.value)
  for (const { path, message } of error?.issues ?? [])
    faults.push(`PARLEY_OIDC: ${path.length === 0 ? '' : `${path.join('.')}: `}${message}`)
  return (data ?? []).map(({ label, clientSecret, ...one }) => ({
    ...one,
    clientSecret: clientSecret ?? null,
    label: label ?? labelOf(one.issuer),
  }))
}

function readAllow(value: string | undefined): SignInCondition | null {
  if (value === 'everyone') return { type: 'everyone' }
  const [, kind, rest = ''] = /^(domain|claim):(.+)$/s.exec(value ?? '') ?? []
  if (kind === 'claim') {
    const claim = parseClaimCondition(rest)
    return claim === null ? null : { type: 'claim', claim }
  }
  if (kind !== 'domain') return null
  const domains = rest.split(',').map((domain) => domainToASCII(domain.trim().toLowerCase()))
  return domains.every((domain) => domain !== '' && !domain.includes('@')) ? { type: 'domain', domains } : null
}

function isIssuer(value: string): boolean {
  const url = URL.parse(value)
  if (url === null || !['http:', 'https:'].includes(url.protocol)) return false
  return [url.username, url.password, url.search, url.hash].every((part) => part === '')
}

const isSentInClear = (url: string) =>
  new URL(url).protocol === 'http:' && !isLoopback(new URL(url).hostname.replace(/^\[|\]$/g, ''))

const inClear = (name: string) =>
  `${name === SINGLE ? 'PARLEY_OIDC_ISSUER' : 'PARLEY_OIDC'}: the issuer of "${name}" uses http, which others can read and change; use https`

function labelOf(url: string): string {
  const { host } = new URL(url)
  return LABELS.find(([suffix]) => host === suffix || (suffix.startsWith('.') && host.endsWith(suffix)))?.[1] ?? host
}
