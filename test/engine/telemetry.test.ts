import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { readConfig } from '../../src/config.ts'
import { estimateTokens } from '../../src/lib/token-estimate.ts'
import { NO_TELEMETRY, openTelemetry } from '../../src/platform/telemetry.ts'
import { startApplication, type TestApplication } from '../support/application.ts'
import { forAgent, type ModelRequest } from '../support/model-server-script.ts'
import { type OtlpCollector, startOtlpCollector } from '../support/otlp-collector.ts'
import { answer, inboxIn, skip, type Thinking, thinkingOn } from '../support/thinking.ts'
import { until } from '../support/until.ts'

/** Requirement 004, "Telemetry". */
describe('traces', () => {
  let collector: OtlpCollector
  let parley: TestApplication
  let thinking: Thinking
  let isOpen = false

  beforeAll(async () => {
    collector = await startOtlpCollector()
  })
  afterAll(() => collector?.close())
  beforeEach(async () => {
    collector.spans.length = 0
  })
  afterEach(() => stop())

  /** Returns the spans, after exporting those that remain. */
  async function stop(): Promise<void> {
    if (isOpen) await parley.close()
    isOpen = false
  }

  async function start(settings: Record<string, string> = {}) {
    const traced = { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, ...settings }
    parley = await startApplication({ settings: traced, isFresh: true })
    isOpen = true
    thinking = thinkingOn(parley)
    const human = await parley.human('Husam')
    const agent = await thinking.bot('Ada')
    return { human, agent, space: await parley.space(human, [agent.id]) }
  }

  const spansNamed = (name: RegExp) => collector.spans.filter((span) => name.test(span.name))

  test('a cycle has a span with the seed’s metadata, each step one within it, and each tool one within its step, with correct durations', async () => {
    const { human, agent, space } = await start({
      OTEL_EXPORTER_OTLP_HEADERS: 'x-key=a%20secret',
      OTEL_SERVICE_NAME: 'test-parley',
    })
    parley.models.script(answer('Hi.'))
    await parley.send(human, space.id, 'Hello')
    await thinking.rest(agent)
    await stop()
    const [cycle] = spansNamed(/^invoke_agent/)
    const [first] = parley.models.requests
    expect(cycle).toMatchObject({
      name: 'invoke_agent Ada',
      parentId: '',
      error: null,
      attributes: {
        'ai.telemetry.functionId': `agent-${agent.id}-cycle-0`,
        'ai.telemetry.metadata.agentId': agent.id,
        'ai.telemetry.metadata.cycleCount': '0',
        'ai.telemetry.metadata.inboxSize': '1',
        'ai.telemetry.metadata.consciousnessTokens': String(estimateTokens(inboxIn(first as ModelRequest))),
        'gen_ai.usage.output_tokens': expect.any(Number),
        'parley.run.end': 'finished',
        'parley.run.steps': 3,
      },
    })
    const steps = spansNamed(/^chat/)
    expect(steps.map(({ name, parentId }) => [name, parentId])).toEqual(
      Array.from({ length: 3 }, () => ['chat openai.chat:test', cycle?.spanId]),
    )
    for (const { attributes } of steps) {
      expect(attributes['ai.response.msToFirstChunk']).toBeTypeOf('number')
      expect(attributes['ai.response.avgCompletionTokensPerSecond']).toBeTypeOf('number')
      expect(attributes['gen_ai.usage.input_tokens']).toBeGreaterThan(0)
    }
    const tools = spansNamed(/^execute_tool/)
    expect(tools.map(({ name, parentId }) => [name, parentId])).toEqual([
      ['execute_tool enter_space', steps[0]?.spanId],
      ['execute_tool send_message', steps[1]?.spanId],
    ])
    expect(new Set(collector.spans.map(({ traceId }) => traceId)).size).toBe(1)
    const lengthOf = (spans: typeof steps) => spans.reduce((sum, { ms }) => sum + ms, 0)
    expect(lengthOf(tools)).toBeGreaterThan(0)
    expect(lengthOf(steps)).toBeGreaterThan(lengthOf(tools))
    expect(cycle?.ms).toBeGreaterThanOrEqual(lengthOf(steps))
    expect(JSON.stringify(collector.spans)).not.toContain('Hi.')
    expect(collector.headers.at(-1)?.['x-key']).toBe('a secret')
    expect(collector.service).toBe('test-parley')
  })

  test('records prompts, responses and the input and output of tools only if the settings allow this', async () => {
    const { human, agent, space } = await start({ OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT: 'true' })
    parley.models.script(answer('Hi there.'))
    await parley.send(human, space.id, 'Hello')
    await thinking.rest(agent)
    await stop()
    const [, said] = spansNamed(/^execute_tool/)
    expect(said?.attributes['gen_ai.tool.call.arguments']).toBe('{"text":"Hi there."}')
    expect(JSON.parse(String(said?.attributes['gen_ai.tool.call.result']))).toMatchObject({ success: true })
    const read = (span: (typeof collector.spans)[number] | undefined, name: string) =>
      JSON.parse(String(span?.attributes[`gen_ai.${name}`]))
    const steps = spansNamed(/^chat/)
    for (const [index, request] of parley.models.requests.entries()) {
      const [{ content }] = read(steps[index], 'system_instructions')
      expect(content).toBe(request.instructions)
      const sent = read(steps[index], 'input.messages')
      expect(sent.map(({ role }: { role: string }) => role)).toEqual(request.messages.slice(1).map(({ role }) => role))
      expect(sent[0].parts[0].content).toBe(request.messages[1]?.text)
    }
    expect(read(steps[1], 'input.messages')).toMatchObject([
      { role: 'user' },
      { role: 'assistant', parts: [{ type: 'tool_call', name: 'enter_space', arguments: { spaceId: space.id } }] },
      { role: 'tool', parts: [{ type: 'tool_call_response', response: { success: true, spaceId: space.id } }] },
    ])
    expect(read(steps[1], 'output.messages')).toMatchObject([
      {
        role: 'assistant',
        parts: [{ name: 'send_message', arguments: { text: 'Hi there.' } }],
        finish_reason: 'tool-calls',
      },
    ])
  })

  test('a failed run and a failed tool are marked, and a skipped cycle has a trace too', async () => {
    const { human, agent, space } = await start()
    parley.models.script(
      forAgent('Ada', (request) => (request.step === 0 ? [{ toolCall: 'read_messages', input: {} }] : skip('No.'))),
    )
    await parley.send(human, space.id, 'Hello')
    await thinking.rest(agent)
    parley.models.script(() => [{ error: 'overloaded', status: 400 }])
    await parley.send(human, space.id, 'Hello again')
    await thinking.rest(agent)
    await stop()
    expect(spansNamed(/read_messages/)[0]?.error).toBe('The tool failed.')
    const cycles = spansNamed(/^invoke_agent/)
    expect(cycles.map(({ attributes }) => attributes['parley.run.end'])).toEqual(['skip', 'failed'])
    expect(cycles[1]?.error).toContain('overloaded')
  })

  test('the tokens of a skipped cycle stay in the metrics', async () => {
    const { human, agent, space } = await start()
    parley.models.script(() => [...skip('No.'), { usage: { inputTokens: 700, outputTokens: 20 } }])
    await parley.send(human, space.id, 'Hello')
    await thinking.rest(agent)
    const text = await until('it is counted', async () => {
      const now = await parley.app.platform.metrics.metrics()
      return now.includes('parley_skipped_cycles_total 1') && now
    })
    expect(text).toContain('parley_tokens_total{model="openai.chat:test",direction="input"} 700')
    expect(text).toContain('parley_skipped_cycle_tokens_total{direction="output"} 20')
  })

  test('a cycle that skips after an action does not count as skipped: it has its run', async () => {
    const { human, agent, space } = await start()
    const note = { toolCall: 'set_memories', input: { memories: [{ key: 'a', value: 'b' }] } }
    parley.models.script(
      forAgent('Ada', ({ messages }) => (messages.at(-1)?.text.includes('"Hello"') ? [note] : skip('No.'))),
    )
    await parley.send(human, space.id, 'Hello')
    await thinking.rest(agent)
    await parley.send(human, space.id, 'Hello again')
    await thinking.rest(agent)
    await until('the second one is counted', async () =>
      (await parley.app.platform.metrics.metrics()).includes('parley_skipped_cycles_total 1\n'),
    )
    expect(await parley.app.platform.db.prisma.run.count({ where: { agentId: agent.id } })).toBe(1)
  })

  test('without an endpoint, or when disabled, no code of OpenTelemetry is loaded', async () => {
    const settings = (extra: Record<string, string>) =>
      readConfig({ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:4318/', ...extra }).telemetry
    expect(readConfig({}).telemetry).toBeNull()
    expect(settings({ OTEL_SDK_DISABLED: 'true' })).toBeNull()
    expect(settings({ OTEL_TRACES_EXPORTER: 'none' })).toBeNull()
    expect(settings({})).toMatchObject({
      url: 'http://127.0.0.1:4318/v1/traces',
      serviceName: 'parley',
      capturesContent: false,
    })
    expect(settings({ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://other/x' })?.url).toBe('http://other/x')
    expect(() => settings({ OTEL_EXPORTER_OTLP_HEADERS: 'nonsense' })).toThrow('OTEL_EXPORTER_OTLP_HEADERS')
    expect(await openTelemetry(null)).toBe(NO_TELEMETRY)
  })
})
