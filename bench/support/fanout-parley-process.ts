// Parley's own server and application in one process, which also publishes: `embedded` or `redis`, and in how many spaces.
import { createDraftStream } from '../../src/engine/draft-stream.ts'
import { newId } from '../../src/lib/ids.ts'
import { startTestServer } from '../../test/support/served.ts'
import { serveFanout, textNow } from './fanout-server.ts'
import { now } from './model.ts'

const [backing, count] = process.argv.slice(2)
const parley = await startTestServer({
  stack: backing === 'redis' ? 'postgres' : 'embedded',
  worker: false,
  settings: { PARLEY_DELTA_MS: '25' },
})
process.once('SIGTERM', () => void parley.close().finally(() => process.exit(0)))
const human = await parley.human('Ada')
const spaceIds: string[] = []
while (spaceIds.length < Number(count)) spaceIds.push((await parley.space(human, [])).id)
const query = `subscription ($spaceId: ID!) {
  spaceMessages(spaceId: $spaceId) { __typename cursor ... on MessageTextDelta { messageId delta } }
}`
const url = `${parley.origin.replace('http', 'ws')}/graphql`
const authorization = `Bearer ${await parley.tokenOf(human)}`
const messageId = newId('msg')
serveFanout(
  spaceIds.map((spaceId) => ({ url, authorization, query, variables: { spaceId } })),
  (delta, n) =>
    parley.app.platform.log.append(`space:${spaceIds[n % spaceIds.length]}`, {
      type: 'MessageTextDelta',
      messageId,
      partIndex: 0,
      offset: n * delta.length,
      delta,
    }),
  ({ agents, tokens, everyMs }) =>
    Promise.all(
      Array.from({ length: agents }, (_, index) => writeAsAgent(tokens, everyMs, (index * everyMs) / agents)),
    ),
)

/** What an agent says, as the engine streams it from the model's tokens: joined, to the space's log. */
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
