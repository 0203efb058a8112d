import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import { startTestServer, type TestServer } from '../support/served.ts'

const WATCH = `subscription ($spaceId: ID!, $after: StreamCursor) {
  spaceMessages(spaceId: $spaceId, after: $after) { __typename cursor ... on MessagePosted { message { text } } }
}`
type Data = { spaceMessages: { __typename: string; cursor: string; message?: { text: string } } }

describe('an event whose payload cannot be built', () => {
  let parley: TestServer
  beforeAll(async () => {
    parley = await startTestServer({ worker: false })
  })
  afterAll(() => parley?.close())
  afterEach(() => vi.restoreAllMocks())

  /** Creates a human who follows a space. */
  async function watched() {
    const ada = await parley.human('Ada')
    const space = await parley.space(ada, [])
    const client = await parley.clientOf(ada)
    const watch = (after?: string) => client.subscribe<Data, object>(WATCH, { spaceId: space.id, after })
    const live = watch()
    const { spaceMessages } = await live.first(({ spaceMessages }) => spaceMessages.__typename === 'SpaceSnapshot')
    return { ada, space, live, watch, snapshot: spaceMessages.cursor }
  }
  const textsOf = (seen: Data[]) => seen.flatMap(({ spaceMessages }) => spaceMessages.message?.text ?? [])
  const says = (text: string) => (data: Data) => data.spaceMessages.message?.text === text

  test('is retried, and delivered before later ones', async () => {
    const { ada, space, live } = await watched()
    const lookUp = vi
      .spyOn(parley.app.domain.reading, 'getMany')
      .mockRejectedValueOnce(new Error('the database is away'))
    await parley.send(ada, space.id, 'one')
    await parley.send(ada, space.id, 'two')
    await live.first(says('two'))
    expect(textsOf(live.seen)).toEqual(['one', 'two'])
    expect(lookUp.mock.calls.length).toBeGreaterThan(2)
    live.stop()
  })

  test('ends the subscription if retrying fails, and is delivered after a resume', async () => {
    const { ada, space, live, watch, snapshot } = await watched()
    const lookUp = vi.spyOn(parley.app.domain.reading, 'getMany').mockRejectedValue(new Error('the database is away'))
    await parley.send(ada, space.id, 'one')
    await parley.send(ada, space.id, 'two')
    expect(await live.ended).toMatchObject([{ extensions: { code: 'INTERNAL_SERVER_ERROR' } }])
    expect(live.seen).toHaveLength(1)
    lookUp.mockRestore()
    const resumed = watch(snapshot)
    await resumed.first(says('two'))
    expect(textsOf(resumed.seen)).toEqual(['one', 'two'])
    resumed.stop()
  })

  test('is retried for longer while the database is too busy, and no subscription ends', async () => {
    const { ada, space, live } = await watched()
    const busy = new Error('timeout exceeded when trying to connect')
    const lookUp = vi.spyOn(parley.app.domain.reading, 'getMany')
    for (let times = 0; times < 4; times++) lookUp.mockRejectedValueOnce(busy)
    await parley.send(ada, space.id, 'one')
    await live.first(says('one'))
    expect(lookUp.mock.calls.length).toBeGreaterThan(4)
    live.stop()
  })

  test.each([
    ['stays too busy', new Error('timeout exceeded when trying to connect')],
    ['does not answer', Object.assign(new Error('connect ECONNREFUSED 127.0.0.1:5432'), { code: 'ECONNREFUSED' })],
  ])(
    'closes the socket with 1013 after some retries if the database %s, so that the client resumes',
    async (_, error) => {
      const { ada, space, live } = await watched()
      const lookUp = vi.spyOn(parley.app.domain.reading, 'getMany').mockRejectedValue(error)
      await parley.send(ada, space.id, 'one')
      expect(await live.ended).toMatchObject({ code: 1013 })
      expect(lookUp.mock.calls.length).toBeGreaterThan(5)
    },
  )

  test('ends an event stream in the same way', async () => {
    const ada = await parley.human('Ada')
    const space = await parley.space(ada, [])
    vi.spyOn(parley.app.domain.reading, 'getMany').mockRejectedValue(new Error('the database is away'))
    const response = await fetch(`${parley.origin}/graphql`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${await parley.tokenOf(ada)}`,
        'content-type': 'application/json',
        accept: 'text/event-stream',
      },
      body: JSON.stringify({ query: WATCH, variables: { spaceId: space.id } }),
    })
    const reading = response.text()
    await parley.send(ada, space.id, 'one')
    const events = [...(await reading).matchAll(/^data: (.+)$/gm)].map(([, data = '']) => JSON.parse(data))
    expect(events).toMatchObject([
      { data: { spaceMessages: { __typename: 'SpaceSnapshot' } } },
      { errors: [{ extensions: { code: 'INTERNAL_SERVER_ERROR' } }] },
    ])
  })
})
