import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { STACKS } from '../support/application.ts'
import { forAgent, steps } from '../support/model-server-script.ts'
import { createParleyClient } from '../support/parley-client.ts'
import { hasPostgres } from '../support/postgres.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'

const SPACE_MESSAGES = `
  subscription SpaceMessages($spaceId: ID!, $after: StreamCursor) {
    spaceMessages(spaceId: $spaceId, after: $after) {
      __typename cursor at spaceId
      ... on SpaceSnapshot { space { id name messages { edges { node { id seq status text } } } } }
      ... on MessagePosted { message { id seq status text sender { id name kind } } }
      ... on MessageTextDelta { messageId partIndex offset delta part { id index text } }
      ... on MessagePartChanged { messageId part { __typename id index ... on TextPart { text } } }
      ... on MessageUpdated { message { id status } }
      ... on MessageFinished { message { id status text parts { __typename id ... on TextPart { text } } run { id } } }
      ... on MemberJoined { entity { id name } }
      ... on MemberLeft { entity { id name } }
      ... on SpaceUpdated { space { name } }
    }
  }`

interface Event {
  __typename: string
  cursor: string
  spaceId: string
  // biome-ignore lint/suspicious/noExplicitAny: assertions read fields that are not typed
  [field: string]: any
}
type Data = { spaceMessages: Event }
const is = (type: string) => (data: Data) => data.spaceMessages.__typename === type
const typesOf = (seen: Data[]) => seen.map(({ spaceMessages }) => spaceMessages.__typename)

describe.each(STACKS)('spaceMessages on the %s stack', (stack) => {
  let parley: TestServer

  beforeAll(async () => {
    parley = await startTestServer({ stack })
  })
  afterAll(() => parley?.close())
  beforeEach(() => parley.models.reset())

  async function room(...agentIds: string[]) {
    const human = await parley.human('Ada')
    const space = await parley.space(human, agentIds)
    const client = await parley.clientOf(human)
    const watch = (variables: object = {}) =>
      client.subscribe<Data, object>(SPACE_MESSAGES, { spaceId: space.id, ...variables })
    return { human, space, client, watch }
  }

  test('publishes a waiting call as a part and as a status, for clients that build messages from changes', async () => {
    const tool = { name: 'ask', description: 'Asks.', inputSchema: { type: 'object' }, execution: 'SPACE' as const }
    const agent = await parley.agent('Iris', { tools: [tool] })
    const { human, space, client } = await room(agent.id)
    parley.models.script(forAgent('Iris', steps([{ toolCall: 'ask', input: { question: 'Go?' } }])))
    const live = client.subscribe<Data, object>(
      `subscription ($spaceId: ID!) { spaceMessages(spaceId: $spaceId) { __typename
        ... on MessagePartChanged { part { index ... on ToolCallPart { toolCall { status input } } } }
        ... on MessageUpdated { message { status } } } }`,
      { spaceId: space.id },
    )
    await live.first(is('SpaceSnapshot'))
    await parley.send(human, space.id, 'Ask me')
    const { spaceMessages: part } = await live.first(
      (data) => is('MessagePartChanged')(data) && data.spaceMessages['part'].toolCall.status === 'WAITING',
    )
    expect(part).toMatchObject({ part: { index: 0, toolCall: { status: 'WAITING', input: { question: 'Go?' } } } })
    const { spaceMessages: updated } = await live.first(
      (data) => is('MessageUpdated')(data) && data.spaceMessages['message'].status === 'REQUIRES_ACTION',
    )
    expect(updated).toMatchObject({ message: { status: 'REQUIRES_ACTION' } })
    live.stop()
  })

  test('begins with a snapshot, then publishes everything that follows, in order', async () => {
    const { human, space, watch } = await room()
    await parley.send(human, space.id, 'before')
    const live = watch()
    const { spaceMessages: snapshot } = await live.first(is('SpaceSnapshot'))
    expect(snapshot).toMatchObject({ spaceId: space.id, space: { id: space.id } })
    expect(snapshot['space'].messages.edges).toMatchObject([{ node: { seq: 1, text: 'before', status: 'COMPLETE' } }])
    await parley.send(human, space.id, 'after')
    const { spaceMessages: posted } = await live.first(is('MessagePosted'))
    expect(posted['message']).toMatchObject({
      seq: 2,
      status: 'COMPLETE',
      text: 'after',
      sender: { name: 'Ada', kind: 'HUMAN' },
    })
    expect(typesOf(live.seen)).toEqual(['SpaceSnapshot', 'MessagePosted'])
    live.stop()
  })

  test('streams the text of an agent while it is generated', async () => {
    const agent = await parley.agent('Echo')
    const { human, space, watch } = await room(agent.id)
    parley.models.script(
      forAgent(
        'Echo',
        steps([{ toolCall: 'send_message', input: { text: 'Good morning, Ada!' }, delayMs: 5 }], [{ text: 'ok' }]),
      ),
    )
    const live = watch()
    await live.first(is('SpaceSnapshot'))
    await parley.send(human, space.id, 'Hello')
    const { spaceMessages: finished } = await live.first(is('MessageFinished'))
    expect(finished['message']).toMatchObject({ status: 'COMPLETE', text: 'Good morning, Ada!' })
    const events = live.seen.map(({ spaceMessages }) => spaceMessages)
    const { id } = finished['message']
    const posted = events.find((event) => event.__typename === 'MessagePosted' && event['message'].id === id)
    expect(posted?.['message']).toMatchObject({ sender: { name: 'Echo', kind: 'AGENT' } })
    let text = ''
    for (const event of events.filter(
      ({ messageId, __typename }) => messageId === id && __typename === 'MessageTextDelta',
    )) {
      text = text.slice(0, event['offset']) + event['delta']
      expect(event['part']).toMatchObject({ id: `${id}:${event['partIndex']}`, index: event['partIndex'] })
      expect(event['part'].text.startsWith(text)).toBe(true)
    }
    expect(text).toBe('Good morning, Ada!')
    live.stop()
  })

  test('shows the changed part with a delta if nothing more is selected of the message', async () => {
    const { human, space, watch } = await room()
    const { message } = await parley.send(human, space.id, 'Hello')
    const live = watch()
    await live.first(is('SpaceSnapshot'))
    for (const [partIndex, offset, delta] of [
      [0, 5, ' there'],
      [1, 0, 'More'],
    ] as const) {
      const event = { type: 'MessageTextDelta', messageId: message.id, partIndex, offset, delta }
      await parley.app.platform.log.append(`space:${space.id}`, event)
    }
    await live.first(({ spaceMessages }) => spaceMessages['part']?.index === 1)
    const deltas = live.seen.map(({ spaceMessages }) => spaceMessages).filter(({ delta }) => delta !== undefined)
    expect(deltas.map(({ part }) => part)).toEqual([
      { id: `${message.id}:0`, index: 0, text: 'Hello there' },
      { id: `${message.id}:1`, index: 1, text: 'More' },
    ])
    live.stop()
  })

  test('resumes by cursor without a gap or a repeat, wherever it was cut off', async () => {
    const agent = await parley.agent('Long')
    const { human, space, watch } = await room(agent.id)
    parley.models.script(
      forAgent(
        'Long',
        steps([{ toolCall: 'send_message', input: { text: 'one two three four five' }, delayMs: 2 }], [{ text: 'ok' }]),
      ),
    )
    const whole = watch()
    const first = await whole.first(is('SpaceSnapshot'))
    await parley.send(human, space.id, 'Go')
    await whole.first(is('MessageFinished'))
    // The events about the end of the run arrive together with the message, or later.
    const cursorsOf = (seen: Data[]) =>
      seen.slice(0, seen.findIndex(is('MessageFinished')) + 1).map(({ spaceMessages }) => spaceMessages.cursor)
    const cursors = cursorsOf(whole.seen)
    expect(cursors[0]).toBe(first.spaceMessages.cursor)
    for (const [index, after] of cursors.entries()) {
      if (index === cursors.length - 1) continue
      const resumed = watch({ after })
      await resumed.first(is('MessageFinished'))
      expect(cursorsOf(resumed.seen)).toEqual(cursors.slice(index + 1))
      resumed.stop()
    }
    whole.stop()
  })

  test('a cursor of another space, or of a removed log, brings a snapshot; an invalid one is BAD_USER_INPUT', async () => {
    const one = await room()
    const two = await room()
    const foreign = one.watch()
    const { cursor } = (await foreign.first(is('SpaceSnapshot'))).spaceMessages
    foreign.stop()
    const live = two.watch({ after: cursor })
    expect((await live.first(() => true)).spaceMessages.__typename).toBe('SpaceSnapshot')
    live.stop()
    const bad = two.watch({ after: 'nonsense' })
    expect(await bad.ended).toMatchObject([{ extensions: { code: 'BAD_USER_INPUT' } }])
  })

  test('a query of streamCursor and messages and a subscription after it miss no event', async () => {
    const { human, space, client, watch } = await room()
    await parley.send(human, space.id, 'first')
    const { data } = await client.ask<{ space: { streamCursor: string; messages: { edges: unknown[] } } }>(
      'query ($id: ID!) { space(id: $id) { streamCursor messages { edges { node { id } } } } }',
      { id: space.id },
    )
    expect(data?.space.messages.edges).toHaveLength(1)
    await parley.send(human, space.id, 'second')
    const live = watch({ after: data?.space.streamCursor })
    expect((await live.first(() => true)).spaceMessages).toMatchObject({
      __typename: 'MessagePosted',
      message: { text: 'second' },
    })
    live.stop()
  })

  test('an invisible space is NOT_FOUND, like one that does not exist', async () => {
    const { space } = await room()
    const stranger = await parley.clientOf(await parley.human('Eve'))
    const service = await parley.clientOf({
      scope: 'SERVICE',
      id: '',
      name: 'hook',
      agentIds: null,
      tokenId: null,
      expiresAt: null,
    })
    const admin = await parley.clientOf(parley.admin)
    for (const [client, spaceId] of [
      [stranger, space.id],
      [service, space.id],
      [stranger, 'spc_00000000000000000000000000000000'],
      [admin, 'spc_00000000000000000000000000000000'],
      [admin, 'nonsense'],
    ] as const) {
      const live = client.subscribe<Data, object>(SPACE_MESSAGES, { spaceId })
      expect(await live.ended).toMatchObject([{ extensions: { code: 'NOT_FOUND' } }])
      expect(live.seen).toEqual([])
    }
  })

  test('publishes joining and leaving members, and changes of the space itself', async () => {
    const { human, space, watch } = await room()
    const agent = await parley.agent('Guest')
    const live = watch()
    await live.first(is('SpaceSnapshot'))
    await parley.app.domain.members.add(human, { spaceId: space.id, entityId: agent.id })
    expect((await live.first(is('MemberJoined'))).spaceMessages['entity']).toEqual({ id: agent.id, name: 'Guest' })
    await parley.app.domain.members.remove(human, { spaceId: space.id, entityId: agent.id })
    expect((await live.first(is('MemberLeft'))).spaceMessages['entity']).toEqual({ id: agent.id, name: 'Guest' })
    await parley.app.domain.spaces.update(human, { id: space.id, name: 'Renamed' })
    expect((await live.first(is('SpaceUpdated'))).spaceMessages['space']).toEqual({ name: 'Renamed' })
    live.stop()
  })

  test('ends with FORBIDDEN when the viewer is removed, and continues for the others', async () => {
    const { human, space, watch } = await room()
    const other = await parley.human('Bob')
    await parley.app.domain.members.add(parley.admin, { spaceId: space.id, entityId: other.id })
    const removed = (await parley.clientOf(other)).subscribe<Data, object>(SPACE_MESSAGES, { spaceId: space.id })
    const staying = watch()
    await Promise.all([removed.first(is('SpaceSnapshot')), staying.first(is('SpaceSnapshot'))])
    await parley.app.domain.members.remove(human, { spaceId: space.id, entityId: other.id })
    expect(await removed.ended).toMatchObject([{ extensions: { code: 'FORBIDDEN' } }])
    await parley.send(human, space.id, 'without Bob')
    await staying.first(is('MessagePosted'))
    expect(typesOf(removed.seen)).not.toContain('MessagePosted')
    staying.stop()
  })

  test('a member who was removed and returned resumes across their own leaving', async () => {
    const { human, space, watch } = await room()
    const other = await parley.human('Bob')
    await parley.app.domain.members.add(parley.admin, { spaceId: space.id, entityId: other.id })
    const seen = watch()
    const { cursor } = (await seen.first(is('SpaceSnapshot'))).spaceMessages
    await parley.app.domain.members.remove(human, { spaceId: space.id, entityId: other.id })
    await parley.app.domain.members.add(parley.admin, { spaceId: space.id, entityId: other.id })
    await seen.first(is('MemberJoined'))
    const back = (await parley.clientOf(other)).subscribe<Data, object>(SPACE_MESSAGES, {
      spaceId: space.id,
      after: cursor,
    })
    await back.first(is('MemberJoined'))
    expect(typesOf(back.seen)).toEqual(['MemberLeft', 'MemberJoined'])
    back.stop()
    seen.stop()
  })

  test('ends with UNAUTHENTICATED when the token is revoked; no operation starts on that socket afterwards', async () => {
    const { human, space } = await room()
    const { accessToken, secret } = await parley.app.domain.tokens.create(parley.admin, {
      grant: { humanId: human.id },
    })
    const client = createParleyClient({ origin: parley.origin, token: secret })
    const live = client.subscribe<Data, object>(SPACE_MESSAGES, { spaceId: space.id })
    await live.first(is('SpaceSnapshot'))
    await parley.app.domain.tokens.revoke(parley.admin, { id: accessToken.id })
    expect(await live.ended).toMatchObject([{ extensions: { code: 'UNAUTHENTICATED' } }])
    const next = client.subscribe<Data, object>(SPACE_MESSAGES, { spaceId: space.id })
    expect(await next.ended).toMatchObject([{ extensions: { code: 'UNAUTHENTICATED' } }])
    await client.close()
  })

  test('ends with UNAUTHENTICATED when the token expires', async () => {
    const { human, space } = await room()
    const { secret } = await parley.app.domain.tokens.create(parley.admin, {
      grant: { humanId: human.id },
      expiresAt: new Date(Date.now() + 4000),
    })
    const client = createParleyClient({ origin: parley.origin, token: secret })
    const live = client.subscribe<Data, object>(SPACE_MESSAGES, { spaceId: space.id })
    await live.first(is('SpaceSnapshot'))
    expect(await live.ended).toMatchObject([{ extensions: { code: 'UNAUTHENTICATED' } }])
    await client.close()
  })

  test('leaves no listener behind when the client disconnects', async () => {
    const { watch, client } = await room()
    await until('there are no other listeners', () => parley.app.platform.log.stats().followers === 0)
    for (let round = 0; round < 20; round++) {
      const live = watch()
      if (round % 2 === 0) await live.first(is('SpaceSnapshot'))
      live.stop()
    }
    await until('all listeners are gone', () => parley.app.platform.log.stats().followers === 0)
    const live = watch()
    await live.first(is('SpaceSnapshot'))
    await client.close()
    await until("the socket's listeners are gone too", () => parley.app.platform.log.stats().followers === 0)
  })
})

describe.skipIf(!hasPostgres)('two processes that share a database and a Redis', () => {
  let one: TestServer
  let two: TestServer

  beforeAll(async () => {
    one = await startTestServer({ stack: 'postgres', worker: false })
    two = await startTestServer({ stack: 'postgres', worker: false, beside: one })
  })
  afterAll(async () => {
    await two?.close()
    await one?.close()
  })

  test('events of one process reach the other, as does the end of a membership or of a token', async () => {
    const human = await one.human('Ada')
    const space = await one.space(human, [])
    const client = await two.clientOf(human)
    const live = client.subscribe<Data, object>(SPACE_MESSAGES, { spaceId: space.id })
    await live.first(is('SpaceSnapshot'))
    await one.send(human, space.id, 'from afar')
    expect((await live.first(is('MessagePosted'))).spaceMessages['message']).toMatchObject({ text: 'from afar' })
    await one.app.domain.members.remove(one.admin, { spaceId: space.id, entityId: human.id })
    expect(await live.ended).toMatchObject([{ extensions: { code: 'FORBIDDEN' } }])

    const next = await one.space(human, [])
    const { accessToken, secret } = await one.app.domain.tokens.create(one.admin, { grant: { humanId: human.id } })
    const other = createParleyClient({ origin: two.origin, token: secret })
    const watched = other.subscribe<Data, object>(SPACE_MESSAGES, { spaceId: next.id })
    await watched.first(is('SpaceSnapshot'))
    await one.app.domain.tokens.revoke(one.admin, { id: accessToken.id })
    expect(await watched.ended).toMatchObject([{ extensions: { code: 'UNAUTHENTICATED' } }])
    await other.close()
  })
})
