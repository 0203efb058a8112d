import { type BoundJob, bindJob } from '../jobs/job.ts'
import { CANCEL_REMOTE_TASK } from '../jobs/queues.ts'
import { messageOf } from '../lib/errors.ts'
import type { Platform } from '../platform/platform.ts'
import { readRemoteCall } from '../stores/call-store.ts'
import { isBreak, type RemoteAgents } from '../tools/a2a/remote-agents.ts'

/** How often to look up the task of a message that was in flight when its run ended. */
const MOST_LOOKUPS = 4

/**
 * Cancels the tasks that stopped and failed runs have on other servers, because nobody waits for their answers. Each
 * cancellation is a job.
 */
export function cancelRemoteTasks(
  { db, logger }: Pick<Platform, 'db' | 'logger'>,
  remotes: Pick<RemoteAgents, 'cancel'>,
): BoundJob {
  return bindJob(CANCEL_REMOTE_TASK, async ({ toolCallId }, { attempt, signal }) => {
    const call = await db.prisma.toolCall.findUnique({ where: { id: toolCallId }, select: { agentId: true } })
    const remote = (await readRemoteCall(db.prisma, toolCallId))?.remote ?? null
    if (call === null || remote === null) return
    const asking = { agentId: call.agentId, model: remote.model }
    try {
      if ((await remotes.cancel(asking, remote, signal)) || attempt >= MOST_LOOKUPS) return
    } catch (error) {
      signal.throwIfAborted()
      logger.warn({ toolCallId, reason: messageOf(error) }, 'could not cancel the task of an agent on another server')
      // A retry would not help after any other failure, such as a deleted agent or a request that the agent's server
      // rejects.
      if (isBreak(error)) throw error
      return
    }
    throw new Error("The agent's server does not list a task for the message yet.")
  })
}
