import { readFileSync } from 'node:fs'
import pg from 'pg'
import { messageOf } from '../lib/errors.ts'
import { optionsOf, type PostgresUrl, type SslMode } from '../lib/postgres-url.ts'
import { channelBound, createLocalClient } from './postgres-clients.ts'

// The settings of every connection to PostgreSQL: the connections of the pool, Prisma's adapter, pg-boss, migrations,
// leases and presence.

/**
 * Settings on which the code relies. They override the settings of the role, the database and the URL. Prisma's adapter
 * writes times without an offset and reads them as UTC. `pg` can parse times and intervals only in these styles, and
 * reads all text as UTF-8.
 */
const REQUIRED = {
  TimeZone: 'UTC',
  DateStyle: 'ISO, MDY',
  IntervalStyle: 'postgres',
  client_encoding: 'UTF8',
  extra_float_digits: '1',
  standard_conforming_strings: 'on',
}

/** Default timeouts. The parameter `options` of the URL can override them. */
const TIMEOUTS = { statement_timeout: '30000', idle_in_transaction_session_timeout: '30000' }

/** The type of the option `ssl` of `pg`. */
export type Tls = Exclude<pg.ClientConfig['ssl'], undefined>

/** How this process connects to a server, as detected by `inspectPostgres`. */
export interface PostgresAccess {
  url: PostgresUrl
  tls: Tls
  /**
   * `session`: a connection has its own session, and the server accepts settings when the session starts.
   * `transaction`: a pooler refuses or loses the settings, so each transaction applies them again.
   */
  settings: 'session' | 'transaction'
  /**
   * Whether all statements on a connection run in the same session. Advisory locks and prepared statements require
   * this.
   */
  keepsSession: boolean
  /** The schema; null until it is detected. */
  schema: string | null
}

/** Additional options of a connection. Timeouts are in milliseconds. */
export interface ConnectionOptions extends Omit<pg.PoolConfig, 'connectionString' | 'options' | 'ssl'> {
  settings?: Readonly<Record<string, string>>
}

/**
 * Returns the search path. The schema of the job queue comes first. Its table names are in lower case and Parley's are
 * not, so neither schema hides tables of the other one. No third schema can hide their tables.
 */
export function searchPathOf(schema: string): string {
  return `${quoteName(jobSchemaOf(schema))}, ${quoteName(schema)}`
}

/** Returns the name of the job queue's schema for a schema of Parley. */
export const jobSchemaOf = (schema: string) => (schema === 'public' ? 'pgboss' : `pgboss_${schema}`)

export const quoteName = (name: string) => `"${name.replaceAll('"', '""')}"`

/** Returns all settings of a connection. Later settings override earlier ones. */
export function settingsOf({ url, schema }: PostgresAccess, settings: Readonly<Record<string, string>> = {}) {
  const { search_path, ...others }: Record<string, string> = { ...TIMEOUTS, ...url.settings, ...settings }
  const path = schema === null ? search_path : searchPathOf(schema)
  const required = new Set(Object.keys(REQUIRED).map((name) => name.toLowerCase()))
  const free = Object.fromEntries(Object.entries(others).filter(([name]) => !required.has(name.toLowerCase())))
  return { ...free, ...(path === undefined ? {} : { search_path: path }), ...REQUIRED }
}

/** Returns the configuration with which `pg` opens a connection or a pool. */
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
    // A space, because `pg` would read PGOPTIONS if this text were empty. The URL parser has already read PGOPTIONS.
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

/** Creates a connection. The caller opens it with `connect`. */
export function createClient(access: PostgresAccess, options: ConnectionOptions = {}): pg.Client {
  const config = configOf(access, options)
  const Client = config.Client as unknown as typeof pg.Client
  return new Client(config)
}

/**
 * Returns the encryption modes to try, in order, according to `sslmode`. Without `sslmode`, a connection to this
 * machine is encrypted only if the server requires it. Any other connection is encrypted if the server supports it.
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
  // With a root certificate, libpq also verifies the server for `require`.
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
