import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { RULE_STACKS, startApplication, type TestApplication } from '../support/application.ts'
import { type McpServer, startMcpServer } from '../support/mcp-server.ts'
import { type ModelRequest, steps } from '../support/model-server-script.ts'
import { callsOf } from '../support/space-tools.ts'

interface Schema {
  type?: string
  properties?: Record<string, Schema>
  required?: string[]
  items?: Schema
  enum?: unknown[]
}

/** Returns the smallest value that a schema accepts. */
function leastOf({ type, properties = {}, required = [], items, enum: values }: Schema): unknown {
  if (values !== undefined) return values[0]
  if (type === 'array') return [leastOf(items ?? {})]
  if (type === 'object') return Object.fromEntries(required.map((name) => [name, leastOf(properties[name] ?? {})]))
  return type === 'boolean' ? true : type === 'number' || type === 'integer' ? 0 : 'x'
}

const LONG = 'x'.repeat(1_000_000)
const deep = (depth: number) => '['.repeat(depth) + ']'.repeat(depth)
/** JSON texts that a model could write instead of any value. */
const WORST = [
  'null',
  'true',
  '-1',
  '1.5',
  '1e300',
  '-1e300',
  '2147483648',
  '9223372036854775808',
  '1e-300',
  '""',
  '" "',
  '"\\u0000"',
  '"spc_\\u0000"',
  '"run_\\ud800"',
  '"\\udc00x"',
  '"agt_nobody"',
  '"\\u2028\\n\\t"',
  '[]',
  '{}',
  '[null]',
  '[[]]',
  '{"__proto__":{"a":1}}',
  '{"":{"constructor":1}}',
  '{"\\u0000":"\\ud800"}',
  deep(150),
  deep(3_000),
  deep(20_000),
]

/** Returns inputs, as JSON texts, with the worst possible value in every position of a schema, and texts that are not inputs. */
function worstInputs(schema: Schema): string[] {
  const least = JSON.stringify(leastOf(schema))
  const MARK = '"the place of the worst"'
  const places = placesOf(schema).map((place) => JSON.stringify(place).replace('"<>"', MARK))
  const inside = places.flatMap((place) => WORST.map((value) => place.replace(MARK, () => value)))
  const broken = ['', '{', '{"a":', 'undefined', `${least}x`, '{"a":"\u0000"}']
  const long = places.length === 0 ? [] : [places[0]?.replace(MARK, () => JSON.stringify(LONG)) ?? '']
  return [least, ...WORST, ...broken, ...inside, ...long]
}

/** Returns the smallest input, with `<>` in each of the positions that the schema contains. */
function placesOf(schema: Schema): unknown[] {
  const { properties = {}, items } = schema
  if (items !== undefined) return ['<>', ['<>'], ...placesOf(items).map((place) => [place])]
  return Object.entries(properties).flatMap(([name, inner]) => {
    const least = leastOf(schema) as object
    return [{ ...least, [name]: '<>' }, ...placesOf(inner).map((place) => ({ ...least, [name]: place }))]
  })
}

/** Inputs that wait for a reply would delay the test. */
const isQuick = (name: string, input: string) =>
  name !== 'sendSpaceMessage' || !input.includes('"for":[{"type":"any"') || input.includes('"timeout":0')

// One stack is enough, because the statements that refuse inputs are the same.
describe.each(RULE_STACKS.slice(-1))('any tool input that a model writes, on the %s stack', (stack) => {
  let parley: TestApplication

  beforeAll(async () => {
    parley = await startApplication({ stack, settings: { PARLEY_LOG_LEVEL: 'silent' } })
  })
  afterAll(() => parley?.close())
  beforeEach(() => parley.models.reset())

  const toolsIn = ({ body }: ModelRequest): { name: string; parameters: Schema }[] =>
    body.tools.map((tool: { function: object }) => tool.function)

  test.each(['ACTIVE_SPACE', 'SPACE_TOOLS'] as const)(
    'gets a typed result from each call of a %s tool',
    async (toolset) => {
      const human = await parley.human('Husam')
      const agent = await parley.agent('Ada', { toolset, maxSteps: 1000 })
      const other = await parley.agent('Bob')
      const space = await parley.space(human, [agent.id, other.id], { routing: 'MENTION_CHAIN' })
      let tools: ReturnType<typeof toolsIn> = []
      let waiting: { toolCall: string; input: string }[] = []
      parley.models.script((request) => {
        if (!request.instructions.startsWith('You are Ada')) return [{ text: 'Fine.' }]
        tools = toolsIn(request)
        // The long inputs come last, all at once, because every later request of the run contains them.
        const isShort = (waiting[0]?.input.length ?? 0) < LONG.length
        const next = waiting.splice(0, isShort ? 60 : 100)
        return next.length > 0 ? next.map((call) => ({ ...call, chunks: 100_000 })) : [{ text: 'Done.' }]
      })
      async function wake() {
        const { runs } = await parley.app.domain.sending.send(human, {
          spaceId: space.id,
          text: 'Go',
          mentionedAgentId: agent.id,
        })
        const run = await parley.runWhen(runs[0]?.id ?? '')
        expect(run).toMatchObject({ error: null, status: 'COMPLETED', attempt: 1 })
        return callsOf(parley, run.id)
      }
      expect(await wake()).toEqual([])
      const calls: Awaited<ReturnType<typeof wake>> = []
      for (const { name, parameters } of tools) {
        const inputs = worstInputs(parameters).filter((input) => isQuick(name, input))
        waiting = inputs.map((input) => ({ toolCall: name, input }))
        calls.push(...(await wake()))
        // A skip would end the run.
        if (name !== 'skip') expect([name, waiting.length]).toEqual([name, 0])
      }
      const unclear = calls.filter(({ status, output }) => {
        const { error } = (output ?? {}) as { error?: { code?: unknown; message?: unknown } }
        if (status === 'DONE') return error !== undefined
        return status !== 'FAILED' || typeof error?.message !== 'string' || error.code === 'TOOL_FAILED'
      })
      expect(
        unclear.map(({ toolName, input, output }) => [toolName, JSON.stringify(input).slice(0, 200), output]),
      ).toEqual([])
      expect(calls.length).toBeGreaterThan(300)
    },
  )

  test('a tool call with an offset beyond all limits fails at the first attempt', async () => {
    const { human, space } = await parley.room()
    parley.models.script(steps([{ toolCall: 'read_messages', input: '{"offset":1e300}' }]))
    const { runs } = await parley.send(human, space.id, 'Read')
    const run = await parley.runWhen(runs[0]?.id ?? '')
    expect(run).toMatchObject({ status: 'COMPLETED', attempt: 1, stepCount: 2 })
    expect(await callsOf(parley, run.id)).toMatchObject([
      { status: 'FAILED', output: { error: { code: 'BAD_INPUT' } } },
    ])
  })
})

describe('any listing and response of an MCP server', () => {
  let parley: TestApplication
  let server: McpServer

  beforeAll(async () => {
    parley = await startApplication({ settings: { PARLEY_LOG_LEVEL: 'silent' } })
  })
  afterAll(async () => {
    await server?.close()
    await parley?.close()
  })

  test('fails at most the tool, never the run', async () => {
    const names = [
      'add\0',
      'half\ud800',
      '',
      ' ',
      '__proto__',
      'constructor',
      '\u2028',
      'x'.repeat(100_000),
      '💥',
      'plain',
    ]
    const answers = [
      { structuredContent: { '\0': '\ud800' } },
      { structuredContent: { a: { rawJson: deep(20_000) } } },
      { structuredContent: { a: { rawJson: deep(3_000) } } },
      { content: [{ type: 'text', text: 'half \ud800 and \0' }] },
      { content: [{ type: 'text', text: LONG }] },
      { isError: true, content: [{ type: 'text', text: `\0\ud800${LONG}` }] },
      { structuredContent: 1e300 },
      { content: 'none' },
      {},
    ]
    let n = 0
    server = await startMcpServer(
      names.map((name) => ({ name, answer: () => answers[n++ % answers.length] as object })),
    )
    const human = await parley.human('Husam')
    const agent = await parley.agent('Ada', { mcpServers: [{ name: 'odd', url: server.url }], maxSteps: 50 })
    const space = await parley.space(human, [agent.id])
    parley.models.script(({ toolNames, step }) => {
      const odd = toolNames.filter((name) => name.startsWith('odd__'))
      return step < 20 ? [{ toolCall: odd[step % odd.length] ?? 'none', input: {} }] : [{ text: 'Done.' }]
    })
    const { runs } = await parley.send(human, space.id, 'Go')
    const run = await parley.runWhen(runs[0]?.id ?? '')
    expect(run).toMatchObject({ status: 'COMPLETED', attempt: 1 })
    const calls = await callsOf(parley, run.id)
    expect(calls).toHaveLength(20)
    expect(calls.filter(({ status }) => status !== 'DONE' && status !== 'FAILED')).toEqual([])
  })
})
