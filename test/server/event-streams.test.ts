import { createClient } from 'graphql-sse'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { HumanViewer } from '../../src/access/viewer.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'

const WATCH = `subscription ($spaceId: ID!) {
  spaceMessages(spaceId: $spaceId) { __typename ... on MessagePosted { message { text } } }
}`
const SEND = 'mutation ($input: SendMessageInput!) { sendMessage(input: $input) { __typename } }'

describe('subscriptions over HTTP', () => {
  let parley: TestServer
  let human: HumanViewer
  let authorization: string
  beforeAll(async () => {
    parley = await startTestServer({
      worker: false,
      settings: { PARLEY_ALLOWED_ORIGINS: 'https://app.example', PARLEY_MAX_SOCKETS_PER_VIEWER: '3' },
    })
    human = await parley.human('Ada')
    authorization = `Bearer ${await parley.tokenOf(human)}`
  })
  afterAll(() => parley?.close())

  const request = (method: string, headers: Record<string, string> = {}, body?: object, query = '') =>
    fetch(`${parley.origin}/graphql${query}`, {
      method,
      headers: { authorization, ...headers },
      ...(body ? { body: JSON.stringify(body) } : {}),
    })
  const followers = () => parley.app.platform.log.stats().followers

  describe('over one connection, in the protocol of graphql-sse', () => {
    const connect = () =>
      createClient({
        url: `${parley.origin}/graphql`,
        singleConnection: true,
        lazy: true,
        headers: { authorization },
        retryAttempts: 0,
      })

    /** Returns the events of a client's operation. */
    function follow(client: ReturnType<typeof connect>, query: string, variables: Record<string, unknown>) {
      const seen: unknown[] = []
      const { promise: ended, resolve } = Promise.withResolvers<unknown>()
      const stop = client.subscribe(
        { query, variables },
        { next: (result) => void seen.push(result), error: resolve, complete: () => resolve(null) },
      )
      return { seen, ended, stop }
    }

    test("several operations run concurrently, and end on their own or at the client's request", async () => {
      const space = await parley.space(human, [])
      const client = connect()
      const live = follow(client, WATCH, { spaceId: space.id })
      await until('the subscription has started', () => live.seen.length === 1)
      const sent = follow(client, SEND, { input: { spaceId: space.id, text: 'hello' } })
      expect(await sent.ended).toBeNull()
      expect(sent.seen).toEqual([{ data: { sendMessage: { __typename: 'SendMessagePayload' } } }])
      await until('the event is delivered', () => live.seen.length === 2)
      expect(live.seen[1]).toEqual({
        data: { spaceMessages: { __typename: 'MessagePosted', message: { text: 'hello' } } },
      })
      live.stop()
      await until('there are no followers', () => followers() === 0)
      client.dispose()
    })

    test('a refused operation gets its error, and the others continue', async () => {
      const space = await parley.space(human, [])
      const client = connect()
      const live = follow(client, WATCH, { spaceId: space.id })
      await until('the subscription has started', () => live.seen.length === 1)
      const refused = follow(client, WATCH, { spaceId: 'spc_nothing' })
      expect(await refused.ended).toBeNull()
      expect(refused.seen).toMatchObject([{ errors: [{ extensions: { code: 'NOT_FOUND' } }] }])
      const faulty = follow(client, '{ nothing }', {})
      expect(await faulty.ended).toBeTruthy()
      await parley.app.domain.members.remove(human, { spaceId: space.id, entityId: human.id })
      expect(await live.ended).toBeNull()
      expect(live.seen.at(-1)).toMatchObject({ errors: [{ extensions: { code: 'FORBIDDEN' } }] })
      client.dispose()
    })

    test('a client that disconnects leaves no follower behind', async () => {
      const space = await parley.space(human, [])
      const client = connect()
      const live = follow(client, WATCH, { spaceId: space.id })
      await until('the subscription has started', () => live.seen.length === 1)
      client.dispose()
      await until('there are no followers', () => followers() === 0)
    })

    test('a stream belongs to its viewer, opens once, and their number is limited', async () => {
      const token = await (await request('PUT')).text()
      const stream = { 'x-graphql-event-stream-token': token }
      const stranger = { authorization: `Bearer ${await parley.tokenOf(await parley.human('Eve'))}` }
      expect((await request('GET', { ...stream, ...stranger, accept: 'text/event-stream' })).status).toBe(404)
      expect((await request('GET', { ...stream, authorization: 'Bearer nonsense' })).status).toBe(401)
      const opened = await request(
        'GET',
        { accept: 'text/event-stream', origin: 'https://app.example' },
        undefined,
        `?token=${token}`,
      )
      expect([opened.status, opened.headers.get('access-control-allow-origin')]).toEqual([200, 'https://app.example'])
      expect((await request('GET', stream)).status).toBe(409)
      expect((await request('POST', stream, { query: '{ __typename }' })).status).toBe(400)
      expect((await request('DELETE', stream, undefined, '?operationId=1')).status).toBe(200)
      const reserved = [await request('PUT'), await request('PUT'), await request('PUT')].map(({ status }) => status)
      expect(reserved).toEqual([201, 201, 503])
      await opened.body?.cancel()
    })
  })

  test('event streams are counted by viewer, with any token, and each request for one counts towards the rate', async () => {
    const eve = await parley.human('Eve')
    const reserve = async () =>
      request('PUT', { authorization: `Bearer ${await parley.tokenOf(eve)}` }).then(({ status }) => status)
    expect([await reserve(), await reserve(), await reserve(), await reserve()]).toEqual([201, 201, 201, 503])
    const { rates } = parley.app.domain
    const remaining = async () => (await rates.of(eve)).find(({ name }) => name === 'requests')
    const { limit = 0, remaining: left = 0 } = (await remaining()) ?? {}
    expect(limit - left).toBe(4)
  })

  test('a stream ends, after the errors of its operations, when its token is revoked', async () => {
    const { accessToken, secret } = await parley.app.domain.tokens.create(parley.admin, {
      grant: { humanId: human.id },
    })
    const own = { authorization: `Bearer ${secret}` }
    const space = await parley.space(human, [])
    const stream = { ...own, 'x-graphql-event-stream-token': await (await request('PUT', own)).text() }
    const opened = await request('GET', { ...stream, accept: 'text/event-stream' })
    const operation = { query: WATCH, variables: { spaceId: space.id }, extensions: { operationId: '1' } }
    expect((await request('POST', stream, operation)).status).toBe(202)
    await until('the subscription has started', () => followers() === 1)
    await parley.app.domain.tokens.revoke(parley.admin, { id: accessToken.id })
    expect(await opened.text()).toContain('"code":"UNAUTHENTICATED"')
    expect(followers()).toBe(0)
  })

  describe('over multipart/mixed, in the protocol of Apollo', () => {
    const APOLLO = {
      'content-type': 'application/json',
      accept: 'multipart/mixed;boundary=graphql;subscriptionSpec=1.0,application/json',
    }
    /** Returns the parts received so far. */
    async function* partsOf(response: Response): AsyncGenerator<unknown> {
      let text = ''
      for await (const chunk of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
        text += chunk
        const parts = text.split('\r\n--graphql')
        text = parts.pop() ?? ''
        for (const part of parts) {
          const [, body = ''] = part.split('\r\n\r\n')
          if (body !== '') yield JSON.parse(body)
        }
      }
    }

    test('each event is a payload, and the end of the subscription is a protocol error', async () => {
      const space = await parley.space(human, [])
      const response = await request('POST', APOLLO, { query: WATCH, variables: { spaceId: space.id } })
      expect(response.headers.get('content-type')).toBe('multipart/mixed;boundary="graphql";subscriptionSpec=1.0')
      const parts = partsOf(response)
      expect((await parts.next()).value).toEqual({})
      expect((await parts.next()).value).toEqual({
        payload: { data: { spaceMessages: { __typename: 'SpaceSnapshot' } } },
      })
      await parley.send(human, space.id, 'hello')
      expect((await parts.next()).value).toEqual({
        payload: { data: { spaceMessages: { __typename: 'MessagePosted', message: { text: 'hello' } } } },
      })
      await parley.app.domain.members.remove(human, { spaceId: space.id, entityId: human.id })
      expect((await parts.next()).value).toMatchObject({
        payload: null,
        errors: [{ extensions: { code: 'FORBIDDEN' } }],
      })
      expect((await parts.next()).done).toBe(true)
      expect(followers()).toBe(0)
    })

    test('a refused subscription gets an ordinary JSON response', async () => {
      const response = await request('POST', APOLLO, { query: WATCH, variables: { spaceId: 'spc_nothing' } })
      expect(await response.json()).toMatchObject({ errors: [{ extensions: { code: 'NOT_FOUND' } }] })
    })

    test('a client that disconnects leaves no follower behind', async () => {
      const space = await parley.space(human, [])
      const leaving = new AbortController()
      const response = await fetch(`${parley.origin}/graphql`, {
        method: 'POST',
        headers: { authorization, ...APOLLO },
        body: JSON.stringify({ query: WATCH, variables: { spaceId: space.id } }),
        signal: leaving.signal,
      })
      const parts = partsOf(response)
      await parts.next()
      await parts.next()
      expect(followers()).toBe(1)
      leaving.abort()
      await until('there are no followers', () => followers() === 0)
    })
  })
})
