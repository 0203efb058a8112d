// Parley's own server and application in one process, which also publishes: `embedded` or `redis`, and in how many spaces.
import { newId } from '../../src/lib/ids.ts'
import { startTestServer } from '../../test/support/served.ts'
import { serveFanout } from './fanout-server.ts'

const [backing, count] = process.argv.slice(2)
const parley = await startTestServer({ stack: backing === 'redis' ? 'postgres' : 'embedded', worker: false })
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
)
