import { createParleyClient, type ParleyClient } from '../../test/support/parley-client.ts'
import { type ParleyProcess, startParley } from '../../test/support/parley-process.ts'
import { createEmptyDatabase } from '../../test/support/postgres.ts'
import { findRedisBinary, startThrowawayRedis } from '../../test/support/throwaway-redis.ts'
import { until } from '../../test/support/until.ts'
import { CREATE_HUMAN, CREATE_SPACE, CREATE_TOKEN, SEND_MESSAGE, VIEWER } from './operations.ts'

export const OPERATIONS = ['{ viewer { id } }', '50 messages with parts', 'a live event for one subscriber'] as const
export type Operation = (typeof OPERATIONS)[number]

const AT_A_TIME = 4
const PEOPLE = 10
const SUBSCRIPTIONS_EACH = 10
const MESSAGES = 50
/** How often one run repeats each operation. Half as many repetitions come first as a warm-up. */
const TIMES = { viewer: 4000, page: 800, events: 300 }
const QUICK_TIMES = { viewer: 400, page: 80, events: 40 }

const PAGE = `query ($id: ID!) { space(id: $id) { messages(last: 50) { edges { node { id seq status text createdAt sender { id name kind }
  parts { __typename id index ... on TextPart { text } ... on ToolCallPart { toolCall { id toolName status } } } } } pageInfo { hasPreviousPage startCursor } } } }`
const EVENTS = `subscription ($id: ID!) { spaceMessages(spaceId: $id) { __typename cursor at
  ... on MessagePosted { message { id seq status text sender { id name } parts { __typename ... on TextPart { text } } } } } }`

export const hasRedisBinary = (): boolean => findRedisBinary() !== null

/** Creates a new database and a new Redis, and the settings of a server that uses them without rate limits. */
export async function openServices() {
  const [database, redis] = await Promise.all([createEmptyDatabase(), startThrowawayRedis()])
  const settings = {
    DATABASE_URL: database.url,
    REDIS_URL: redis.url,
    PARLEY_LOG_LEVEL: 'error',
    PARLEY_SECRET_KEY: 'the same for all processes of a benchmark',
    PARLEY_RATE_MESSAGES: '0',
    PARLEY_RATE_TRIGGERS: '0',
    PARLEY_RATE_REQUESTS: '0',
  }
  return {
    settings,
    async close() {
      await redis.dispose()
      await database.drop()
    },
  }
}

/** Creates some people, and a space with all of them. */
export async function createPeople(parley: ParleyProcess, count: number) {
  const admin = createParleyClient({ origin: parley.origin, token: parley.adminToken })
  const people: { id: string; token: string; client: ParleyClient }[] = []
  for (let n = 0; n < count; n++) {
    const { createHuman } = await admin.send(CREATE_HUMAN, { name: `Person ${n}` })
    if (createHuman.__typename !== 'CreateHumanPayload') throw new Error(createHuman.message)
    const { id } = createHuman.human
    const { createAccessToken } = await admin.send(CREATE_TOKEN, { humanId: id })
    if (createAccessToken.__typename !== 'CreateAccessTokenPayload') throw new Error(createAccessToken.message)
    const { secret: token } = createAccessToken
    people.push({ id, token, client: createParleyClient({ origin: parley.origin, token }) })
  }
  const { createSpace } = await admin.send(CREATE_SPACE, { name: 'Bench', memberIds: people.map(({ id }) => id) })
  if (createSpace.__typename !== 'CreateSpacePayload') throw new Error(createSpace.message)
  return { people, spaceId: createSpace.space.id }
}

/** Returns the user CPU time of a server's process so far, in microseconds. */
async function userMicrosecondsOf({ origin }: ParleyProcess): Promise<number> {
  const text = await (await fetch(`${origin}/metrics`)).text()
  return 1e6 * Number(/^process_cpu_user_seconds_total (\S+)/m.exec(text)?.[1])
}

interface Event {
  spaceMessages: { __typename: string }
}

/** Measures one operation of each kind on a newly started server of the checkout, in microseconds of user CPU time. */
export async function measureCosts(root: string, quick: boolean): Promise<Record<Operation, number>> {
  const services = await openServices()
  const parley = await startParley({ settings: services.settings, root })
  const { people, spaceId } = await createPeople(parley, PEOPLE)
  const [first] = people
  if (first === undefined) throw new Error('there are no people')
  const send = async (n: number) => {
    await first.client.send(SEND_MESSAGE, {
      spaceId,
      text: `Message ${n}, of some eighty characters, as people write them to one another here.`,
    })
  }
  for (let n = 0; n < MESSAGES; n++) await send(n)
  const times = quick ? QUICK_TIMES : TIMES

  /** Measures each of several operations, in microseconds, after half as many as a warm-up. */
  async function cost(count: number, work: (count: number) => Promise<void>): Promise<number> {
    await work(Math.ceil(count / 2))
    const before = await userMicrosecondsOf(parley)
    await work(count)
    return ((await userMicrosecondsOf(parley)) - before) / count
  }
  const costs = {
    '{ viewer { id } }': await cost(times.viewer, (count) => inLanes(count, () => first.client.send(VIEWER, {}))),
    '50 messages with parts': await cost(times.page, (count) => inLanes(count, () => read(first.client, spaceId))),
    'a live event for one subscriber': await costOfEvents(),
  }

  async function costOfEvents(): Promise<number> {
    let [begun, delivered] = [0, 0]
    const onEvent = ({ spaceMessages: { __typename } }: Event) => {
      if (__typename === 'SpaceSnapshot') begun += 1
      if (__typename === 'MessagePosted') delivered += 1
    }
    const subscribed = people.flatMap(({ client }) =>
      Array.from({ length: SUBSCRIPTIONS_EACH }, () =>
        client.subscribe<Event, object>({ toString: () => EVENTS }, { id: spaceId }, onEvent),
      ),
    )
    await until('each has its snapshot', () => begun === subscribed.length)
    const perMessage = await cost(times.events, async (count) => {
      delivered = 0
      for (let n = 0; n < count; n++) await send(n)
      await until('all are delivered', () => delivered === count * subscribed.length)
    })
    for (const one of subscribed) one.stop()
    return perMessage / subscribed.length
  }

  await Promise.all(people.map(({ client }) => client.close()))
  await parley.stop()
  await services.close()
  return costs
}

async function read(client: ParleyClient, id: string): Promise<void> {
  const { errors } = await client.ask(PAGE, { id })
  if (errors !== undefined) throw new Error(errors[0]?.message)
}

/** Repeats an operation with low concurrency. */
async function inLanes(count: number, work: () => Promise<unknown>): Promise<void> {
  let left = count
  const lane = async () => {
    while (left > 0) {
      left -= 1
      await work()
    }
  }
  await Promise.all(Array.from({ length: AT_A_TIME }, lane))
}
