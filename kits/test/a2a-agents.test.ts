import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { AgentCard, Task, TaskArtifactUpdateEvent, TaskStatusUpdateEvent } from '@a2a-js/sdk'
import {
  AgentEvent,
  type AgentExecutor,
  DefaultRequestHandler,
  InMemoryTaskStore,
  JsonRpcTransportHandler,
  type RequestContext,
  ServerCallContext,
} from '@a2a-js/sdk/server'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startTestServer, type TestServer } from '../../test/support/served.ts'
import { type Named, openStage, type Person, type Read, type Stage } from '../../test/support/stage.ts'

/** An agent that asks for a city, and then streams its weather. */
const weather: AgentExecutor = {
  async execute({ taskId, contextId, userMessage, task }: RequestContext, bus) {
    const [part] = userMessage.parts
    const text = part?.content?.$case === 'text' ? part.content.value : ''
    const status = (state: string, more: object = {}) =>
      AgentEvent.statusUpdate(
        TaskStatusUpdateEvent.fromJSON({ taskId, contextId, status: { state: `TASK_STATE_${state}`, ...more } }),
      )
    const artifact = (piece: string, append: boolean) =>
      AgentEvent.artifactUpdate(
        TaskArtifactUpdateEvent.fromJSON({
          taskId,
          contextId,
          append,
          artifact: { artifactId: `weather-${taskId}`, parts: [{ text: piece }] },
        }),
      )
    bus.publish(
      AgentEvent.task(
        task ??
          Task.fromJSON({ id: taskId, contextId, status: { state: 'TASK_STATE_SUBMITTED' }, history: [userMessage] }),
      ),
    )
    if (task === undefined && text.startsWith('Weather')) {
      const message = { messageId: `ask-${taskId}`, role: 'ROLE_AGENT', parts: [{ text: 'Where?' }], taskId, contextId }
      bus.publish(status('INPUT_REQUIRED', { message }))
    } else {
      bus.publish(status('WORKING'))
      bus.publish(artifact('Sunny', false))
      await new Promise((resolve) => setTimeout(resolve, 300))
      bus.publish(artifact(` in ${text}.`, true))
      bus.publish(status('COMPLETED'))
    }
    bus.finished()
  },
  async cancelTask() {},
}

describe('an agent of the A2A SDK', () => {
  let parley: TestServer
  let stage: Stage
  let ada: Person
  let close: () => void
  let origin: string

  beforeAll(async () => {
    const http = createServer((request, response) => void answer(request, response))
    await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve))
    origin = `http://127.0.0.1:${(http.address() as AddressInfo).port}`
    close = () => {
      http.closeAllConnections()
      http.close()
    }
    const card = {
      name: 'Weather',
      description: 'Knows the weather.',
      version: '1',
      supportedInterfaces: [{ url: `${origin}/rpc`, protocolBinding: 'JSONRPC', protocolVersion: '1.0' }],
      capabilities: { streaming: true },
      defaultInputModes: ['text/plain'],
      defaultOutputModes: ['text/plain'],
      skills: [],
    }
    const handler = new JsonRpcTransportHandler(
      new DefaultRequestHandler(AgentCard.fromJSON(card), new InMemoryTaskStore(), weather),
    )

    async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
      if (request.method === 'GET') return void response.end(JSON.stringify(card))
      const chunks: Buffer[] = []
      for await (const chunk of request) chunks.push(chunk as Buffer)
      const requestedVersion = String(request.headers['a2a-version'])
      const result = await handler.handle(Buffer.concat(chunks).toString(), new ServerCallContext({ requestedVersion }))
      if (!(Symbol.asyncIterator in result))
        return void response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(result))
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      for await (const event of result) response.write(`data: ${JSON.stringify(event)}\n\n`)
      response.end()
    }

    parley = await startTestServer({ settings: { PARLEY_ALLOW_PRIVATE_TOOLS: 'true' } })
    stage = await openStage(parley)
    ada = await stage.person('Ada')
  })
  afterAll(async () => {
    await parley?.close()
    close?.()
  })

  const textsIn = async (space: Named) => (await stage.messagesIn(space)).map(({ text }: Read) => text)

  test('asks a question, streams, and continues in the same context', async () => {
    const agent = await stage.bot('Weather', { model: `a2a:${origin}/card.json`, toolset: 'ACTIVE_SPACE' })
    const space = await stage.space('Team', [ada, agent], { routing: 'BROADCAST' })
    for (const [index, text] of ['Weather?', 'Paris', 'Rome'].entries()) {
      await stage.say(ada, space, text)
      expect((await stage.endedRuns(agent, index + 1)).at(-1)).toMatchObject({ status: 'COMPLETED', error: null })
    }
    expect(await textsIn(space)).toEqual(['Weather?', 'Where?', 'Paris', 'Sunny in Paris.', 'Rome', 'Sunny in Rome.'])
  })
})
