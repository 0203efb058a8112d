import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { RULE_STACKS } from '../support/application.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { openStage, type Read, type Stage } from '../support/stage.ts'

const DELETE_AGENT = `mutation ($id: ID!) { deleteAgent(input: { id: $id }) { __typename } }`
const DELETE_SPACE = `mutation ($id: ID!) { deleteSpace(input: { id: $id }) { __typename } }`
const AGENT = `query ($id: ID!) { agent(id: $id) { name model mind paused } }`
const RENAME = `mutation ($id: ID!) { updateSpace(input: { id: $id, name: "Crew" }) { __typename
  ... on UpdateSpacePayload { space { streamCursor } } ... on Error { code message } } }`
const STOP = `mutation ($id: ID!) { stopRun(input: { runId: $id, cascade: true }) { __typename
  ... on StopRunPayload { run { id streamCursor } } ... on Error { code } } }`
const WATCH = `subscription ($id: ID!) { spaceMessages(spaceId: $id) { __typename
  ... on MessagePosted { message { text sender { name } } } } }`
const RUN = `query ($id: ID!) { run(id: $id) { agent { id } triggerMessage { text space { name } } } }`

/** Calls `before` at the next read, after those that the operation has already done. */
function beforeNextRead<A extends unknown[], R>(
  reader: { getMany(...args: A): Promise<R> },
  before: () => Promise<unknown>,
): void {
  const read = reader.getMany
  vi.spyOn(reader, 'getMany').mockImplementationOnce(async (...args) => {
    await before()
    return read(...args)
  })
}

describe.each(RULE_STACKS)('a request during a deletion, on the %s stack', (stack) => {
  let parley: TestServer
  let stage: Stage

  beforeAll(async () => {
    parley = await startTestServer({ stack })
    stage = await openStage(parley)
  })
  afterAll(() => parley?.close())
  beforeEach(() => parley.models.reset())

  test('returns an agent in its former state', async () => {
    const ada = await stage.bot('Ada')
    beforeNextRead(parley.app.domain.agents, () => stage.ask(stage.admin, DELETE_AGENT, { id: ada.id }))
    expect(await stage.ask(stage.admin, AGENT, { id: ada.id })).toMatchObject({
      name: 'Ada',
      mind: 'STATELESS',
      paused: false,
    })
  })

  test('returns a NotFoundError if the space of the payload was deleted', async () => {
    const husam = await stage.person('Husam')
    const space = await stage.space('Team', [husam])
    beforeNextRead(parley.app.domain.spaces, () => stage.ask(stage.admin, DELETE_SPACE, { id: space.id }))
    expect(await stage.ask(husam.client, RENAME, { id: space.id })).toEqual({
      __typename: 'NotFoundError',
      code: 'NOT_FOUND',
      message: 'The object was deleted during the request.',
    })
  })

  test('returns a NotFoundError, rather than another run, if the run to stop was deleted', async () => {
    const husam = await stage.person('Husam')
    const space = await stage.space('Team', [husam, await stage.bot('Ada')])
    parley.models.script(() => [{ hang: true }])
    const { runs } = await parley.send({ scope: 'HUMAN', id: husam.id, tokenId: null, expiresAt: null }, space.id, 'Hi')
    const id = runs[0]?.id ?? ''
    await parley.runWhen(id, 'RUNNING')
    const { control, runs: reader } = parley.app.domain
    const { stopRun } = control
    const another = runs[0] && { ...runs[0], id: `${id}x` }
    vi.spyOn(control, 'stopRun').mockImplementationOnce(async (...args) => {
      const stopped = await stopRun(...args)
      vi.spyOn(reader, 'getMany').mockImplementationOnce(async (ids) =>
        ids.map((one) => (one === id ? null : another!)),
      )
      return { ...stopped, stoppedRuns: [another!] }
    })
    expect(await stage.ask(husam.client, STOP, { id })).toEqual({ __typename: 'NotFoundError', code: 'NOT_FOUND' })
  })

  test('gets NOT_FOUND if the object was deep in the response', async () => {
    const husam = await stage.person('Husam')
    const ada = await stage.bot('Ada')
    const space = await stage.space('Team', [husam, ada])
    const { runs } = await parley.send({ scope: 'HUMAN', id: husam.id, tokenId: null, expiresAt: null }, space.id, 'Hi')
    await parley.runWhen(runs[0]?.id ?? '')
    beforeNextRead(parley.app.domain.spaces, () => stage.ask(stage.admin, DELETE_SPACE, { id: space.id }))
    const { errors } = await husam.client.ask(RUN, { id: runs[0]?.id })
    expect(errors).toMatchObject([
      { message: 'The object was deleted during the request.', extensions: { code: 'NOT_FOUND' } },
    ])
  })

  test('gets an event even if an object deep in it did not exist at first', async () => {
    const husam = await stage.person('Husam')
    const space = await stage.space('Team', [husam])
    const live = husam.client.subscribe<Read, object>(WATCH, { id: space.id })
    await live.first(() => true)
    vi.spyOn(parley.app.domain.entities, 'getMany').mockImplementationOnce(async (ids) => ids.map(() => null))
    await stage.say(husam, space, 'Hello')
    const told = await live.first((told: Read) => told.spaceMessages.message !== undefined)
    expect(told['spaceMessages'].message).toEqual({ text: 'Hello', sender: { name: 'Husam' } })
    live.stop()
  })
})
