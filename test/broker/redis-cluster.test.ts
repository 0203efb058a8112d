import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type Broker, createBroker } from '../../src/broker/broker.ts'
import { describeEventLog } from '../contracts/event-log-contract.ts'
import { describeSignals } from '../contracts/signals-contract.ts'
import { type LogFollower, startFollower } from '../support/log-follower.ts'
import type { Operation } from '../support/parley-client.ts'
import { hasPostgres } from '../support/postgres.ts'
import { startTestServer } from '../support/served.ts'
import { startThrowawayCluster, type ThrowawayCluster } from '../support/throwaway-cluster.ts'
import { canStartRedis } from '../support/throwaway-redis.ts'
import { until } from '../support/until.ts'

const hasRedis = canStartRedis()
if (!hasRedis) {
  const message = 'No program redis-server on the PATH: what runs against a cluster'
  if (process.env['CI'] === 'true') throw new Error(`${message} must run on CI`)
  console.warn(`\n!!! ${message} is SKIPPED.\n`)
}

const posted = (index: number) => ({ type: 'MessagePosted', messageId: `msg_${index}` })
const indexes = (count: number, first = 0) => Array.from({ length: count }, (_, index) => first + index)
/** Enough topics for each master to have some. */
const TOPICS = indexes(12).map((index) => `space:${index}`)

interface Seen {
  spaceMessages: { message?: { text: string } }
}
const WATCH: Operation<Seen, { spaceId: string }> = `subscription ($spaceId: ID!) {
  spaceMessages(spaceId: $spaceId) { __typename ... on MessagePosted { message { text } } }
}`

/** A long timeout, because this test does not measure response times on a busy machine. */
const PATIENT = { patienceMs: 10_000 }

describe.skipIf(!hasRedis)('a Redis Cluster', () => {
  let cluster: ThrowawayCluster
  let opened = 0
  const open = async (prefix: string, options = {}) => createBroker({ redisUrl: cluster.url, prefix, ...options })
  const newPrefix = () => {
    opened += 1
    return `${opened}:`
  }

  beforeAll(async () => {
    cluster = await startThrowawayCluster()
  })
  afterAll(() => cluster?.dispose())

  describeEventLog('Redis Cluster', async () => {
    const { log, close } = await open(newPrefix(), PATIENT)
    return { ...log, close }
  })
  describeSignals('Redis Cluster', async () => {
    const { signals, close } = await open(newPrefix())
    return { ...signals, close }
  })

  test.skipIf(!hasPostgres)('Parley itself runs on a cluster', async () => {
    const parley = await startTestServer({ stack: 'postgres', worker: false, settings: { REDIS_URL: cluster.url } })
    const ada = await parley.human('Ada')
    const spaces = await Promise.all(indexes(6).map(() => parley.space(ada, [])))
    const client = await parley.clientOf(ada)
    const watches = spaces.map(({ id }) => client.subscribe(WATCH, { spaceId: id }))
    await Promise.all(watches.map((watch) => watch.first(() => true)))
    for (const { id } of spaces) await parley.send(ada, id, `in ${id}`)
    for (const [index, watch] of watches.entries()) {
      await watch.first(({ spaceMessages }) => spaceMessages.message?.text === `in ${spaces[index]?.id}`)
    }
    await parley.close()
  })

  describe('shared by processes', () => {
    let prefix: string
    let writer: Broker
    let reader: Broker
    const followers: LogFollower[] = []

    beforeEach(async () => {
      prefix = newPrefix()
      writer = await open(prefix)
      reader = await open(prefix)
    })
    afterEach(async () => {
      await Promise.all(followers.splice(0).map((follower) => follower.stop()))
      await Promise.all([writer.close(), reader.close()])
    })

    async function followAll(): Promise<LogFollower[]> {
      followers.push(...TOPICS.map((topic) => startFollower(reader.log, topic)))
      await until('all followers are active', () => followers.every((follower) => follower.gaps() === 1))
      return followers
    }

    test('topics are spread over all masters, and all keys of a topic are on one master', async () => {
      const all = await followAll()
      for (const topic of TOPICS) {
        await writer.log.append(topic, posted(1), { once: 'a', unlessSealed: 'run:1' })
        const delta = { messageId: 'msg_1', partIndex: 0, offset: 0, delta: 'text' }
        await writer.log.appendDelta(topic, delta, () => 'text', { unlessSealed: 'run:1' })
      }
      // A call with a short deadline can be deferred if Redis responds slowly.
      const patient = await Promise.all([open(prefix, PATIENT), open(prefix, PATIENT)])
      await patient[0].log.seal('run:1', TOPICS)
      for (const follower of all) await follower.hasEntries(2)
      for (const topic of TOPICS) {
        expect(await patient[1].log.append(topic, posted(2), { unlessSealed: 'run:1' })).toEqual({ type: 'sealed' })
        expect((await reader.log.drafts(topic, ['msg_1'])).get('msg_1')?.get(0)).toBe('text')
      }
      const owners = await Promise.all(TOPICS.map((topic) => cluster.ownerOf(`${prefix}log:{${topic}}`)))
      expect(new Set(owners)).toEqual(new Set([0, 1, 2]))
      const keys = await Promise.all(cluster.clients.slice(0, 3).map((client) => client.keys(`${prefix}*`)))
      expect(keys.flat()).toHaveLength(TOPICS.length * 6)
      await Promise.all(patient.map(({ close }) => close()))
    })

    test('a wake-up signal goes through one node only', async () => {
      const [topic = ''] = TOPICS
      const channel = `${prefix}log:{${topic}}`
      const follower = startFollower(reader.log, topic)
      followers.push(follower)
      await until('the follower is active', () => follower.gaps() === 1)
      const owner = await cluster.ownerOf(channel)
      const heard = await Promise.all(
        cluster.clients
          .slice(0, 3)
          .map(async (client) => ((await client.pubsub('SHARDNUMSUB', channel)) as [string, number])[1]),
      )
      expect(heard).toEqual([0, 1, 2].map((node) => (node === owner ? 1 : 0)))
    })

    /** Creates followers, grouped by whether their topic is on a node. */
    async function byOwner(all: LogFollower[]) {
      const owners = await Promise.all(TOPICS.map((topic) => cluster.ownerOf(`${prefix}log:{${topic}}`)))
      const lost = owners[0]!
      const isLost = (_: unknown, index: number) => owners[index] === lost
      return {
        node: cluster.nodes[lost]!,
        lost: all.filter(isLost),
        others: all.filter((follower, index) => !isLost(follower, index)),
        isTakenOver: async () => (await cluster.ownerOf(`${prefix}log:{${TOPICS[0]}}`)) >= 3,
      }
    }

    const tell = async (index: number) => {
      for (const topic of TOPICS) await writer.log.append(topic, posted(index))
    }

    test('a slot moves to another master: its topic has a gap and continues', async () => {
      const [topic = ''] = TOPICS
      const follower = startFollower(reader.log, topic)
      followers.push(follower)
      await until('the follower is active', () => follower.gaps() === 1)
      await writer.log.append(topic, posted(1))
      await follower.hasEntries(1)
      await cluster.moveSlotOf(`${prefix}log:{${topic}}`)
      await writer.log.append(topic, posted(2))
      await until('a gap', () => follower.gaps() === 2)
      await writer.log.append(topic, posted(3))
      await until('the follower continues', () => last(follower) === 'msg_3')
    })

    test('while the whole cluster hangs, no publisher waits long, and events arrive in order', async () => {
      const all = await followAll()
      await tell(0)
      for (const { freeze } of cluster.nodes) freeze()
      const since = Date.now()
      for (const index of indexes(20, 1)) await writer.log.append(TOPICS[0]!, posted(index))
      expect(Date.now() - since).toBeLessThan(500)
      for (const { thaw } of cluster.nodes) thaw()
      await until('the last event has arrived', () => last(all[0]!) === 'msg_20')
      expect(all[0]!.entries().map(({ event }) => event)).toEqual(indexes(21).map(posted))
      await cluster.stands()
    })

    test('a master fails over: its topics have a gap and continue, the others are unaffected', async () => {
      const all = await followAll()
      await tell(1)
      for (const follower of all) await follower.hasEntries(1)
      let heard = 0
      await reader.signals.subscribe('jobs', () => {
        heard += 1
      })
      const { node, lost, others, isTakenOver } = await byOwner(all)
      await node.kill()
      const since = Date.now()
      await tell(2)
      // At most one short attempt fails for each topic of the lost master.
      expect(Date.now() - since).toBeLessThan(250 * TOPICS.length)
      for (const follower of others) await follower.hasEntries(2)
      await until('the replica has taken over', isTakenOver)
      for (const follower of lost) await until('a gap', () => follower.gaps() === 2)
      await until('the cluster is healthy', async () => (await writer.log.healthy()) && (await reader.log.healthy()))
      await tell(3)
      for (const follower of all) await until('the follower continues', () => last(follower) === 'msg_3')
      expect(others.map((follower) => follower.gaps())).toEqual(others.map(() => 1))
      await until('signals are received', async () => {
        await writer.signals.publish('jobs', {})
        return heard > 0
      })
      await node.start()
      await cluster.stands()
    })
  })
})

const last = (follower: LogFollower) => follower.entries().at(-1)?.event.messageId

describe.skipIf(!hasRedis)('opening a cluster', () => {
  test('fails within 5 s if no node responds', async () => {
    const since = Date.now()
    const nodes = '127.0.0.1:1,127.0.0.1:2'
    const opening = createBroker({ redisUrl: `redis://someone:s3cret@${nodes}` })
    const error = await opening.then(String, (failure: Error) => failure.message)
    expect(error).toMatch(`REDIS_URL: the cluster at ${nodes} cannot be used: `)
    expect(error).not.toContain('s3cret')
    expect(Date.now() - since).toBeLessThan(5000)
  })
})
