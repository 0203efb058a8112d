import type { SettleCall } from '../flows/settle-call.ts'
import { type BoundJob, bindJob } from '../jobs/job.ts'
import { EXECUTE_CALL, MOST_EXECUTIONS } from '../jobs/queues.ts'
import { sleep } from '../lib/async.ts'
import { isOutage } from '../platform/database-errors.ts'
import type { Platform } from '../platform/platform.ts'
import type { StopSignals } from '../runs/stop-signal.ts'
import { readApprovedCall, type Settlement, settleApprovedCall } from '../stores/call-store.ts'
import { type ApprovedCallParts, createApprovedCallExecutor } from './approved-call-executor.ts'

const AGAIN_MS = 500
const DIED_TOO_OFTEN = `The worker died ${MOST_EXECUTIONS} times while it executed this call, and it is unknown whether the call took effect.`
const GIVEN_UP: Settlement = {
  status: 'FAILED',
  output: { error: { code: 'WORKER_LOST', message: DIED_TOO_OFTEN } },
  error: DIED_TOO_OFTEN,
}

/**
 * Executes approved calls as jobs, while the run waits or after the think cycle has ended. If a worker dies, another
 * worker executes the call again. The tool receives the call's id as an idempotency key.
 */
export function executeApprovedCalls(
  platform: Platform,
  {
    settleCall,
    stopSignals,
    ...parts
  }: { settleCall: Pick<SettleCall, 'settle'>; stopSignals: Pick<StopSignals, 'listen'> } & ApprovedCallParts,
): BoundJob {
  const execute = createApprovedCallExecutor(platform, parts)

  return bindJob(EXECUTE_CALL, async ({ toolCallId }, job) => {
    const call = await readApprovedCall(platform.db.prisma, toolCallId)
    if (call === null) return
    const stopped = new AbortController()
    const stopListening = stopSignals.listen(call.runId, () => stopped.abort())
    try {
      const signal = AbortSignal.any([job.signal, stopped.signal])
      const settlement = job.attempt > MOST_EXECUTIONS ? GIVEN_UP : await execute(call, signal)
      // An aborted call throws an error, which is not the call's result. Another process executes the call again,
      // unless its run was stopped.
      job.signal.throwIfAborted()
      // Retries as long as this process holds the job, so that an unreachable database does not cause a second
      // execution of the call.
      while (!(await isSettled(settlement))) {
        await sleep(AGAIN_MS, job.signal)
        job.signal.throwIfAborted()
      }
    } finally {
      stopListening()
    }

    async function isSettled(settlement: Settlement): Promise<boolean> {
      try {
        await settleCall.settle(toolCallId, { audience: null }, async (tx) => {
          await job.complete(tx)
          return settleApprovedCall(tx, toolCallId, settlement)
        })
        return true
      } catch (error) {
        if (!isOutage(error)) throw error
        return false
      }
    }
  })
}
