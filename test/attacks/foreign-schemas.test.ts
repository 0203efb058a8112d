import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { JsonObject } from '../../src/lib/json.ts'
import { startApplication, type TestApplication } from '../support/application.ts'
import { type McpServer, startMcpServer } from '../support/mcp-server.ts'
import { steps } from '../support/model-server-script.ts'
import { callsOf } from '../support/space-tools.ts'

const DRAFT_07 = 'http://json-schema.org/draft-07/schema#'
const string = (rest: object) => ({ type: 'object', properties: { a: { type: 'string', ...rest } }, required: ['a'] })
/** Each level of the schema refers to the next level twice, so the cost is 2 to the power of the input's depth. */
const DOUBLING = {
  type: 'object',
  $defs: {
    a: {
      anyOf: [1, 2].map((n) => ({
        title: `${n}`,
        type: 'object',
        properties: { x: { $ref: '#/$defs/a' } },
        required: ['y'],
      })),
    },
  },
  properties: { x: { $ref: '#/$defs/a' } },
}
const nested = (depth: number): JsonObject => (depth === 0 ? {} : { x: nested(depth - 1) })

describe('a tool schema from an untrusted source', () => {
  let parley: TestApplication

  beforeAll(async () => {
    parley = await startApplication({ settings: { PARLEY_LOG_LEVEL: 'silent' } })
  })
  afterAll(() => parley?.close())
  beforeEach(() => parley.models.reset())

  const tool = (inputSchema: object) => ({
    name: 'theirs',
    description: '',
    inputSchema,
    execution: 'INTERNAL' as const,
  })

  /** Returns the result of the only call of the tool, in a run with this input. */
  async function callWith(inputSchema: object, input: unknown, storedSchema?: object) {
    const { human, agent, space } = await parley.room('Ada', { tools: [tool(inputSchema)] })
    if (storedSchema !== undefined) {
      await parley.app.platform.db.prisma.agentTool.updateMany({
        where: { agentId: agent.id },
        data: { inputSchema: storedSchema },
      })
    }
    parley.models.script(steps([{ toolCall: 'theirs', input, chunks: 100_000 }]))
    const { runs } = await parley.send(human, space.id, 'Go')
    const run = await parley.runWhen(runs[0]?.id ?? '')
    expect(run).toMatchObject({ status: 'COMPLETED', attempt: 1 })
    return (await callsOf(parley, run.id))[0]
  }

  test('is refused if it cannot be checked synchronously; an older tool with such a schema accepts no input', async () => {
    const schema = { $async: true, ...string({}) }
    const refused = { code: 'BAD_INPUT', field: 'input.tools.0.inputSchema' }
    await expect(parley.agent('Async', { tools: [tool(schema)] })).rejects.toMatchObject(refused)
    expect(await callWith({ type: 'object' }, { a: 5 }, schema)).toMatchObject({ status: 'FAILED' })
    expect(await callWith({ type: 'object' }, { a: 'x' }, schema)).toMatchObject({ status: 'FAILED' })
  })

  test.each<[string, object, unknown]>([
    ['a pattern that tries for hours', string({ pattern: '^(a+)+$' }), { a: `${'a'.repeat(60)}!` }],
    ['choices within choices', DOUBLING, nested(60)],
    [
      'may require unique items',
      { type: 'object', properties: { a: { uniqueItems: true } } },
      { a: Array.from({ length: 20_000 }, (_, n) => ({ n })) },
    ],
  ])('cannot block others: %s', async (_, schema, input) => {
    expect(await callWith(schema, input)).toMatchObject({ status: 'FAILED', output: { error: { code: 'BAD_INPUT' } } })
    // The next call is checked as usual.
    expect(await callWith(string({ minLength: 2 }), { a: 'ok' })).toMatchObject({ status: 'DONE' })
  })

  test('cannot affect other schemas by its id or its definitions', async () => {
    for (const schema of [
      { $id: DRAFT_07, type: 'object' },
      { type: 'object', properties: { a: { $id: DRAFT_07, type: 'string' } } },
      { type: 'object', $id: 'one', properties: { a: { $id: 'two' } } },
    ])
      await parley.agent('Named', { tools: [tool(schema)] })
    const integer = { type: 'object', $schema: DRAFT_07, properties: { a: { type: 'integer' } } }
    expect(await callWith(integer, { a: 'x' })).toMatchObject({ status: 'FAILED' })
    expect(await callWith(integer, { a: 1 })).toMatchObject({ status: 'DONE' })
  })

  test('may refer to itself', async () => {
    const tree = { type: 'object', properties: { name: { type: 'string' }, of: { $ref: '#' } } }
    expect(await callWith(tree, { of: { of: { name: 'leaf' } } })).toMatchObject({ status: 'DONE' })
    expect(await callWith(tree, { of: { of: { name: 1 } } })).toMatchObject({ status: 'FAILED' })
  })

  test('is refused if it is too long to be included in each model request', async () => {
    const long = { type: 'object', description: 'x'.repeat(70_000) }
    await expect(parley.agent('Long', { tools: [tool(long)] })).rejects.toMatchObject({ code: 'BAD_INPUT' })
  })

  test('a schema of an MCP server is checked only if the tool is trusted: new tools wait for an admin', async () => {
    const server: McpServer = await startMcpServer([{ name: 'add' }])
    const { human, agent, space } = await parley.room('Ada', { mcpServers: [{ name: 'odd', url: server.url }] })
    const offered = async () => {
      parley.models.reset()
      parley.models.script(() => [{ text: 'Seen.' }])
      const { runs } = await parley.send(human, space.id, 'Go')
      await parley.runWhen(runs[0]?.id ?? '')
      return (await parley.models.request(() => true)).toolNames.filter((name) => name.startsWith('odd__'))
    }
    const toolsNow = async () =>
      (await parley.app.domain.mcpServers.listMany([agent.id]))
        .get(agent.id)?.[0]
        ?.tools.map(({ name, confirmed }) => ({ name, confirmed }))
    expect(await offered()).toEqual(['odd__add'])
    server.tools.push({ name: 'new', inputSchema: { type: 'object', properties: { a: { pattern: '^(a+)+$' } } } })
    // The list of tools is cached for a minute in each session. Another agent has its own session, so the server is listed
    // again.
    await parley.app.domain.agents.update(parley.admin, {
      id: agent.id,
      mcpServers: [{ name: 'odd', url: server.url, headers: { 'x-again': '1' } }],
    })
    expect(await offered()).toEqual(['odd__add'])
    expect(await toolsNow()).toEqual([
      { name: 'add', confirmed: true },
      { name: 'new', confirmed: false },
    ])
    await parley.app.domain.mcpServers.confirm(parley.admin, { agentId: agent.id, serverName: 'odd' })
    expect(await toolsNow()).toEqual([
      { name: 'add', confirmed: true },
      { name: 'new', confirmed: true },
    ])
    expect(await offered()).toEqual(['odd__add', 'odd__new'])
    await server.close()
  })
})
