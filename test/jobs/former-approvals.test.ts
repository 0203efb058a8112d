import { afterAll, beforeAll, expect, test } from 'vitest'
import { EXECUTE_CALL } from '../../src/jobs/queues.ts'
import { newId } from '../../src/lib/ids.ts'
import { adoptApprovedCalls } from '../../src/stores/call-store.ts'
import { startApplication, type TestApplication } from '../support/application.ts'

let parley: TestApplication
beforeAll(async () => {
  parley = await startApplication({ stack: 'embedded', worker: false })
})
afterAll(() => parley?.close())

test('a call that an earlier version has approved gets one job, unless a process of that version executes it', async () => {
  const { prisma } = parley.app.platform.db
  const agent = await parley.agent('Ada')
  const approved = async (carryAt: Date) => {
    const id = newId('tcl')
    const row = { runId: newId('run'), agentId: agent.id, stepIndex: 0, modelCallId: id, toolName: 'refund' }
    await prisma.toolCall.create({
      data: { id, ...row, status: 'RUNNING', approvalState: 'APPROVED', execution: 'HTTP', carryAt },
    })
    return id
  }
  const waiting = await approved(new Date(Date.now() - 1000))
  await approved(new Date(Date.now() + 60_000))
  await adoptApprovedCalls(prisma)
  await adoptApprovedCalls(prisma)
  const jobs = await prisma.$queryRaw`SELECT data FROM pgboss.job WHERE name = ${EXECUTE_CALL.name}`
  expect(jobs).toEqual([{ data: { toolCallId: waiting } }])
})
