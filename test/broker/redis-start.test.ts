import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createBroker } from '../../src/broker/broker.ts'
import { freePort } from '../support/free-port.ts'
import { startThrowawayCluster } from '../support/throwaway-cluster.ts'
import { canStartRedis, startThrowawayRedis, type ThrowawayRedis } from '../support/throwaway-redis.ts'
import { until } from '../support/until.ts'

/** Returns the error of a start with this Redis; '' if the start succeeds. */
async function refusalOf(redisUrl: string): Promise<string> {
  return createBroker({ redisUrl }).then(
    async ({ close }) => {
      await close()
      return ''
    },
    (error: Error) => error.message,
  )
}

describe.skipIf(!canStartRedis())(
  'a Redis that refuses a command stops the start, with one line that says what to do',
  () => {
    let server: ThrowawayRedis
    let admin: Redis

    beforeAll(async () => {
      server = await startThrowawayRedis(['--databases', '4'])
      admin = new Redis(server.url)
    })
    afterAll(async () => {
      admin.disconnect()
      await server.dispose()
    })

    const EVERYTHING = ['~parley:*', '&parley:*', '+@all']

    test.each([
      [
        'no channels',
        ['~*', 'resetchannels', '+@all'],
        /NOPERM.*; give the user access to the channels: ACL SETUSER <user> &parley:\*$/,
      ],
      ['other channels', ['~*', '&other:*', '+@all'], /NOPERM.*; give the user access to the channels/],
      [
        'no scripts',
        [...EVERYTHING, '-@scripting'],
        /NOPERM.*; give the user access to all commands, and to the keys and channels of Parley: ACL/,
      ],
      ['no PUBLISH', [...EVERYTHING, '-publish'], /NOPERM.*; give the user access to all commands/],
      ['no SUBSCRIBE', [...EVERYTHING, '-subscribe'], /NOPERM.*; give the user access to all commands/],
      ['no streams', [...EVERYTHING, '-@stream'], /; give the user access to all commands/],
      ['no reading of drafts', [...EVERYTHING, '-mget'], /NOPERM.*; give the user access to all commands/],
      [
        'other keys',
        ['~other:*', '&parley:*', '+@all'],
        /; give the user access to all commands, and to the keys and channels of Parley/,
      ],
    ])('a user with %s', async (_, rights, expected) => {
      await admin.call('ACL', 'SETUSER', 'app', 'reset', 'on', '>s3cret', ...rights)
      const refusal = await refusalOf(`redis://app:s3cret@127.0.0.1:${server.port}`)
      expect(refusal).toMatch(expected)
      expect(refusal).toMatch(new RegExp(`^REDIS_URL: Redis at 127.0.0.1:${server.port} cannot be used: `))
      expect(refusal).not.toMatch(/s3cret|\n/)
    })

    test('a user with only these rights can serve, without INFO, CONFIG and CLIENT', async () => {
      await admin.flushall()
      const rights = [...EVERYTHING, '-@dangerous', '-@admin', '-info', '-config', '-client']
      await admin.call('ACL', 'SETUSER', 'app', 'reset', 'on', '>s3cret', ...rights)
      expect(await refusalOf(`redis://app:s3cret@127.0.0.1:${server.port}`)).toBe('')
      expect(await admin.keys('parley:log:*')).toEqual([])
    })

    test('a database that does not exist', async () => {
      expect(await refusalOf(`${server.url}/6`)).toMatch(
        /DB index is out of range; use a smaller database number, or raise `databases` in redis.conf$/,
      )
      expect(await refusalOf(`${server.url}/3`)).toBe('')
    })

    test('a database that the user may not select', async () => {
      await admin.call('ACL', 'SETUSER', 'app', 'reset', 'on', '>s3cret', ...EVERYTHING, '-select')
      expect(await refusalOf(`redis://app:s3cret@127.0.0.1:${server.port}/1`)).toMatch(
        /NOPERM.*'select'.*; give the user access/,
      )
    })

    test('a replica', async () => {
      const replica = await startThrowawayRedis(['--replicaof', '127.0.0.1', String(server.port)])
      expect(await refusalOf(replica.url)).toMatch(
        /READONLY.*; this is a read-only replica: use the address of the master/,
      )
      await replica.dispose()
    })

    test.each(['allkeys-lru', 'volatile-ttl'])('a memory policy that deletes events: %s', async (policy) => {
      await admin.config('SET', 'maxmemory', '100mb', 'maxmemory-policy', policy)
      expect(await refusalOf(server.url)).toBe(
        `REDIS_URL: Redis at 127.0.0.1:${server.port} cannot be used: it evicts keys (maxmemory-policy ${policy}); ` +
          'set maxmemory-policy to noeviction: events would be lost',
      )
      // Without a memory limit, Redis deletes nothing.
      await admin.config('SET', 'maxmemory', '0')
      expect(await refusalOf(server.url)).toBe('')
    })

    test('a server without free memory', async () => {
      await admin.config('SET', 'maxmemory-policy', 'noeviction', 'maxmemory', '1')
      expect(await refusalOf(server.url)).toMatch(/OOM.*; give Redis more memory \(maxmemory\)$/)
      await admin.config('SET', 'maxmemory', '0')
    })

    test('a cluster node that is configured as a single server', async () => {
      const cluster = await startThrowawayCluster()
      expect(await refusalOf(cluster.nodes[0]?.url ?? '')).toMatch(
        /^REDIS_URL: .*list its nodes, redis:\/\/a:7000,b:7001$/,
      )
      await cluster.dispose()
    })

    test('nodes of no cluster', async () => {
      const url = `redis://127.0.0.1:${server.port},127.0.0.1:${server.port}`
      expect(await refusalOf(url)).toMatch(/^REDIS_URL: the cluster at .*cluster support disabled; .*give one address$/)
    })
  },
)

describe.skipIf(!canStartRedis())('TLS', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'parley-tls-'))
  let server: ThrowawayRedis
  let port: number

  beforeAll(async () => {
    const [key, certificate] = [path.join(folder, 'key.pem'), path.join(folder, 'certificate.pem')]
    execFileSync(
      'openssl',
      [
        'req',
        '-x509',
        '-newkey',
        'rsa:2048',
        '-nodes',
        '-days',
        '2',
        '-subj',
        '/CN=localhost',
        '-keyout',
        key,
        '-out',
        certificate,
      ],
      { stdio: 'ignore' },
    )
    port = await freePort()
    const tls = ['--tls-port', String(port), '--tls-auth-clients', 'no']
    server = await startThrowawayRedis([...tls, '--tls-cert-file', certificate, '--tls-key-file', key])
  })
  afterAll(async () => {
    await server?.dispose()
    rmSync(folder, { recursive: true })
  })

  test('redis:// to a port that expects TLS: the error suggests rediss://', async () => {
    expect(await refusalOf(`redis://127.0.0.1:${port}`)).toMatch(/if it expects TLS, use rediss:\/\/ instead of redis/)
  })

  test('rediss:// to a port without TLS: the error suggests redis://', async () => {
    expect(await refusalOf(`rediss://127.0.0.1:${server.port}`)).toMatch(
      /ETIMEDOUT; if the server does not expect TLS, use redis:\/\//,
    )
  })

  test('an unknown certificate: the error names the setting that trusts it', async () => {
    expect(await refusalOf(`rediss://localhost:${port}`)).toMatch(
      /set NODE_EXTRA_CA_CERTS to the file of its CA certificate/,
    )
  })
})

describe.skipIf(!canStartRedis())('a master that becomes a replica while Parley runs', () => {
  test('is logged a few times with the reason, is reported unhealthy, and is used again once it is a master', async () => {
    const [server, other] = [await startThrowawayRedis(), await startThrowawayRedis()]
    const admin = new Redis(server.url)
    const lines: { message: string; error?: unknown }[] = []
    const note = (about: object, message: string) => void lines.push({ message, ...about })
    const broker = await createBroker({ redisUrl: server.url, logger: { info: note, warn: note } })
    expect(await broker.healthy()).toBe(true)
    lines.length = 0
    await admin.replicaof('127.0.0.1', other.port)
    const results = await Promise.all(
      ['space:1', 'space:2', 'space:3'].map((topic) => broker.log.append(topic, { type: 'MessagePosted' })),
    )
    expect(results).toEqual(Array(3).fill({ type: 'deferred' }))
    expect(await broker.healthy()).toBe(false)
    const connections = async () => Number(/total_connections_received:(\d+)/.exec(await admin.info('stats'))?.[1])
    const before = await connections()
    await until('Parley has connected again', async () => (await connections()) > before)
    expect(await broker.healthy()).toBe(false)
    expect(lines.length).toBeLessThan(10)
    expect(lines).toContainEqual(
      expect.objectContaining({ message: 'lost the connection to Redis', error: expect.stringContaining('READONLY') }),
    )
    await admin.replicaof('NO', 'ONE')
    await until('it is healthy', () => broker.healthy())
    await until('the events are written', async () => (await admin.keys('parley:log:{space:*}')).length === 3)
    await broker.close()
    admin.disconnect()
    await Promise.all([server.dispose(), other.dispose()])
  })
})
