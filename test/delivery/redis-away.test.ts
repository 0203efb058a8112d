import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import type { HumanViewer } from '../../src/access/viewer.ts'
import type { Space } from '../../src/generated/prisma/client.ts'
import { figure, scrape } from '../support/figures.ts'
import { startFollower } from '../support/log-follower.ts'
import type { ParleyClient } from '../support/parley-client.ts'
import { hasPostgres } from '../support/postgres.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { canStartRedis, startThrowawayRedis, type ThrowawayRedis } from '../support/throwaway-redis.ts'
import { until } from '../support/until.ts'

const MESSAGES = 9
/** No call waits for Redis longer than 150 ms. The rest of the time allows for a slow machine. */
const FIRST_WITHIN_MS = 1000
const WATCH = `subscription ($spaceId: ID!) { spaceMessages(spaceId: $spaceId) {
  ... on SpaceSnapshot { space { messages(last: 1) { edges { node { text } } } } }
  ... on MessagePosted { message { text } }
} }`
type Data = {
  spaceMessages: { message?: { text: string }; space?: { messages: { edges: { node: { text: string } }[] } } }
}
const WAYS = [
  ['killed', (redis: ThrowawayRedis) => redis.kill(), (redis: ThrowawayRedis) => redis.start()],
  ['frozen', async (redis: ThrowawayRedis) => redis.freeze(), async (redis: ThrowawayRedis) => redis.thaw()],
] as const

describe.skipIf(!hasPostgres || !canStartRedis())('with Redis away', () => {
  let redis: ThrowawayRedis
  let parley: TestServer
  let ada: HumanViewer
  let client: ParleyClient
  let space: Space

  beforeAll(async () => {
    redis = await startThrowawayRedis()
    parley = await startTestServer({ stack: 'postgres', worker: false, settings: { REDIS_URL: redis.url } })
    ada = await parley.human('Ada')
    client = await parley.clientOf(ada)
    const bea = await parley.agent('Bea')
    space = await parley.space(ada, [bea.id])
  })
  afterEach(async () => {
    redis.thaw()
    await redis.start()
  })
  afterAll(async () => {
    await parley?.close()
    await redis?.dispose()
  })

  /** Returns the duration in ms. */
  async function send(text: string): Promise<number> {
    const since = performance.now()
    const { data } = await client.ask<{ sendMessage: object }>(
      `mutation { sendMessage(input: { spaceId: "${space.id}", text: "${text}" }) {
        ... on SendMessagePayload { sentMessage { seq } runs { id } }
      } }`,
    )
    const took = performance.now() - since
    expect(data?.sendMessage).toMatchObject({ sentMessage: { seq: expect.any(Number) }, runs: [{}] })
    return took
  }

  /** Sends messages one after the other. Returns their durations in ms, in order. */
  async function sendSome(name: string): Promise<number[]> {
    const took: number[] = []
    for (let n = 0; n < MESSAGES; n += 1) took.push(await send(`${name} ${n}`))
    return took
  }

  const isAway = async () => figure(await scrape(parley.origin), 'parley_redis_away')

  test.each(WAYS)(
    'a message is sent within 250 ms, and delivered in order when Redis is back: %s',
    async (name, leave, comeBack) => {
      const follower = startFollower(parley.app.platform.log, `space:${space.id}`)
      await until('the subscription is active', () => follower.gaps() === 1)
      await sendSome('before')
      await leave(redis)
      const took = await sendSome(name)
      // Use the median, so that other load on the machine does not matter.
      expect(took.toSorted((a, b) => a - b)[Math.floor(MESSAGES / 2)]).toBeLessThan(250)
      expect(Math.max(...took)).toBeLessThan(4000)
      expect(await isAway()).toBe(1)
      await comeBack(redis)
      await until('the log responds', () => parley.app.realtime.healthy())
      await until('the log knows that Redis is back', async () => (await isAway()) === 0)
      await sendSome('after')
      const rows = await parley.messages(space.id)
      const told = await until('all events are delivered', () => {
        const ids = follower.entries().flatMap(({ event }) => (event.type === 'MessagePosted' ? [event.messageId] : []))
        return ids.at(-1) === rows.at(-1)?.id && ids
      })
      // A killed Redis has lost earlier events. Later events arrive once.
      const later = rows.slice(-2 * MESSAGES).map(({ id }) => id)
      if (name === 'frozen') expect(told.slice(-later.length)).toEqual(later)
      expect(new Set(told).size).toBe(told.length)
      await follower.stop()
    },
  )

  test.each(WAYS)(
    'the first message after the loss is accepted within a second, stored, and delivered when Redis is back: %s',
    async (name, leave, comeBack) => {
      await until('the event is delivered', async () => (await parley.app.realtime.healthy()) && (await isAway()) === 0)
      const live = client.subscribe<Data, object>(WATCH, { spaceId: space.id })
      const says = (text: string) => (data: Data) => {
        const { message, space: whole } = data.spaceMessages
        return (message ?? whole?.messages.edges[0]?.node)?.text === text
      }
      await send(`before the first, ${name}`)
      await live.first(says(`before the first, ${name}`))
      await leave(redis)
      expect(await send(`the first, ${name}`)).toBeLessThan(FIRST_WITHIN_MS)
      expect((await parley.messages(space.id)).at(-1)?.parts).toMatchObject([{ text: `the first, ${name}` }])
      await comeBack(redis)
      await live.first(says(`the first, ${name}`))
      live.stop()
    },
  )
})
