import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { CreateAgentInput } from '../../src/agents/agent-input.ts'
import type { FailedModel } from '../../src/runs/journal.ts'
import { RULE_STACKS, startApplication, type TestApplication } from '../support/application.ts'
import { openChainRoom } from '../support/chain-room.ts'
import { type ModelServer, startModelServer } from '../support/model-server.ts'
import { type ModelAction, steps } from '../support/model-server-script.ts'
import { answer, thinkingOn } from '../support/thinking.ts'
import { mentions, say } from '../support/turns.ts'

const FIRST = 'openai.chat:test'
const SPARE = 'spare:claude-opus-4-1'

describe.each(RULE_STACKS.slice(-1))('fallbacks, on the %s stack', (stack) => {
  let parley: TestApplication
  let spare: ModelServer
  let settings: Record<string, string>

  beforeAll(async () => {
    spare = await startModelServer()
    const providers = {
      spare: { api: 'anthropic', baseUrl: spare.baseUrl, apiKey: 'a-key' },
      third: { api: 'google', baseUrl: spare.googleUrl, apiKey: 'a-key' },
    }
    settings = { PARLEY_MODEL_SILENCE_SECONDS: '2', PARLEY_PROVIDERS: JSON.stringify(providers) }
    parley = await startApplication({ stack, settings })
  })
  afterAll(async () => {
    await parley?.close()
    await spare?.close()
  })
  beforeEach(async () => {
    for (const server of [parley.models, spare]) server.reset()
    spare.script(steps(saying('From the spare'), [{ text: 'Done.' }]))
    await parley.app.platform.db.prisma.modelProviderHealth.deleteMany()
  })
  afterEach(() => expect([...parley.models.refusals, ...spare.refusals]).toEqual([]))

  const saying = (text: string): ModelAction[] => [{ toolCall: 'send_message', input: { text } }]

  async function asked(input: Partial<CreateAgentInput> = {}) {
    const { human, space, agent } = await parley.room('Ada', { fallbackModels: [SPARE], ...input })
    const { runs } = await parley.send(human, space.id, 'Say something')
    const run = await parley.runWhen(runs[0]?.id ?? '')
    return { human, space, agent, run }
  }

  async function said(spaceId: string): Promise<string[]> {
    const [, ...answers] = await parley.messages(spaceId)
    return answers.map(
      ({ status, parts }) => `${status} ${(parts as { text?: string }[]).map(({ text }) => text).join()}`,
    )
  }

  async function stepsOf(runId: string) {
    const rows = await parley.app.platform.db.prisma.step.findMany({ where: { runId }, orderBy: { index: 'asc' } })
    return rows.map(({ model, failedModels }) => ({ model, failed: failedModels as unknown as FailedModel[] }))
  }

  test.each<[string, ModelAction[], RegExp]>([
    ['it breaks', [{ error: 'It broke.', status: 500 }], /^It broke\. \(HTTP 500\)$/],
    ['it is overloaded', [{ error: 'Overloaded.', status: 503 }], /^Overloaded\. \(HTTP 503\)$/],
    ['it limits the rate', [{ error: 'Slow down.', status: 429 }], /^Slow down\. \(HTTP 429\)$/],
    ['it refuses the key', [{ error: 'Who are you?', status: 401 }], /^Who are you\? \(HTTP 401\)$/],
    ['it does not know the model', [{ error: 'No such model.', status: 404 }], /^No such model\. \(HTTP 404\)$/],
    ['it refuses the prompt', [{ error: 'Too long.', status: 400 }], /^Too long\. \(HTTP 400\)$/],
    ['it cuts the connection', [{ text: 'I shall' }, { disconnect: true }], /./],
    ['its stream ends without a finish reason', [{ text: 'I shall' }, { finish: 'none' }], /ended in the middle/],
    ['its stream has an error', [{ text: 'I shall' }, { error: 'Broken.' }], /^Broken\.$/],
    ['it is silent', [{ hang: true }], /^The model sent nothing for 2 s\.$/],
    [
      'it breaks off before the first character of a message',
      [{ toolCall: 'send_message', input: '{"text":"', chunks: ['{"text":"'] }, { disconnect: true }],
      /./,
    ],
  ])('if %s, the next model is called at once, and the step records why', async (_, fault, why) => {
    parley.models.script(() => fault)
    const { run, space } = await asked({ maxSteps: 1 })
    expect(run).toMatchObject({ status: 'COMPLETED', error: null })
    expect(await said(space.id)).toEqual(['COMPLETE From the spare'])
    expect(await stepsOf(run.id)).toEqual([
      { model: SPARE, failed: [{ model: FIRST, error: expect.stringMatching(why) }] },
    ])
    expect(parley.models.requests).toHaveLength(1)
  })

  test('if all fail, each is called in order, and the run has the error of the last one', async () => {
    parley.models.script(() => [{ error: 'First.', status: 401 }])
    spare.script(({ endpoint }) => [{ error: endpoint === 'google' ? 'Third.' : 'Second.', status: 401 }])
    const { run } = await asked({ fallbackModels: [SPARE, 'third:gemini-3-pro'] })
    expect(run).toMatchObject({ status: 'FAILED', error: 'Third. (HTTP 401)' })
    expect(spare.requests.map(({ endpoint }) => endpoint)).toEqual(['anthropic', 'google'])
  })

  test('after the first visible character the same model is called again, and no other one', async () => {
    parley.models.script(({ n, step }) => {
      if (n === 1)
        return [
          { toolCall: 'send_message', input: '{"text":"Begun"}', chunks: ['{"text":"Begu'] },
          { disconnect: true },
        ]
      return step === 0 ? saying('Whole') : [{ text: 'Done.' }]
    })
    const { run, space } = await asked()
    expect(run.status).toBe('COMPLETED')
    expect(await said(space.id)).toEqual(['COMPLETE Whole'])
    expect(spare.requests).toEqual([])
  })

  test('the reasoning and signatures of another model are dropped, incompatible ids are changed, and each model continues from the texts', async () => {
    parley.models.script(({ step }) => {
      if (step === 0)
        return [
          { reasoning: 'Mine alone.' },
          { toolCall: 'send_message', id: 'functions.send:0', input: { text: 'One' } },
        ]
      return step === 1 ? [{ error: 'Overloaded.', status: 503 }] : [{ text: 'Done.' }]
    })
    spare.script(() => [{ reasoning: 'Thinking too.' }, ...saying('Two')])
    const { run, space } = await asked({ modelSettings: { reasoningEffort: 'medium' } })
    expect(run.status).toBe('COMPLETED')
    expect(await said(space.id)).toEqual(['COMPLETE One', 'COMPLETE Two'])
    expect((await stepsOf(run.id)).map(({ model }) => model)).toEqual([FIRST, SPARE, FIRST])
    expect(JSON.stringify(spare.requests[0]?.body)).not.toContain('Mine alone.')
    expect(spare.requests[0]?.messages.filter(({ role }) => role === 'tool')).toHaveLength(1)
    const last = parley.models.requests.at(-1)
    expect(JSON.stringify(last?.body)).not.toMatch(/Thinking too|signature/)
    expect(last?.messages.filter(({ role }) => role === 'tool')).toHaveLength(2)
    const [page] = await parley.app.domain.stepRecords.pageMany([run.id], {
      size: 9,
      fromEnd: false,
      after: null,
      before: null,
    })
    expect(JSON.stringify(page?.items[1]?.messages)).not.toContain('Mine alone.')
  })

  test("a phase's model falls back to the agent's fallbacks", async () => {
    parley.models.script(() => [{ error: 'Overloaded.', status: 503 }])
    const phases = [{ fromStep: 0, model: 'openai.chat:other', toolChoice: 'AUTO' as const }]
    const { run } = await asked({ phases })
    expect((await stepsOf(run.id))[0]).toEqual({
      model: SPARE,
      failed: [{ model: 'openai.chat:other', error: 'Overloaded. (HTTP 503)' }],
    })
  })

  test('a model whose provider was removed from the settings falls back too', async () => {
    const { prisma } = parley.app.platform.db
    const { human, space, agent } = await parley.room('Ada', { fallbackModels: [SPARE] })
    await prisma.agent.update({ where: { id: agent.id }, data: { model: 'gone:model' } })
    const { runs } = await parley.send(human, space.id, 'Say something')
    const run = await parley.runWhen(runs[0]?.id ?? '')
    expect(run.status).toBe('COMPLETED')
    const [step] = await stepsOf(run.id)
    expect(step?.failed).toEqual([{ model: 'gone:model', error: expect.stringContaining('is unknown') }])
  })

  test('during a think cycle, whose consciousness every model accepts', async () => {
    const { bot, rest, cyclesOf } = thinkingOn(parley)
    const ada = await bot('Ada', {}, { fallbackModels: [SPARE] })
    const human = await parley.human('Husam')
    const space = await parley.space(human, [ada.id])
    parley.models.script((request) => {
      if (request.step === 1) return [{ error: 'Overloaded.', status: 503 }]
      return answer('unused', [{ text: 'Done.' }])(request)
    })
    spare.script(() => [{ reasoning: 'Now me.' }, ...saying('From the spare')])
    await parley.send(human, space.id, 'Hello')
    await rest(ada)
    await parley.send(human, space.id, 'And again')
    await rest(ada)
    expect(await said(space.id)).toEqual(['COMPLETE From the spare', 'COMPLETE And again', 'COMPLETE From the spare'])
    expect(await cyclesOf(ada)).toHaveLength(2)
    expect(spare.requests).toHaveLength(2)
  })

  test('during a chain, which continues', async () => {
    const room = await openChainRoom(parley, ['Ada', 'Bob'], { Bob: { fallbackModels: [SPARE] } })
    room.plays('Ada', [[mentions(room.agents.Bob, 'Say something', true)]], [[say('Thank you.')]])
    const bob = `You are ${room.agents.Bob.name}`
    parley.models.script(({ instructions }) =>
      instructions.includes(bob) ? [{ error: 'Overloaded.', status: 503 }] : undefined,
    )
    await room.hears('Ada, ask Bob.')
    expect((await room.conversation()).slice(-2)).toEqual(['Bob: From the spare', 'Ada: Thank you.'])
    expect(spare.requests.length).toBeGreaterThan(0)
    expect(spare.requests.every(({ instructions }) => instructions.includes(bob))).toBe(true)
  })

  describe('a provider that failed five times in a minute', () => {
    const failing = (): ModelAction[] => [{ error: 'Overloaded.', status: 401 }]
    const restsUntil = async (app = parley) =>
      (await app.app.domain.modelProviders.list()).find(({ name }) => name === 'openai.chat')?.restsUntil ?? null

    async function failFiveTimes() {
      parley.models.script(failing)
      // Each model has two generations, and a final one.
      for (let run = 0; run < 2; run++) await asked()
      expect(await restsUntil()).toBeNull()
      await asked({ maxSteps: 1 })
      expect(parley.models.requests).toHaveLength(5)
    }

    test('is skipped by every process if there is a fallback, and the step records the skip', async () => {
      await failFiveTimes()
      const other =
        stack === 'postgres' ? await startApplication({ stack, worker: false, beside: parley, settings }) : parley
      const until = await restsUntil(other)
      expect((until?.getTime() ?? 0) - Date.now()).toBeGreaterThan(20_000)
      const { run } = await asked()
      expect(parley.models.requests).toHaveLength(5)
      expect((await stepsOf(run.id))[0]).toEqual({
        model: SPARE,
        failed: [
          { model: FIRST, error: `The provider failed too often and is skipped until ${until?.toISOString()}.` },
        ],
      })
      if (other !== parley) await other.close()
    })

    test('is still tried if there is no fallback, or the fallbacks fail', async () => {
      await failFiveTimes()
      parley.models.script(steps(saying('Still here'), [{ text: 'Done.' }]))
      const alone = await asked({ fallbackModels: [] })
      expect(await said(alone.space.id)).toEqual(['COMPLETE Still here'])
      spare.script(failing)
      const both = await asked()
      expect(await said(both.space.id)).toEqual(['COMPLETE Still here'])
    })

    test('is called again after its pause', async () => {
      await failFiveTimes()
      await parley.app.platform.db.prisma.$executeRaw`UPDATE "ModelProviderHealth" SET "restsUntil" = now()`
      parley.models.script(steps(saying('Back'), [{ text: 'Done.' }]))
      expect(await restsUntil()).toBeNull()
      expect(await said((await asked()).space.id)).toEqual(['COMPLETE Back'])
    })

    test('is not paused for prompts that it refuses', async () => {
      parley.models.script(() => [{ error: 'Too long.', status: 400 }])
      for (let run = 0; run < 3; run++) await asked()
      expect(await restsUntil()).toBeNull()
    })
  })
})
