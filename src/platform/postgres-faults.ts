import { messageOf } from '../lib/errors.ts'
import type { PostgresUrl } from '../lib/postgres-url.ts'

// One-line descriptions of database faults and their remedies.

const ESCAPES = 'percent-encode @ : / ? # and % in it'
const WRITE_PASSWORD = 'put it in the URL, as postgresql://user:password@…'

interface Reported {
  code?: string
  message?: string
}

/** Returns why no connection could be opened, in one line without the password. */
export function connectionFault(url: PostgresUrl, error: unknown): string {
  const { code = '' } = error as Reported
  const message = messageOf(error)
  const address = addressOf(url)
  const user = JSON.stringify(url.user ?? '')
  if (code === 'ECONNREFUSED')
    return `no server listens at ${address}: start PostgreSQL or the pooler there, or correct the host and port`
  if (code === 'ENOENT') return `the socket ${address} does not exist: start PostgreSQL, or correct the folder and port`
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN') return `the host of ${address} was not found: correct its name`
  if (/timeout/i.test(message) || code === 'ETIMEDOUT')
    return `${address} does not respond in time: correct the host and port, or allow the connection in the firewall`
  if (isWithoutPassword(url, { code, message }))
    return `PostgreSQL requires a password for the user ${user}: ${WRITE_PASSWORD}`
  if (code === '28P01') return `PostgreSQL rejected the password of the user ${user}: correct it, and ${ESCAPES}`
  if (code === '28000')
    return `PostgreSQL does not allow the user ${user} to connect (${message}): correct the user, or pg_hba.conf`
  if (code === '3D000')
    return `there is no database ${JSON.stringify(url.database ?? url.user ?? '')} at ${address}: correct the name, or run CREATE DATABASE`
  if (code === '53300') return `PostgreSQL has no free connection (${message}): raise max_connections, or use a pooler`
  if (code === '57P03') return `PostgreSQL at ${address} is starting or stopping (${message}): start Parley again later`
  if (isWithoutTls(error))
    return `${address} does not offer TLS, which sslmode=${url.sslMode} requires: configure it there, or write sslmode=prefer`
  if (/channel binding/.test(message))
    return `${address} does not support channel binding: remove channel_binding=require`
  if (isCertificateError(error))
    return `the certificate of ${address} is not trusted (${code || message}): write its CA as sslrootcert=/path/to/ca.pem, or sslmode=require to trust any`
  return poolerFault(url, { code, message }) ?? `${address} cannot be used: ${message}`
}

const isWithoutPassword = ({ password }: PostgresUrl, { code, message }: Required<Reported>) =>
  (code === '28P01' && password === undefined) ||
  /client password must be a (non-empty )?string|empty password/.test(message)

/** Describes a pooler's refusal, which usually has the code 08P01. Returns null for any other error. */
function poolerFault(url: PostgresUrl, { code, message }: Required<Reported>): string | null {
  const address = addressOf(url)
  const user = JSON.stringify(url.user ?? '')
  if (/statement pooling mode/.test(message))
    return `the pooler at ${address} uses statement pooling (${message}): set its pool_mode to transaction or session`
  if (code !== '08P01') return null
  if (/no such database/.test(message))
    return `the pooler at ${address} has no database ${JSON.stringify(url.database ?? url.user ?? '')}: add it to [databases] of the pooler, or correct the name in the URL`
  if (/password authentication failed|auth failed/.test(message))
    return url.password === undefined
      ? `the pooler at ${address} requires a password for the user ${user}: ${WRITE_PASSWORD}`
      : `the pooler at ${address} rejected the user ${user} or the password: correct them, including in the pooler's list of users, and ${ESCAPES}`
  return /not allowed|unsupported/.test(message) ? `the pooler at ${address} refused the connection (${message})` : null
}

function isCertificateError(error: unknown): boolean {
  const { code = '' } = error as Reported
  return /CERT|SIGNATURE|ERR_TLS|ERR_SSL|ERR_OSSL|HOSTNAME_MISMATCH/.test(code)
}

/** Whether a server or pooler has refused a startup parameter of the connection. */
export function isStartupRefusal(error: unknown): boolean {
  const message = messageOf(error)
  return /unsupported startup parameter|command-line options/i.test(message)
}

/** Whether the server offers no TLS. */
export const isWithoutTls = (error: unknown) => /does not support SSL/.test(messageOf(error))

/** Whether the server requires, or does not support, the encryption mode that was tried. */
export function isEncryptionRefusal(error: unknown): boolean {
  const { code } = error as Reported
  return code === '28000' || isCertificateError(error) || /SSL connection/.test(messageOf(error))
}

function addressOf({ host, port }: PostgresUrl): string {
  if (host.startsWith('/')) return `${host}/.s.PGSQL.${port}`
  return `${host.includes(':') ? `[${host}]` : host}:${port}`
}
