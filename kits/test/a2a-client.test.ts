import { type Message, Role, type StreamResponse, type Task, TaskState } from '@a2a-js/sdk'
import { ClientFactory, DefaultAgentCardResolver, JsonRpcTransportFactory } from '@a2a-js/sdk/client'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { HumanViewer } from '../../src/access/viewer.ts'
import { RULE_STACKS } from '../../test/support/application.ts'
import { steps } from '../../test/support/model-server-script.ts'
import { startTestServer, type TestServer } from '../../test/support/served.ts'

describe.each(RULE_STACKS)('the A2A client, on the %s stack', (stack) => {
  let parley: TestServer
  beforeAll(async () => {
    parley = await startTestServer({ stack })
  })
  afterAll(() => parley?.close())
  beforeEach(() => parley.models.reset())

  let n = 0
  const saying = (text: string, more: Partial<Message> = {}) => ({
    tenant: '',
    configuration: undefined,
    metadata: undefined,
    message: {
      messageId: `m-${++n}`,
      contextId: '',
      taskId: '',
      role: Role.ROLE_USER,
      parts: [{ content: { $case: 'text' as const, value: text }, metadata: undefined, filename: '', mediaType: '' }],
      metadata: undefined,
      extensions: [],
      referenceTaskIds: [],
      ...more,
    },
  })

  async function clientOf(human: HumanViewer, path: string) {
    const authorization = `Bearer ${await parley.tokenOf(human)}`
    const fetchImpl: typeof fetch = (input, init) =>
      fetch(input, { ...init, headers: { ...Object.fromEntries(new Headers(init?.headers)), authorization } })
    const factory = new ClientFactory({
      transports: [new JsonRpcTransportFactory({ fetchImpl })],
      cardResolver: new DefaultAgentCardResolver({ fetchImpl }),
    })
    return factory.createFromUrl(`${parley.origin}${path}/.well-known/agent-card.json`, '')
  }

  const textsOf = ({ artifacts }: Task) =>
    artifacts.flatMap(({ parts }) => parts.map(({ content }) => (content?.$case === 'text' ? content.value : '')))

  test('finds the card, sends, reads the task, and lists tasks', async () => {
    const human = await parley.human('Ada')
    const agent = await parley.agent('Bot')
    parley.models.script(steps([{ toolCall: 'send_message', input: { text: 'Hello, Ada.' } }]))
    const client = await clientOf(human, `/a2a/agents/${agent.id}`)
    const task = (await client.sendMessage(saying('Hi'))) as Task
    expect([task.status?.state, textsOf(task)]).toEqual([TaskState.TASK_STATE_COMPLETED, ['Hello, Ada.']])
    expect(textsOf(await client.getTask({ tenant: '', id: task.id }))).toEqual(['Hello, Ada.'])
    await expect(client.cancelTask({ tenant: '', id: task.id, metadata: undefined })).rejects.toThrow()
    await expect(client.getTask({ tenant: '', id: 'unknown' })).rejects.toThrow()
  })

  test('follows a stream to its end', async () => {
    const { human, space } = await parley.room()
    parley.models.script(steps([{ toolCall: 'send_message', input: { text: 'One, two.' } }]))
    const client = await clientOf(human, `/a2a/spaces/${space.id}`)
    const seen: StreamResponse[] = []
    for await (const event of client.sendMessageStream(saying('Count'))) seen.push(event)
    expect(seen[0]?.payload?.$case).toBe('task')
    const last = seen.at(-1)?.payload
    // If the task ends before the stream begins, the stream contains only the task in its final state.
    const isState = last?.$case === 'task' || last?.$case === 'statusUpdate'
    const state = isState ? last.value.status?.state : null
    expect(state).toBe(TaskState.TASK_STATE_COMPLETED)
  })

  test('configures push notifications', async () => {
    const { human, space } = await parley.room()
    parley.models.script(() => [{ hang: true }])
    const client = await clientOf(human, `/a2a/spaces/${space.id}`)
    const configuration = {
      acceptedOutputModes: [],
      taskPushNotificationConfig: undefined,
      returnImmediately: true,
    }
    const { id: taskId } = (await client.sendMessage({ ...saying('Go'), configuration })) as Task
    const url = 'https://push.example.com/hook'
    const authentication = { scheme: 'Bearer', credentials: 'secret' }
    const given = { tenant: '', id: 'one', taskId, url, token: 'mine', authentication }
    const shown = { id: 'one', taskId, url, authentication: { scheme: 'Bearer', credentials: '' } }
    expect(await client.createTaskPushNotificationConfig(given)).toMatchObject(shown)
    expect(await client.getTaskPushNotificationConfig({ tenant: '', taskId, id: 'one' })).toMatchObject(shown)
    const list = () => client.listTaskPushNotificationConfig({ tenant: '', taskId, pageSize: 0, pageToken: '' })
    expect((await list()).configs).toMatchObject([shown])
    await client.deleteTaskPushNotificationConfig({ tenant: '', taskId, id: 'one' })
    expect((await list()).configs).toEqual([])
    await expect(client.createTaskPushNotificationConfig({ ...given, url: 'https://127.0.0.1/' })).rejects.toThrow()
  })
})
