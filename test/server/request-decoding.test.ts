import { gzipSync } from 'node:zlib'
import { Webhook as Signer } from 'standardwebhooks'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import WebSocket from 'ws'
import type { HumanViewer } from '../../src/access/viewer.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'

const JSON_TYPE = 'application/json'
const QUERY = '{ viewer { scope } }'
const TRIGGER = `mutation ($agentId: ID!, $payload: JSON!) {
  triggerAgent(input: { agentId: $agentId, serviceName: "Jira", payload: $payload }) { __typename }
}`
const INEXACT = ['9007199254740993', '-9007199254740992', '1e400']

type Body = string | Buffer<ArrayBuffer>

interface Answer {
  status: number
  text: string
}

describe('the body of a request', () => {
  let parley: TestServer
  let ada: HumanViewer
  let spaceId: string
  let agentId: string
  let authorization: string
  let adminAuthorization: string
  let hook: { url: string; secret: string }
  let stream: { token: string; text: string; close(): void }

  beforeAll(async () => {
    const settings = { PARLEY_RATE_REQUESTS: '0', PARLEY_LOG_LEVEL: 'silent' }
    parley = await startTestServer({ stack: 'embedded', worker: false, settings })
    ada = await parley.human('Ada')
    agentId = (await parley.agent('Ops')).id
    spaceId = (await parley.space(ada, [])).id
    authorization = `Bearer ${await parley.tokenOf(ada)}`
    adminAuthorization = `Bearer ${await parley.tokenOf(parley.admin)}`
    const { webhook, secret } = await parley.app.domain.webhooks.create(parley.admin, { agentId, serviceName: 'Jira' })
    hook = { url: `${parley.origin}/hooks/agents/${webhook.id}`, secret }
    stream = await openStream()
  })
  afterAll(async () => {
    stream?.close()
    await parley?.close()
  })

  const send = async (url: string, body: Body, headers: Record<string, string>): Promise<Answer> => {
    const response = await fetch(url, { method: 'POST', headers, body })
    return { status: response.status, text: await response.text() }
  }

  async function openStream() {
    const url = `${parley.origin}/graphql`
    const token = await (await fetch(url, { method: 'PUT', headers: { authorization } })).text()
    const abort = new AbortController()
    const { body } = await fetch(`${url}?token=${token}`, { headers: { authorization }, signal: abort.signal })
    const opened = { token, text: '', close: () => abort.abort() }
    const read = async () => {
      const decoder = new TextDecoder()
      for await (const chunk of body ?? []) opened.text += decoder.decode(chunk, { stream: true })
    }
    read().catch(() => {})
    return opened
  }

  let sent = 0
  const post = (body: Body, headers: Record<string, string> = {}) =>
    send(`${parley.origin}/graphql`, body, { authorization, 'content-type': JSON_TYPE, ...headers })
  const postToStream = (body: Body, headers: Record<string, string> = {}) =>
    post(body, { 'x-graphql-event-stream-token': stream.token, ...headers })
  const deliver = (body: Body, headers: Record<string, string> = {}) => {
    sent += 1
    const signed = {
      'webhook-id': `msg_${sent}`,
      'webhook-timestamp': String(Math.floor(Date.now() / 1000)),
      'webhook-signature': new Signer(hook.secret).sign(`msg_${sent}`, new Date(), String(body)),
    }
    return send(hook.url, body, { 'content-type': JSON_TYPE, ...signed, ...headers })
  }

  const CHANNELS: [name: string, send: typeof post, accepted: number, body: (word: string) => string][] = [
    ['a posted operation', post, 200, (word) => JSON.stringify({ query: `${QUERY} # ${word}` })],
    [
      'an operation on an event stream',
      postToStream,
      202,
      (word) => JSON.stringify({ query: `${QUERY} # ${word}`, extensions: { operationId: crypto.randomUUID() } }),
    ],
    ['a webhook', deliver, 202, (word) => JSON.stringify({ word })],
  ]

  describe.each(CHANNELS)('of %s', (_, send, accepted, body) => {
    test('is UTF-8, with any spelling of the charset, with or without a byte order mark', async () => {
      for (const type of ['', '; charset=utf-8', ';charset="UTF-8"', '; Charset=utf8; x=y']) {
        const answer = await send(body('Zoë'), { 'content-type': JSON_TYPE + type })
        expect([type, answer.status, answer.text]).toEqual([type, accepted, expect.not.stringContaining('rror')])
      }
      expect((await send(`\uFEFF${body('Zoë')}`)).status).toBe(accepted)
      expect((await send(body('Zoë'), { 'content-encoding': 'identity' })).status).toBe(accepted)
    })

    test('a body in another charset or content coding is refused with 415 and the reason', async () => {
      for (const [charset, encoding] of [
        ['iso-8859-1', 'latin1'],
        ['utf-16', 'utf16le'],
        ['us-ascii', 'latin1'],
      ] as const) {
        const type = `${JSON_TYPE}; charset=${charset}`
        const answer = await send(Buffer.from(body('Zoë'), encoding), { 'content-type': type })
        expect([answer.status, answer.text]).toEqual([415, expect.stringContaining(charset)])
      }
      for (const coding of ['gzip', 'br', 'identity, gzip']) {
        const answer = await send(gzipSync(body('Zoë')), { 'content-encoding': coding })
        expect([answer.status, answer.text]).toEqual([415, expect.stringContaining(coding)])
      }
    })

    test('a body with bytes that are not UTF-8 is refused with 400', async () => {
      const answer = await send(Buffer.from(body('Zoë'), 'latin1'))
      expect([answer.status, answer.text]).toEqual([400, expect.stringContaining('not valid UTF-8')])
    })
  })

  test('names the operation, or gives an empty name', async () => {
    const named = JSON.stringify({ query: `query A ${QUERY}`, operationName: '' })
    expect(await post(named)).toMatchObject({ status: 200, text: expect.stringContaining('"HUMAN"') })
    const before = stream.text.length
    const extensions = { operationId: 'unnamed' }
    await postToStream(JSON.stringify({ query: QUERY, operationName: '', extensions }))
    await until('the result arrives', () => stream.text.slice(before).includes('HUMAN'))
    const url = `${parley.origin}/graphql?operationName=&query=${encodeURIComponent(QUERY)}`
    expect((await fetch(url, { headers: { authorization } })).status).toBe(200)
    const several = JSON.stringify({ query: `query A ${QUERY} query B ${QUERY}`, operationName: '' })
    expect((await post(several)).status).toBe(400)
  })

  describe('with an integer that JavaScript would change', () => {
    test.each(INEXACT)(
      '%s in the variables is refused, for every client, with an error that contains it',
      async (number) => {
        const body = JSON.stringify({ query: TRIGGER, variables: { agentId, payload: 'NUMBER' } })
        const given = body.replace('"NUMBER"', `{"deep":[${number}]}`)
        for (const accept of [JSON_TYPE, 'application/graphql-response+json']) {
          const answer = await post(given, { authorization: adminAuthorization, accept })
          expect(answer).toMatchObject({ status: 400, text: expect.stringContaining(`The number ${number} is out`) })
          expect(JSON.parse(answer.text)).toMatchObject({ errors: [{ extensions: { code: 'BAD_USER_INPUT' } }] })
        }
        const extensions = `"extensions":{"operationId":"inexact"}`
        const streamed = await postToStream(`${given.slice(0, -1)},${extensions}}`)
        expect(streamed).toMatchObject({ status: 400, text: expect.stringContaining(number) })
      },
    )

    test.each(INEXACT)('%s in the document is refused with an error that contains it', async (number) => {
      const query = TRIGGER.replace('$payload })', `{ deep: [${number}] } })`).replace(', $payload: JSON!', '')
      const answer = await post(JSON.stringify({ query, variables: { agentId } }), {
        authorization: adminAuthorization,
      })
      expect(answer).toMatchObject({ status: 400, text: expect.stringContaining(`The number ${number} is out`) })
    })

    test.each(INEXACT)(
      '%s in a webhook or in the variables of a GET request is refused with an error that contains it',
      async (number) => {
        const refused = { status: 400, text: expect.stringContaining(`The number ${number} is out`) }
        expect(await deliver(`{"deep":[${number}]}`)).toMatchObject(refused)
        const parameters = new URLSearchParams({ query: QUERY, variables: `{"n":${number}}` })
        const answer = await fetch(`${parley.origin}/graphql?${parameters}`, { headers: { authorization } })
        expect({ status: answer.status, text: await answer.text() }).toMatchObject(refused)
      },
    )

    test('exact numbers, and digits in strings, are kept', async () => {
      const payload = { most: 9007199254740991, small: 1e-7, digits: '9007199254740993', exponent: '1e400' }
      const body = JSON.stringify({ query: TRIGGER, variables: { agentId, payload } })
      const answer = await post(body, { authorization: adminAuthorization })
      expect(answer.text).toContain('TriggerAgentPayload')
      const [run] = await parley.app.platform.db.prisma.run.findMany({ orderBy: { id: 'desc' }, take: 1 })
      expect(run?.triggerPayload).toEqual(payload)
    })
  })

  test('a query string that is not UTF-8 is refused', async () => {
    const ask = (query: string) => fetch(`${parley.origin}/graphql?query=${query}`, { headers: { authorization } })
    expect((await ask('{viewer{scope}}%23%FF')).status).toBe(400)
    expect((await ask('{viewer{scope}}%23%E2%82%AC')).status).toBe(200)
  })

  describe('over a socket', () => {
    // biome-ignore lint/suspicious/noExplicitAny: assertions read fields that are not typed
    let received: any[]
    let socket: WebSocket
    beforeAll(async () => {
      received = []
      socket = new WebSocket(`${parley.origin.replace('http', 'ws')}/graphql`, 'graphql-transport-ws')
      socket.on('message', (data) => received.push(JSON.parse(String(data))))
      await new Promise((resolve) => socket.once('open', resolve))
      socket.send(JSON.stringify({ type: 'connection_init', payload: { authorization } }))
      await until('the socket is acknowledged', () => received[0]?.type === 'connection_ack')
    })
    afterAll(() => socket?.close())

    async function run(payload: object | string) {
      const id = crypto.randomUUID()
      const json = typeof payload === 'string' ? payload : JSON.stringify(payload)
      socket.send(`{"id":"${id}","type":"subscribe","payload":${json}}`)
      return until('the answer arrives', () => received.find((message) => message.id === id))
    }

    test.each(INEXACT)('%s is refused for its operation alone', async (number) => {
      const answer = await run(`{"query":"{ viewer { scope } }","variables":{"n":${number}}}`)
      expect(answer).toMatchObject({ type: 'error', payload: [{ extensions: { code: 'BAD_USER_INPUT' } }] })
      expect(answer.payload[0].message).toContain(`The number ${number} is out`)
      expect(await run({ query: QUERY })).toMatchObject({ type: 'next' })
    })

    test('an empty operation name is accepted', async () => {
      expect(await run({ query: QUERY, operationName: '' })).toMatchObject({ type: 'next' })
    })

    test.each([
      ['@skip(if: true)', {}],
      ['@include(if: false)', {}],
      ['@include(if: $given)', { given: true }],
      ['@skip(if: $missing)', {}],
    ])('a subscription with %s at its root is a request error', async (directive, variables) => {
      const field = `spaceMessages(spaceId: "${spaceId}") %`
      const declared = directive.includes('$') ? `($${Object.keys(variables)[0] ?? 'missing'}: Boolean! = true)` : ''
      for (const root of [
        field.replace('%', `${directive} { __typename }`),
        `... ${directive} { ${field.replace('%', '{ __typename }')} }`,
        `...Root } fragment Root on Subscription { ${field.replace('%', `${directive} { __typename }`)}`,
      ]) {
        const answer = await run({ query: `subscription S${declared} { ${root} }`, variables })
        expect(answer).toMatchObject({
          type: 'error',
          payload: [{ extensions: { code: 'GRAPHQL_VALIDATION_FAILED' } }],
        })
        expect(answer.payload[0].message).toBe(
          'Subscription "S" must not use `@skip` or `@include` directives in the top level selection.',
        )
      }
    })

    test('a subscription may have conditions below its root, and has a single root field', async () => {
      const below =
        'subscription ($c: Boolean!) { spaceMessages(spaceId: "ID") { __typename cursor @include(if: $c) } }'
      expect(await run({ query: below.replace('ID', spaceId), variables: { c: false } })).toMatchObject({
        type: 'next',
      })
      const two = 'subscription { a: viewerEvents { __typename } b: viewerEvents { __typename } }'
      expect((await run({ query: two })).payload[0].message).toContain('must select only one top level field')
    })

    test('a binary message that is not UTF-8 closes the socket', async () => {
      const closed = new Promise((resolve) => socket.once('close', resolve))
      socket.send(Buffer.from('{"type":"ping","payload":{"x":"Zoë"}}', 'latin1'))
      expect(await closed).toBe(4400)
    })
  })
})
