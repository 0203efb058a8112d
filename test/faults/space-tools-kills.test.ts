import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { ToolInput } from '../../src/agents/custom-tools.ts'
import { type Stores, startApplication, type TestApplication } from '../support/application.ts'
import { type ModelServer, startModelServer } from '../support/model-server.ts'
import { forAgent, type ModelAction, when } from '../support/model-server-script.ts'
import { type ParleyProcess, startParley } from '../support/parley-process.ts'
import { createTestDatabase, hasPostgres, type TestDatabase } from '../support/postgres.ts'
import {
  callsOf,
  messagesOf,
  runsOf,
  type SpaceToolsRoom,
  sayIn,
  spaceToolsRoom,
  textsOf,
} from '../support/space-tools.ts'
import { canStartRedis, startThrowawayRedis, type ThrowawayRedis } from '../support/throwaway-redis.ts'
import { until } from '../support/until.ts'

/** Longer than it takes to detect a lost lease, with a margin for a busy machine. */
const TAKEN_OVER_WITHIN = { timeoutMs: 90_000 }

/** An agent that is paused at a point of its run while its worker is killed. */
interface Case {
  room: SpaceToolsRoom
  runId: string
}

describe.skipIf(!hasPostgres || !canStartRedis())('a worker killed at every point of a composite message', () => {
  let database: TestDatabase
  let redis: ThrowawayRedis
  let models: ModelServer
  let parley: TestApplication
  let settings: Record<string, string>
  let worker: ParleyProcess
  let tools: Server
  const toolKeys: string[] = []

  beforeAll(async () => {
    ;[database, redis, models] = await Promise.all([createTestDatabase(), startThrowawayRedis(), startModelServer()])
    tools = createServer((request, response) => {
      toolKeys.push(String(request.headers['idempotency-key']))
      if (toolKeys.length > 1) response.writeHead(200, { 'content-type': 'application/json' }).end('{"drawn":true}')
    })
    await new Promise<void>((resolve) => tools.listen(0, '127.0.0.1', resolve))
    settings = {
      DATABASE_URL: database.url,
      REDIS_URL: redis.url,
      DATA_DIR: path.join(tmpdir(), 'parley-no-data'),
      PARLEY_SECRET_KEY: 'a-secret-key-for-tests-of-32-or-more',
      PARLEY_LOG_LEVEL: 'error',
      PARLEY_ALLOW_PRIVATE_TOOLS: 'true',
      OPENAI_API_KEY: 'sk-test',
      OPENAI_BASE_URL: models.baseUrl,
    }
    const stores: Stores = { settings, options: {}, async close() {} }
    parley = await startApplication({
      stack: 'postgres',
      worker: false,
      beside: { models, stores } as TestApplication,
    })
  })
  afterAll(async () => {
    await worker?.kill()
    tools?.closeAllConnections()
    tools?.close()
    await parley?.close()
    await models?.close()
    await Promise.all([database?.drop(), redis?.dispose()])
  })

  /**
   * The agent of that name plays the steps when it receives "go". A step in `first` replaces the first execution of that step.
   * Other messages get an empty response.
   */
  async function begin(
    name: string,
    stepsIn: (room: SpaceToolsRoom) => ModelAction[][],
    first: (room: SpaceToolsRoom) => Record<number, ModelAction[]> = () => ({}),
    own: ToolInput[] = [],
  ): Promise<Case> {
    const room = await spaceToolsRoom(parley, { names: [name, `${name} Bea`], input: { tools: own } })
    const [generations, held] = [stepsIn(room), first(room)]
    const asked = new Set<number>()
    models.script(forAgent(`${name},`, () => [{ text: 'Nothing to say.' }]))
    models.script(forAgent(`${name} Bea,`, () => [{ text: 'Nothing to say.' }]))
    models.script(
      forAgent(
        `${name},`,
        when(
          ({ messages }) =>
            messages
              .find(({ role }) => role === 'user')
              ?.text.split('RECENT MESSAGES')[0]
              ?.includes('"Go!"') ?? false,
          ({ step }) => {
            const isFirst = !asked.has(step)
            asked.add(step)
            return (isFirst ? held[step] : undefined) ?? generations[step] ?? [{ text: 'Done.' }]
          },
        ),
      ),
    )
    const { runs } = await parley.send(room.human, room.space.id, 'Go!')
    return { room, runId: runs[0]?.id ?? '' }
  }

  const posted = ({ room }: Case) => messagesOf(parley, room.space.id, room.agents[0]?.id ?? '')
  const isHeldAt = (name: string, step: number) =>
    models.request((request) => request.instructions.includes(`You are ${name},`) && request.step === step)
  const streams = (spaceId: string, text: string): ModelAction[] => [
    {
      toolCall: 'sendSpaceMessage',
      input: '',
      chunks: [`{"spaceId":"${spaceId}","text":"${text}`, new Promise(() => {})],
    },
  ]
  const drafts = async (one: Case, part: number, text: string) => {
    const [message] = await posted(one)
    return (
      (await parley.app.platform.log.drafts(`space:${message?.spaceId}`, [message?.id ?? '']))
        .get(message?.id ?? '')
        ?.get(part) === text
    )
  }
  const waits = async ({ runId }: Case) =>
    (await callsOf(parley, runId)).some(({ state }) => JSON.stringify(state)?.includes('afterSeq'))

  test('posts no complete text twice, wakes no agent twice, and its waits continue', { timeout: 240_000 }, async () => {
    const draw: ToolInput = {
      name: 'draw',
      description: 'Draws.',
      inputSchema: { type: 'object' },
      execution: 'HTTP',
      visible: true,
      timeoutMs: 60_000,
      url: `http://127.0.0.1:${(tools.address() as AddressInfo).port}/`,
    }
    const confirm: ToolInput = {
      name: 'confirm',
      description: 'Asks.',
      inputSchema: { type: 'object' },
      execution: 'SPACE',
    }
    const hang = (step: number) => () => ({ [step]: [{ hang: true }] satisfies ModelAction[] })
    const wait = { for: [{ type: 'human' }], timeout: 120 }
    const two = ({ space }: SpaceToolsRoom) => [[sayIn(space.id, 'One.')], [sayIn(space.id, 'Two.')]]
    worker = await startParley({ settings: { ...settings, PARLEY_ROLE: 'worker' } })

    const between = await begin('Between', two, hang(1))
    const first = await begin('First', two, ({ space }) => ({ 0: streams(space.id, 'On') }))
    const second = await begin('Second', two, ({ space }) => ({ 1: streams(space.id, 'Tw') }))
    const mention = await begin(
      'Mention',
      ({ space, agents }) => [[sayIn(space.id, 'One.', { mention: agents[1]?.id })], [sayIn(space.id, 'Two.')]],
      hang(1),
    )
    const drawing = await begin(
      'Drawing',
      ({ space }) => [
        [sayIn(space.id, 'One.'), { toolCall: 'draw', input: { targetSpaceId: space.id } }, sayIn(space.id, 'Two.')],
      ],
      undefined,
      [draw],
    )
    const asking = await begin(
      'Asking',
      ({ space }) => [
        [sayIn(space.id, 'One.'), { toolCall: 'confirm', input: { targetSpaceId: space.id } }],
        [sayIn(space.id, 'Two.')],
      ],
      undefined,
      [confirm],
    )
    const question = ({ space }: SpaceToolsRoom) => [[sayIn(space.id, 'One?', { wait })], [sayIn(space.id, 'Two.')]]
    const answeredMeanwhile = await begin('Meanwhile', question)
    const answeredAfter = await begin('After', question)
    const cases = [between, first, second, mention, drawing, asking, answeredMeanwhile, answeredAfter]

    await Promise.all([isHeldAt('Between', 1), isHeldAt('Mention', 1), parley.runWhen(asking.runId, 'WAITING_TOOL')])
    await until('First streams', () => drafts(first, 0, 'On'))
    await until('Second streams', () => drafts(second, 1, 'Tw'))
    await until('the drawing is requested', () => toolKeys.length === 1)
    for (const one of [answeredMeanwhile, answeredAfter]) await until('it waits', () => waits(one))
    await worker.kill()

    const send = ({ room }: Case, text: string) => parley.send(room.human, room.space.id, text)
    await send(answeredMeanwhile, 'Meanwhile.')
    worker = await startParley({ settings: { ...settings, PARLEY_ROLE: 'worker' } })
    await until(
      'the wait is resumed',
      async () => (await parley.run(answeredAfter.runId)).attempt === 2,
      TAKEN_OVER_WITHIN,
    )
    await send(answeredAfter, 'After.')
    const [, confirming] = await callsOf(parley, asking.runId)
    await parley.app.domain.control.submitToolResult(asking.room.human, {
      toolCallId: confirming?.id ?? '',
      result: true,
    })

    for (const { runId } of cases) {
      await until(`${runId} has ended`, async () => (await parley.run(runId)).status === 'COMPLETED', TAKEN_OVER_WITHIN)
    }
    const conversation = async (one: Case) =>
      (await posted(one)).map((message) => `${message.status}: ${textsOf(message).join(' | ')}`)
    expect(await conversation(between)).toEqual(['COMPLETE: One. | Two.'])
    expect(await conversation(first)).toEqual(['INTERRUPTED: On', 'COMPLETE: One. | Two.'])
    expect(await conversation(second)).toEqual(['INTERRUPTED: One. | Tw', 'COMPLETE: Two.'])
    expect(await conversation(mention)).toEqual(['COMPLETE: One.', 'COMPLETE: Two.'])
    expect(await runsOf(parley, mention.room.agents[1]?.id ?? '')).toHaveLength(1)
    const [, drawn] = await callsOf(parley, drawing.runId)
    expect(await conversation(drawing)).toEqual([`COMPLETE: One. | ${drawn?.id} | Two.`])
    expect(toolKeys).toEqual([drawn?.id, drawn?.id])
    expect(await conversation(asking)).toEqual([`COMPLETE: One. | ${confirming?.id}`, 'COMPLETE: Two.'])
    for (const [one, text] of [
      [answeredMeanwhile, 'Meanwhile.'],
      [answeredAfter, 'After.'],
    ] as const) {
      expect(await conversation(one)).toEqual(['COMPLETE: One?', 'COMPLETE: Two.'])
      expect((await callsOf(parley, one.runId))[0]?.output).toMatchObject({ timedOut: false, reply: { text } })
    }
    expect(models.refusals).toEqual([])
  })
})
