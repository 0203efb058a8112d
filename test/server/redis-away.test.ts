import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { HumanViewer } from '../../src/access/viewer.ts'
import type { Space } from '../../src/generated/prisma/client.ts'
import { figure, scrape } from '../support/figures.ts'
import { startFollower } from '../support/log-follower.ts'
import type { ParleyClient } from '../support/parley-client.ts'
import { hasPostgres } from '../support/postgres.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { findRedisBinary, startThrowawayRedis, type ThrowawayRedis } from '../support/throwaway-redis.ts'
import { until } from '../support/until.ts'

const MESSAGES = 9

describe.skipIf(!hasPostgres || findRedisBinary() === null)('with Redis away', () => {
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
  afterAll(async () => {
    await parley?.close()
    await redis?.dispose()
  })

  /** Sends messages one after the other; how long each took, in ms, and in that order. */
  async function sendSome(name: string): Promise<number[]> {
    const took: number[] = []
    for (let n = 0; n < MESSAGES; n += 1) {
      const since = performance.now()
      const { data } = await client.ask<{ sendMessage: object }>(
        `mutation { sendMessage(input: { spaceId: "${space.id}", text: "${name} ${n}" }) {
          ... on SendMessagePayload { sentMessage { seq } runs { id } }
        } }`,
      )
      took.push(performance.now() - since)
      expect(data?.sendMessage).toMatchObject({ sentMessage: { seq: expect.any(Number) }, runs: [{}] })
    }
    return took
  }

  test.each([
    ['killed', () => redis.kill(), () => redis.start()],
    ['frozen', async () => redis.freeze(), async () => redis.thaw()],
  ])('a message is sent within 250 ms, and told in its order when it is back: %s', async (name, leave, comeBack) => {
    const follower = startFollower(parley.app.platform.log, `space:${space.id}`)
    await until('it stands', () => follower.gaps() === 1)
    await sendSome('before')
    await leave()
    const took = await sendSome(name)
    // The middle one: what else the machine does is not what is measured.
    expect(took.toSorted((a, b) => a - b)[Math.floor(MESSAGES / 2)]).toBeLessThan(250)
    expect(Math.max(...took)).toBeLessThan(4000)
    const isAway = async () => figure(await scrape(parley.origin), 'parley_redis_away')
    expect(await isAway()).toBe(1)
    await comeBack()
    await until('the log is there', () => parley.app.realtime.healthy())
    await until('it is known to be back', async () => (await isAway()) === 0)
    await sendSome('after')
    const rows = await parley.messages(space.id)
    const told = await until('all are told', () => {
      const ids = follower.entries().flatMap(({ event }) => (event.type === 'MessagePosted' ? [event.messageId] : []))
      return ids.at(-1) === rows.at(-1)?.id && ids
    })
    // A Redis that was killed has lost what came before; nothing that came later, and nothing twice.
    const later = rows.slice(-2 * MESSAGES).map(({ id }) => id)
    if (name === 'frozen') expect(told.slice(-later.length)).toEqual(later)
    expect(new Set(told).size).toBe(told.length)
    await follower.stop()
  })
})
