import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { ToolInput } from '../../src/agents/custom-tools.ts'
import { startApplication, type TestApplication } from '../support/application.ts'
import { forAgent, type ModelAction } from '../support/model-server-script.ts'
import { hasPostgres } from '../support/postgres.ts'
import { callsOf, messagesOf, sayIn, spaceToolsRoom, textsOf } from '../support/space-tools.ts'
import { until } from '../support/until.ts'

/** Moves a run from one worker to another before it ends. `one` posts and reads, and workers start and end. */
describe.skipIf(!hasPostgres)('a run with composite messages that another worker takes over', () => {
  let one: TestApplication

  beforeAll(async () => {
    one = await startApplication({ stack: 'postgres', worker: false })
  })
  afterAll(() => one?.close())
  beforeEach(() => one.models.reset())

  /** Plays the steps. The first worker plays step `heldAt` as `first`, and is stopped once `reached` is true. */
  async function handOver(options: {
    tools?: ToolInput[]
    names?: string[]
    steps(spaceId: string, ids: string[]): ModelAction[][]
    heldAt: number
    first(spaceId: string): ModelAction[]
    reached(room: Awaited<ReturnType<typeof spaceToolsRoom>>, runId: string): Promise<unknown>
  }) {
    const { tools = [], names = ['Ada'] } = options
    const room = await spaceToolsRoom(one, { names, input: { tools } })
    const generations = options.steps(
      room.space.id,
      room.agents.map(({ id }) => id),
    )
    let held = false
    one.models.script(() => [{ text: 'Seen.' }])
    one.models.script(
      forAgent('Ada', ({ step }) => {
        if (step !== options.heldAt || held) return generations[step] ?? [{ text: 'Done.' }]
        held = true
        return options.first(room.space.id)
      }),
    )
    const before = await startApplication({ stack: 'postgres', beside: one })
    const { runs } = await one.send(room.human, room.space.id, 'Go')
    const runId = runs[0]?.id ?? ''
    await until('the run has reached that point', () => options.reached(room, runId))
    await before.app.close(0)
    expect(await one.run(runId)).toMatchObject({ status: 'RUNNING' })
    const after = await startApplication({ stack: 'postgres', beside: one })
    const run = await one.runWhen(runId)
    await after.close()
    const messages = await messagesOf(one, room.space.id, room.agents[0]?.id ?? '')
    return { ...room, run, messages }
  }

  const draftOf = async (message: { id: string; spaceId: string } | undefined, partIndex: number) =>
    message &&
    (await one.app.platform.log.drafts(`space:${message.spaceId}`, [message.id])).get(message.id)?.get(partIndex)

  test('between two parts: the message continues with the next part', async () => {
    const { run, messages } = await handOver({
      steps: (spaceId) => [[sayIn(spaceId, 'One')], [sayIn(spaceId, 'Two')]],
      heldAt: 1,
      first: () => [{ hang: true }],
      reached: async () => one.models.requests.some(({ step }) => step === 1),
    })
    expect(run).toMatchObject({ status: 'COMPLETED', attempt: 2 })
    expect(messages.map(textsOf)).toEqual([['One', 'Two']])
    expect(messages).toMatchObject([{ status: 'COMPLETE' }])
  })

  test('during a part of a lost generation: the streamed text is kept, and the next message has the complete text', async () => {
    const { run, messages } = await handOver({
      steps: (spaceId) => [[sayIn(spaceId, 'One')], [sayIn(spaceId, 'Two and more')]],
      heldAt: 1,
      first: (spaceId) => [
        {
          toolCall: 'sendSpaceMessage',
          input: '',
          chunks: [`{"spaceId":"${spaceId}","text":"Two an`, new Promise(() => {})],
        },
      ],
      async reached({ space, agents }) {
        const [message] = await messagesOf(one, space.id, agents[0]?.id ?? '')
        return (await draftOf(message, 1)) === 'Two an'
      },
    })
    expect(run).toMatchObject({ status: 'COMPLETED', attempt: 2 })
    expect(messages.map(textsOf)).toEqual([['One', 'Two an'], ['Two and more']])
    expect(messages.map(({ status }) => status)).toEqual(['INTERRUPTED', 'COMPLETE'])
  })

  test('during the input of a part: the part stays with its call CANCELED, and appears again in the next message', async () => {
    const chart: ToolInput = {
      name: 'chart',
      description: 'Draws.',
      inputSchema: { type: 'object' },
      execution: 'INTERNAL',
      visible: true,
    }
    const streaming = (runId: string) =>
      one.app.platform.db.prisma.toolCall.count({ where: { runId, status: 'STREAMING' } })
    const { run, messages } = await handOver({
      tools: [chart],
      steps: (targetSpaceId) => [
        [sayIn(targetSpaceId, 'One')],
        [{ toolCall: 'chart', input: { targetSpaceId, bars: [1] } }],
      ],
      heldAt: 1,
      first: (spaceId) => [
        {
          toolCall: 'chart',
          input: '',
          chunks: [`{"targetSpaceId":"${spaceId}","title":"Ha`, new Promise(() => {})],
        },
      ],
      reached: async (_, runId) => (await streaming(runId)) === 1,
    })
    expect(run).toMatchObject({ status: 'COMPLETED', attempt: 2 })
    const [lost, again] = await callsOf(one, run.id).then((calls) =>
      calls.filter(({ toolName }) => toolName === 'chart'),
    )
    expect(lost).toMatchObject({ status: 'CANCELED', input: { title: 'Ha' } })
    expect(again).toMatchObject({ status: 'DONE', input: { bars: [1] } })
    expect(messages.map(textsOf)).toEqual([['One', lost?.id], [again?.id]])
    expect(messages.map(({ status }) => status)).toEqual(['INTERRUPTED', 'COMPLETE'])
  })

  test('during the calls of a step: calls with a result are not repeated', async () => {
    const keys: string[] = []
    const server = createServer((request, response) => {
      keys.push(String(request.headers['idempotency-key']))
      if (keys.length > 1) response.writeHead(200, { 'content-type': 'application/json' }).end('{"drawn":true}')
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const draw: ToolInput = {
      name: 'draw',
      description: 'Draws.',
      inputSchema: { type: 'object' },
      execution: 'HTTP',
      visible: true,
      url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    }
    const { run, messages, agents } = await handOver({
      tools: [draw],
      names: ['Ada', 'Bea'],
      steps: (spaceId, ids) => [
        [
          sayIn(spaceId, 'Look:'),
          { toolCall: 'draw', input: { targetSpaceId: spaceId, mention: ids[1] } },
          sayIn(spaceId, 'Nice?'),
        ],
      ],
      heldAt: 9,
      first: () => [],
      reached: async () => keys.length === 1,
    })
    server.closeAllConnections()
    server.close()
    const calls = await callsOf(one, run.id)
    expect(run).toMatchObject({ status: 'COMPLETED', attempt: 2 })
    expect(messages.map(textsOf)).toEqual([['Look:', calls[1]?.id], ['Nice?']])
    expect(messages.map(({ mentionedAgentId }) => mentionedAgentId)).toEqual([agents[1]?.id, null])
    expect(keys).toEqual([calls[1]?.id, calls[1]?.id])
    expect(calls[1]).toMatchObject({ status: 'DONE', input: {}, output: { drawn: true } })
  })

  test('after a mention: the agent is not woken twice', async () => {
    const { run, messages, agents } = await handOver({
      names: ['Ada', 'Bea'],
      steps: (spaceId, ids) => [[sayIn(spaceId, 'Bea?', { mention: ids[1] })], [sayIn(spaceId, 'Thanks.')]],
      heldAt: 1,
      first: () => [{ hang: true }],
      reached: async () => one.models.requests.some(({ step }) => step === 1),
    })
    expect(run).toMatchObject({ status: 'COMPLETED', attempt: 2 })
    expect(messages.map(textsOf)).toEqual([['Bea?'], ['Thanks.']])
    const woken = await one.app.platform.db.prisma.run.findMany({ where: { agentId: agents[1]?.id ?? '' } })
    expect(woken).toHaveLength(1)
  })
})
