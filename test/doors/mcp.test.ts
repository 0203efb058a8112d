import { parse, validate } from 'graphql'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { HumanViewer, ServiceViewer } from '../../src/access/viewer.ts'
import type { ToolInput } from '../../src/agents/custom-tools.ts'
import * as operations from '../../src/doors/operations.ts'
import * as documents from '../../src/doors/tasks/documents.ts'
import { schema } from '../../src/graphql/schema.ts'
import { steps } from '../support/model-server-script.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'
import { FORMS, rawClient, TASKS } from './mcp-client.ts'

const DEPLOY: ToolInput = {
  name: 'deploy',
  description: 'Deploys.',
  inputSchema: { type: 'object', properties: { to: { type: 'string' } }, required: ['to'] },
  execution: 'INTERNAL',
  visible: true,
  approval: { quorum: 1 },
}
const WEIGH: ToolInput = {
  name: 'weigh',
  description: 'Asks a person to weigh something.',
  inputSchema: { type: 'object', properties: {} },
  resultSchema: { type: 'object', properties: { grams: { type: 'integer' } }, required: ['grams'] },
  execution: 'SPACE',
}

test('the GraphQL operations of the protocol endpoints are valid', () => {
  const all: [string, unknown][] = Object.entries({ ...documents, ...operations })
  const faults = all.flatMap(([name, document]) =>
    typeof document !== 'string' || document.startsWith('fragment')
      ? []
      : validate(schema, parse(document)).map(({ message }) => `${name}: ${message}`),
  )
  expect(faults).toEqual([])
})

describe('the MCP server', () => {
  let parley: TestServer
  beforeAll(async () => {
    parley = await startTestServer()
  })
  afterAll(() => parley?.close())
  beforeEach(() => parley.models.reset())

  const clientOf = async (human: HumanViewer) => rawClient(parley, await parley.tokenOf(human))

  test('server/discover and tools/list describe what the server can do', async () => {
    const client = await clientOf(await parley.human('Ada'))
    const { message } = await client.ask('server/discover')
    expect(message.result).toMatchObject({
      supportedVersions: ['2026-07-28'],
      capabilities: { tools: {}, prompts: {}, resources: { subscribe: true }, extensions: TASKS.extensions },
    })
    const { message: list } = await client.ask('tools/list')
    expect(list.result.tools.map(({ name }: { name: string }) => name)).toEqual([
      'list_spaces',
      'read_messages',
      'search_messages',
      'send_message',
      'ask_agent',
      'list_pending',
      'decide',
      'submit_result',
      'stop_run',
    ])
    expect(list.result).toMatchObject({ resultType: 'complete', ttlMs: 300_000, cacheScope: 'public' })
  })

  test('a message is sent, its answer is awaited, read and found by search', async () => {
    const { human, agent, space } = await parley.room()
    parley.models.script(steps([{ toolCall: 'send_message', input: { text: 'The meeting is at noon.' } }]))
    const client = await clientOf(human)
    const { structuredContent: sent, content } = await client.call('send_message', { spaceId: space.id, text: 'When?' })
    expect(content[0].text).toContain('The meeting is at noon.')
    expect(sent).toMatchObject({
      status: 'completed',
      spaceId: space.id,
      replies: [{ text: 'The meeting is at noon.', sender: { id: agent.id } }],
    })
    const { structuredContent: spaces } = await client.call('list_spaces')
    expect(spaces.spaces).toMatchObject([{ id: space.id, members: [{ id: human.id }, { id: agent.id }] }])
    const { structuredContent: read } = await client.call('read_messages', { spaceId: space.id, limit: 1 })
    expect(read).toMatchObject({ messages: [{ text: 'The meeting is at noon.' }], hasOlder: true, hasNewer: false })
    expect(read.space.streamCursor).toEqual(expect.any(String))
    const { structuredContent: newer } = await client.call('read_messages', {
      spaceId: space.id,
      after: sent.messageId,
    })
    expect(newer.messages).toHaveLength(1)
    const { structuredContent: found } = await client.call('search_messages', { query: 'noon' })
    expect(found.hits).toMatchObject([{ space: { id: space.id }, sender: { id: agent.id } }])
  })

  test('ask_agent uses the space that has only the human and the agent, and creates one if none exists', async () => {
    const human = await parley.human('Ada')
    const agent = await parley.agent('Bot')
    parley.models.script(({ step }) =>
      step === 0 ? [{ toolCall: 'send_message', input: { text: 'Yes.' } }] : [{ text: 'Done.' }],
    )
    const client = await clientOf(human)
    const both = await Promise.all(
      ['Well?', 'And?'].map((text) => client.call('ask_agent', { agentId: agent.id, text })),
    )
    const spaceIds = new Set(both.map(({ structuredContent }) => structuredContent.spaceId))
    expect([...spaceIds]).toEqual([expect.stringMatching(/^spc_/)])
    expect(both.map(({ structuredContent }) => structuredContent.status)).toEqual(['completed', 'completed'])
  })

  test('a service triggers an agent for which it has a grant', async () => {
    const agent = await parley.agent('Bot')
    const service: ServiceViewer = {
      scope: 'SERVICE',
      id: '',
      name: 'shop',
      agentIds: [agent.id],
      tokenId: null,
      expiresAt: null,
    }
    parley.models.script(() => [{ text: 'Packed.' }])
    const client = rawClient(parley, await parley.tokenOf(service))
    const { structuredContent, content } = await client.call('ask_agent', { agentId: agent.id, text: 'Pack it.' })
    expect(structuredContent).toMatchObject({
      status: 'completed',
      outcomes: [{ runStatus: 'COMPLETED', summary: 'Packed.' }],
    })
    expect(content[0].text).toContain('Packed.')
    const other = await parley.agent('Other')
    const refused = await client.call('ask_agent', { agentId: other.id, text: 'Pack it.' })
    expect(refused).toMatchObject({ isError: true, structuredContent: { error: { code: 'NOT_FOUND' } } })
  })

  describe('with Tasks', () => {
    test('a long run is a task, whose state any client of the viewer can read until the result is there', async () => {
      const { human, space } = await parley.room()
      const { promise: gate, resolve: open } = Promise.withResolvers<void>()
      parley.models.script(steps([{ gate }, { toolCall: 'send_message', input: { text: 'At last.' } }]))
      const client = await clientOf(human)
      const task = await client.call('send_message', { spaceId: space.id, text: 'Go' }, { capabilities: TASKS })
      expect(task).toMatchObject({ resultType: 'task', status: 'working', ttlMs: null, pollIntervalMs: 2000 })
      const { taskId } = task
      const other = await clientOf(human)
      const stream = await other.listen({ taskIds: [taskId] }, { capabilities: TASKS })
      await until('the stream is open', () => stream.seen.length > 0)
      expect(stream.seen[0]).toMatchObject({
        method: 'notifications/subscriptions/acknowledged',
        params: { notifications: { taskIds: [taskId] } },
      })
      open()
      const done = await until('the task has ended', async () => {
        const { message } = await other.ask('tasks/get', { taskId }, { capabilities: TASKS })
        return message.result.status === 'completed' && message.result
      })
      expect(done).toMatchObject({
        resultType: 'complete',
        taskId,
        result: { structuredContent: { replies: [{ text: 'At last.' }] } },
      })
      await stream.ended
      expect(stream.seen.at(-2)).toMatchObject({
        method: 'notifications/tasks',
        params: { taskId, status: 'completed' },
      })
      expect(stream.seen.at(-1)).toMatchObject({ result: { resultType: 'complete' } })
    })

    test('a call that waits for a decision is requested under one key per revision, answered once, and cannot be answered late', async () => {
      const { human, space } = await parley.room('Ada', { tools: [DEPLOY] })
      parley.models.script(steps([{ toolCall: 'deploy', input: { to: 'test' } }], [{ text: 'Deployed.' }]))
      const client = await clientOf(human)
      const capabilities = { ...TASKS, ...FORMS }
      const { taskId } = await client.call('send_message', { spaceId: space.id, text: 'Go' }, { capabilities })
      const get = async () => (await client.ask('tasks/get', { taskId }, { capabilities })).message.result
      const asked = await until('the task asks', async () => {
        const task = await get()
        return task.status === 'input_required' && task
      })
      const [key = ''] = Object.keys(asked.inputRequests)
      expect(asked.inputRequests[key]).toMatchObject({
        method: 'elicitation/create',
        params: { mode: 'form', requestedSchema: { required: ['approve'] } },
      })
      expect(asked.inputRequests[key].params.message).toContain('"to":"test"')
      const update = async (inputResponses: object) =>
        (await client.ask('tasks/update', { taskId, inputResponses }, { capabilities })).message
      const callId = key.split(':')[0]
      expect(await update({ [`${callId}:stale`]: { action: 'accept', content: { approve: true } } })).toMatchObject({
        result: { resultType: 'complete' },
      })
      expect((await get()).status).toBe('input_required')
      expect((await update({ [key]: { action: 'accept', content: {} } })).error).toMatchObject({ code: -32602 })
      const answer = { [key]: { action: 'accept', content: { approve: true } } }
      await update(answer)
      await update(answer)
      const done = await until('the task has ended', async () => {
        const task = await get()
        return task.status === 'completed' && task
      })
      expect(done.result.structuredContent.outcomes).toMatchObject([{ runStatus: 'COMPLETED' }])
      expect((await update(answer)).result).toMatchObject({ resultType: 'complete' })
    })

    test('tasks/cancel stops the runs', async () => {
      const { human, space } = await parley.room()
      parley.models.script(() => [{ hang: true }])
      const client = await clientOf(human)
      const { taskId } = await client.call('send_message', { spaceId: space.id, text: 'Go' }, { capabilities: TASKS })
      expect((await client.ask('tasks/cancel', { taskId }, { capabilities: TASKS })).message).toMatchObject({
        result: { resultType: 'complete' },
      })
      await until('the task is cancelled', async () => {
        const { message } = await client.ask('tasks/get', { taskId }, { capabilities: TASKS })
        return message.result.status === 'cancelled'
      })
      expect((await client.ask('tasks/cancel', { taskId }, { capabilities: TASKS })).message.result).toMatchObject({
        resultType: 'complete',
      })
    })

    test('a client without Tasks gets no task, and the task of another viewer does not exist', async () => {
      const { human, space } = await parley.room()
      parley.models.script(() => [{ hang: true }])
      const client = await clientOf(human)
      const { structuredContent } = await client.call('send_message', { spaceId: space.id, text: 'Go', waitSeconds: 0 })
      expect(structuredContent).toMatchObject({ status: 'working', outcomes: [{ runStatus: expect.any(String) }] })
      const { taskId } = structuredContent
      for (const method of ['tasks/get', 'tasks/cancel', 'tasks/update'])
        expect((await client.ask(method, { taskId, inputResponses: {} })).message.error).toMatchObject({
          code: -32021,
          data: { requiredCapabilities: TASKS },
        })
      const stranger = await clientOf(await parley.human('Eve'))
      for (const id of [taskId, `run_${'0'.repeat(32)}`, `msg_${'0'.repeat(32)}`, 'nonsense', '', '../x'])
        for (const method of ['tasks/get', 'tasks/cancel', 'tasks/update'])
          expect(
            (await stranger.ask(method, { taskId: id, inputResponses: {} }, { capabilities: TASKS })).message.error
              ?.code,
          ).toBe(-32602)
      await client.call('stop_run', { runId: structuredContent.outcomes[0].runId })
    })
  })

  describe('without Tasks', () => {
    test('a client with forms gets the question in the result, and repeats its call without sending the message again', async () => {
      const { human, space } = await parley.room('Ada', { tools: [WEIGH] })
      parley.models.script(
        steps([{ toolCall: 'weigh', input: {} }], [{ toolCall: 'send_message', input: { text: 'Thanks.' } }]),
      )
      const client = await clientOf(human)
      const args = { spaceId: space.id, text: 'How heavy?' }
      const asked = await client.call('send_message', args, { capabilities: FORMS })
      expect(asked).toMatchObject({ resultType: 'input_required', requestState: expect.any(String) })
      const [key = ''] = Object.keys(asked.inputRequests)
      expect(asked.inputRequests[key].params.requestedSchema).toMatchObject({
        properties: { grams: { type: 'integer' } },
      })
      const more = {
        requestState: asked.requestState,
        inputResponses: { [key]: { action: 'accept', content: { grams: 20 } } },
      }
      const done = await client.call('send_message', args, { capabilities: FORMS, more })
      expect(done.structuredContent).toMatchObject({
        status: 'completed',
        replies: [{ text: '' }, { text: 'Thanks.' }],
      })
      const texts = (await parley.messages(space.id)).map(({ senderId }) => senderId === human.id)
      expect(texts.filter(Boolean)).toHaveLength(1)
      const again = await client.call('send_message', args, { capabilities: FORMS, more })
      expect(again.structuredContent).toMatchObject({ status: 'completed' })
      const forged = { ...more, requestState: `msg_${'0'.repeat(32)}` }
      expect(await client.call('send_message', args, { capabilities: FORMS, more: forged })).toMatchObject({
        error: { code: -32602 },
      })
    })

    test('a client without forms lists the calls, decides, and submits results', async () => {
      const { human, space } = await parley.room('Ada', { tools: [DEPLOY, WEIGH] })
      parley.models.script(
        steps(
          [
            { toolCall: 'deploy', input: { to: 'test' } },
            { toolCall: 'weigh', input: {} },
          ],
          [{ text: 'Done.' }],
        ),
      )
      const client = await clientOf(human)
      const { structuredContent: sent } = await client.call('send_message', { spaceId: space.id, text: 'Go' })
      expect(sent).toMatchObject({ status: 'input_required' })
      const { structuredContent: pending } = await until('both calls wait', async () => {
        const result = await client.call('list_pending')
        return result.structuredContent.calls.length === 2 && result
      })
      const [deploy, weigh] = ['deploy', 'weigh'].map((name) =>
        pending.calls.find(({ toolName }: { toolName: string }) => toolName === name),
      )
      expect(deploy).toMatchObject({
        waitsFor: 'DECISION',
        input: { to: 'test' },
        mayDecide: true,
        space: { id: space.id },
      })
      const stale = { toolCallId: deploy.toolCallId, approve: true, inputDigest: 'other' }
      expect(await client.call('decide', stale)).toMatchObject({
        isError: true,
        structuredContent: { error: { code: 'CONFLICT' } },
      })
      const denial = { toolCallId: deploy.toolCallId, approve: false, reason: 'Not today.' }
      expect((await client.call('decide', denial)).structuredContent.toolCall.approval.state).toBe('DENIED')
      expect(await client.call('decide', denial)).toMatchObject({ isError: true })
      const wrong = { toolCallId: weigh.toolCallId, result: { grams: 'many' } }
      expect(await client.call('submit_result', wrong)).toMatchObject({ isError: true })
      const result = { toolCallId: weigh.toolCallId, result: { grams: 1 } }
      expect((await client.call('submit_result', result)).structuredContent.toolCall.status).toBe('DONE')
      expect(await client.call('submit_result', result)).toMatchObject({ isError: true })
    })
  })

  describe('resources, prompts and streams', () => {
    test('spaces are resources, and agents are prompts', async () => {
      const { human, agent, space } = await parley.room()
      await parley.send(human, space.id, 'Hello')
      const client = await clientOf(human)
      const uri = `parley://spaces/${space.id}`
      const { message: list } = await client.ask('resources/list')
      expect(list.result.resources).toMatchObject([{ uri, name: space.name }])
      const { message: read } = await client.ask('resources/read', { uri })
      expect(JSON.parse(read.result.contents[0].text)).toMatchObject({
        space: { id: space.id },
        messages: [{ text: 'Hello' }],
      })
      const stranger = await clientOf(await parley.human('Eve'))
      for (const unknown of [uri, 'parley://spaces/x', 'file:///etc/passwd'])
        expect((await stranger.ask('resources/read', { uri: unknown })).message.error.code).toBe(-32602)
      const { message: prompts } = await client.ask('prompts/list')
      const prompt = prompts.result.prompts.find(({ name }: { name: string }) => name.endsWith(agent.id))
      const { message: got } = await client.ask('prompts/get', { name: prompt.name, arguments: { message: 'Hi' } })
      expect(got.result.messages[0].content.text).toContain(agent.id)
      expect((await client.ask('prompts/get', { name: prompt.name, arguments: {} })).message.error.code).toBe(-32602)
    })

    test('a stream reports changes of a space, resumes after a cursor, and ends with the membership', async () => {
      const human = await parley.human('Ada')
      const space = await parley.space(human, [])
      const other = await parley.space(await parley.human('Eve'), [])
      const client = await clientOf(human)
      const uri = `parley://spaces/${space.id}`
      const hidden = `parley://spaces/${other.id}`
      const stream = await client.listen({ resourceSubscriptions: [uri, hidden], resourcesListChanged: true })
      await until('the stream is open', () => stream.seen.length === 1)
      expect(stream.seen[0].params.notifications).toEqual({ resourceSubscriptions: [uri], resourcesListChanged: true })
      await parley.send(human, space.id, 'One')
      await until('the change is reported', () => stream.seen.length === 2)
      const { method, params } = stream.seen[1]
      expect([method, params.uri]).toEqual(['notifications/resources/updated', uri])
      const added = await parley.space(human, [])
      await until('the new space is reported', () => stream.seen.length === 3)
      expect(stream.seen[2].method).toBe('notifications/resources/list_changed')
      await parley.send(human, space.id, 'Two')
      const from = `${uri}?after=${encodeURIComponent(params._meta['io.parley/cursor'])}`
      const resumed = await client.listen({ resourceSubscriptions: [from] })
      await until('what was missed is reported', () => resumed.seen.length > 1)
      expect(resumed.seen[1].params.uri).toBe(from)
      await parley.app.domain.members.remove(human, { spaceId: space.id, entityId: human.id })
      await resumed.ended
      expect(resumed.seen.at(-1)).toMatchObject({ result: { resultType: 'complete' } })
      await parley.app.domain.members.remove(human, { spaceId: added.id, entityId: human.id })
    })

    test('a stream ends when its token is revoked', async () => {
      const human = await parley.human('Ada')
      const { accessToken, secret } = await parley.app.domain.tokens.create(parley.admin, {
        grant: { humanId: human.id },
      })
      const space = await parley.space(human, [])
      const stream = await rawClient(parley, secret).listen({ resourceSubscriptions: [`parley://spaces/${space.id}`] })
      await until('the stream is open', () => stream.seen.length === 1)
      await parley.app.domain.tokens.revoke(parley.admin, { id: accessToken.id })
      await stream.ended
      expect(stream.seen.at(-1)).toMatchObject({ error: { data: { code: 'UNAUTHENTICATED' } } })
    })
  })

  describe('for a client of version 2025-11-25', () => {
    test('the server responds without a session, and offers no tasks', async () => {
      const { human, space } = await parley.room()
      parley.models.script(steps([{ toolCall: 'send_message', input: { text: 'Hello.' } }]))
      const client = await clientOf(human)
      const ask = async (method: string, params: object = {}) =>
        (await client.post({ jsonrpc: '2.0', id: 1, method, params })).text()
      const initialized = await ask('initialize', {
        protocolVersion: '2025-11-25',
        capabilities: {},
        clientInfo: { name: 'old', version: '1' },
      })
      expect(initialized).toContain('"protocolVersion":"2025-11-25"')
      expect(initialized).not.toContain('tasks')
      expect(await ask('tools/call', { name: 'send_message', arguments: { spaceId: space.id, text: 'Hi' } })).toContain(
        'Hello.',
      )
      expect(await ask('tasks/get', { taskId: 'x' })).toContain('-32601')
      expect((await client.post({ jsonrpc: '2.0', method: 'notifications/initialized' })).status).toBe(202)
    })
  })
})
