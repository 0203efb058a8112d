import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startApplication, type TestApplication } from '../support/application.ts'
import { steps } from '../support/model-server-script.ts'

let parley: TestApplication
let silent: Server

beforeAll(async () => {
  parley = await startApplication()
  silent = createServer(() => {})
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
})
afterAll(async () => {
  await parley?.close()
  silent?.closeAllConnections()
  silent?.close()
})

test.each([false, true])('a call whose server does not respond in time is TIMED_OUT (visible: %s)', async (visible) => {
  const tool = {
    name: 'look_up',
    description: 'Looks it up.',
    inputSchema: { type: 'object' },
    execution: 'HTTP' as const,
    url: `http://127.0.0.1:${(silent.address() as AddressInfo).port}/`,
    timeoutMs: 100,
    visible,
  }
  const agent = await parley.agent('Iris', { tools: [tool] })
  const human = await parley.human('Ada')
  const space = await parley.space(human, [agent.id])
  parley.models.script(steps([{ toolCall: 'look_up', input: {} }]))
  const { runs } = await parley.send(human, space.id, 'Look it up')
  const run = await parley.runWhen(runs[0]?.id ?? '')
  expect(run.status).toBe('COMPLETED')
  const [call] = await parley.app.platform.db.prisma.toolCall.findMany({ where: { runId: run.id } })
  expect(call).toMatchObject({ status: 'TIMED_OUT', output: { error: { code: 'TIMED_OUT' } } })
  expect((await parley.messages(space.id)).slice(1).map(({ status }) => status)).toEqual(visible ? ['COMPLETE'] : [])
})
