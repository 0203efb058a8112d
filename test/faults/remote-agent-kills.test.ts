import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type A2aServer, startA2aServer } from '../support/a2a-server.ts'
import { canStartPostgres } from '../support/throwaway-postgres.ts'
import { canStartRedis } from '../support/throwaway-redis.ts'
import { until } from '../support/until.ts'
import { type Deployment, deploy } from './deployment.ts'

describe.skipIf(!(await canStartPostgres()) || !canStartRedis())('an agent on another server', () => {
  let deployment: Deployment
  let remote: A2aServer
  beforeAll(async () => {
    remote = await startA2aServer()
  })
  beforeEach(async () => {
    remote.reset()
    deployment = await deploy(1, { settings: { PARLEY_ALLOW_PRIVATE_TOOLS: 'true' } })
  })
  afterEach(() => deployment?.close())
  afterAll(() => remote?.close())

  const sends = () => remote.requests.filter(({ method }) => method === 'SendMessage')
  const follows = () => remote.methods().filter((method) => method === 'SubscribeToTask').length

  async function ask(): Promise<{ runId: string; spaceId: string }> {
    const { spaceId } = await deployment.room('Room', { model: `a2a:${remote.cardUrl}` })
    const [runId = ''] = await deployment.say(spaceId, 'Hello')
    return { runId, spaceId }
  }

  /** Expects that the run is completed, and that its complete messages in the space have these texts. */
  async function expectAnswers(runId: string, texts: string[]): Promise<void> {
    const { prisma } = deployment.app.platform.db
    await until('the run has ended', async () => {
      const { status } = await prisma.run.findUniqueOrThrow({ where: { id: runId } })
      return ['COMPLETED', 'FAILED', 'CANCELED'].includes(status)
    })
    expect(await prisma.run.findUniqueOrThrow({ where: { id: runId } })).toMatchObject({
      status: 'COMPLETED',
      error: null,
    })
    const messages = await prisma.message.findMany({ where: { runId, status: 'COMPLETE' } })
    expect(messages.map(({ parts }) => (parts as { text: string }[])[0]?.text)).toEqual(texts)
  }

  test('a remote agent that received a message before its worker died is not sent the message again', async () => {
    // The first response never arrives.
    let isFirst = true
    remote.aside = (method) => {
      if (method !== 'SendMessage' || !isFirst) return false
      isFirst = false
      const message = sends()[0]?.params['message'] as { messageId: string; parts: { text: string }[] }
      const { messageId, parts } = message
      const [text = ''] = parts.map((part) => part.text)
      remote.tasks.push({
        id: 'task-first',
        contextId: 'context-first',
        state: 'COMPLETED',
        status: '',
        artifacts: [{ id: 'a', text: `Heard ${text}` }],
        received: [{ messageId, text }],
      })
      return true
    }
    const { runId } = await ask()
    await until('the message was received', () => sends().length === 1)
    await deployment.replaceWorker(0)
    await expectAnswers(runId, ['Heard Hello'])
    expect(sends()).toHaveLength(1)
  })

  test('a remote agent that cannot list its tasks is not sent the message again: the run fails with this reason', async () => {
    remote.aside = (method, response) => {
      if (method === 'ListTasks') {
        const error = { code: -32601, message: 'no such method' }
        response
          .writeHead(200, { 'content-type': 'application/json' })
          .end(JSON.stringify({ jsonrpc: '2.0', id: 1, error }))
        return true
      }
      // The response never arrives.
      return method === 'SendMessage'
    }
    const { runId } = await ask()
    await until('the message was received', () => sends().length === 1)
    await deployment.replaceWorker(0)
    const { prisma } = deployment.app.platform.db
    const error = await until('the run has failed', async () => {
      const run = await prisma.run.findUniqueOrThrow({ where: { id: runId } })
      return run.status === 'FAILED' && run.error
    })
    expect(error).toContain('It is unknown whether the agent has received the message')
    expect(sends()).toHaveLength(1)
  })

  test('that streams its answer is followed by the next worker, and answers once', async () => {
    remote.onMessage = () => undefined
    const { runId, spaceId } = await ask()
    const task = await until('the message was received', () => remote.tasks[0])
    await until('it is followed', () => follows() === 1)
    remote.say(task, 'One, ')
    const { prisma } = deployment.app.platform.db
    await until('the answer has begun', () => prisma.message.findFirst({ where: { spaceId, runId } }))
    await deployment.replaceWorker(0)
    await until('it is followed by the next worker', () => follows() === 2)
    remote.say(task, 'two.')
    remote.end(task, 'COMPLETED')
    await expectAnswers(runId, ['One, two.'])
    expect(sends()).toHaveLength(1)
  })

  test('is canceled if its run is stopped while no worker is alive', async () => {
    remote.onMessage = () => undefined
    const { runId } = await ask()
    const task = await until('the message was received', () => remote.tasks[0])
    await until('it is followed', () => follows() === 1)
    await deployment.workers[0]?.kill()
    await deployment.app.domain.control.stopRun(deployment.human, { runId, cascade: false })
    expect(task.state).toBe('WORKING')
    await deployment.replaceWorker(0)
    await until('the task is canceled', () => task.state === 'CANCELED')
    expect(sends()).toHaveLength(1)
  })
})
