import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import type { HumanViewer } from '../../src/access/viewer.ts'
import { createPushingTasks } from '../../src/engine/pushing-tasks.ts'
import { startServer } from '../../src/server/server.ts'
import { steps } from '../support/model-server-script.ts'
import { type PushService, startPushService } from '../support/push-service.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { until } from '../support/until.ts'

describe('push notifications of A2A tasks', () => {
  let parley: TestServer
  let receiver: PushService
  beforeAll(async () => {
    receiver = await startPushService()
    parley = await startTestServer({ push: receiver.network })
  })
  afterAll(async () => {
    await parley?.close()
    await receiver?.close()
  })
  beforeEach(() => parley.models.reset())

  const prisma = () => parley.app.platform.db.prisma
  const pushesOf = (url: string) =>
    receiver.received
      .filter(({ path }) => url.endsWith(path))
      .map(({ headers, body }) => ({ headers, ...JSON.parse(body.toString()) }))
  const statesOf = (url: string) => pushesOf(url).map(({ statusUpdate }) => statusUpdate.status.state)
  const addressOf = () => receiver.browser().input.endpoint
  const none = (taskId: string) =>
    until('the configuration is removed', async () => (await prisma().taskPush.count({ where: { taskId } })) === 0)

  async function clientOf(human: HumanViewer, spaceId: string, token: string | null = null) {
    const authorization = `Bearer ${token ?? (await parley.tokenOf(human))}`
    // biome-ignore lint/suspicious/noExplicitAny: the content can have any shape
    return async (method: string, params: object, origin = parley.origin): Promise<any> => {
      const response = await fetch(`${origin}/a2a/spaces/${spaceId}`, {
        method: 'POST',
        headers: { authorization, 'content-type': 'application/json', 'a2a-version': '1.0' },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
      })
      return response.json()
    }
  }
  const message = (text: string, configuration: object = {}) => ({
    message: { messageId: crypto.randomUUID(), role: 'ROLE_USER', parts: [{ text }] },
    configuration: { returnImmediately: true, ...configuration },
  })

  test('the end of a task is sent once, with the client’s secrets, and then the configuration is removed', async () => {
    const { human, space } = await parley.room()
    const { promise: gate, resolve: open } = Promise.withResolvers<void>()
    parley.models.script(steps([{ gate }, { text: 'Done.' }]))
    const ask = await clientOf(human, space.id)
    const { id: taskId } = (await ask('SendMessage', message('Go'))).result.task
    const url = addressOf()
    const authentication = { scheme: 'Bearer', credentials: 'secret-of-the-client' }
    const created = await ask('CreateTaskPushNotificationConfig', {
      taskId,
      id: 'one',
      url,
      token: 'mine',
      authentication,
    })
    const shown = { id: 'one', taskId, url, authentication: { scheme: 'Bearer', credentials: '' } }
    expect(created.result).toEqual(shown)
    expect((await ask('GetTaskPushNotificationConfig', { taskId, id: 'one' })).result).toEqual(shown)
    expect((await ask('ListTaskPushNotificationConfigs', { taskId })).result.configs).toEqual([shown])
    const [row] = await prisma().taskPush.findMany({ where: { taskId } })
    expect(JSON.stringify(row)).not.toMatch(/secret-of-the-client|mine|example/)
    open()
    await none(taskId)
    expect(pushesOf(url)).toMatchObject([
      {
        headers: {
          'content-type': 'application/a2a+json',
          'x-a2a-notification-token': 'mine',
          authorization: 'Bearer secret-of-the-client',
        },
        statusUpdate: { taskId, contextId: space.id, status: { state: 'TASK_STATE_COMPLETED' } },
      },
    ])
    expect((await ask('CreateTaskPushNotificationConfig', { taskId, url })).error.code).toBe(-32004)
  })

  test('a configuration may be part of a message, and a busy receiver gets the state again later', async () => {
    const { human, space } = await parley.room()
    parley.models.script(steps([{ text: 'Done.' }]))
    const ask = await clientOf(human, space.id)
    const url = addressOf()
    const at = new URL(url).pathname
    receiver.statuses.set(at, 503)
    const { result } = await ask('SendMessage', message('Go', { taskPushNotificationConfig: { url } }))
    await until('it was sent', () => statesOf(url).length === 1)
    receiver.statuses.delete(at)
    await none(result.task.id)
    expect(statesOf(url)).toEqual(['TASK_STATE_COMPLETED', 'TASK_STATE_COMPLETED'])
  })

  test('a change is sent at once, also long after the configuration was made', async () => {
    const { human, space } = await parley.room()
    const { promise: gate, resolve: open } = Promise.withResolvers<void>()
    parley.models.script(steps([{ gate }, { text: 'Done.' }]))
    const ask = await clientOf(human, space.id)
    const url = addressOf()
    const hasten = vi.spyOn(parley.app.platform.jobs, 'hasten')
    const { result } = await ask('SendMessage', message('Go', { taskPushNotificationConfig: { url } }))
    const taskId: string = result.task.id
    const isOfTask = ([, key]: unknown[]) => String(key).includes(taskId)
    await until('the task is watched', () => hasten.mock.calls.some(isOfTask))
    await Promise.all(hasten.mock.results.map(({ value }) => value))
    // Simulates a task that has been followed for a long time.
    await until('its next periodic check is far away', async () => {
      const changed = await prisma().$executeRaw`
        UPDATE job SET start_after = now() + interval '1 hour'
        WHERE name = 'push-task' AND state = 'created' AND singleton_key LIKE ${`%${taskId}%`}`
      return changed === 1
    })
    open()
    await none(taskId)
    expect(statesOf(url)).toEqual(['TASK_STATE_COMPLETED'])
    hasten.mockRestore()
  })

  test('addresses inside the network are refused, or never connected to, and no request is sent to them', async () => {
    const { human, space } = await parley.room()
    parley.models.script(() => [{ hang: true }])
    const ask = await clientOf(human, space.id)
    for (const url of [
      'http://push.example.com/',
      'https://127.0.0.1/',
      'https://localhost/',
      'https://[::1]/',
      'x',
      7,
    ]) {
      const refused = await ask('SendMessage', message('Go', { taskPushNotificationConfig: { url } }))
      expect([url, refused.error?.code]).toEqual([url, -32602])
    }
    expect(await parley.messages(space.id)).toEqual([])
    const { id: taskId } = (await ask('SendMessage', message('Go'))).result.task
    const [{ id: runId } = { id: '' }] = await prisma().run.findMany({ where: { rootId: taskId } })
    for (const fault of [
      { id: 'a b' },
      { token: 'a\r\nb' },
      { token: 'x'.repeat(5000) },
      { authentication: { scheme: 'a b', credentials: 'c' } },
      { authentication: { scheme: 'Bearer', credentials: 'a\nb' } },
    ]) {
      const refused = await ask('CreateTaskPushNotificationConfig', { taskId, url: addressOf(), ...fault })
      expect([fault, refused.error?.code]).toEqual([fault, -32602])
    }
    const inside = addressOf().replace('push.example.com', 'inside.example.com')
    await ask('CreateTaskPushNotificationConfig', { taskId, url: inside })
    const before = receiver.received.length
    await parley.app.domain.control.stopRun(human, { runId, cascade: true })
    await none(taskId)
    expect(receiver.received.length).toBe(before)
  })

  test('a configuration is deleted by its client, belongs to its viewer, and ends with its token and its task', async () => {
    const { human, space } = await parley.room()
    parley.models.script(() => [{ hang: true }])
    const { domain } = parley.app
    const { accessToken, secret } = await domain.tokens.create(parley.admin, { grant: { humanId: human.id } })
    const [ask, other] = [await clientOf(human, space.id), await clientOf(human, space.id, secret)]
    const eve = await parley.human('Eve')
    const stranger = await clientOf(eve, space.id)
    const { id: taskId } = (await ask('SendMessage', message('Go'))).result.task
    const url = addressOf()
    const create = (by: typeof ask, more: object = {}) =>
      by('CreateTaskPushNotificationConfig', { taskId, url, ...more })
    expect((await create(stranger)).error.code).toBe(-32001)
    await create(ask, { id: 'one' })
    for (const method of ['Get', 'List', 'Delete'])
      expect(
        (await stranger(`${method}TaskPushNotificationConfig${method === 'List' ? 's' : ''}`, { taskId, id: 'one' }))
          .error.code,
      ).toBe(-32001)
    await domain.members.add(parley.admin, { spaceId: space.id, entityId: eve.id })
    expect((await stranger('ListTaskPushNotificationConfigs', { taskId })).result.configs).toEqual([])
    expect((await stranger('GetTaskPushNotificationConfig', { taskId, id: 'one' })).error.code).toBe(-32001)
    expect((await ask('DeleteTaskPushNotificationConfig', { taskId, id: 'one' })).result).toEqual({})
    expect((await ask('GetTaskPushNotificationConfig', { taskId, id: 'one' })).error.code).toBe(-32001)
    await create(other, { id: 'two' })
    await domain.tokens.revoke(parley.admin, { id: accessToken.id })
    await none(taskId)
    const ids = Array.from({ length: 11 }, (_, n) => `n${n}`)
    const codes = await Promise.all(ids.map(async (id) => (await create(ask, { id })).error?.data?.code))
    expect(codes.filter((code) => code === 'LIMIT_EXCEEDED')).toHaveLength(1)
    expect(pushesOf(url)).toEqual([])
    await domain.deletion.deleteSpace(parley.admin, { id: space.id })
    await none(taskId)
  })

  /** Starts a task that works until `open` is called, and its configuration. */
  async function followed(origin = parley.origin) {
    const { human, space } = await parley.room()
    const { promise: gate, resolve: open } = Promise.withResolvers<void>()
    parley.models.script(steps([{ gate }, { text: 'Done.' }]))
    const ask = await clientOf(human, space.id)
    const { id: taskId } = (await ask('SendMessage', message('Go'))).result.task
    const url = addressOf()
    await ask('CreateTaskPushNotificationConfig', { taskId, id: 'one', url }, origin)
    return { ask, taskId, url, open }
  }

  test('the process that has stored a configuration can end', async () => {
    const leaving = await startServer({ app: parley.app, config: { ...parley.app.platform.config, port: 0 } })
    const { taskId, url, open } = await followed(`http://127.0.0.1:${leaving.port}`)
    await leaving.close({ drain: false })
    open()
    await none(taskId)
    expect(statesOf(url)).toEqual(['TASK_STATE_COMPLETED'])
  })

  test('a notification that the receiver never accepts is a failed job, which an admin retries', async () => {
    const { taskId, url, open } = await followed()
    const { failedJobs } = parley.app.domain
    const at = new URL(url).pathname
    receiver.statuses.set(at, 503)
    open()
    await until('an attempt has failed', () => statesOf(url).length > 0)
    await prisma().$executeRaw`
      UPDATE pgboss.job SET retry_limit = 0, retry_count = 0, start_after = now()
      WHERE name = 'push-task' AND group_id = ${taskId} AND state IN ('created', 'retry')`
    const failed = await until('the job is shown as failed', async () => {
      const { items } = await failedJobs.page({ size: 50, fromEnd: false, after: null, before: null })
      return items.find(({ subjectId }) => subjectId === taskId)
    })
    expect(failed).toMatchObject({ name: 'push-task', error: expect.stringContaining('503') })
    const { restore } = pushing()
    await restore()
    expect(await jobsOf(taskId)).toEqual([])
    receiver.statuses.delete(at)
    await failedJobs.retry(parley.admin, { id: failed.id })
    await none(taskId)
    expect(new Set(statesOf(url))).toEqual(new Set(['TASK_STATE_COMPLETED']))
  })

  const pushing = () =>
    createPushingTasks(parley.app.platform, {
      ...parley.app.domain,
      http: { send: () => Promise.reject(new Error('Nothing is sent.')) } as never,
    })
  const jobsOf = (taskId: string) => prisma().$queryRaw<unknown[]>`
    SELECT id FROM pgboss.job WHERE name = 'push-task' AND group_id = ${taskId} AND state < 'completed'`

  test('a configuration without a job gets one, and old ones are deleted', async () => {
    const { taskId, url, open } = await followed()
    await prisma().$executeRaw`DELETE FROM pgboss.job WHERE name = 'push-task' AND group_id = ${taskId}`
    const [row] = await prisma().taskPush.findMany({ where: { taskId } })
    const days = (count: number) => new Date(Date.now() - count * 24 * 3_600_000)
    const others = [
      { taskId: 'msg_0', createdAt: days(31) },
      { taskId: 'new:0', createdAt: days(1) },
      { taskId: 'new:1', createdAt: days(0) },
    ]
    await prisma().taskPush.createMany({ data: others.map((other) => ({ ...row!, ...other })) })
    await pushing().restore()
    const { viewerId } = row!
    const left = await prisma().taskPush.findMany({ where: { viewerId }, orderBy: { taskId: 'asc' } })
    expect(left.map((push) => push.taskId)).toEqual([taskId, 'new:1'].toSorted())
    expect(await jobsOf(taskId)).toHaveLength(1)
    expect(await jobsOf('new:1')).toEqual([])
    open()
    await none(taskId)
    expect(statesOf(url)).toEqual(['TASK_STATE_COMPLETED'])
  })

  test('a configuration ends after 30 days', async () => {
    const { taskId, url, open } = await followed()
    const createdAt = new Date(Date.now() - 31 * 24 * 3_600_000)
    await prisma().taskPush.updateMany({ where: { taskId }, data: { createdAt } })
    await none(taskId)
    open()
    expect(statesOf(url)).toEqual([])
  })

  test('a configuration whose secret cannot be decrypted is not listed, and removed when it is needed', async () => {
    const { ask, taskId, url, open } = await followed()
    await ask('CreateTaskPushNotificationConfig', { taskId, id: 'two', url })
    await prisma().taskPush.updateMany({ where: { taskId, id: 'one' }, data: { sealed: 'v1.broken' } })
    const { configs } = (await ask('ListTaskPushNotificationConfigs', { taskId })).result
    expect(configs.map(({ id }: { id: string }) => id)).toEqual(['two'])
    open()
    await none(taskId)
    expect(statesOf(url)).toEqual(['TASK_STATE_COMPLETED'])
  })

  test('a question that waits for the viewer is notified of, once', async () => {
    const choose = {
      name: 'choose',
      description: 'Asks.',
      inputSchema: { type: 'object' },
      execution: 'SPACE' as const,
      visible: true,
    }
    const { human, space } = await parley.room('Ada', { tools: [choose] })
    parley.models.script(steps([{ toolCall: 'choose', input: {} }, { text: 'Done.' }]))
    const ask = await clientOf(human, space.id)
    const url = addressOf()
    const { result } = await ask('SendMessage', message('Go', { taskPushNotificationConfig: { url } }))
    await until('the question was notified of', () => statesOf(url).length === 1)
    const call = await prisma().toolCall.findFirstOrThrow({ where: { status: 'WAITING', spaceId: space.id } })
    await parley.app.domain.control.submitToolResult(human, { toolCallId: call.id, result: 'blue' })
    await none(result.task.id)
    expect(statesOf(url).filter((state) => state !== 'TASK_STATE_WORKING')).toEqual([
      'TASK_STATE_INPUT_REQUIRED',
      'TASK_STATE_COMPLETED',
    ])
  })

  test('a replaced configuration receives requests at its new address only', async () => {
    const { human, space } = await parley.room()
    const { promise: gate, resolve: open } = Promise.withResolvers<void>()
    parley.models.script(steps([{ gate }, { text: 'Done.' }]))
    const ask = await clientOf(human, space.id)
    const { id: taskId } = (await ask('SendMessage', message('Go'))).result.task
    const [old, url] = [addressOf(), addressOf()]
    await ask('CreateTaskPushNotificationConfig', { taskId, id: 'one', url: old })
    await ask('CreateTaskPushNotificationConfig', { taskId, id: 'one', url })
    open()
    await none(taskId)
    expect([statesOf(old), statesOf(url)]).toEqual([[], ['TASK_STATE_COMPLETED']])
  })

  test('a repeated message adds no second configuration, and nothing is sent beyond the limit', async () => {
    const { human, space } = await parley.room()
    parley.models.script(() => [{ hang: true }])
    const ask = await clientOf(human, space.id)
    const url = addressOf()
    const again = message('Go', { taskPushNotificationConfig: { url } })
    const { id: taskId } = (await ask('SendMessage', again)).result.task
    expect((await ask('SendMessage', again)).result.task.id).toBe(taskId)
    expect(await prisma().taskPush.count({ where: { taskId } })).toBe(1)
    const [row] = await prisma().taskPush.findMany({ where: { taskId } })
    const others = Array.from({ length: 98 }, (_, n) => ({
      ...row!,
      // Invalid configurations, so that nothing checks these tasks.
      taskId: `new:${n.toString(16).padStart(32, '0')}`,
    }))
    await prisma().taskPush.createMany({ data: others })
    const more = ['One', 'Two', 'Three'].map((text) =>
      ask('SendMessage', message(text, { taskPushNotificationConfig: { url } })),
    )
    const codes = (await Promise.all(more)).map(({ error }) => error?.data?.code ?? 'posted')
    expect(codes.toSorted()).toEqual(['LIMIT_EXCEEDED', 'LIMIT_EXCEEDED', 'posted'])
    const posted = (await parley.messages(space.id)).filter(({ senderId }) => senderId === human.id)
    expect(posted).toHaveLength(2)
    // A message that cannot be posted does not use up the limit.
    const { viewerId, taskId: firstId, id } = others[0]!
    await prisma().taskPush.delete({ where: { viewerId_taskId_id: { viewerId, taskId: firstId, id } } })
    const { error } = await ask('SendMessage', {
      ...message('', { taskPushNotificationConfig: { url } }),
      message: { messageId: 'x', role: 'ROLE_USER', parts: [] },
    })
    expect(error.code).toBe(-32602)
    expect(await prisma().taskPush.count({ where: { viewerId: human.id } })).toBe(99)
    await prisma().taskPush.deleteMany({ where: { viewerId: human.id } })
  })
})
