// Runs Parley's server and application in one process, `embedded` or with `redis`, with several spaces.
import { Redis } from 'ioredis'
import { SignJWT } from 'jose'
import type { LogEvent } from '../../src/broker/log.ts'
import { newId } from '../../src/lib/ids.ts'
import { createDraftStream } from '../../src/posting/draft-stream.ts'
import { startTestServer } from '../../test/support/served.ts'
import { type Feed, type Load, type Payload, type Subscribing, serveFanout, textNow } from './fanout-server.ts'
import { now } from './model.ts'

const QUERIES: Record<Payload, string> = {
  deltas: '... on MessageTextDelta { messageId delta }',
  toolCalls:
    '... on MessagePartChanged { part { ... on ToolCallPart { toolCall { id toolName status input output error } } } }',
  unread: '... on MessagePosted { message { id text space { unreadCount } } }',
}
const [backing, count] = process.argv.slice(2)
const SECRET = 'a secret of a benchmark, of 32 characters or more'
const parley = await startTestServer({
  stack: backing === 'redis' ? 'postgres' : 'embedded',
  worker: false,
  settings: { PARLEY_DELTA_MS: '25', AUTH_JWT_SECRET: SECRET },
})
process.once('SIGTERM', () => void parley.close().finally(() => process.exit(0)))
const { prisma } = parley.app.platform.db
const ada = await parley.human('Ada')
const agent = await parley.agent('Iris')
const spaceIds: string[] = []
while (spaceIds.length < Number(count)) spaceIds.push((await parley.space(ada, [])).id)
const url = `${parley.origin.replace('http', 'ws')}/graphql`
const queryOf = (payload: Payload) =>
  `subscription ($spaceId: ID!) { spaceMessages(spaceId: $spaceId) { __typename cursor ${QUERIES[payload]} } }`

/** Separate humans, each a member of the space to which it subscribes. */
const humans: string[] = []
async function viewers({ viewers, spaces, payload }: Load): Promise<Subscribing[]> {
  const made = Array.from({ length: Math.max(viewers - humans.length, 0) }, () => newId('hum'))
  humans.push(...made)
  await prisma.entity.createMany({ data: made.map((id) => ({ id, kind: 'HUMAN', name: 'Viewer' })) })
  const query = queryOf(payload)
  const places = humans.slice(0, viewers).map((entityId, n) => ({ entityId, spaceId: spaceIds[n % spaces]! }))
  await prisma.membership.createMany({ data: places, skipDuplicates: true })
  return Promise.all(
    places.map(async ({ entityId, spaceId }) => {
      const token = new SignJWT({ sub: entityId }).setProtectedHeader({ alg: 'HS256' }).setExpirationTime('1h')
      const authorization = `Bearer ${await token.sign(new TextEncoder().encode(SECRET))}`
      return { url, authorization, query, variables: { spaceId } }
    }),
  )
}

/** Posts a message with a tool call, as an agent does. */
async function showCall(spaceId: string): Promise<string> {
  const [messageId, toolCallId] = [newId('msg'), newId('tcl')]
  const base = { spaceId, messageId, agentId: agent.id, runId: newId('run'), stepIndex: 0, modelCallId: 'c' }
  const call = { toolName: 'look_up', status: 'DONE' as const, input: { what: 'weather' }, output: { sky: 'blue' } }
  await prisma.toolCall.create({ data: { id: toolCallId, ...base, ...call } })
  const { message } = await parley.send(ada, spaceId, 'What is the weather?')
  await prisma.message.update({ where: { id: message.id }, data: { parts: [{ type: 'tool', toolCallId }] } })
  await prisma.toolCall.update({ where: { id: toolCallId }, data: { messageId: message.id } })
  return message.id
}

const shown = await showCall(spaceIds[0]!)
const said = await parley.send(ada, spaceIds[0]!, 'Hello')
const messageId = newId('msg')
const { log } = parley.app.platform
const topics = spaceIds.map((spaceId) => `space:${spaceId}`)
const events: Feed['events'] = {
  deltas: { type: 'MessageTextDelta', messageId, partIndex: 0 },
  toolCalls: { type: 'MessagePartChanged', messageId: shown, partIndex: 0 },
  unread: { type: 'MessagePosted', messageId: said.message.id },
}

/** A separate process appends to the log in Redis. The log in this process gets its events over channels instead. */
async function openFeed(): Promise<Feed> {
  const { settings, options } = parley.stores
  if (settings['REDIS_URL'] !== undefined)
    return { type: 'log', redisUrl: settings['REDIS_URL'], prefix: options.redisPrefix ?? '', names: topics, events }
  const redisUrl = process.env['TEST_REDIS_URL'] || 'redis://127.0.0.1:6379'
  const prefix = `bench-fanout-${process.pid}:`
  const subscriber = new Redis(redisUrl)
  subscriber.on('message', (name: string, event: string) => {
    void log.append(name.slice(prefix.length), JSON.parse(event) as LogEvent)
  })
  const names = topics.map((topic) => prefix + topic)
  await subscriber.subscribe(...names)
  return { type: 'channels', redisUrl, prefix, names, events }
}

/** Streams the text of an agent to the log of the space, as the engine does: tokens of the model are merged into deltas. */
async function writeAsAgent(tokens: number, everyMs: number, afterMs: number): Promise<void> {
  const place = { spaceId: spaceIds[0] ?? '', partIndex: 0, runId: newId('run') }
  const stream = createDraftStream(parley.app.platform, place, Promise.resolve(newId('msg')))
  const startedAt = now() + afterMs
  for (let n = 0; n < tokens; n++) {
    await new Promise((resolve) => setTimeout(resolve, startedAt + n * everyMs - now()))
    stream.push(`${textNow()} `)
  }
  await stream.complete(stream.text())
}

const authorization = `Bearer ${await parley.tokenOf(ada)}`
serveFanout({
  feed: await openFeed(),
  subscribings: spaceIds.map((spaceId) => ({ url, authorization, query: queryOf('deltas'), variables: { spaceId } })),
  viewers,
  publish: (delta, n) =>
    log.append(topics[n % topics.length]!, { ...(events.deltas as LogEvent), offset: n * delta.length, delta }),
  write: ({ agents, tokens, everyMs }) =>
    Promise.all(
      Array.from({ length: agents }, (_, index) => writeAsAgent(tokens, everyMs, (index * everyMs) / agents)),
    ),
})
