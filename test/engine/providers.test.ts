import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { CreateAgentInput } from '../../src/agents/agent-input.ts'
import { RULE_STACKS, startApplication, type TestApplication } from '../support/application.ts'
import { type ModelServer, startModelServer } from '../support/model-server.ts'
import { type ModelAction, type ModelRequest, steps } from '../support/model-server-script.ts'
import { answer, thinkingOn } from '../support/thinking.ts'

const KEY = 'a-key-that-nobody-may-see'
const WRONG_KEY = 'another-key-that-nobody-may-see'

/** Returns the whole prompt without the cache marks, in the order in which a provider caches it. */
function sentTo({ body, endpoint }: ModelRequest): string {
  const { tools, system, systemInstruction, messages, input, contents } = body
  const text = JSON.stringify([tools, system ?? systemInstruction, messages ?? input ?? contents])
  return endpoint === 'anthropic' ? text.replaceAll(',"cache_control":{"type":"ephemeral"}', '') : text
}

/** Returns the output limit of a model. Anthropic adds the budget for reasoning. */
function mostTokensOf(body: ModelRequest['body']): number {
  const { max_tokens, max_output_tokens, generationConfig, thinking } = body
  return (max_tokens ?? max_output_tokens ?? generationConfig.maxOutputTokens) - (thinking?.budget_tokens ?? 0)
}

/** Returns the length of the common beginning of two texts, as a share of the shorter text. */
function sharedPart(one: string, other: string): number {
  const shorter = Math.min(one.length, other.length)
  let shared = 0
  while (shared < shorter && one[shared] === other[shared]) shared++
  return shared / shorter
}

describe.each(RULE_STACKS.slice(-1))('models of every provider, on the %s stack', (stack) => {
  let parley: TestApplication
  let server: ModelServer

  beforeAll(async () => {
    server = await startModelServer({ apiKey: KEY })
    const { baseUrl, googleUrl } = server
    const providers = {
      gpt: { api: 'openai', baseUrl, apiKey: KEY },
      local: { api: 'openai-chat', baseUrl, apiKey: KEY },
      claude: { api: 'anthropic', baseUrl, apiKey: KEY },
      gemini: { api: 'google', baseUrl: googleUrl, apiKey: KEY },
      wrong: { api: 'anthropic', baseUrl, apiKey: WRONG_KEY },
    }
    const settings = { PARLEY_PROVIDERS: JSON.stringify(providers), PARLEY_MODEL_SILENCE_SECONDS: '2' }
    parley = await startApplication({ stack, settings })
  })
  afterAll(async () => {
    await parley?.close()
    await server?.close()
  })
  beforeEach(() => server.reset())
  afterEach(() => expect(server.refusals).toEqual([]))

  async function asked(input: Partial<CreateAgentInput>) {
    const { human, space } = await parley.room('Ada', input)
    const { runs } = await parley.send(human, space.id, 'Say something')
    return { human, space, run: await parley.runWhen(runs[0]?.id ?? '') }
  }

  const saying = (...texts: string[]): ModelAction[] =>
    texts.map((text) => ({ toolCall: 'send_message', input: { text } }))

  describe.each(['gpt:gpt-5-mini', 'local:qwen3', 'claude:claude-opus-4-1', 'gemini:gemini-3-pro'])('%s', (model) => {
    test('reason, post twice in one step, read the results and end; their tokens are counted, including cached ones', async () => {
      server.script(
        steps(
          [
            { reasoning: 'I greet.' },
            ...saying('Hello', 'World'),
            { usage: { inputTokens: 100, outputTokens: 20, cachedInputTokens: 60 } },
          ],
          [{ text: 'Done.' }, { usage: { inputTokens: 150, outputTokens: 5, cachedInputTokens: 90 } }],
        ),
      )
      const { run, space } = await asked({ model, modelSettings: { reasoningEffort: 'low' } })
      expect(run).toMatchObject({ status: 'COMPLETED', summary: 'Done.', stepCount: 2, error: null })
      expect(run).toMatchObject({ inputTokens: 250, cachedInputTokens: 150, outputTokens: 25, usageEstimated: false })
      const texts = (await parley.messages(space.id)).map(({ parts }) => (parts as { text: string }[])[0]?.text)
      expect(texts).toEqual(['Say something', 'Hello', 'World'])
      expect(await parley.eventsOf(run.id)).toContain('RunReasoningDelta')
    })

    test.each<[string, ModelAction]>([
      ['falls silent', { hang: true }],
      ['is cut off', { disconnect: true }],
    ])('are called again if their stream %s', async (_, fault) => {
      server.script(({ n, step }) => {
        if (n === 1) return [{ reasoning: 'I am about to greet.' }, fault]
        return step === 0 ? saying('Hello') : [{ text: 'Done.' }]
      })
      const { run, space } = await asked({ model })
      expect(run).toMatchObject({ status: 'COMPLETED', stepCount: 2 })
      expect(server.requests).toHaveLength(3)
      expect((await parley.messages(space.id)).map(({ status }) => status)).toEqual(['COMPLETE', 'COMPLETE'])
    })

    test('get the settings of the agent, or of its phase if the phase has any', async () => {
      server.script(steps(saying('One'), [{ text: 'Done.' }]))
      const modelSettings = { maxOutputTokens: 2000, reasoningEffort: 'low', serviceTier: 'priority' }
      const phases = [{ fromStep: 1, toolChoice: 'AUTO' as const, modelSettings: { maxOutputTokens: 3000 } }]
      await asked({ model, modelSettings, phases })
      const [first, second] = server.requests.map(({ body }) => body)
      expect([first, second].map(mostTokensOf)).toEqual([2000, 3000])
      expect(JSON.stringify(first)).toMatch(
        /"(effort|reasoning_effort)":"low"|"thinkingLevel":"low"|"thinking":\{"type":"enabled"/i,
      )
      const known = { claude: false, gpt: true, local: true, gemini: true }[model.split(':')[0] as 'gpt']
      expect(JSON.stringify(first).includes('"priority"')).toBe(known)
    })

    test('get prompts that begin like the previous step’s prompt', async () => {
      server.script(steps(saying('One'), saying('Two'), saying('Three'), [{ text: 'Done.' }]))
      await asked({ model, instructions: `You are the host. ${'Be kind. '.repeat(200)}` })
      const sent = server.requests.map(sentTo)
      expect(sent).toHaveLength(4)
      // At its end, the shorter prompt differs in the closing brackets.
      for (const [index, next] of sent.slice(1).entries())
        expect(sharedPart(sent[index] ?? '', next)).toBeGreaterThan(0.99)
    })
  })

  test('a key that a provider repeats appears nowhere: not in the error, in no event, and in no step of another model', async () => {
    server.script(() => [{ text: 'Done.' }])
    const failed = await asked({ model: 'wrong:claude' })
    expect(failed.run).toMatchObject({ status: 'FAILED', error: 'Incorrect API key provided: [removed]. (HTTP 401)' })
    const { run } = await asked({ model: 'wrong:claude', fallbackModels: ['local:qwen3'] })
    expect(run.status).toBe('COMPLETED')
    const [step] = await parley.app.platform.db.prisma.step.findMany({ where: { runId: run.id } })
    expect(step?.failedModels).toEqual([
      { model: 'wrong:claude', error: 'Incorrect API key provided: [removed]. (HTTP 401)' },
    ])
  })

  test('the prompts of consecutive cycles begin alike', async () => {
    const { bot, rest } = thinkingOn(parley)
    const ada = await bot('Ada', {}, { model: 'claude:claude-opus-4-1', instructions: 'Be kind. '.repeat(200) })
    const human = await parley.human('Husam')
    const space = await parley.space(human, [ada.id])
    server.script(answer('Hello', [{ text: 'Done.' }]))
    for (const text of ['One', 'Two', 'Three']) {
      await parley.send(human, space.id, `${text}. ${'And so on. '.repeat(50)}`)
      await rest(ada)
    }
    const first = server.requests.filter(({ step }) => step === 0)
    expect(first).toHaveLength(3)
    const [, second = '', third = ''] = first.map(sentTo)
    expect(sharedPart(second, third)).toBeGreaterThan(0.99)
  })

  test('a memory that an agent sets during a run leaves the beginning of its instructions unchanged', async () => {
    const noting: ModelAction[] = [{ toolCall: 'set_memories', input: { memories: [{ key: 'tea', value: 'Black.' }] } }]
    server.script(steps(noting, [{ text: 'Done.' }]))
    await asked({ model: 'local:qwen3', instructions: 'Be kind.' })
    const [before = '', after = ''] = server.requests.map(({ instructions }) => instructions)
    expect(after).toContain('tea')
    expect(sharedPart(before, after) * before.length).toBeGreaterThan(before.indexOf('YOUR SPACES:'))
    expect(before.indexOf('YOUR SPACES:')).toBeGreaterThan(before.indexOf('HOW YOU ACT:'))
  })

  test('Anthropic’s prompts have cache marks that the next step and the next cycle can use', async () => {
    server.script(steps(saying('One'), saying('Two'), [{ text: 'Done.' }]))
    await asked({ model: 'claude:claude-opus-4-1' })
    const marksIn = ({ body }: ModelRequest) => {
      const blocks = body.messages.map(({ content }: { content: object[] }) =>
        content.some((block) => 'cache_control' in block),
      )
      return [body.system.some((block: object) => 'cache_control' in block), ...blocks]
    }
    expect(server.requests.map(marksIn)).toEqual([
      [true, true],
      [true, true, false, true],
      [true, true, false, false, false, true],
    ])
  })
})
