// The common setup for comparison: graphql-yoga and graphql-ws, where each subscriber iterates over a RedisPubSub.
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { ExecutionArgs } from 'graphql'
import { RedisPubSub } from 'graphql-redis-subscriptions'
import { useServer } from 'graphql-ws/use/ws'
import { createSchema, createYoga } from 'graphql-yoga'
import { WebSocketServer } from 'ws'
import { serveFanout } from './fanout-server.ts'

const SPACES = 100
const redisUrl = process.env['TEST_REDIS_URL'] || 'redis://127.0.0.1:6379'
const prefix = `bench-fanout-${process.pid}:`
const names = Array.from({ length: SPACES }, (_, space) => `${prefix}${space}`)
const pubsub = new RedisPubSub({ connection: redisUrl })
let count = 0
const yoga = createYoga({
  logging: false,
  schema: createSchema({
    typeDefs: `
      type Query { ok: Boolean }
      type Event { cursor: String! messageId: ID! delta: String! }
      type Subscription { spaceMessages(spaceId: ID!): Event! }`,
    resolvers: {
      Subscription: { spaceMessages: { subscribe: (_: unknown, { spaceId }: { spaceId: string }) => begun(spaceId) } },
    },
  }),
})

/** Wait for the first event to know that the subscription is active, because RedisPubSub does not report this. */
async function* begun(spaceId: string) {
  const events = pubsub.asyncIterator<object>(prefix + spaceId)
  const first = events.next()
  yield { spaceMessages: { cursor: '', messageId: '', delta: '' } }
  for (let { value, done } = await first; !done; { value, done } = await events.next()) {
    count += 1
    yield { spaceMessages: { ...value, cursor: `0123456789abcdef0123.${count}` } }
  }
}

const http = createServer(yoga).listen(0, '127.0.0.1')
await once(http, 'listening')
const { port } = http.address() as AddressInfo
type Args = ExecutionArgs & {
  rootValue: { execute(args: ExecutionArgs): never; subscribe(args: ExecutionArgs): never }
}
useServer(
  {
    execute: (args) => (args as Args).rootValue.execute(args),
    subscribe: (args) => (args as Args).rootValue.subscribe(args),
    async onSubscribe(context, _id, params) {
      const enveloped = yoga.getEnveloped({ ...context, params } as never)
      const { schema, execute, subscribe, contextFactory, parse, validate } = enveloped
      const { operationName, variables: variableValues } = params
      const document = parse(params.query)
      const contextValue = await contextFactory()
      const args = { schema, operationName, document, variableValues, contextValue, rootValue: { execute, subscribe } }
      const errors = validate(args.schema, args.document)
      return errors.length > 0 ? errors : (args as never)
    },
  },
  new WebSocketServer({ server: http, path: '/graphql', perMessageDeflate: false }),
)
const query = `subscription ($spaceId: ID!) { spaceMessages(spaceId: $spaceId) { __typename cursor messageId delta } }`
const subscribing = (space: number) => ({
  url: `ws://127.0.0.1:${port}/graphql`,
  authorization: null,
  query,
  variables: { spaceId: String(space) },
})
serveFanout({
  feed: { type: 'channels', redisUrl, prefix, names, events: { deltas: { messageId: 'm'.repeat(36) } } },
  subscribings: names.map((_, space) => subscribing(space)),
  viewers: ({ viewers, spaces }) => Array.from({ length: viewers }, (_, n) => subscribing(n % spaces)),
})
