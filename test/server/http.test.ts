import { request as httpRequest } from 'node:http'
import { connect } from 'node:net'
import { getIntrospectionQuery } from 'graphql'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { HumanViewer } from '../../src/access/viewer.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'

const ALLOWED = 'https://app.example.com'

describe('GraphQL over HTTP', () => {
  let parley: TestServer
  let human: HumanViewer
  let authorization: string

  beforeAll(async () => {
    const settings = { PARLEY_ALLOWED_ORIGINS: `${ALLOWED},https://other.example.com` }
    parley = await startTestServer({ worker: false, settings })
    human = await parley.human('Ada')
    authorization = `Bearer ${await parley.tokenOf(human)}`
  })
  afterAll(() => parley?.close())

  interface Answer {
    status: number
    headers: Headers
    // biome-ignore lint/suspicious/noExplicitAny: assertions read fields that are not typed
    body: any
  }

  async function send(body: unknown, headers: Record<string, string | null> = {}, method = 'POST'): Promise<Answer> {
    const given = { 'content-type': 'application/json', authorization, ...headers }
    const response = await fetch(`${parley.origin}/graphql`, {
      method,
      headers: Object.entries(given).filter((header): header is [string, string] => header[1] !== null),
      body: typeof body === 'string' ? body : JSON.stringify(body),
    })
    const text = await response.text()
    return { status: response.status, headers: response.headers, body: text.startsWith('{') ? JSON.parse(text) : text }
  }
  const get = (query: string, headers: Record<string, string> = {}) =>
    fetch(`${parley.origin}/graphql?query=${encodeURIComponent(query)}`, { headers: { authorization, ...headers } })
  const codesOf = ({ body }: Answer) => body.errors?.map(({ extensions }: { extensions: object }) => extensions)

  test('responds with application/graphql-response+json, or with plain JSON if the client accepts that or sends no Accept header', async () => {
    const accept = 'application/graphql-response+json'
    const { status, headers, body } = await send({ query: '{ viewer { id scope } }' }, { accept })
    expect(status).toBe(200)
    expect(headers.get('content-type')).toBe('application/graphql-response+json; charset=utf-8')
    expect(body).toEqual({ data: { viewer: { id: human.id.replace('hum_', 'viw_'), scope: 'HUMAN' } } })
    for (const headers of [{ accept: 'application/json' }, { accept: '*/*' }]) {
      const plain = await send({ query: '{ viewer { id } }' }, headers)
      expect(plain.headers.get('content-type')).toBe('application/json; charset=utf-8')
    }
  })

  test.each(['text/html', 'application/xml'])(
    'a successful mutation gets a JSON response, even if the client accepts only %s',
    async (accept) => {
      const query = 'mutation { createSpace(input: { name: "Tea" }) { ... on CreateSpacePayload { space { name } } } }'
      const { status, headers, body } = await send({ query }, { accept })
      expect([status, headers.get('content-type')]).toEqual([200, 'application/json; charset=utf-8'])
      expect(body).toEqual({ data: { createSpace: { space: { name: 'Tea' } } } })
    },
  )

  test('without a valid token: 401 and UNAUTHENTICATED', async () => {
    for (const bad of [null, 'Bearer nonsense', 'Basic abc', 'Bearer', `Bearer prl_${'x'.repeat(40)}`]) {
      const answer = await send({ query: '{ __typename }' }, { authorization: bad })
      expect(answer.status).toBe(401)
      expect(answer.headers.get('www-authenticate')).toBe('Bearer realm="parley"')
      expect(codesOf(answer)).toEqual([{ code: 'UNAUTHENTICATED' }])
    }
  })

  test('a syntax error, an unknown field and a bad variable each get 400 with their code and no suggestion', async () => {
    const syntax = await send({ query: '{ viewer { ' })
    expect([syntax.status, ...codesOf(syntax)]).toEqual([400, { code: 'GRAPHQL_PARSE_FAILED' }])
    const unknown = await send({ query: '{ viewr { id } }' })
    expect([unknown.status, ...codesOf(unknown)]).toEqual([400, { code: 'GRAPHQL_VALIDATION_FAILED' }])
    expect(unknown.body.errors[0].message).not.toMatch(/Did you mean|viewer/)
    const wrongType = 'query ($n: Int) { agents(first: $n) { edges { cursor } } }'
    const variable = await send({ query: wrongType, variables: { n: 'three' } })
    expect([variable.status, ...codesOf(variable)]).toEqual([400, { code: 'BAD_USER_INPUT' }])
    const enumeration = await send({
      query: 'mutation ($i: CreateSpaceInput!) { createSpace(input: $i) { __typename } }',
      variables: { i: { name: 'x', routing: 'BRODCAST' } },
    })
    expect(codesOf(enumeration)).toEqual([{ code: 'BAD_USER_INPUT' }])
    expect(enumeration.body.errors[0].message).not.toContain('BROADCAST')
    const plain = await send({ query: '{ viewr { id } }' }, { accept: 'application/json' })
    expect(plain.status).toBe(200)
  })

  test('impossible page sizes and cursors are BAD_USER_INPUT', async () => {
    for (const page of [
      'first: 0',
      'first: 101',
      'last: -1',
      'first: 1, last: 1',
      'after: "nonsense"',
      'before: "bXNn"',
    ]) {
      const answer = await send({ query: `{ spaces(${page}) { edges { cursor } } }` })
      expect(codesOf(answer), page).toMatchObject([{ code: 'BAD_USER_INPUT' }])
    }
  })

  test('a body that is not an operation is BAD_USER_INPUT', async () => {
    for (const body of [
      '',
      'nonsense',
      '[]',
      '[{"query":"{ __typename }"}]',
      '"x"',
      'null',
      '{}',
      '{"query":1}',
      '{"query":"{ __typename }","variables":[]}',
    ]) {
      const answer = await send(body)
      expect([answer.status, ...codesOf(answer)], body).toEqual([400, { code: 'BAD_USER_INPUT' }])
    }
    const unnamed = await send({ query: 'query A { __typename } query B { __typename }' })
    expect([unnamed.status, ...codesOf(unnamed)]).toEqual([400, { code: 'BAD_USER_INPUT' }])
  })

  test('requests that a foreign page could send without preflight are refused: only JSON is accepted', async () => {
    const mutation = 'mutation { createSpace(input: { name: "x" }) { __typename } }'
    const form = new URLSearchParams({ query: mutation }).toString()
    expect((await send(form, { 'content-type': 'application/x-www-form-urlencoded' })).status).toBe(415)
    expect((await send(JSON.stringify({ query: mutation }), { 'content-type': 'text/plain' })).status).toBe(415)
    expect((await send(mutation, { 'content-type': 'application/graphql' })).status).toBe(415)
    expect((await send(JSON.stringify({ query: mutation }), { 'content-type': null })).status).toBe(415)
    expect((await send('--x', { 'content-type': 'multipart/form-data; boundary=x' })).status).toBe(415)
    expect(
      (await send({ query: '{ __typename }' }, { 'content-type': 'application/json; charset=UTF-8' })).status,
    ).toBe(200)
  })

  test('GET parameters that are not JSON are BAD_USER_INPUT', async () => {
    for (const parameter of ['variables=nonsense', 'variables=[1]', 'extensions={', 'variables={"x":']) {
      const response = await fetch(`${parley.origin}/graphql?query={viewer{id}}&${parameter}`, {
        headers: { authorization },
      })
      expect([parameter, response.status]).toEqual([parameter, 400])
      expect(await response.json()).toMatchObject({ errors: [{ extensions: { code: 'BAD_USER_INPUT' } }] })
    }
    const whole = await fetch(`${parley.origin}/graphql?query={viewer{id}}&variables={}&extensions=`, {
      headers: { authorization },
    })
    expect(whole.status).toBe(200)
  })

  test('GET runs queries, but neither mutations nor subscriptions', async () => {
    expect(await (await get('{ viewer { scope } }')).json()).toEqual({ data: { viewer: { scope: 'HUMAN' } } })
    for (const operation of [
      'mutation { createSpace(input: { name: "x" }) { __typename } }',
      'subscription { viewerEvents { __typename } }',
    ]) {
      const response = await get(operation, { accept: 'text/event-stream, application/json' })
      expect(response.status).toBe(405)
      await response.body?.cancel()
    }
  })

  test('an impossible Host gets 400 without internal details', async () => {
    const answer = await new Promise<{ status: number | undefined; text: string }>((resolve, reject) => {
      const headers = { host: 'a b', 'content-type': 'application/json', authorization }
      const request = httpRequest(`${parley.origin}/graphql`, { method: 'POST', headers }, async (response) => {
        let text = ''
        for await (const chunk of response.setEncoding('utf8')) text += chunk
        resolve({ status: response.statusCode, text })
      })
      request.on('error', reject)
      request.end('{"query":"{ __typename }"}')
    })
    expect(answer).toEqual({ status: 400, text: '{"error":"The Host header is malformed."}' })
  })

  test('a body over 1 MiB gets 413, whether its length is declared or not', async () => {
    const query = `{ viewer { id } } # ${'x'.repeat(1024 * 1024)}`
    expect((await send({ query })).status).toBe(413)
    const chunked = await new Promise<number | undefined>((resolve, reject) => {
      const headers = { 'content-type': 'application/json', authorization, 'transfer-encoding': 'chunked' }
      const request = httpRequest(`${parley.origin}/graphql`, { method: 'POST', headers }, (response) => {
        response.resume()
        resolve(response.statusCode)
      })
      request.on('error', reject)
      request.end(JSON.stringify({ query }))
    })
    expect(chunked).toBe(413)
  })

  test('allowed origins may read the responses, others may not', async () => {
    const allowed = await send({ query: '{ __typename }' }, { origin: ALLOWED })
    expect(allowed.headers.get('access-control-allow-origin')).toBe(ALLOWED)
    expect(allowed.headers.get('access-control-allow-credentials')).toBeNull()
    const foreign = await send({ query: '{ __typename }' }, { origin: 'https://evil.example.com' })
    expect(foreign.headers.get('access-control-allow-origin')).toBeNull()
    const refused = await send({ query: '{ __typename }' }, { origin: ALLOWED, authorization: null })
    expect([refused.status, refused.headers.get('access-control-allow-origin')]).toEqual([401, ALLOWED])
    const preflight = (origin: string) =>
      fetch(`${parley.origin}/graphql`, {
        method: 'OPTIONS',
        headers: {
          origin,
          'access-control-request-method': 'POST',
          'access-control-request-headers': 'authorization,content-type',
        },
      })
    const welcome = await preflight(ALLOWED)
    expect(welcome.headers.get('access-control-allow-headers')).toMatch(/authorization.*content-type/)
    expect(welcome.headers.get('access-control-allow-methods')).toMatch(/POST/)
    expect((await preflight('https://evil.example.com')).headers.get('access-control-allow-origin')).toBeNull()
  })

  test('the introspection query and 100 messages with all fields fit the limits', async () => {
    const introspection = await send({ query: getIntrospectionQuery() })
    expect(introspection.body.data.__schema.types.length).toBeGreaterThan(50)
    const space = await parley.space(human, [])
    await parley.send(human, space.id, 'Hello')
    const query = `query ($id: ID!) { space(id: $id) { id name routing members { id name kind } messages(last: 100) {
      pageInfo { hasNextPage hasPreviousPage startCursor endCursor }
      edges { cursor node { id seq status text idempotencyKey createdAt sender { id name kind ... on Agent { description model active } ... on Human { createdAt } }
        parts { id index ... on TextPart { text } ... on ToolCallPart { toolCall { id toolName status input output error expiresAt createdAt agent { id name } } } }
        mentionedAgent { id name } origin { triggerType triggerName triggerSpaceId triggerSpaceName triggerSenderName triggerMessage }
        run { id status triggerType triggerSummary stepCount usage { inputTokens outputTokens totalTokens estimated } error agent { id name } toolCalls { id toolName status } depth rootId queuedAt startedAt finishedAt }
        outcomes { kind reason agent { id name } run { id status usage { totalTokens } } } } } } } }`
    const messages = await send({ query, variables: { id: space.id } })
    expect(messages.body.errors).toBeUndefined()
    expect(messages.body.data.space.messages.edges).toHaveLength(1)
  })

  test('an operation that costs too much is QUERY_TOO_COMPLEX before any field is resolved', async () => {
    const wide =
      '{ spaces(first: 100) { edges { node { messages(first: 100) { edges { node { id text sender { name } } } } } } } }'
    let deep = '{ id }'
    for (let level = 0; level < 30; level++) deep = `{ space ${`{ lastMessage ${deep} }`} }`
    const many = `{ ${Array.from({ length: 280 }, (_, i) => `a${i}: agents(first: 100) { edges { node { id } } }`).join(' ')} }`
    const variables =
      'query ($n: Int) { spaces(first: $n) { edges { node { messages(first: $n) { edges { node { id text seq } } } } } } }'
    for (const body of [
      { query: wide },
      { query: `{ message(id: "x") ${deep} }` },
      { query: many },
      { query: variables, variables: { n: 100 } },
    ]) {
      const answer = await send(body)
      expect([answer.status, answer.body.data, ...codesOf(answer)]).toEqual([
        400,
        undefined,
        { code: 'QUERY_TOO_COMPLEX' },
      ])
    }
    expect((await send({ query: variables, variables: { n: 5 } })).status).toBe(200)
  })

  test('a document with too many tokens is refused early', async () => {
    const began = performance.now()
    const answer = await send({ query: `{ ${'__typename '.repeat(80_000)} }` })
    expect([answer.status, ...codesOf(answer)]).toEqual([400, { code: 'GRAPHQL_PARSE_FAILED' }])
    expect(performance.now() - began).toBeLessThan(5000)
  })

  test('internal errors are masked, with an id', async () => {
    const { domain } = parley.app
    const { page } = domain.spaces
    domain.spaces.page = async () => {
      throw new Error('the secret is swordfish')
    }
    const answer = await send({ query: '{ spaces { edges { cursor } } }' })
    domain.spaces.page = page
    expect(codesOf(answer)).toEqual([
      { code: 'INTERNAL_SERVER_ERROR', requestId: expect.stringMatching(/^[0-9a-f-]{36}$/) },
    ])
    expect(JSON.stringify(answer.body)).not.toContain('swordfish')
  })

  test('subscriptions arrive as server-sent events, and end with their error', async () => {
    const space = await parley.space(human, [])
    const body = JSON.stringify({
      query:
        'subscription ($id: ID!) { spaceMessages(spaceId: $id) { __typename ... on MessagePosted { message { text } } } }',
      variables: { id: space.id },
    })
    const response = await fetch(`${parley.origin}/graphql`, {
      method: 'POST',
      headers: { authorization, 'content-type': 'application/json', accept: 'text/event-stream' },
      body,
    })
    expect(response.headers.get('content-type')).toMatch(/^text\/event-stream/)
    const events = eventsOf(response)
    expect((await events.next()).value).toEqual({ data: { spaceMessages: { __typename: 'SpaceSnapshot' } } })
    await parley.send(human, space.id, 'live')
    expect((await events.next()).value).toEqual({
      data: { spaceMessages: { __typename: 'MessagePosted', message: { text: 'live' } } },
    })
    await parley.app.domain.members.remove(human, { spaceId: space.id, entityId: human.id })
    let last = await events.next()
    let ending = last.value
    while (!last.done) {
      ending = last.value
      last = await events.next()
    }
    expect(ending).toMatchObject({ errors: [{ extensions: { code: 'FORBIDDEN' } }] })
    expect(parley.app.platform.log.stats().followers).toBe(0)
  })

  test('a client that disconnects during its events leaves no follower behind', async () => {
    const space = await parley.space(human, [])
    const leaving = new AbortController()
    const response = await fetch(`${parley.origin}/graphql`, {
      method: 'POST',
      headers: { authorization, 'content-type': 'application/json', accept: 'text/event-stream' },
      body: JSON.stringify({ query: `subscription { spaceMessages(spaceId: "${space.id}") { __typename } }` }),
      signal: leaving.signal,
    })
    await eventsOf(response).next()
    expect(parley.app.platform.log.stats().followers).toBe(1)
    leaving.abort()
    await until('there are no followers', () => parley.app.platform.log.stats().followers === 0)
  })

  test('an event stream that nobody reads is closed, and uses little memory until then', {
    timeout: 60_000,
  }, async () => {
    const space = await parley.space(human, [])
    const query = `subscription { spaceMessages(spaceId: "${space.id}") { __typename ... on MessageTextDelta { delta } } }`
    const socket = connect(parley.server.port, '127.0.0.1')
    const body = JSON.stringify({ query })
    const headers = `Host: x\r\nAuthorization: ${authorization}\r\nAccept: text/event-stream\r\nContent-Type: application/json\r\nContent-Length: ${body.length}`
    socket.write(`POST /graphql HTTP/1.1\r\n${headers}\r\n\r\n${body}`)
    await new Promise((resolve) => socket.once('data', resolve))
    socket.pause()
    const { log } = parley.app.platform
    await until('there is a follower', () => log.stats().followers === 1)
    const event = { type: 'MessageTextDelta', messageId: 'msg_x', partIndex: 0, offset: 0, delta: 'x'.repeat(8000) }
    const before = process.memoryUsage().rss
    for (let n = 0; n < 20_000 && log.stats().followers === 1; n++) await log.append(`space:${space.id}`, event)
    await until('the stream is closed', () => log.stats().followers === 0, { timeoutMs: 20_000 })
    expect(process.memoryUsage().rss - before).toBeLessThan(300 * 1024 * 1024)
    socket.destroy()
  })

  test('refused subscriptions get their error', async () => {
    const response = await fetch(`${parley.origin}/graphql`, {
      method: 'POST',
      headers: { authorization, 'content-type': 'application/json', accept: 'text/event-stream' },
      body: JSON.stringify({ query: 'subscription { spaceMessages(spaceId: "x") { __typename } }' }),
    })
    expect((await eventsOf(response).next()).value).toMatchObject({ errors: [{ extensions: { code: 'NOT_FOUND' } }] })
  })
})

/** Returns the `next` events of a stream. */
async function* eventsOf(response: Response): AsyncGenerator<unknown> {
  let text = ''
  for await (const chunk of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
    text += chunk
    const blocks = text.split('\n\n')
    text = blocks.pop() ?? ''
    for (const block of blocks) {
      const data = /^event: next\ndata: (.*)$/m.exec(block)?.[1]
      if (data !== undefined) yield JSON.parse(data)
      if (block.startsWith('event: complete')) return
    }
  }
}
