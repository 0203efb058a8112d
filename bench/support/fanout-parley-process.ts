// Parley's own server and application in one process, which also publishes: `embedded` or `redis`; `unshared` as a third word.
import { newId } from '../../src/lib/ids.ts'
import { startTestServer } from '../../test/support/served.ts'
import { serveFanout } from './fanout-server.ts'

const [backing, sharing] = process.argv.slice(2)
const parley = await startTestServer({
  stack: backing === 'redis' ? 'postgres' : 'embedded',
  worker: false,
  sharing: sharing !== 'unshared',
})
process.once('SIGTERM', () => void parley.close().finally(() => process.exit(0)))
const human = await parley.human('Ada')
const space = await parley.space(human, [])
const query = `subscription ($spaceId: ID!) {
  spaceMessages(spaceId: $spaceId) { __typename cursor ... on MessageTextDelta { messageId delta } }
}`
const messageId = newId('msg')
serveFanout(
  {
    url: `${parley.origin.replace('http', 'ws')}/graphql`,
    authorization: `Bearer ${await parley.tokenOf(human)}`,
    query,
    variables: { spaceId: space.id },
  },
  (delta, n) =>
    parley.app.platform.log.append(`space:${space.id}`, {
      type: 'MessageTextDelta',
      messageId,
      partIndex: 0,
      offset: n * delta.length,
      delta,
    }),
)
