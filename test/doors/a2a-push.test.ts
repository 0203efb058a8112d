import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { HumanViewer } from '../../src/access/viewer.ts'
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
    // biome-ignore lint/suspicious/noExplicitAny: what a server answers, of any shape.
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

  test('the end of a task is sent once, with the client’s secrets, and the configuration is removed', async () => {
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

  test('another process continues for one that shuts down', async () => {
    const { human, space } = await parley.room()
    const { promise: gate, resolve: open } = Promise.withResolvers<void>()
    parley.models.script(steps([{ gate }, { text: 'Done.' }]))
    const ask = await clientOf(human, space.id)
    const leaving = await startServer({ app: parley.app, config: { ...parley.app.platform.config, port: 0 } })
    const { id: taskId } = (await ask('SendMessage', message('Go'))).result.task
    const url = addressOf()
    await ask('CreateTaskPushNotificationConfig', { taskId, url }, `http://127.0.0.1:${leaving.port}`)
    await leaving.close({ drain: false })
    open()
    await until(
      'the run has ended',
      async () => (await ask('GetTask', { id: taskId })).result.status.state === 'TASK_STATE_COMPLETED',
    )
    await until('another process has sent it', () => statesOf(url).length === 1)
    expect(statesOf(url)).toEqual(['TASK_STATE_COMPLETED'])
    await none(taskId)
  }, 60_000)

  describe('processes that stall, die or close', () => {
    type TaskPushes = typeof parley.app.domain.taskPushes

    /** A process with the same database. */
    function startProcess(faults: Partial<TaskPushes> = {}) {
      const { app } = parley
      const taskPushes = { ...app.domain.taskPushes, ...faults }
      return startServer({
        app: { ...app, domain: { ...app.domain, taskPushes } },
        config: { ...app.platform.config, port: 0 },
      })
    }
    const leaseOf = async (taskId: string) => (await prisma().taskPush.findFirst({ where: { taskId } }))?.leaseId
    const expire = (taskId: string) =>
      prisma().taskPush.updateMany({ where: { taskId }, data: { leasedUntil: new Date(0) } })

    /** A task that works until `open` is called, and a configuration that the process follows. */
    async function followed(origin: string) {
      const { human, space } = await parley.room()
      const { promise: gate, resolve: open } = Promise.withResolvers<void>()
      parley.models.script(steps([{ gate }, { text: 'Done.' }]))
      const ask = await clientOf(human, space.id)
      const { id: taskId } = (await ask('SendMessage', message('Go'))).result.task
      const url = addressOf()
      await ask('CreateTaskPushNotificationConfig', { taskId, id: 'one', url }, origin)
      return { ask, taskId, url, open }
    }

    test('a process whose lease has expired and was taken over sends no request, and removes no configuration', async () => {
      const { taskId, url, open } = await followed(parley.origin)
      const before = await leaseOf(taskId)
      await expire(taskId)
      const noted = Promise.withResolvers<void>()
      const stalled = Promise.withResolvers<void>()
      const { taskPushes } = parley.app.domain
      const other = await startProcess({
        async noteSent(push, state) {
          noted.resolve()
          await stalled.promise
          return taskPushes.noteSent(push, state)
        },
      })
      await until('the other process has taken it over', async () => (await leaseOf(taskId)) !== before)
      open()
      await noted.promise
      await expire(taskId)
      const taken = await leaseOf(taskId)
      // The first process follows the task no more, so it may take it over again.
      await until('the first process has taken it over', async () => (await leaseOf(taskId)) !== taken)
      await none(taskId)
      stalled.resolve()
      await other.close({ drain: false })
      expect(statesOf(url)).toEqual(['TASK_STATE_COMPLETED', 'TASK_STATE_COMPLETED'])
    }, 90_000)

    test('a process does not take over a task that it follows itself, even if its lease has expired', async () => {
      const { taskPushes } = parley.app.domain
      const { taskId, url, open } = await followed(parley.origin)
      const heldIds = [String(await leaseOf(taskId))]
      await expire(taskId)
      expect(await taskPushes.lease({ most: 100, heldIds })).toEqual([])
      open()
      await none(taskId)
      expect(statesOf(url)).toEqual(['TASK_STATE_COMPLETED'])
    })

    test('a request that a killed process had not recorded is sent again, and recorded by the next process', async () => {
      const killed = Promise.withResolvers<never>()
      killed.promise.catch(() => {})
      const sent = Promise.withResolvers<void>()
      const dying = await startProcess({
        noteSent() {
          sent.resolve()
          return killed.promise
        },
        release: () => killed.promise,
        remove: () => killed.promise,
      })
      const { taskId, url, open } = await followed(`http://127.0.0.1:${dying.port}`)
      open()
      await sent.promise
      const [row] = await prisma().taskPush.findMany({ where: { taskId } })
      expect(row).toMatchObject({ sentState: 'TASK_STATE_WORKING' })
      await expire(taskId)
      await none(taskId)
      expect(statesOf(url)).toEqual(['TASK_STATE_COMPLETED', 'TASK_STATE_COMPLETED'])
      killed.reject(new Error('The process was killed.'))
      await dying.close({ drain: false })
    })

    test('a process that closes while it takes over tasks releases them', async () => {
      const { taskId, open } = await followed(parley.origin)
      const [row] = await prisma().taskPush.findMany({ where: { taskId } })
      const leasing = Promise.withResolvers<void>()
      const gate = Promise.withResolvers<void>()
      const released: unknown[] = []
      const closing = await startProcess({
        async lease() {
          leasing.resolve()
          await gate.promise
          return [row!]
        },
        async release(push, afterMs) {
          released.push([push.taskId, afterMs])
        },
      })
      await leasing.promise
      const closed = closing.close({ drain: false })
      gate.resolve()
      await closed
      expect(released).toEqual([[taskId, 0]])
      open()
      await none(taskId)
    })

    test('tasks beyond one batch are taken over without a pause', async () => {
      const { id: viewerId } = await parley.human('Gone')
      const ofLong = { createdAt: new Date(0), leaseId: 'x', leasedUntil: new Date(Date.now() + 3_600_000) }
      const data = Array.from({ length: 150 }, (_, n) => ({ viewerId, taskId: `msg_${n}`, id: 'one', ...ofLong }))
      await prisma().taskPush.createMany({
        data: data.map((row) => ({ ...row, sealed: '', sentState: 'TASK_STATE_WORKING' })),
      })
      const rows = await prisma().taskPush.findMany({ where: { viewerId } })
      const other = await startProcess({ lease: async ({ most }) => rows.splice(0, most) })
      // Less than the time until the next sweep.
      await until('all have ended', async () => (await prisma().taskPush.count({ where: { viewerId } })) === 0, {
        timeoutMs: 14_000,
      })
      await other.close({ drain: false })
    })

    test('a configuration ends after 30 days', async () => {
      const { taskId, url, open } = await followed(parley.origin)
      const createdAt = new Date(Date.now() - 31 * 24 * 3_600_000)
      await prisma().taskPush.updateMany({
        where: { taskId },
        data: { createdAt, leasedUntil: new Date(0), leaseId: 'x' },
      })
      await none(taskId)
      open()
      expect(statesOf(url)).toEqual([])
    })

    test('a configuration whose secret cannot be decrypted is not listed, and is removed when it is needed', async () => {
      const { ask, taskId, url, open } = await followed(parley.origin)
      await ask('CreateTaskPushNotificationConfig', { taskId, id: 'two', url })
      await prisma().taskPush.updateMany({
        where: { taskId, id: 'one' },
        data: { sealed: 'v1.broken', leasedUntil: new Date(0), leaseId: 'x' },
      })
      const { configs } = (await ask('ListTaskPushNotificationConfigs', { taskId })).result
      expect(configs.map(({ id }: { id: string }) => id)).toEqual(['two'])
      const next = await startProcess()
      open()
      await none(taskId)
      await next.close({ drain: false })
      expect(statesOf(url)).toEqual(['TASK_STATE_COMPLETED'])
    })
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
    const others = Array.from({ length: 99 }, (_, n) => ({
      ...row!,
      taskId: `msg_${n.toString(16).padStart(32, '0')}`,
      leasedUntil: new Date(Date.now() + 3_600_000),
    }))
    await prisma().taskPush.createMany({ data: others })
    const refused = await ask('SendMessage', message('More', { taskPushNotificationConfig: { url } }))
    expect(refused.error.data.code).toBe('LIMIT_EXCEEDED')
    const posted = (await parley.messages(space.id)).filter(({ senderId }) => senderId === human.id)
    expect(posted).toHaveLength(1)
    await prisma().taskPush.deleteMany({ where: { viewerId: human.id } })
  })
})
