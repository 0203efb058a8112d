import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createBroker } from '../../src/broker/broker.ts'
import { startFollower } from '../support/log-follower.ts'
import type { Operation } from '../support/parley-client.ts'
import { hasPostgres } from '../support/postgres.ts'
import { startTestServer } from '../support/served.ts'
import { canStartRedis } from '../support/throwaway-redis.ts'
import { MASTER_NAME, startThrowawaySentinel, type ThrowawaySentinel } from '../support/throwaway-sentinel.ts'
import { until } from '../support/until.ts'

interface Seen {
  spaceMessages: {
    __typename: string
    cursor: string
    message?: { text: string }
    space?: { messages: { edges: { node: { text: string } }[] } }
  }
}
const WATCH: Operation<Seen, { spaceId: string; after?: string | undefined }> = `
  subscription ($spaceId: ID!, $after: StreamCursor) { spaceMessages(spaceId: $spaceId, after: $after) {
    __typename cursor
    ... on SpaceSnapshot { space { messages(last: 100) { edges { node { text } } } } }
    ... on MessagePosted { message { text } }
  } }`

/** Returns the texts that a client has after these events. A snapshot replaces all earlier texts. */
function textsOf(seen: readonly Seen[]): string[] {
  let known = new Set<string>()
  for (const { spaceMessages } of seen) {
    const { message, space } = spaceMessages
    if (space !== undefined) known = new Set(space.messages.edges.map(({ node }) => node.text))
    if (message !== undefined) known.add(message.text)
  }
  return [...known]
}

const errorOf = (redisUrl: string) =>
  createBroker({ redisUrl }).then(
    async ({ close }) => {
      await close()
      return ''
    },
    (error: Error) => error.message,
  )

describe.skipIf(!canStartRedis())('Redis behind Sentinels', () => {
  let sentinel: ThrowawaySentinel

  beforeAll(async () => {
    sentinel = await startThrowawaySentinel()
  })
  afterAll(() => sentinel?.dispose())

  test('startup fails with a master that the Sentinels do not know, and with Sentinels that do not respond', async () => {
    expect(await errorOf(sentinel.url.replace(MASTER_NAME, 'other'))).toMatch(
      /^REDIS_URL: the Redis master other of the Sentinels at [\d.:,]+ cannot be used: .*set \?name= to the name of the master that the Sentinels monitor/,
    )
    expect(await errorOf('redis+sentinel://user:s3cret@127.0.0.1:1,127.0.0.1:2/0')).toMatch(
      /^REDIS_URL: the Redis master mymaster of the Sentinels at 127.0.0.1:1,127.0.0.1:2 cannot be used: [^\n]*; check the hosts and ports of the Sentinels, [^\n]*$/,
    )
  })

  test('startup needs no more than one of the Sentinels, even if the first is down', async () => {
    const [first] = sentinel.sentinels
    await first?.kill()
    expect(await errorOf(sentinel.url)).toBe('')
    await first?.start()
  })

  test('during a planned failover events arrive in order, and the log reports it in a few lines', async () => {
    const lines: string[] = []
    const note = (_: object, message: string) => void lines.push(message)
    const before = await sentinel.master()
    const broker = await createBroker({ redisUrl: sentinel.url, logger: { info: note, warn: note } })
    const follower = startFollower(broker.log, 'space:planned')
    await until('the follower is active', () => follower.gaps() === 1)
    lines.length = 0
    let sent = 0
    const append = () => broker.log.append('space:planned', { type: 'MessagePosted', messageId: `msg_${sent++}` })
    await append()
    await sentinel.failOver()
    await until('another server is the master', async () => {
      await append()
      return (await sentinel.master()) !== before
    })
    await until('the broker is healthy', () => broker.healthy())
    await append()
    const last = `msg_${sent - 1}`
    await until('the last event arrives', () => follower.entries().at(-1)?.event.messageId === last)
    const numbers = follower.entries().map(({ event }) => Number(String(event.messageId).slice(4)))
    expect(numbers).toEqual(numbers.toSorted((a, b) => a - b))
    expect(new Set(numbers).size).toBe(numbers.length)
    expect(lines.length).toBeLessThan(12)
    await follower.stop()
    await broker.close()
  })

  test.skipIf(!hasPostgres)(
    'the master dies under live subscriptions: they lose nothing, and resume by cursor',
    async () => {
      const parley = await startTestServer({ stack: 'postgres', worker: false, settings: { REDIS_URL: sentinel.url } })
      const ada = await parley.human('Ada')
      const { id: spaceId } = await parley.space(ada, [])
      const [live, left] = [await parley.clientOf(ada), await parley.clientOf(ada)]
      const watching = live.subscribe(WATCH, { spaceId })
      const leaving = left.subscribe(WATCH, { spaceId })
      await Promise.all([watching.first(() => true), leaving.first(() => true)])
      let sent = 0
      const send = () => parley.send(ada, spaceId, `message ${sent++}`)
      await send()
      await leaving.first(({ spaceMessages }) => spaceMessages.message?.text === 'message 0')
      leaving.stop()
      const after = leaving.seen.at(-1)?.spaceMessages.cursor

      const before = await sentinel.master()
      await before.kill()
      await send()
      await until('another server is the master', async () => {
        if (sent < 80) await send()
        return (await sentinel.master()) !== before
      })
      await until('the server is ready', async () => (await fetch(`${parley.origin}/health/ready`)).ok)
      await send()

      const all = Array.from({ length: sent }, (_, index) => `message ${index}`)
      const resumed = left.subscribe(WATCH, { spaceId, after })
      await until('the live subscription knows all messages', () => textsOf(watching.seen).length >= sent)
      await until('the resumed subscription knows all messages', () => {
        const [first] = resumed.seen
        return first !== undefined && textsOf(resumed.seen).length >= (first.spaceMessages.space ? sent : sent - 1)
      })
      expect(textsOf(watching.seen)).toEqual(all)
      const isWhole = resumed.seen[0]?.spaceMessages.space !== undefined
      expect(textsOf(resumed.seen)).toEqual(isWhole ? all : all.slice(1))
      await parley.close()
      await before.start()
    },
  )
})

describe.skipIf(!canStartRedis())('Sentinels and servers with passwords', () => {
  test('take their passwords from the URL, and the error says which password is missing', async () => {
    const sentinel = await startThrowawaySentinel({
      serverOptions: ['--requirepass', 'master%1', '--masterauth', 'master%1'],
      sentinelOptions: ['--requirepass', 'sentinel/2', '--sentinel', 'sentinel-pass', 'sentinel/2'],
      serverPassword: 'master%1',
      sentinelPassword: 'sentinel/2',
      user: ':master%251@',
      parameters: '&sentinel_password=sentinel%2F2',
    })
    expect(await errorOf(sentinel.url)).toBe('')
    expect(await errorOf(sentinel.url.replace(/&sentinel_password=.*/, ''))).toMatch(
      /NOAUTH.*; set sentinel_password \(and sentinel_username\) in the URL$/,
    )
    expect(await errorOf(sentinel.url.replace(':master%251@', ''))).toMatch(/NOAUTH.*; put the password in the URL/)
    await sentinel.dispose()
  })
})
