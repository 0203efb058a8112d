import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { RULE_STACKS, startApplication, type TestApplication } from '../support/application.ts'
import { inTurn, type ModelAction, type ModelRequest } from '../support/model-server-script.ts'

describe.each(RULE_STACKS)('an irregular generation, on the %s stack', (stack) => {
  let parley: TestApplication
  beforeAll(async () => {
    parley = await startApplication({ stack })
  })
  beforeEach(() => parley.models.reset())
  afterAll(() => parley?.close())

  const DONE = { text: 'Done.' }
  const note = (key: string, id?: string): ModelAction => ({
    toolCall: 'set_memories',
    input: { memories: [{ key, value: 'v' }] },
    ...(id === undefined ? {} : { id }),
  })

  async function runOf(name: string, ...generations: ModelAction[][]) {
    const { human, space, agent } = await parley.room(name)
    parley.models.script(inTurn(...generations))
    const { runs } = await parley.send(human, space.id, 'Go')
    const run = await parley.runWhen(runs[0]?.id ?? '')
    const calls = (await parley.app.domain.toolCalls.ofRuns([run.id])).get(run.id) ?? []
    const memories = await parley.app.platform.db.prisma.memory.findMany({ where: { agentId: agent.id } })
    return { run, space, calls, keys: memories.map(({ key }) => key).toSorted(), asked: parley.models.requests.length }
  }

  test('two calls with the same id in one step are two calls, each with a result, and the provider accepts them', async () => {
    const { run, calls, keys, asked } = await runOf('Ada', [note('one', 'same'), note('two', 'same')], [DONE])
    expect(run).toMatchObject({ status: 'COMPLETED', summary: 'Done.' })
    expect(calls.map(({ status }) => status)).toEqual(['DONE', 'DONE'])
    expect(keys).toEqual(['one', 'two'])
    expect(asked).toBe(2)
    const { messages } = parley.models.requests.at(-1) as ModelRequest
    const ids = messages.flatMap(({ toolCalls }) => toolCalls.map(({ id }) => id))
    expect(new Set(ids).size).toBe(2)
    expect(messages.flatMap(({ toolCallId }) => toolCallId ?? [])).toEqual(ids)
    expect(parley.models.refusals).toEqual([])
  })

  test.each<[string, ModelAction]>([
    ['the provider sends an error', { error: 'The server had an error', code: 'server_error' }],
    ['the stream ends without a finish reason', { finish: 'none' }],
  ])('a complete call after which %s is not executed, and the generation is retried', async (_, fault) => {
    const { run, calls, keys, asked } = await runOf('Bea', [note('one'), fault], [note('two')], [DONE])
    expect(run).toMatchObject({ status: 'COMPLETED', summary: 'Done.', attempt: 1 })
    expect(calls.map(({ status }) => status)).toEqual(['DONE'])
    expect(keys).toEqual(['two'])
    expect(asked).toBe(3)
  })

  test.each<[string, ModelAction[]]>([
    ['no content', []],
    ['only reasoning', [{ reasoning: 'Hm.' }]],
  ])('a generation with %s ends its run, which posts no message', async (_, actions) => {
    const { run, calls, asked, space } = await runOf('Cleo', actions, [DONE])
    expect(run).toMatchObject({ status: 'COMPLETED', stopReason: 'FINISHED', summary: null, error: null })
    expect([calls, asked]).toEqual([[], 1])
    expect(await parley.messages(space.id)).toHaveLength(1)
  })
})
