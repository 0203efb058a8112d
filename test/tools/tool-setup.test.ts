import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type McpServer, startMcpServer } from '../support/mcp-server.ts'
import type { ParleyClient } from '../support/parley-client.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import type { Read } from '../support/stage.ts'
import { until } from '../support/until.ts'

const SECRET = 'Bearer the-key-of-this-server'

interface Heard {
  method: string
  url: string
  headers: IncomingMessage['headers']
  body: string
}

describe('admins set up tools', () => {
  let parley: TestServer
  let admin: ParleyClient
  let api: { url: string; heard: Heard[]; answer: (response: ServerResponse, heard: Heard) => void; server: Server }

  beforeAll(async () => {
    parley = await startTestServer({ worker: false })
    admin = await parley.clientOf(parley.admin)
  })
  afterAll(() => parley?.close())

  beforeEach(async () => {
    const heard: Heard[] = []
    const server = createServer(async (request, response) => {
      const chunks: Buffer[] = []
      for await (const chunk of request) chunks.push(chunk)
      const { method = '', url = '', headers } = request
      const one = { method, url, headers, body: Buffer.concat(chunks).toString() }
      heard.push(one)
      api.answer(response, one)
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    api = {
      url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
      heard,
      answer: (response) => response.setHeader('content-type', 'application/json').end('{"fine":true}'),
      server,
    }
  })
  afterEach(async () => {
    api.server.closeAllConnections()
    await new Promise((resolve) => api.server.close(resolve))
  })

  async function mutate(client: ParleyClient, name: string, fields: string, input: object): Promise<Read> {
    const type = `${name[0]?.toUpperCase()}${name.slice(1)}`
    const query = `mutation ($input: ${type}Input!) { ${name}(input: $input) { __typename ... on ${type}Payload { ${fields} }
      ... on Error { message } ... on BadInputError { field } } }`
    const { data, errors } = await client.ask<Record<string, Read>>(query, { input })
    expect(errors).toBeUndefined()
    return data?.[name]
  }
  const connect = (input: object, client = admin) =>
    mutate(client, 'connectMcpServer', 'tools { name description inputSchema confirmed } authorizationUrl error', input)
  const readApi = (input: object, client = admin) =>
    mutate(client, 'readOpenApi', 'tools { operation name description url method inputSchema problem }', input)
  const tryTool = (input: object, client = admin) => mutate(client, 'tryTool', 'ok output error durationMs', input)
  const createAgent = async (input: object) =>
    (await mutate(admin, 'createAgent', 'agent { id }', { name: 'Ada', instructions: '', model: 'demo', ...input }))
      .agent

  test('nobody else may use it, and no request is sent for them', async () => {
    const mcp = await startMcpServer([{ name: 'add' }])
    const human = await parley.clientOf(await parley.human('Eve'))
    const tool = { name: 'x', description: '', inputSchema: 'nonsense', execution: 'HTTP', url: api.url }
    const answers = [
      await connect({ server: { name: 'm', url: mcp.url } }, human),
      await readApi({ url: api.url }, human),
      await tryTool({ tool, input: {} }, human),
    ]
    expect(answers.map(({ __typename }) => __typename)).toEqual(['ForbiddenError', 'ForbiddenError', 'ForbiddenError'])
    expect([mcp.received, api.heard]).toEqual([[], []])
    await mcp.close()
  })

  test('each of these creates an audit entry without texts', async () => {
    await readApi({ document: '{"openapi":"3.0.0","paths":{"/a":{"get":{}}},"servers":[{"url":"https://a.example"}]}' })
    await tryTool({
      tool: { name: 'echo', description: '', inputSchema: { type: 'object' }, execution: 'INTERNAL' },
      input: {},
    })
    await connect({ server: { name: 'm', url: 'http://127.0.0.1:1/', headers: { authorization: SECRET } } })
    const { data } = await admin.ask<Read>('{ auditLog(last: 3) { edges { node { action detail refused } } } }')
    const entries = (data?.auditLog.edges ?? []).map(({ node }: Read) => node)
    expect(entries.map(({ action }: Read) => action).sort()).toEqual(['connectMcpServer', 'readOpenApi', 'tryTool'])
    expect(JSON.stringify(entries)).not.toContain(SECRET)
  })

  describe('connectMcpServer', () => {
    let mcp: McpServer
    beforeEach(async () => {
      mcp = await startMcpServer([
        { name: 'add', description: 'Adds.' },
        { name: 'erase', description: 'Erases.' },
      ])
    })
    afterEach(() => mcp.close())

    test('lists the tools with the given headers', async () => {
      mcp.authorization = SECRET
      const answer = await connect({ server: { name: 'math', url: mcp.url, headers: { authorization: SECRET } } })
      expect(answer).toMatchObject({ authorizationUrl: null, error: null })
      expect(answer.tools).toMatchObject([
        { name: 'add', description: 'Adds.', confirmed: true },
        { name: 'erase', description: 'Erases.', confirmed: true },
      ])
    })

    test('repeats the error from a server that requires credentials, or is down', async () => {
      mcp.authorization = SECRET
      const refused = await connect({
        server: { name: 'math', url: mcp.url, headers: { authorization: 'Bearer wrong-key' } },
      })
      expect(refused).toMatchObject({ tools: null, error: expect.stringContaining('Bearer realm="math"') })
      expect(refused.error).not.toContain('wrong-key')
      const down = await connect({ server: { name: 'math', url: 'http://127.0.0.1:1/mcp' } })
      expect(down).toMatchObject({ tools: null, error: expect.stringContaining('cannot be reached') })
    })

    test('uses the stored headers of an agent for the same server only, and shows what changed', async () => {
      mcp.authorization = SECRET
      const stored = { name: 'math', url: mcp.url, headers: { authorization: SECRET } }
      const { id: agentId } = await createAgent({ mcpServers: [stored] })
      const again = () => connect({ agentId, server: { name: 'math', url: mcp.url } })
      expect((await again()).tools).toMatchObject([{ confirmed: true }, { confirmed: true }])
      mcp.tools = [
        { name: 'add', description: 'Adds, and sends it to us.' },
        { name: 'erase', description: 'Erases.' },
        { name: 'new' },
      ]
      expect((await again()).tools).toMatchObject([
        { name: 'add', confirmed: false },
        { name: 'erase', confirmed: true },
        { name: 'new', confirmed: false },
      ])
      const confirm = `mutation ($input: ConfirmMcpToolsInput!) { confirmMcpTools(input: $input) { __typename } }`
      const { data } = await admin.ask<Read>(confirm, { input: { agentId, serverName: 'math' } })
      expect(data?.confirmMcpTools.__typename).toBe('ConfirmMcpToolsPayload')
      expect((await again()).tools.map((tool: Read) => tool.confirmed)).toEqual([true, true, true])

      const elsewhere = await connect({ agentId, server: { name: 'math', url: `${api.url}/mcp` } })
      expect(elsewhere).toMatchObject({ __typename: 'BadInputError', field: 'input.server.headers' })
      expect(api.heard).toEqual([])
      const other = await connect({ agentId, server: { name: 'other', url: mcp.url } })
      expect(other).toMatchObject({ tools: null })
    })

    test('refuses an invalid server with the name of the field, and an unknown agent', async () => {
      const bad = await connect({ server: { name: 'a__b', url: mcp.url } })
      expect(bad).toMatchObject({ __typename: 'BadInputError', field: 'input.server.name' })
      const missing = await connect({ agentId: 'agt_00000000000000000000000000', server: { name: 'a', url: mcp.url } })
      expect(missing.__typename).toBe('NotFoundError')
    })
  })

  describe('readOpenApi', () => {
    const PETS = {
      openapi: '3.0.3',
      servers: [{ url: '/v1' }],
      paths: {
        '/pets/{petId}': {
          parameters: [{ name: 'petId', in: 'path', required: true, schema: { type: 'integer' } }],
          get: { operationId: 'getPet', summary: 'Find a pet' },
          put: {
            operationId: 'get Pet',
            requestBody: {
              required: true,
              content: { 'application/json': { schema: { $ref: '#/components/schemas/Pet' } } },
            },
          },
          delete: { parameters: [{ name: 'X-Reason', in: 'header', required: true, schema: { type: 'string' } }] },
        },
        '/pets': {
          get: {
            operationId: 'getPet',
            parameters: [
              { name: 'limit', in: 'query', schema: { type: 'integer' } },
              { name: 'tags', in: 'query', schema: { type: 'array', items: { type: 'string' } } },
            ],
          },
          post: {
            operationId: 'send_message',
            requestBody: {
              content: { 'application/json': { schema: { $ref: '#/components/schemas/Node' } } },
            },
          },
        },
        '/upload': {
          post: { requestBody: { required: true, content: { 'multipart/form-data': { schema: { type: 'object' } } } } },
        },
      },
      components: {
        schemas: {
          Pet: {
            type: 'object',
            required: ['name', 'id'],
            properties: {
              id: { type: 'integer', readOnly: true },
              name: { type: 'string', nullable: true, example: 'Rex' },
            },
          },
          Node: { type: 'object', properties: { next: { $ref: '#/components/schemas/Node' } } },
        },
      },
    }

    test('turns operations into tools, each with a unique name, or gives the reason why it cannot', async () => {
      api.answer = (response) => response.end(JSON.stringify(PETS))
      const { tools } = await readApi({ url: `${api.url}/openapi.json` })
      const at = (operation: string) => tools.find((tool: Read) => tool.operation === operation)
      expect(at('GET /pets/{petId}')).toEqual({
        operation: 'GET /pets/{petId}',
        name: 'getPet',
        description: 'Find a pet',
        method: 'GET',
        url: `${api.url}/v1/pets/{petId}`,
        inputSchema: { type: 'object', properties: { petId: { type: 'integer' } }, required: ['petId'] },
        problem: null,
      })
      expect(at('PUT /pets/{petId}')).toMatchObject({
        name: 'get_Pet',
        method: 'PUT',
        inputSchema: {
          type: 'object',
          properties: { petId: { type: 'integer' }, name: { type: ['string', 'null'] } },
          required: ['petId', 'name'],
        },
        problem: null,
      })
      expect(at('GET /pets')).toMatchObject({
        name: 'getPet_2',
        url: `${api.url}/v1/pets{?limit,tags*}`,
        problem: null,
      })
      expect(at('POST /pets')).toMatchObject({
        name: 'send_message_2',
        problem: expect.stringContaining('refers to itself'),
      })
      expect(at('DELETE /pets/{petId}')).toMatchObject({ problem: expect.stringContaining('header X-Reason') })
      expect(at('POST /upload')).toMatchObject({ problem: expect.stringContaining('multipart/form-data') })
    })

    test('creates tools that an agent can have, and that work when they are tried', async () => {
      api.answer = (response) => response.end(JSON.stringify(PETS))
      const { tools } = await readApi({ url: `${api.url}/openapi.json` })
      const [usable] = tools.filter(({ operation }: Read) => operation === 'PUT /pets/{petId}')
      const { name, description, url, method, inputSchema } = usable
      const tool = {
        name,
        description,
        url,
        method,
        inputSchema,
        execution: 'HTTP',
        headers: { authorization: SECRET },
      }
      api.answer = (response) => response.setHeader('content-type', 'application/json').end('{"id":7}')
      const tried = await tryTool({ tool, input: { petId: 7, name: 'Rex' } })
      expect(tried).toMatchObject({ ok: true, output: { id: 7 }, error: null, durationMs: expect.any(Number) })
      expect(api.heard.at(-1)).toMatchObject({
        method: 'PUT',
        url: '/v1/pets/7',
        body: '{"name":"Rex"}',
        headers: { authorization: SECRET },
      })
      const { id } = await createAgent({ tools: [tool] })
      const stored = await admin.ask<Read>(
        `{ agent(id: "${id}") { internals { tools { name url method headerNames } } } }`,
      )
      expect(stored.data?.agent.internals.tools).toEqual([{ name, url, method: 'PUT', headerNames: ['authorization'] }])
    })

    test('reads YAML, with anchors', async () => {
      const document = `
openapi: 3.1.0
servers: [{ url: 'https://{region}.example.com', variables: { region: { default: eu } } }]
paths:
  /a:
    get: &a { operationId: a, summary: First }
  /b:
    get: { <<: *a, operationId: b }
`
      const { tools } = await readApi({ document })
      expect(tools).toMatchObject([
        { name: 'a', description: 'First', url: 'https://eu.example.com/a', problem: null },
        { name: 'b', description: 'First', url: 'https://eu.example.com/b', problem: null },
      ])
    })

    test.each<[string, RegExp]>([
      ['nonsense', /not OpenAPI/],
      ['{', /not JSON/],
      ['a: [', /not YAML/],
      ['{"swagger":"2.0","paths":{}}', /convert it to OpenAPI 3/],
      ['{"openapi":"3.0.0"}', /no paths/],
      ['{"openapi":"3.0.0","paths":{}}', /no operations/],
      [
        `a: &a [1,1,1,1,1,1,1,1,1]\n${'bcdefgh'
          .split('')
          .map((name, index) => `${name}: &${name} [${Array(9).fill(`*${'abcdefgh'[index]}`).join(',')}]`)
          .join('\n')}`,
        /not YAML|not OpenAPI/,
      ],
    ])('refuses %s', async (document, message) => {
      const answer = await readApi({ document })
      expect(answer).toMatchObject({
        __typename: 'BadInputError',
        field: 'input.document',
        message: expect.stringMatching(message),
      })
    })

    test('refuses a URL together with a document, neither of the two, a URL that does not respond, and a document over 5 MB', async () => {
      expect(await readApi({})).toMatchObject({ __typename: 'BadInputError' })
      expect(await readApi({ document: '{}', url: api.url })).toMatchObject({ __typename: 'BadInputError' })
      api.answer = (response) => response.writeHead(404).end('not here')
      expect(await readApi({ url: api.url })).toMatchObject({
        field: 'input.url',
        message: expect.stringContaining('404'),
      })
      api.answer = (response) => response.end('x'.repeat(5 * 1024 * 1024 + 1))
      expect(await readApi({ url: api.url })).toMatchObject({
        field: 'input.url',
        message: expect.stringContaining('larger'),
      })
    })

    test.each(['JSON', 'YAML'])(
      'does not delay others for 5 MB of %s whose schemas multiply',
      async (format) => {
        // Each schema refers twice to the next one. Fully expanded, the first would have 2^16 objects.
        const schemas: Record<string, object> = Object.fromEntries(
          Array.from({ length: 16 }, (_, level) => [
            `S${level}`,
            {
              type: 'object',
              properties: {
                a: { $ref: `#/components/schemas/S${level + 1}` },
                b: { $ref: `#/components/schemas/S${level + 1}` },
              },
            },
          ]),
        )
        schemas['S16'] = { type: 'object', properties: {} }
        const body = { content: { 'application/json': { schema: { $ref: '#/components/schemas/S0' } } } }
        const paths = Object.fromEntries(
          Array.from({ length: 900 }, (_, n) => [
            `/p${n}`,
            { post: { description: 'x'.repeat(5_000), requestBody: body } },
          ]),
        )
        const document = { openapi: '3.0.0', servers: [{ url: 'https://a.example' }], paths, components: { schemas } }
        const yaml = () =>
          `openapi: "3.0.0"\nservers: [{url: "https://a.example"}]\ncomponents: ${JSON.stringify({ schemas })}\npaths:\n${Object.entries(
            paths,
          )
            .map(([path, item]) => `  ${path}: ${JSON.stringify(item)}`)
            .join('\n')}`
        const text = format === 'JSON' ? JSON.stringify(document) : yaml()
        let isSent = false
        api.answer = (response) => response.end(text, () => (isSent = true))
        let isRead = false
        const reading = readApi({ url: api.url }).finally(() => (isRead = true))
        await until('the document to be sent', () => isSent)
        for (let count = 0; count < 5; count += 1) await admin.ask('{ viewer { scope } }')
        expect(isRead).toBe(false)
        const answer = await reading
        expect(answer.tools?.length ?? answer.message).toBe(900)
        expect(answer.tools[0].problem).toMatch(/more than 5000 values/)
      },
      60_000,
    )
  })

  describe('tryTool', () => {
    const tool = (rest: object = {}) => ({
      name: 'weather',
      description: 'The weather',
      inputSchema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
      execution: 'HTTP',
      url: `${api.url}/weather`,
      ...rest,
    })

    test('makes the call that a run would make', async () => {
      const tried = await tryTool({ tool: tool({ headers: { 'x-key': 'abcdef' } }), input: { city: 'Oslo' } })
      expect(tried).toMatchObject({ ok: true, output: { fine: true }, error: null })
      expect(api.heard).toMatchObject([
        {
          method: 'POST',
          url: '/weather',
          body: '{"city":"Oslo"}',
          headers: { 'x-key': 'abcdef', 'idempotency-key': expect.stringMatching(/^tcl_/) },
        },
      ])
    })

    test('gives the reason of a failure, without the headers that were sent', async () => {
      api.answer = (response, { headers }) =>
        response
          .writeHead(403, { 'content-type': 'application/json' })
          .end(JSON.stringify({ got: headers.authorization }))
      const tried = await tryTool({ tool: tool({ headers: { authorization: SECRET } }), input: { city: 'Oslo' } })
      expect(tried).toMatchObject({ ok: false, error: expect.stringContaining('403'), output: { got: '[removed]' } })
      expect(JSON.stringify(tried)).not.toContain(SECRET)
      const late = await tryTool({ tool: tool({ url: 'http://127.0.0.1:1/' }), input: { city: 'Oslo' } })
      expect(late).toMatchObject({ ok: false, output: null, error: expect.stringContaining('cannot be reached') })
    })

    test.each<[object, unknown, string, RegExp]>([
      [{}, {}, 'input', /city is required/],
      [{}, 'text', 'input', /must be a JSON object/],
      [{ inputSchema: { type: 'array' } }, {}, 'tool.inputSchema', /"type": "object"/],
      [{ name: 'no name' }, { city: 'x' }, 'tool.name', /letters/],
      [{ method: 'FETCH' }, { city: 'x' }, 'tool.method', /one of GET/],
      [{ method: 'GET', url: 'https://a.example/{' }, { city: 'x' }, 'tool.url', /brace/],
      [{ execution: 'EXTERNAL', url: null }, { city: 'x' }, 'tool.execution', /A service answers/],
      [{ execution: 'SPACE', url: null }, { city: 'x' }, 'tool.execution', /Members of a space answer/],
    ])('refuses %j with %j', async (rest, input, field, message) => {
      const answer = await tryTool({ tool: tool(rest), input })
      expect(answer).toMatchObject({
        __typename: 'BadInputError',
        field: `input.${field}`,
        message: expect.stringMatching(message),
      })
      expect(api.heard).toEqual([])
    })
  })

  test('private addresses are blocked as they are for runs', async () => {
    const guarded = await startTestServer({ worker: false, settings: { PARLEY_ALLOW_PRIVATE_TOOLS: 'false' } })
    try {
      const client = await guarded.clientOf(guarded.admin)
      const inputSchema = { type: 'object' }
      const tried = await tryTool(
        { tool: { name: 'x', description: '', inputSchema, execution: 'HTTP', url: api.url }, input: {} },
        client,
      )
      expect(tried).toMatchObject({ ok: false, error: expect.stringContaining('not allowed') })
      expect(await readApi({ url: api.url }, client)).toMatchObject({
        field: 'input.url',
        message: expect.stringContaining('not allowed'),
      })
      const connected = await connect({ server: { name: 'm', url: api.url } }, client)
      expect(connected).toMatchObject({ tools: null, error: expect.stringContaining('not allowed') })
      expect(api.heard).toEqual([])
    } finally {
      await guarded.close()
    }
  })
})
