import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { ToolInput } from '../../src/agents/custom-tools.ts'
import { RULE_STACKS, startApplication, type TestApplication } from '../support/application.ts'
import { type ModelAction, steps } from '../support/model-server-script.ts'

const ASK: ToolInput = {
  name: 'ask',
  description: 'Asks the members.',
  inputSchema: { type: 'object' },
  execution: 'SPACE',
}

describe.each(RULE_STACKS)('a generation, on the %s stack', (stack) => {
  let parley: TestApplication

  beforeAll(async () => {
    parley = await startApplication({ stack, settings: { PARLEY_MODEL_SILENCE_SECONDS: '3' } })
  })
  afterAll(() => parley?.close())
  beforeEach(() => parley.models.reset())

  /** Posts "Begun" without its last character, and then performs the given action. */
  const beginning = (then: ModelAction): ModelAction[] => [
    { toolCall: 'send_message', input: '{"text":"Begun"}', chunks: ['{"text":"Begu'] },
    then,
  ]
  const saying = (text: string): ModelAction[] => [{ toolCall: 'send_message', input: { text } }]

  async function asked(tools: ToolInput[] = []) {
    const { human, space, agent } = await parley.room('Ada', { tools })
    const { runs } = await parley.send(human, space.id, 'Say something')
    return { human, space, agent, runId: runs[0]?.id ?? '' }
  }

  async function said(spaceId: string) {
    const [, ...answers] = await parley.messages(spaceId)
    return answers.map(({ status, parts }) => ({
      status,
      text: (parts as { text?: string }[]).map(({ text }) => text).join(),
    }))
  }

  test.each<[string, ModelAction]>([
    ['whose connection is cut', { disconnect: true }],
    ['that ends without a finish reason', { finish: 'none' }],
    ['that falls silent', { hang: true }],
    ['with an error from the provider', { error: 'The server had an error', code: 'server_error' }],
  ])('a stream %s is retried, and the message is continued', async (_, fault) => {
    parley.models.script(({ n, step }) => {
      if (n === 1) return beginning(fault)
      return step === 0 ? saying('Whole') : [{ text: 'Done.' }]
    })
    const { space, runId } = await asked()
    expect(await parley.runWhen(runId)).toMatchObject({ status: 'COMPLETED', stepCount: 2, usageEstimated: true })
    expect(await said(space.id)).toEqual([{ status: 'COMPLETE', text: 'Whole' }])
    expect(parley.models.requests).toHaveLength(3)
  })

  test('a model that never sends anything is called three times, and the run has the error', async () => {
    parley.models.script(() => [{ hang: true }])
    const { runId } = await asked()
    expect(await parley.runWhen(runId)).toMatchObject({ status: 'FAILED', error: 'The model sent nothing for 3 s.' })
    expect(parley.models.requests).toHaveLength(3)
  })

  test('the SDK’s pauses between calls of an overloaded provider do not count as silence', async () => {
    parley.models.script(() => [{ error: 'Overloaded.', status: 529 }])
    const { runId } = await asked()
    expect(await parley.runWhen(runId)).toMatchObject({ status: 'FAILED', error: 'Overloaded. (HTTP 529)' })
    expect(parley.models.requests).toHaveLength(3)
  })

  test('a stop during the pause before a retry ends the run at once', async () => {
    parley.models.script(() => beginning({ disconnect: true }))
    const { runId } = await asked()
    const request = await parley.models.request(() => true)
    await request.ended
    await parley.app.domain.control.stopRun(parley.admin, { runId, cascade: false })
    expect(await parley.runWhen(runId)).toMatchObject({ status: 'CANCELED' })
  })

  test.each<[string, ModelAction]>([
    ['a call that is not JSON', { toolCall: 'send_message', input: '{"text":"Too lo' }],
    ['a complete call', { toolCall: 'send_message', input: { text: 'Whole' } }],
  ])(
    'a generation that is cut off at its length limit after %s is the last one, and the error has the reason',
    async (_, call) => {
      parley.models.script(() => [call, { finish: 'length' }])
      const { space, runId } = await asked()
      expect(await parley.runWhen(runId)).toMatchObject({
        status: 'FAILED',
        stepCount: 1,
        error: 'The model reached its output limit in the middle of a tool call.',
      })
      expect(parley.models.requests).toHaveLength(1)
      expect((await said(space.id)).filter(({ status }) => status === 'COMPLETE')).toEqual([])
    },
  )

  test('after a wait the prompt starts with the earlier prompt, character by character, although the space has changed', async () => {
    const found = { zone: 'north', list: [{ name: 'A', id: 1 }, { id: 2 }], 10: 'ten', é: { yy: 1, x: 2 } }
    parley.models.script(
      steps(
        [{ toolCall: 'look', input: found }],
        [{ toolCall: 'ask', input: { why: 1, a: 2 } }],
        [{ toolCall: 'look', input: {} }],
      ),
    )
    const { human, space, runId } = await asked([ASK, { ...ASK, name: 'look', execution: 'INTERNAL' }])
    await parley.runWhen(runId, 'WAITING_TOOL')
    await parley.app.domain.spaces.update(human, { id: space.id, name: 'Another name' })
    const calls = (await parley.app.domain.toolCalls.ofRuns([runId])).get(runId) ?? []
    const result = { say: 'Yes', by: 'me' }
    await parley.app.domain.control.submitToolResult(human, { toolCallId: calls.at(-1)?.id ?? '', result })
    expect(await parley.runWhen(runId)).toMatchObject({ status: 'COMPLETED' })
    // Compared without the instructions, because they contain the current name of the space.
    const sent = parley.models.requests.map(({ body }) => JSON.stringify(body.messages.slice(1)).slice(0, -1))
    expect(sent).toHaveLength(4)
    for (const [index, before] of sent.slice(0, -1).entries()) expect(sent[index + 1]?.startsWith(before)).toBe(true)
    expect(sent.at(-1)).toContain(JSON.stringify(JSON.stringify(found)))
    expect(sent.at(-1)).toContain(JSON.stringify(JSON.stringify(result)))
  })

  test('the journal stores the prompt of a step once, and its record shows the complete prompt', async () => {
    const long = 'x'.repeat(50_000)
    parley.models.script(steps(saying(`${long}1`), saying(`${long}2`), [{ text: 'Done.' }]))
    const { runId } = await asked()
    await parley.runWhen(runId)
    const [page] = await parley.app.domain.stepRecords.pageMany([runId], {
      size: 10,
      fromEnd: false,
      after: null,
      before: null,
    })
    const sent = parley.models.requests.map(({ messages }) => messages.length - 1)
    expect(page?.items.map(({ messages }) => messages.length)).toEqual(sent)
    const rows = await parley.app.platform.db.prisma.step.findMany({ where: { runId }, orderBy: { index: 'asc' } })
    expect(rows.map(({ messagesAdded }) => (messagesAdded as unknown[]).length)).toEqual([1, 0, 0])
  })
})
