import fc from 'fast-check'
import { type Client, createClient, type ExecutionResult } from 'graphql-ws'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import WebSocket from 'ws'
import type { HumanViewer, Viewer } from '../../src/access/viewer.ts'
import { newId } from '../../src/lib/ids.ts'
import { RULE_STACKS } from '../support/application.ts'
import { runsOf } from '../support/effort.ts'
import { reexecute } from '../support/plain-subscription.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'

const HEAD = 'subscription ($spaceId: ID!, $after: StreamCursor, $long: Boolean!)'
/**
 * The selections of the clients: events without lookups, objects, personal fields, fields that depend on the scope, and fields
 * that fail.
 */
const DOCUMENTS = [
  `${HEAD} { events: spaceMessages(spaceId: $spaceId, after: $after) {
    __typename cursor spaceId
    ... on MessageTextDelta { messageId partIndex offset delta @include(if: $long) }
    ... on SpaceSnapshot { space { name description @include(if: $long) } }
  } }`,
  `${HEAD} { events: spaceMessages(spaceId: $spaceId, after: $after) {
    ...Event
    ... on SpaceSnapshot { space { ...Room } }
    ... on MessagePosted { message { ...Text space { ...Room } parts { __typename id ... on TextPart { text } } } }
    ... on MemberJoined { entity { id name ... on Human { createdAt @skip(if: $long) } } }
    ... on MemberLeft { entity { id name } }
    ... on SpaceUpdated { space { ...Room } }
  } }
  fragment Event on SpaceEvent { __typename cursor }
  fragment Text on Message { id seq status text sender { name kind } }
  fragment Room on Space { name members { name } messages(last: 2) { edges { cursor node { ...Text } } pageInfo { hasPreviousPage } } }`,
  `${HEAD} { events: spaceMessages(spaceId: $spaceId, after: $after) {
    __typename cursor
    ... on SpaceSnapshot { space { unreadCount firstUnreadMessage { text } lastMessage { idempotencyKey run { id } origin { triggerMessage } } } }
    ... on MessagePosted { message { text @include(if: $long) idempotencyKey run { id } space { unreadCount } } }
    ... on MessageTextDelta { delta }
  } }`,
  `${HEAD} { events: spaceMessages(spaceId: $spaceId, after: $after) {
    __typename cursor
    ... on MessagePosted { message { id outcomes { kind reason @include(if: $long) agent { name } } } }
    ... on SpaceUpdated { space { messages(first: 1, last: 1) { edges { cursor } } } }
  } }`,
]

type Answer = ExecutionResult<{ events: { __typename: string; cursor: string } }>

/** One subscription with all its events, including errors within them. */
interface Side {
  seen: Answer[]
  /** The code of the final error, or `completed`. */
  ended: string | null
  stop(): void
}

/** One subscription twice: as a client gets it from the server, and as plain execution for its viewer alone. */
interface Pair {
  sides: Side[]
  dropped: boolean
}

function watch(socket: Client, query: string, variables: Record<string, unknown>): Side {
  const side: Side = { seen: [], ended: null, stop: () => {} }
  side.stop = socket.subscribe<Answer['data'] & object>(
    { query, variables },
    {
      next: (answer) => side.seen.push(answer as Answer),
      error(reason) {
        side.ended = Array.isArray(reason) ? reason[0]?.extensions?.code : String(reason)
      },
      complete() {
        side.ended ??= 'completed'
      },
    },
  )
  return side
}

type Action =
  | { type: 'subscribe' | 'resume'; client: number; document: number; long: boolean }
  | { type: 'drop'; pair: number }
  | { type: 'say'; human: number; text: string }
  | { type: 'deltas'; count: number }
  | { type: 'rename'; name: string }
  | { type: 'remove' | 'add'; human: number }

const HUMANS = 3
const RUNS = runsOf({ usual: 3, nightly: 60 })
/** The humans, and an admin. */
const client = fc.nat(HUMANS)
const human = fc.nat(HUMANS - 1)
const document = fc.nat(DOCUMENTS.length - 1)
const short = fc.string({ minLength: 1, maxLength: 20 }).map((text) => `“${text}”`)
const subscribing = fc.record({
  type: fc.constantFrom('subscribe' as const, 'resume' as const),
  client,
  document,
  long: fc.boolean(),
})
const action: fc.Arbitrary<Action> = fc.oneof(
  { weight: 4, arbitrary: subscribing },
  { weight: 3, arbitrary: fc.record({ type: fc.constant('deltas' as const), count: fc.integer({ min: 1, max: 60 }) }) },
  { weight: 2, arbitrary: fc.record({ type: fc.constant('say' as const), human, text: short }) },
  { weight: 1, arbitrary: fc.record({ type: fc.constant('drop' as const), pair: fc.nat(20) }) },
  { weight: 1, arbitrary: fc.record({ type: fc.constant('rename' as const), name: short }) },
  { weight: 1, arbitrary: fc.record({ type: fc.constantFrom('remove' as const, 'add' as const), human }) },
)

describe.each(RULE_STACKS)('subscriptions on the %s stack', (stack) => {
  let parley: TestServer
  let creator: HumanViewer
  let humans: HumanViewer[]
  let clients: { viewer: Viewer; socket: Client }[]

  beforeAll(async () => {
    parley = await startTestServer({ stack, worker: false })
    creator = await parley.human('Zoe')
    humans = await Promise.all(['Ada', 'Bob', 'Cleo'].map((name) => parley.human(name)))
    const connect = async (viewer: Viewer) => {
      const connectionParams = { authorization: `Bearer ${await parley.tokenOf(viewer)}` }
      const socket = createClient({
        url: `${parley.origin.replace('http', 'ws')}/graphql`,
        webSocketImpl: WebSocket,
        connectionParams,
        retryAttempts: 0,
        lazy: false,
      })
      return { viewer, socket }
    }
    clients = await Promise.all([...humans, parley.admin].map(connect))
  })
  afterAll(async () => {
    await Promise.all(clients.map(({ socket }) => socket.dispose()))
    await parley.close()
  })

  /** Plays the actions in a new space. Returns the events of each pair of subscribers, and how they ended. */
  async function play(actions: Action[]): Promise<{ seen: Answer[][]; ended: (string | null)[] }[]> {
    const { log } = parley.app.platform
    const { spaces, members } = parley.app.domain
    const space = await parley.space(creator, [])
    for (const { id } of humans) await members.add(parley.admin, { spaceId: space.id, entityId: id })
    const pairs: Pair[] = []
    const isMember = new Set(humans)
    const cursors: string[] = []
    const messageId = newId('msg')
    let length = 0

    /** Returns whether the log has appended the event. If Redis is slow, the event is appended later, under an unknown cursor. */
    async function tellDelta(delta: string): Promise<boolean> {
      const event = { type: 'MessageTextDelta', messageId, partIndex: 0, offset: length, delta }
      length += delta.length
      const result = await log.append(`space:${space.id}`, event)
      if (result.type === 'appended') cursors.push(result.cursor)
      return result.type === 'appended'
    }

    /** Waits until all remaining subscribers have all events. */
    async function settled(): Promise<void> {
      await until('the log has all published events', () => tellDelta('.'))
      const last = cursors.at(-1)
      for (const { sides } of pairs.filter(({ dropped }) => !dropped)) {
        for (const side of sides) {
          const isUpToDate = () => side.ended !== null || side.seen.at(-1)?.data?.events.cursor === last
          await until('a subscriber has all events, or has ended', isUpToDate)
        }
      }
    }

    function subscribe(index: number, text: string, long: boolean, after: string | null): void {
      const variables = { spaceId: space.id, after, long }
      const { viewer, socket } = clients[index]!
      pairs.push({
        sides: [watch(socket, text, variables), reexecute(parley.app, viewer, text, variables) as Side],
        dropped: false,
      })
    }

    function drop(pair: Pair | undefined): void {
      if (pair === undefined) return
      pair.dropped = true
      for (const { stop } of pair.sides) stop()
    }

    async function say(sender: HumanViewer, text: string): Promise<void> {
      if (isMember.has(sender)) await parley.send(sender, space.id, text)
    }

    async function remove(viewer: HumanViewer): Promise<void> {
      if (isMember.delete(viewer)) await members.remove(creator, { spaceId: space.id, entityId: viewer.id })
    }

    async function add(viewer: HumanViewer): Promise<void> {
      if (!isMember.has(viewer)) await members.add(parley.admin, { spaceId: space.id, entityId: viewer.id })
      isMember.add(viewer)
    }

    async function act(one: Action): Promise<unknown> {
      switch (one.type) {
        case 'subscribe':
          subscribe(one.client, DOCUMENTS[one.document] ?? '', one.long, null)
          return until('the subscription has started', () =>
            pairs.at(-1)?.sides.every(({ seen, ended }) => seen.length > 0 || ended !== null),
          )
        case 'resume':
          return subscribe(
            one.client,
            DOCUMENTS[one.document] ?? '',
            one.long,
            cursors[(one.client * 7) % cursors.length] ?? null,
          )
        case 'drop':
          return drop(pairs[one.pair])
        case 'deltas':
          return Promise.all(Array.from({ length: one.count }, (_, index) => tellDelta(`${index} `)))
        case 'rename':
          return spaces.update(creator, { id: space.id, name: one.name })
        case 'say':
          return say(humans[one.human] as HumanViewer, one.text)
        case 'remove':
          return remove(humans[one.human] as HumanViewer)
        case 'add':
          return add(humans[one.human] as HumanViewer)
      }
    }

    await settled()
    for (const one of actions) {
      // A subscriber resumes in the middle of events. Other actions need both servers in the same state.
      if (one.type !== 'resume' && one.type !== 'deltas') await settled()
      await act(one)
    }
    await settled()
    const ends = pairs.map(({ sides, dropped }) => (dropped ? [] : sides.map(({ ended }) => ended)))
    for (const { sides } of pairs) for (const { stop } of sides) stop()
    return pairs.map(({ sides }, index) => ({ seen: sides.map(({ seen }) => [...seen]), ended: ends[index] ?? [] }))
  }

  test('send each subscriber the same events, in the same order and with the same end, as if its operation were executed separately', {
    timeout: 30_000 + 6000 * RUNS,
  }, async () => {
    const property = fc.asyncProperty(fc.array(action, { minLength: 5, maxLength: 25 }), async (actions) => {
      for (const { seen, ended } of await play(actions)) {
        expect(ended).not.toContain('completed')
        expect(ended[0]).toEqual(ended[1])
        expect(seen[0]).toEqual(seen[1])
      }
    })
    await fc.assert(property, { numRuns: RUNS, endOnFailure: true })
    await until('there are no followers any more', () => parley.app.platform.log.stats().followers === 0)
  })
})
