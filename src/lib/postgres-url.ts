/** A PostgreSQL URL as libpq reads it, completed from libpq's environment variables. */
export interface PostgresUrl {
  /** A host name, an IP address, or the folder of a Unix socket. */
  host: string
  port: number
  user?: string
  password?: string
  database?: string
  applicationName?: string
  connectTimeoutMs?: number
  /** The mode of encryption; null if it is not given. */
  sslMode: SslMode | null
  /** The paths of TLS files. The root certificate can also be `system`. */
  tlsFiles: { rootCertificate?: string; certificate?: string; key?: string; keyPassword?: string }
  /** Whether the TLS handshake starts without a preceding SSLRequest. */
  isTlsDirect: boolean
  channelBinding: 'disable' | 'prefer' | 'require'
  /** The schema of the tables (Prisma's parameter `schema`). Null means the first schema in the search path. */
  schema: string | null
  /** The settings of `options=-c name=value` and of parameters that are settings, with names in lower case. */
  settings: Record<string, string>
  /** The rest of `options`, which proxies such as Neon's and Supabase's read; null if there is none. */
  otherOptions: string | null
  /** Whether the URL has `pgbouncer=true`, which says that the server is a transaction pooler. */
  isPooler: boolean
  /** Parameters that have no effect. */
  ignored: string[]
}

export const SSL_MODES = ['disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full'] as const
export type SslMode = (typeof SSL_MODES)[number]

/**
 * The URL is not a PostgreSQL URL, or requests an unsupported feature. `faults` never contain a value that could be
 * secret.
 */
export class PostgresUrlError extends Error {
  readonly faults: string[]
  constructor(faults: string[]) {
    super(faults.join('; '))
    this.name = 'PostgresUrlError'
    this.faults = faults
  }
}

const FORM =
  'must be a URL like postgresql://user@host:5432/name, or postgresql://user@/name?host=/var/run/postgresql for a socket'
const ESCAPES = 'in a user or password, encode @ as %40, / as %2F, : as %3A, ? as %3F, # as %23 and % as %25'

const SEVERAL_HOSTS =
  'contains several hosts; use a single one, such as an address that always points to the primary server'

/** Parameters of libpq, Prisma and `pg` that have no effect here. */
const WITHOUT_EFFECT = new Set([
  'keepalives',
  'keepalives_idle',
  'keepalives_interval',
  'keepalives_count',
  'tcp_user_timeout',
  'sslcompression',
  'fallback_application_name',
  'krbsrvname',
  'gsslib',
  'load_balance_hosts',
  'max_protocol_version',
  'connection_limit',
  'pool_timeout',
  'socket_timeout',
  'statement_cache_size',
  'max_idle_connection_lifetime',
  'uselibpqcompat',
])

/** Parameters with a limited set of supported values, and the advice for all other values. */
const ONLY: Record<string, { values: readonly string[]; remedy: string }> = {
  gssencmode: { values: ['disable', 'prefer'], remedy: 'GSSAPI is not supported' },
  sslsni: { values: ['1'], remedy: 'the host name is always sent' },
  sslcertmode: { values: ['allow', 'disable'], remedy: 'leave it out' },
  target_session_attrs: {
    values: ['any', 'read-write', 'primary'],
    remedy: 'Parley needs to write, so use the primary server',
  },
  client_encoding: { values: ['utf8', 'utf-8', 'UTF8', 'UTF-8', 'auto'], remedy: 'Parley uses UTF8' },
  sslnegotiation: { values: ['postgres', 'direct'], remedy: 'use postgres or direct' },
  channel_binding: { values: ['disable', 'prefer', 'require'], remedy: 'use disable, prefer or require' },
  sslmode: { values: SSL_MODES, remedy: `use one of ${SSL_MODES.join(', ')}` },
  pgbouncer: { values: ['true', 'false'], remedy: 'use true or false' },
}

/** Parameters that are not supported at all. */
const IMPOSSIBLE: Record<string, string> = {
  hostaddr: 'use the address as the host',
  service: 'write the connection parameters in the URL',
  servicefile: 'write the connection parameters in the URL',
  passfile: 'put the password in the URL or in PGPASSWORD, or the name of the file in PGPASSFILE',
  sslcrl: 'certificate revocation lists are not supported',
  sslcrldir: 'certificate revocation lists are not supported',
  ssl_min_protocol_version: 'set --tls-min-v1.3 in NODE_OPTIONS instead',
  ssl_max_protocol_version: 'set --tls-max-v1.2 in NODE_OPTIONS instead',
  requiressl: 'write sslmode=require',
  requirepeer: 'the user of a socket is not checked',
  require_auth: 'the method of authentication is not checked',
  replication: 'Parley needs an ordinary connection',
  sslaccept: 'use sslmode=require for accept_invalid_certs, or sslmode=verify-full for strict',
  sslidentity: 'write sslcert and sslkey',
}

/** libpq's environment variables, each with the missing parameter that it replaces. */
const VARIABLES: Record<string, string> = {
  PGSSLMODE: 'sslmode',
  PGSSLROOTCERT: 'sslrootcert',
  PGSSLCERT: 'sslcert',
  PGSSLKEY: 'sslkey',
  PGSSLCRL: 'sslcrl',
  PGSSLCRLDIR: 'sslcrldir',
  PGSSLNEGOTIATION: 'sslnegotiation',
  PGSSLCERTMODE: 'sslcertmode',
  PGSSLMINPROTOCOLVERSION: 'ssl_min_protocol_version',
  PGSSLMAXPROTOCOLVERSION: 'ssl_max_protocol_version',
  PGCHANNELBINDING: 'channel_binding',
  PGREQUIREAUTH: 'require_auth',
  PGREQUIREPEER: 'requirepeer',
  PGGSSENCMODE: 'gssencmode',
  PGTARGETSESSIONATTRS: 'target_session_attrs',
  PGCONNECT_TIMEOUT: 'connect_timeout',
  PGHOSTADDR: 'hostaddr',
  PGSERVICE: 'service',
}

/** Parameters that change a setting of the session. */
const SETTINGS = ['statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout']

const URL_PATTERN = /^postgres(?:ql)?:\/\/(?:([^/?#]*)@)?([^/?#@]*)(?:\/([^?#]*))?(?:\?([^#]*))?$/i
const HOST_PATTERN = /^(\[[^\]]+\]|[^:,[\]]*)(?::(\d*))?$/
/**
 * pg-boss allows only these characters, and at most 50 of them, in its schema's name, which is derived from this
 * schema's name.
 */
const SCHEMA_PATTERN = /^[a-zA-Z_][a-zA-Z0-9_-]{0,42}$/

/**
 * Reads a URL of PostgreSQL. libpq's environment variables replace the parts that the URL omits.
 * @throws PostgresUrlError with all faults
 */
export function readPostgresUrl(
  text: string,
  // biome-ignore lint/style/noProcessEnv: these variables belong to libpq, and they complete the URL
  environment: Readonly<Record<string, string | undefined>> = process.env,
): PostgresUrl {
  const match = URL_PATTERN.exec(text.trim())
  if (match === null) throw new PostgresUrlError([faultOfForm(text)])
  const [, account, authority = '', path = '', query = ''] = match
  const parameters = new Map([...new URLSearchParams(query)].filter(([, value]) => value !== ''))
  const faults = [...parameters].flatMap(([name, value]) => refusalOf(name, value) ?? [])
  for (const [variable, name, value] of variablesFor(parameters, environment)) {
    const refusal = refusalOf(name, value, variable)
    if (refusal !== null) faults.push(refusal)
    parameters.set(name, value)
  }
  const refuse = (fault: string) => void faults.push(fault)
  /** Returns the value of a parameter, and removes the parameter from the rest. */
  const take = (name: string) => {
    const value = parameters.get(name)
    parameters.delete(name)
    return value
  }
  const [user, password] = splitAccount(account)
  const [authorityHost, port] = splitAuthority(authority, refuse)
  const decode = (part: string | undefined, what: string) => decodePart(part, what, refuse)
  const { settings, others } = readOptions(take('options') ?? environment['PGOPTIONS'] ?? '')
  for (const name of SETTINGS) Object.assign(settings, given(name, take(name)))
  const givenHost = take('host') ?? decode(authorityHost, 'host')
  const host = givenHost ?? environment['PGHOST'] ?? 'localhost'
  if (host.includes(','))
    refuse(givenHost === undefined ? `the environment variable PGHOST ${SEVERAL_HOSTS}` : SEVERAL_HOSTS)
  const url: PostgresUrl = {
    host,
    port: portOf(take('port') || port || environment['PGPORT'] || '5432', refuse),
    ...given('user', take('user') ?? decode(user, 'user') ?? environment['PGUSER']),
    ...given('password', take('password') ?? decode(password, 'password') ?? environment['PGPASSWORD']),
    ...given('database', take('dbname') ?? decode(path, 'name of the database') ?? environment['PGDATABASE']),
    ...given('applicationName', take('application_name') ?? environment['PGAPPNAME']),
    ...given('connectTimeoutMs', secondsOf(take('connect_timeout'), refuse)),
    sslMode: sslModeOf(take('sslmode'), take('ssl')),
    tlsFiles: {
      ...given('rootCertificate', take('sslrootcert')),
      ...given('certificate', take('sslcert')),
      ...given('key', take('sslkey')),
      ...given('keyPassword', take('sslpassword')),
    },
    isTlsDirect: take('sslnegotiation') === 'direct',
    channelBinding: (take('channel_binding') ?? 'prefer') as PostgresUrl['channelBinding'],
    schema: schemaOf(take('schema'), refuse),
    settings,
    otherOptions: others.length === 0 ? null : others.map(escapeOption).join(' '),
    isPooler: take('pgbouncer') === 'true',
    ignored: [...parameters.keys()].filter((name) => !(name in ONLY)),
  }
  faults.push(...faultsOfTls(url))
  if (faults.length > 0) throw new PostgresUrlError(faults)
  return url
}

/** Returns why a parameter, or the environment variable that replaces it, is refused; null if it is accepted. */
function refusalOf(name: string, value: string, variable?: string): string | null {
  const only = ONLY[name]
  if (only !== undefined && !only.values.includes(value))
    return `${variable ?? name}=${value} is not supported: ${only.remedy}`
  const remedy = IMPOSSIBLE[name]
  if (remedy === undefined) return null
  return variable === undefined
    ? `the parameter ${name} is not supported: ${remedy}`
    : `the environment variable ${variable} is not supported: unset it; ${remedy}`
}

/** Returns the libpq variables that replace parameters missing from the URL, each as variable, parameter and value. */
function variablesFor(
  parameters: ReadonlyMap<string, string>,
  environment: Readonly<Record<string, string | undefined>>,
): [string, string, string][] {
  return Object.entries(VARIABLES).flatMap(([variable, name]): [string, string, string][] => {
    const isGiven = parameters.has(name) || (name === 'sslmode' && parameters.has('ssl'))
    const value = environment[variable]
    return isGiven || !value ? [] : [[variable, name, value]]
  })
}

/** Decodes a part of the URL. A % that is not followed by two hexadecimal digits is kept as it is. */
function decodePart(part: string | undefined, what: string, refuse: (fault: string) => void): string | undefined {
  if (part === undefined || part === '') return undefined
  try {
    return decodeURIComponent(part.replace(/%(?![0-9a-f]{2})/gi, '%25'))
  } catch {
    refuse(`the ${what} is not valid UTF-8 in percent-encoding; ${ESCAPES}`)
    return undefined
  }
}

function schemaOf(schema: string | undefined, refuse: (fault: string) => void): string | null {
  if (schema !== undefined && !SCHEMA_PATTERN.test(schema))
    refuse('the schema must have at most 43 letters, digits, _ and -, and must not start with a digit')
  return schema ?? null
}

/** Returns the names of ignored parameters whose author may have expected an effect. */
export function unknownParameters({ ignored }: PostgresUrl): string[] {
  return ignored.filter((name) => !WITHOUT_EFFECT.has(name))
}

/** Formats settings as `options` of a connection: `-c name=value`. */
export function optionsOf(settings: Readonly<Record<string, string>>): string {
  return Object.entries(settings)
    .map(([name, value]) => `-c ${escapeOption(`${name}=${value}`)}`)
    .join(' ')
}

/** Parses `options` of a connection into settings and a rest. A backslash escapes a character. */
export function readOptions(options: string): { settings: Record<string, string>; others: string[] } {
  const words = (options.match(/(?:\\[\s\S]|[^\s\\])+/g) ?? []).map((word) => word.replace(/\\([\s\S])/g, '$1'))
  const settings: Record<string, string> = {}
  const others: string[] = []
  for (let at = 0; at < words.length; at++) {
    const word = words[at] as string
    const next = word === '-c' ? words[at + 1] : undefined
    const assignment = next ?? /^(?:-c|--)(.+)$/s.exec(word)?.[1]
    const [, name, value] = /^([\w.-]+?)\s*=\s*(.*)$/s.exec(assignment ?? '') ?? []
    if (name === undefined || value === undefined) others.push(word)
    else {
      if (next !== undefined) at += 1
      settings[name.toLowerCase().replaceAll('-', '_')] = value
    }
  }
  return { settings, others }
}

const escapeOption = (word: string) => word.replace(/[\s\\]/g, '\\$&')

function given<Name extends string, Value>(name: Name, value: Value | undefined): { [N in Name]?: Value } {
  return (value === undefined ? {} : { [name]: value }) as { [N in Name]?: Value }
}

function faultOfForm(text: string): string {
  const [, rest] = /^postgres(?:ql)?:\/\/(.*)$/is.exec(text.trim()) ?? []
  if (rest === undefined) return FORM
  return rest.includes('#') ? `contains a #; ${ESCAPES}` : FORM
}

function splitAccount(account: string | undefined): [string | undefined, string | undefined] {
  if (account === undefined) return [undefined, undefined]
  const colon = account.indexOf(':')
  return colon === -1 ? [account, undefined] : [account.slice(0, colon), account.slice(colon + 1)]
}

function splitAuthority(authority: string, refuse: (fault: string) => void): [string | undefined, string | undefined] {
  if (authority.includes(',')) {
    refuse(SEVERAL_HOSTS)
    return [undefined, undefined]
  }
  const match = HOST_PATTERN.exec(authority)
  if (match === null) {
    refuse(`the host and port cannot be read; ${ESCAPES}`)
    return [undefined, undefined]
  }
  return [match[1]?.replace(/^\[(.*)\]$/, '$1'), match[2]]
}

function portOf(text: string, refuse: (fault: string) => void): number {
  const port = Number(text)
  if (!/^\d+$/.test(text) || port < 1 || port > 65_535) refuse('the port must be a number from 1 to 65535')
  return port
}

function secondsOf(text: string | undefined, refuse: (fault: string) => void): number | undefined {
  if (text === undefined) return undefined
  if (!/^\d+$/.test(text)) refuse('connect_timeout must be a number of seconds')
  // As in libpq, 0 means no limit, and 1 is raised to 2, because it is too short to be intended.
  return text === '0' ? undefined : Math.max(2, Number(text)) * 1000
}

/** Returns the mode of encryption. `ssl` is a parameter of `pg` and of JDBC. */
function sslModeOf(mode: string | undefined, ssl: string | undefined): SslMode | null {
  if (mode !== undefined) return SSL_MODES.find((one) => one === mode) ?? null
  if (ssl === undefined) return null
  return ssl === 'true' || ssl === '1' ? 'verify-full' : ssl === 'no-verify' ? 'require' : 'disable'
}

function faultsOfTls({ sslMode, tlsFiles, isTlsDirect, channelBinding, host }: PostgresUrl): string[] {
  const faults: string[] = []
  const isRequired = sslMode !== null && !['disable', 'allow', 'prefer'].includes(sslMode)
  const { rootCertificate, certificate, key } = tlsFiles
  if (sslMode === 'verify-ca' && rootCertificate === undefined)
    faults.push('sslmode=verify-ca needs sslrootcert, the file of the CA; use sslmode=verify-full for a public CA')
  if (rootCertificate === 'system' && sslMode !== 'verify-full')
    faults.push('sslrootcert=system needs sslmode=verify-full')
  if ((certificate === undefined) !== (key === undefined)) faults.push('sslcert and sslkey must be set together')
  if (isTlsDirect && !isRequired) faults.push('sslnegotiation=direct needs sslmode=require or stricter')
  if (channelBinding === 'require' && !isRequired && !host.startsWith('/'))
    faults.push('channel_binding=require needs sslmode=require or stricter')
  return faults
}
