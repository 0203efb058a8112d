import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { CreateAgentInput } from '../../src/agents/agent-input.ts'
import { RULE_STACKS, startApplication, type TestApplication } from '../support/application.ts'
import { type ModelAction, type ModelRequest, steps } from '../support/model-server-script.ts'
import { callsOf, gate, messagesOf, textsOf } from '../support/space-tools.ts'
import { until } from '../support/until.ts'

/** Returns the results of the last step's calls, as the model receives them. */
const results = ({ messages }: ModelRequest) => messages.flatMap(({ role, text }) => (role === 'tool' ? [text] : []))

describe.each(RULE_STACKS)('a run whose message was finished by another process, on the %s stack', (stack) => {
  let parley: TestApplication

  beforeAll(async () => {
    parley = await startApplication({ stack, settings: { PARLEY_LOG_LEVEL: 'silent' } })
  })
  afterAll(() => parley?.close())
  beforeEach(() => parley.models.reset())

  const db = () => parley.app.platform.db.prisma

  /** Writes the row as a worker that was suspended during its cleanup does, or an operator in the database. */
  async function endMessageOf(agentId: string, spaceId: string) {
    const message = await until('the message has started', async () => (await messagesOf(parley, spaceId, agentId))[0])
    await db().message.update({ where: { id: message.id }, data: { status: 'INTERRUPTED', routedAt: new Date() } })
  }

  /** Starts a run. Another process finishes the message of its first call while the model is still writing that call. */
  async function endedInTheMiddle(input: Partial<CreateAgentInput>, call: (spaceId: string) => [string, string[]]) {
    const { human, agent, space } = await parley.room('Ada', input)
    const [toolCall, pieces] = call(space.id)
    const { promise, open } = gate()
    const chunks = [...pieces.slice(0, -1), promise, pieces.at(-1) ?? '']
    const action: ModelAction = { toolCall, input: '', chunks }
    parley.models.script(steps([action]))
    const { runs } = await parley.send(human, space.id, 'Go')
    await endMessageOf(agent.id, space.id)
    open()
    const run = await parley.runWhen(runs[0]?.id ?? '')
    const messages = await messagesOf(parley, space.id, agent.id)
    return { run, messages, calls: await callsOf(parley, run.id), told: results(parley.models.requests.at(-1)!) }
  }

  test.each([
    ['ACTIVE_SPACE', (): [string, string[]] => ['send_message', ['{"text":"Hello ', 'there"}']]],
    [
      'SPACE_TOOLS',
      (id: string): [string, string[]] => ['sendSpaceMessage', [`{"spaceId":"${id}","text":"Hello `, 'there"}']],
    ],
  ] as const)('with the tools of %s: the model gets an error, and the run ends', async (toolset, call) => {
    const { run, messages, calls, told } = await endedInTheMiddle({ toolset }, call)
    expect(run).toMatchObject({ status: 'COMPLETED', attempt: 1 })
    expect(messages).toMatchObject([{ status: 'INTERRUPTED' }])
    expect(calls).toMatchObject([{ status: 'FAILED' }])
    expect(told.map((text) => JSON.parse(text).error.code)).toEqual(['MESSAGE_ENDED'])
  })

  test('executes a visible call, and ends', async () => {
    const inputSchema = { type: 'object', properties: { title: { type: 'string' } } }
    const chart = { name: 'chart', description: 'Draws.', inputSchema, execution: 'INTERNAL', visible: true } as const
    const { run, messages, calls } = await endedInTheMiddle({ tools: [chart] }, () => ['chart', ['{"title":', '"Up"}']])
    expect(run).toMatchObject({ status: 'COMPLETED', attempt: 1 })
    expect(messages).toMatchObject([{ status: 'INTERRUPTED' }])
    expect(calls).toMatchObject([{ status: 'DONE', output: { title: 'Up' } }])
  })

  test('posts its next text in a new message', async () => {
    const { human, agent, space } = await parley.room('Ada', { toolset: 'SPACE_TOOLS' })
    const say = (text: string): ModelAction => ({ toolCall: 'sendSpaceMessage', input: { spaceId: space.id, text } })
    const { promise, open } = gate()
    parley.models.script(steps([say('One')], [{ gate: promise }, say('Two')], [say('Three')]))
    const { runs } = await parley.send(human, space.id, 'Go')
    await until('the first part exists', async () => parley.models.requests.length === 2)
    await endMessageOf(agent.id, space.id)
    open()
    expect(await parley.runWhen(runs[0]?.id ?? '')).toMatchObject({ status: 'COMPLETED', attempt: 1 })
    const messages = await messagesOf(parley, space.id, agent.id)
    expect(messages.map(({ status }) => status)).toEqual(['INTERRUPTED', 'COMPLETE'])
    expect(textsOf(messages[1])).toEqual(['Three'])
  })
})
