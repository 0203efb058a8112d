import { parseModelName } from '../lib/model-name.ts'
import { settingOfPreset } from '../lib/model-provider.ts'
import type { ReadProviders } from './model-providers.ts'

/** Returns faults of settings that require or exclude each other. */
export function combinedFaults(set: Record<string, string | undefined>, read: ReadProviders): string[] {
  const faults: string[] = []
  if (set.AUTH_JWT_SECRET && set.AUTH_JWKS_URL)
    faults.push('AUTH_JWT_SECRET: set either AUTH_JWT_SECRET or AUTH_JWKS_URL, not both')
  for (const name of ['AUTH_ISSUER', 'AUTH_AUDIENCE']) {
    if (set[name] && !set.AUTH_JWT_SECRET && !set.AUTH_JWKS_URL) {
      faults.push(`${name}: needs AUTH_JWT_SECRET or AUTH_JWKS_URL`)
    }
  }
  if (set.AUTH_JWKS_URL && !set.AUTH_AUDIENCE && set.AUTH_ALLOW_UNBOUNDED !== 'true') {
    faults.push(
      'AUTH_AUDIENCE: required with AUTH_JWKS_URL; without it, tokens for other apps are accepted (AUTH_ALLOW_UNBOUNDED=true allows that)',
    )
  }
  faults.push(...modelFaults('PARLEY_DEFAULT_MODEL', set, read), ...modelFaults('PARLEY_EMBEDDINGS', set, read))
  if (set.PARLEY_DIRECT_DATABASE_URL && !set.DATABASE_URL)
    faults.push('PARLEY_DIRECT_DATABASE_URL: needs DATABASE_URL; set DATABASE_URL instead if there is no pooler')
  const split = set.PARLEY_ROLE === 'api' || set.PARLEY_ROLE === 'worker'
  for (const name of ['DATABASE_URL', 'REDIS_URL']) {
    if (split && !set[name]) faults.push(`${name}: required when PARLEY_ROLE is api or worker`)
  }
  return faults
}

type ModelVariable = 'PARLEY_DEFAULT_MODEL' | 'PARLEY_EMBEDDINGS'

/** Returns faults in the settings of the provider to which a variable's model belongs. */
function modelFaults(
  variable: ModelVariable,
  set: Record<string, string | undefined>,
  { providers, faults }: ReadProviders,
): string[] {
  const provider = parseModelName(set[variable] ?? 'demo')?.provider ?? 'demo'
  const known = providers.find(({ name }) => name === provider)
  if (known === undefined)
    return provider === 'demo' || faults.length > 0 ? [] : [`${variable}: ${missingProvider(provider, variable)}`]
  const isWithoutEmbeddings = variable === 'PARLEY_EMBEDDINGS' && known.api === 'anthropic'
  return [
    ...(known.lacks ? [`${variable}: ${known.lacks}`] : []),
    ...(isWithoutEmbeddings
      ? [`${variable}: "${provider}" has no embedding models: use a model of another provider`]
      : []),
  ]
}

function missingProvider(name: string, variable: ModelVariable): string {
  const remedy = settingOfPreset(name)
  if (remedy === null) return `there is no provider ${JSON.stringify(name)} in PARLEY_PROVIDERS`
  // For embeddings, only the environment can configure the provider.
  const others = variable === 'PARLEY_DEFAULT_MODEL' ? ' and add the provider in the console under Models' : ''
  return `the provider "${name}" is not set up: ${remedy}, or remove ${variable}${others}`
}

/**
 * The minimum length of a secret, because shorter ones can be guessed. RFC 7518 requires this length for HS256 keys.
 */
const SAFE_SECRET_LENGTH = 32

/**
 * Returns warnings that do not prevent the start. An unknown variable can be a typo, or a variable that Kubernetes sets
 * in every pod of a namespace with a service called parley (PARLEY_PORT, PARLEY_SERVICE_HOST, …).
 */
export function warningsOf(set: Record<string, string | undefined>, settings: readonly string[]): string[] {
  const unknown = Object.keys(set).filter((name) => name.startsWith('PARLEY_') && !settings.includes(name))
  const weak = ['AUTH_JWT_SECRET', 'PARLEY_SECRET_KEY'].filter((name) => {
    const length = set[name]?.length
    return length !== undefined && length < SAFE_SECRET_LENGTH
  })
  const isUnbounded = set.AUTH_ALLOW_UNBOUNDED === 'true' && (set.AUTH_JWT_SECRET || set.AUTH_JWKS_URL)
  return [
    ...(isUnbounded
      ? ['AUTH_ALLOW_UNBOUNDED: the server accepts JWTs that never expire or were issued for other apps']
      : []),
    ...unknown.sort().map((name) => `${name}: unknown setting`),
    ...weak.map((name) => `${name}: has fewer than ${SAFE_SECRET_LENGTH} characters, and can be guessed`),
  ]
}
