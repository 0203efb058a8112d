import { describe, expect, test } from 'vitest'
import {
  optionsOf,
  PostgresUrlError,
  readOptions,
  readPostgresUrl,
  unknownParameters,
} from '../../src/lib/postgres-url.ts'

const read = (url: string, environment: Record<string, string> = {}) => readPostgresUrl(url, environment)
function faultsOf(url: string, environment: Record<string, string> = {}): string[] {
  try {
    read(url, environment)
    return []
  } catch (error) {
    if (!(error instanceof PostgresUrlError)) throw error
    return error.faults
  }
}

describe('a URL of PostgreSQL', () => {
  test.each([
    [
      'postgresql://ada:secret@db.example:5433/chat',
      { host: 'db.example', port: 5433, user: 'ada', password: 'secret', database: 'chat' },
    ],
    ['POSTGRES://ada@localhost/chat', { host: 'localhost', port: 5432, user: 'ada', database: 'chat' }],
    ['postgresql://ada@[::1]:5433/chat', { host: '::1', port: 5433 }],
    ['postgresql://ada@/chat?host=/var/run/postgresql', { host: '/var/run/postgresql', database: 'chat', user: 'ada' }],
    [
      'postgresql:///chat?host=/var/run/postgresql&port=5433&user=ada',
      { host: '/var/run/postgresql', port: 5433, user: 'ada' },
    ],
    ['postgresql://%2Fvar%2Frun%2Fpostgresql/chat', { host: '/var/run/postgresql', database: 'chat' }],
    ['postgresql://a%40b:p%2Fq%23r%25@h/chat', { user: 'a@b', password: 'p/q#r%' }],
    ['postgresql://ada:50%@h/chat', { password: '50%' }],
    ['postgresql://ada:p@ss@h/chat', { password: 'p@ss', host: 'h' }],
    [' postgresql://ada@h/chat\n', { host: 'h', database: 'chat' }],
    [
      'postgresql://h/chat?application_name=parley&connect_timeout=10',
      { applicationName: 'parley', connectTimeoutMs: 10_000 },
    ],
    ['postgresql://h/chat?schema=staging', { schema: 'staging' }],
    ['postgresql://h/chat?pgbouncer=true', { isPooler: true }],
    ['postgresql://h/chat?sslmode=require&channel_binding=require', { sslMode: 'require', channelBinding: 'require' }],
    [
      'postgresql://h/chat?sslmode=verify-full&sslrootcert=system',
      { sslMode: 'verify-full', tlsFiles: { rootCertificate: 'system' } },
    ],
    ['postgresql://h/chat?statement_timeout=5000', { settings: { statement_timeout: '5000' } }],
    [
      'postgresql://h/chat?options=-c%20search_path%3Dapp%20endpoint%3Dep-1',
      { settings: { search_path: 'app' }, otherOptions: 'endpoint=ep-1' },
    ],
    ['postgresql://h/chat?target_session_attrs=read-write&gssencmode=disable', { ignored: [] }],
  ])('%s', (url, parts) => {
    expect(read(url)).toMatchObject(parts)
  })

  test('is completed by the environment variables of libpq', () => {
    const environment = {
      PGHOST: '/run/postgresql',
      PGPORT: '5433',
      PGUSER: 'ada',
      PGPASSWORD: 'secret',
      PGDATABASE: 'chat',
      PGAPPNAME: 'parley',
      PGSSLMODE: 'verify-full',
      PGSSLROOTCERT: 'ca.pem',
      PGSSLCERT: 'ada.pem',
      PGSSLKEY: 'ada.key',
      PGSSLNEGOTIATION: 'direct',
      PGCHANNELBINDING: 'require',
      PGCONNECT_TIMEOUT: '10',
      PGTARGETSESSIONATTRS: 'read-write',
      PGOPTIONS: '-c statement_timeout=1000',
    }
    expect(read('postgresql://', environment)).toMatchObject({
      host: '/run/postgresql',
      port: 5433,
      user: 'ada',
      password: 'secret',
      database: 'chat',
      applicationName: 'parley',
      sslMode: 'verify-full',
      tlsFiles: { rootCertificate: 'ca.pem', certificate: 'ada.pem', key: 'ada.key' },
      isTlsDirect: true,
      channelBinding: 'require',
      connectTimeoutMs: 10_000,
      ignored: [],
      settings: { statement_timeout: '1000' },
    })
    const parameters = 'sslmode=require&sslrootcert=other.pem&sslnegotiation=postgres&options='
    expect(read(`postgresql://bob@h:1/x?${parameters}`, environment)).toMatchObject({
      host: 'h',
      port: 1,
      user: 'bob',
      sslMode: 'require',
      tlsFiles: { rootCertificate: 'other.pem' },
      isTlsDirect: false,
    })
    expect(read('postgresql://h/x?ssl=no-verify', { PGSSLMODE: 'verify-full' })).toMatchObject({ sslMode: 'require' })
    expect(read('postgresql://h/x', { PGSSLMODE: '', PGSERVICE: '' })).toMatchObject({ sslMode: null })
  })

  test.each<[Record<string, string>, string]>([
    [{ PGHOST: 'a,b' }, 'variable PGHOST contains several hosts; use a single one'],
    [{ PGHOSTADDR: '10.0.0.1' }, 'variable PGHOSTADDR is not supported: unset it; use the address as the host'],
    [
      { PGSERVICE: 'chat' },
      'variable PGSERVICE is not supported: unset it; write the connection parameters in the URL',
    ],
    [{ PGSSLCRL: 'a.crl' }, 'variable PGSSLCRL is not supported: unset it; certificate revocation lists'],
    [{ PGSSLMODE: 'on' }, 'PGSSLMODE=on is not supported: use one of disable'],
    [{ PGTARGETSESSIONATTRS: 'standby' }, 'PGTARGETSESSIONATTRS=standby is not supported: Parley needs to write'],
    [{ PGSSLCERT: 'a.pem' }, 'sslcert and sslkey must be set together'],
  ])('is refused for the environment variable %j', (environment, fault) => {
    expect(faultsOf('postgresql:///x', environment)).toEqual([expect.stringContaining(fault)])
  })

  test.each([
    ['mysql://ada:hidden@h/x', 'must be a URL like postgresql://'],
    ['/var/run/postgresql', '?host=/var/run/postgresql for a socket'],
    ['postgresql://ada:hid#den@h/x', 'encode @ as %40, / as %2F, : as %3A, ? as %3F, # as %23'],
    ['postgresql://ada:hid/den@h/x', 'the host and port cannot be read'],
    ['postgresql://a:5432,b:5432/x', 'several hosts'],
    ['postgresql:///x?host=a,b', 'several hosts'],
    ['postgresql://a%2Cb/x', 'several hosts'],
    ['postgresql://ada:%ff@h/x', 'the password is not valid UTF-8'],
    ['postgresql://h:99999/x', 'port must be a number from 1 to 65535'],
    [
      'postgresql://h/x?sslmode=on',
      'sslmode=on is not supported: use one of disable, allow, prefer, require, verify-ca, verify-full',
    ],
    ['postgresql://h/x?sslmode=verify-ca', 'sslmode=verify-ca needs sslrootcert'],
    ['postgresql://h/x?sslmode=require&sslrootcert=system', 'sslrootcert=system needs sslmode=verify-full'],
    ['postgresql://h/x?sslcert=a.pem', 'sslcert and sslkey must be set together'],
    ['postgresql://h/x?channel_binding=require', 'channel_binding=require needs sslmode=require'],
    ['postgresql://h/x?sslcrl=a.crl', 'sslcrl is not supported'],
    ['postgresql://h/x?service=chat', 'service is not supported: write the connection parameters in the URL'],
    ['postgresql://h/x?target_session_attrs=standby', 'use the primary server'],
    ['postgresql://h/x?client_encoding=latin1', 'Parley uses UTF8'],
    ['postgresql://h/x?schema=a.b', 'the schema must have at most 43 letters'],
    ['postgresql://h/x?connect_timeout=soon', 'connect_timeout must be a number of seconds'],
  ])('%s is refused', (url, fault) => {
    expect(faultsOf(url)).toEqual([expect.stringContaining(fault)])
    expect(faultsOf(url).join()).not.toMatch(/hid|ada/)
  })

  test('is refused with all of its errors at once', () => {
    expect(faultsOf('postgresql://h:0/x?sslmode=no&passfile=a&schema=1')).toHaveLength(4)
  })

  test('reports unknown parameters, and not those that have no effect here', () => {
    expect(unknownParameters(read('postgresql://h/x?supa=base&connection_limit=1&keepalives=1'))).toEqual(['supa'])
  })
})

test('options are read and written with escapes, as PostgreSQL reads them', () => {
  expect(readOptions('-c a=1 -cb=2 --c-d=3 -c  e=x\\ y\\\\z endpoint=ep -c')).toEqual({
    settings: { a: '1', b: '2', c_d: '3', e: 'x y\\z' },
    others: ['endpoint=ep', '-c'],
  })
  const settings = { search_path: '"pgboss", "a b"', e: 'x\\y' }
  expect(readOptions(optionsOf(settings)).settings).toEqual(settings)
})
