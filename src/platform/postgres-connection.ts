import { readFileSync } from 'node:fs'
import pg from 'pg'
import { messageOf } from '../lib/errors.ts'
import { optionsOf, type PostgresUrl, type SslMode } from '../lib/postgres-url.ts'
import { channelBound, createLocalClient } from './postgres-clients.ts'

// The settings of every connection to PostgreSQL: the pool, Prisma's adapter, pg-boss, migrations, leases and presence.

/**
 * Settings that the code relies on. They override the settings of the role, the database and the URL. Prisma's adapter writes times
 * without an offset and reads them as UTC; `pg` parses times and intervals in these styles only, and all text as UTF8.
 */
const REQUIRED = {
  TimeZone: 'UTC',
  DateStyle: 'ISO, MDY',
  IntervalStyle: 'postgres',
  client_encoding: 'UTF8',
  extra_float_digits: '1',
  standard_conforming_strings: 'on',
}

/** Defaults, which `options` of the URL may change. */
const TIMEOUTS = { statement_timeout: '30000', idle_in_transaction_session_timeout: '30000' }

/** The `ssl` of `pg`. */
export type Tls = Exclude<pg.ClientConfig['ssl'], undefined>

/** How this process reaches a server, as `inspectPostgres` detects. */
export interface PostgresAccess {
  url: PostgresUrl
  tls: Tls
  /**
   * `session`: a connection has its own session, and the server accepts settings at its start. `transaction`: a
   * pooler refuses or forgets them, so every transaction sets them for itself.
   */
  settings: 'session' | 'transaction'
  /** Whether the state of a session stays with its connection: advisory locks and prepared statements. */
  keepsSession: boolean
  /** Null until it has been detected. */
  schema: string | null
}

/** Options of a connection in addition to the common ones. Timeouts are in milliseconds. */
export interface ConnectionOptions extends Omit<pg.PoolConfig, 'connectionString' | 'options' | 'ssl'> {
  settings?: Readonly<Record<string, string>>
}

/**
 * Returns the schemas in which names are looked up. The job queue's comes first: its names are in lower case, and ours
 * are not, so neither hides a table of the other, and no other schema hides a table of either.
 */
export function searchPathOf(schema: string): string {
  return `${quoteName(jobSchemaOf(schema))}, ${quoteName(schema)}`
}

/** Returns the name of the schema of the job queue that belongs to our schema. */
export const jobSchemaOf = (schema: string) => (schema === 'public' ? 'pgboss' : `pgboss_${schema}`)

export const quoteName = (name: string) => `"${name.replaceAll('"', '""')}"`

/** All settings of a connection; later ones replace earlier ones. */
export function settingsOf({ url, schema }: PostgresAccess, settings: Readonly<Record<string, string>> = {}) {
  const { search_path, ...others }: Record<string, string> = { ...TIMEOUTS, ...url.settings, ...settings }
  const path = schema === null ? search_path : searchPathOf(schema)
  const required = new Set(Object.keys(REQUIRED).map((name) => name.toLowerCase()))
  const free = Object.fromEntries(Object.entries(others).filter(([name]) => !required.has(name.toLowerCase())))
  return { ...free, ...(path === undefined ? {} : { search_path: path }), ...REQUIRED }
}

/** Returns what `pg` needs to open a connection or a pool. */
export function configOf(access: PostgresAccess, options: ConnectionOptions = {}): pg.PoolConfig {
  const { url, tls } = access
  const { settings: own, ...others } = options
  const settings = settingsOf(access, own)
  const startup = [url.otherOptions, access.settings === 'session' ? optionsOf(settings) : null]
  return {
    host: url.host,
    port: url.port,
    ...(url.user === undefined ? {} : { user: url.user }),
    ...(url.password === undefined ? {} : { password: url.password }),
    ...(url.database === undefined ? {} : { database: url.database }),
    ...(url.applicationName === undefined ? {} : { application_name: url.applicationName }),
    ...(url.isTlsDirect ? { sslnegotiation: 'direct' } : {}),
    enableChannelBinding: url.channelBinding !== 'disable',
    ssl: tls,
    // A space, because an empty text would make `pg` read PGOPTIONS, which the URL parser has already read.
    options: startup.filter((part) => part !== null).join(' ') || ' ',
    keepAlive: true,
    ...others,
    Client: clientOf(access, settings),
  }
}

function clientOf({ url, settings: way }: PostgresAccess, settings: Readonly<Record<string, string>>) {
  const Client = way === 'session' ? pg.Client : createLocalClient(settings)
  return url.channelBinding === 'require' ? channelBound(Client) : Client
}

/** Creates a connection, which the caller opens with `connect`. */
export function createClient(access: PostgresAccess, options: ConnectionOptions = {}): pg.Client {
  const config = configOf(access, options)
  const Client = config.Client as unknown as typeof pg.Client
  return new Client(config)
}

/**
 * Returns the encryption modes to try one after another, according to `sslmode`. Without `sslmode`, connections to this
 * machine are encrypted only if the server requires it, and other connections whenever the server supports it.
 * @throws Error if a certificate cannot be read
 */
export function tlsAttempts({ sslMode, tlsFiles, host }: PostgresUrl): Tls[] {
  if (host.startsWith('/')) return [false]
  const mode = sslMode ?? (isThisMachine(host) ? 'allow' : 'prefer')
  if (mode === 'disable') return [false]
  const encrypted = encryptionOf(mode, tlsFiles)
  if (mode === 'allow') return [false, encrypted]
  return mode === 'prefer' ? [encrypted, false] : [encrypted]
}

const isThisMachine = (host: string) => /^(localhost|127(\.\d+){3}|::1)$/i.test(host)

function encryptionOf(mode: SslMode, { rootCertificate, certificate, key, keyPassword }: PostgresUrl['tlsFiles']): Tls {
  const root = rootCertificate === 'system' ? undefined : rootCertificate
  // With a root certificate, libpq also verifies for `require`.
  const isVerified = mode.startsWith('verify') || (mode === 'require' && root !== undefined)
  return {
    rejectUnauthorized: isVerified,
    ...(root === undefined ? {} : { ca: contentOf('sslrootcert', root) }),
    ...(certificate === undefined ? {} : { cert: contentOf('sslcert', certificate) }),
    ...(key === undefined ? {} : { key: contentOf('sslkey', key) }),
    ...(keyPassword === undefined ? {} : { passphrase: keyPassword }),
    ...(isVerified && mode !== 'verify-full' ? { checkServerIdentity: () => undefined } : {}),
  }
}

function contentOf(parameter: string, file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    throw new Error(`${parameter} cannot be read: ${messageOf(error)}`)
  }
}
