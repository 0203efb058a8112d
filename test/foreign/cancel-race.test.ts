import { afterAll, beforeAll, expect, test } from 'vitest'
import { ASK_REMOTE_AGENT } from '../../src/lib/foreign-model.ts'
import { type RemoteCall, rememberRemoteCall } from '../../src/stores/call-store.ts'
import { type A2aServer, startA2aServer } from '../support/a2a-server.ts'
import { hasPostgres } from '../support/postgres.ts'
import { startTestServer, type TestServer } from '../support/served.ts'
import { openStage } from '../support/stage.ts'
import { until } from '../support/until.ts'

const STOP = `mutation ($input: StopRunInput!) { stopRun(input: $input) { __typename } }`

let parley: TestServer
let remote: A2aServer
beforeAll(async () => {
  remote = await startA2aServer()
  parley = await startTestServer({
    stack: hasPostgres ? 'postgres' : 'embedded',
    settings: { PARLEY_ALLOW_PRIVATE_TOOLS: 'true' },
  })
})
afterAll(async () => {
  await parley?.close()
  await remote?.close()
})

test.skipIf(!hasPostgres)(
  'if a run is stopped while its message is being stored, the task of that message is canceled',
  async () => {
    const { prisma } = parley.app.platform.db
    const stage = await openStage(parley)
    const ada = await stage.person('Ada')
    const agent = await stage.bot('Weather', { model: `a2a:${remote.cardUrl}`, toolset: 'ACTIVE_SPACE' })
    const space = await stage.space('Team', [ada, agent], { routing: 'BROADCAST' })
    remote.onMessage = () => undefined
    const { runs } = await stage.say(ada, space, 'Work')
    const task = await until('the agent works', () => remote.tasks[0])
    await until('the task is followed', () => remote.methods().includes('SubscribeToTask'))
    const call = await prisma.toolCall.findFirstOrThrow({ where: { runId: runs[0].id, toolName: ASK_REMOTE_AGENT } })
    const { remote: stored } = call.state as unknown as { remote: RemoteCall }
    // The state while the message is being stored: the call executes, and no task is known.
    await prisma.toolCall.update({ where: { id: call.id }, data: { status: 'RUNNING', settledAt: null, state: {} } })

    const isWaiting = async () =>
      (
        await prisma.$queryRaw<
          unknown[]
        >`SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`
      ).length > 0
    const { attempt } = await prisma.run.findUniqueOrThrow({ where: { id: runs[0].id } })
    const stopping = await prisma.$transaction(
      async (tx) => {
        const sending = { ...stored, taskId: null, contextId: null }
        expect(await rememberRemoteCall(tx, { callId: call.id, attempt }, sending)).toBe(true)
        const stopped = stage.ask(ada.client, STOP, { input: { runId: runs[0].id } })
        await until('the end of the run waits for the call', isWaiting)
        return { stopped }
      },
      { timeout: 60_000 },
    )
    await stopping.stopped
    await until('the task is canceled', () => task.state === 'CANCELED')
    // After this, no message can be stored, so none is sent.
    expect(await rememberRemoteCall(prisma, { callId: call.id, attempt }, stored)).toBe(false)
    await stage.endedRuns(agent, 1)
  },
)
