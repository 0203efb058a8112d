import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { RULE_STACKS, startApplication, type TestApplication } from '../support/application.ts'
import { forAgent, steps } from '../support/model-server-script.ts'
import { until } from '../support/until.ts'

describe.each(RULE_STACKS)('a run on the %s stack', (stack) => {
  let parley: TestApplication

  beforeAll(async () => {
    parley = await startApplication({ stack })
  })
  afterAll(() => parley?.close())
  beforeEach(() => parley.models.reset())

  test('goes from QUEUED through RUNNING to COMPLETED, posts its message, and keeps its closing text as summary', async () => {
    const { human, space } = await parley.room('Ada')
    parley.models.script(
      forAgent(
        'Ada',
        steps([{ toolCall: 'send_message', input: { text: 'Good morning!' } }], [{ text: 'I greeted.' }]),
      ),
    )
    const { message, runs } = await parley.send(human, space.id, 'Hello')
    expect(runs).toMatchObject([
      { status: 'QUEUED', triggerType: 'SPACE_MESSAGE', triggerMessageId: message.id, depth: 0, rootId: message.id },
    ])
    const run = await parley.runWhen(runs[0]?.id ?? '')
    expect(run).toMatchObject({ status: 'COMPLETED', summary: 'I greeted.', stepCount: 2, error: null })
    expect(run.inputTokens).toBeGreaterThan(0)
    expect(await parley.messages(space.id)).toMatchObject([
      { seq: 1, status: 'COMPLETE' },
      {
        seq: 2,
        status: 'COMPLETE',
        parts: [{ type: 'text', text: 'Good morning!' }],
        runId: run.id,
        depth: 1,
        rootId: message.id,
      },
    ])
    const events = await parley.eventsOf(run.id)
    expect(events[0]).toBe('RunStarted')
    expect(events.filter((type) => type !== 'RunToolInputDelta' && type !== 'RunTextDelta')).toEqual([
      'RunStarted',
      'RunToolCalled',
      'RunToolReturned',
      'RunStepFinished',
      'RunStepFinished',
      'RunCompleted',
    ])
    expect(parley.models.refusals).toEqual([])
  })

  test('fails with the error from the provider, without its secrets, and the space continues', async () => {
    const { human, space } = await parley.room('Bob')
    parley.models.script(() => [{ error: 'Incorrect API key provided: sk-verysecret123.', status: 401 }])
    const first = await parley.send(human, space.id, 'Hello')
    const failed = await parley.runWhen(first.runs[0]?.id ?? '')
    expect(failed.status).toBe('FAILED')
    expect(failed.error).toMatch(/Incorrect API key provided/)
    expect(failed.error).not.toContain('verysecret')
    expect((await parley.eventsOf(failed.id)).at(-1)).toBe('RunFailed')
    parley.models.reset()
    parley.models.script(steps([{ toolCall: 'send_message', input: { text: 'Back again.' } }]))
    const second = await parley.send(human, space.id, 'And now?')
    expect((await parley.runWhen(second.runs[0]?.id ?? '')).status).toBe('COMPLETED')
  })

  test('a run that loses the model during a message keeps the streamed text as INTERRUPTED, and estimates its cost', async () => {
    const { human, space } = await parley.room('Cyd')
    parley.models.script(() => [
      {
        toolCall: 'send_message',
        input: { text: 'This will never be whole' },
        chunks: ['{"text":"This will', ' never'],
      },
      { disconnect: true },
    ])
    const { runs } = await parley.send(human, space.id, 'Hello')
    const run = await parley.runWhen(runs[0]?.id ?? '')
    expect(run).toMatchObject({ status: 'FAILED', usageEstimated: true })
    const [, message] = await parley.messages(space.id)
    expect(message).toMatchObject({ status: 'INTERRUPTED' })
    expect(JSON.stringify(message?.parts)).toContain('This will')
  })

  test('is stopped during a message: CANCELED, its message INTERRUPTED, and nothing is published after the response', async () => {
    const { human, space } = await parley.room('Dan')
    let release = () => {}
    const held = new Promise<void>((resolve) => {
      release = resolve
    })
    parley.models.script(() => [
      { toolCall: 'send_message', input: {}, chunks: ['{"text":"One, two', held, ', three"}'] },
    ])
    const { runs } = await parley.send(human, space.id, 'Count')
    const runId = runs[0]?.id ?? ''
    await until('the message has started', async () => (await parley.eventsOf(runId)).includes('RunToolInputDelta'))
    await until('the message has a draft', async () => {
      const [, message] = await parley.messages(space.id)
      return message && (await parley.app.platform.log.drafts(`space:${space.id}`, [message.id])).size > 0
    })
    const stopped = await parley.app.domain.control.stopRun(human, { runId, cascade: false })
    expect(stopped.run.status).toBe('CANCELED')
    const events = await parley.eventsOf(runId)
    expect(events.at(-1)).toBe('RunCanceled')
    const [, message] = await parley.messages(space.id)
    expect(message).toMatchObject({ status: 'INTERRUPTED', parts: [{ type: 'text', text: 'One, two' }] })
    release()
    await until('the worker is idle', async () => (await parley.run(runId)).usageEstimated)
    expect(await parley.eventsOf(runId)).toEqual(events)
    expect((await parley.messages(space.id)).length).toBe(2)
  })

  test('two messages of one step appear in the order of the calls', async () => {
    const { human, space } = await parley.room('Eve')
    parley.models.script(
      steps([
        { toolCall: 'send_message', input: { text: 'First' } },
        { toolCall: 'send_message', input: { text: 'Second' } },
      ]),
    )
    const { runs } = await parley.send(human, space.id, 'Twice, please')
    await parley.runWhen(runs[0]?.id ?? '')
    expect((await parley.messages(space.id)).map(({ parts }) => JSON.stringify(parts))).toEqual([
      expect.stringContaining('Twice'),
      expect.stringContaining('First'),
      expect.stringContaining('Second'),
    ])
  })

  test('an invalid input, an unknown tool and malformed JSON are results that the model reads, and do not end the run', async () => {
    const { human, space } = await parley.room('Fay')
    parley.models.script(
      steps(
        [
          { toolCall: 'send_message', input: { words: 'Hi' } },
          { toolCall: 'fly', input: {} },
          { toolCall: 'send_message', input: '{"text": "Hi' },
        ],
        [{ toolCall: 'send_message', input: { text: 'Now right.' } }],
      ),
    )
    const { runs } = await parley.send(human, space.id, 'Hello')
    expect(await parley.runWhen(runs[0]?.id ?? '')).toMatchObject({ status: 'COMPLETED' })
    const calls = await parley.app.platform.db.prisma.toolCall.findMany({
      where: { runId: runs[0]?.id ?? '' },
      orderBy: { id: 'asc' },
    })
    expect(calls.map(({ status }) => status)).toEqual(['FAILED', 'FAILED', 'FAILED', 'DONE'])
    expect(calls[0]?.output).toMatchObject({ error: { code: 'BAD_INPUT' } })
    const { messages } = await parley.models.request(({ step }) => step === 1)
    const told = messages.filter(({ role }) => role === 'tool').map(({ text }) => JSON.parse(text))
    expect(told).toEqual(calls.slice(0, 3).map(({ output }) => output))
    expect(told.map(({ error }) => error.message)).toEqual([
      expect.stringContaining('text'),
      'There is no tool fly for you at this step.',
      'The input is not a JSON object.',
    ])
    expect(parley.models.refusals).toEqual([])
  })
})
