import { createHash } from 'node:crypto'
import type { Tokens } from '../access/tokens.ts'
import type { Viewer } from '../access/viewer.ts'
import { addressOf, enqueueTaskPush, keyOf, ROOM_PREFIX } from '../flows/task-pushes.ts'
import type { TaskPush } from '../generated/prisma/client.ts'
import { type BoundJob, bindJob } from '../jobs/job.ts'
import { FAILED_JOBS } from '../jobs/queue-options.ts'
import { DUE_JOBS_CHANNEL, PUSH_TASK } from '../jobs/queues.ts'
import type { Platform } from '../platform/platform.ts'
import { SealBrokenError } from '../platform/secret-box.ts'
import { pushResultOf } from '../rules/push-result.ts'
import { isOverTask, taskStateOf } from '../rules/task-state.ts'
import type { ReadTask, TaskReading } from '../runs/task-reading.ts'
import { deleteTaskPushes, noteSentState } from '../stores/task-push-store.ts'
import type { GuardedHttp } from '../tools/custom/guarded-http.ts'
import { createTaskWatch } from './task-watch.ts'

interface PushingTasksParts {
  /** An HTTP client that connects only to public addresses, even if tools may connect to private ones. */
  http: Pick<GuardedHttp, 'send'>
  tokens: Pick<Tokens, 'viewerOf' | 'stands'>
  taskReading: TaskReading
}

const TIMEOUT_MS = 15_000
/** A push configuration is deleted after this time, even if its task has not ended. */
const LONGEST_AGE_MS = 30 * 24 * 3_600_000
/** The age at which a reservation without a task is deleted, because its message will no longer be posted. */
const LONGEST_RESERVATION_MS = 600_000
const MOST_AT_ONCE = 500

/** Sends the state of tasks to the URLs that A2A clients have configured. */
export interface PushingTasks {
  job: BoundJob
  /**
   * Deletes outdated configurations, and enqueues jobs for configurations that an earlier version stored without a job.
   */
  restore(): Promise<void>
}

/**
 * A notification contains only the state. The client reads the task with its own rights. Each notification is sent at
 * least once, because it is sent again if the process dies before recording it. A busy or unreachable receiver gets the
 * newest state at the next attempt.
 */
export function createPushingTasks(
  platform: Pick<Platform, 'db' | 'clock' | 'jobs' | 'logger' | 'secretBox' | 'signals'>,
  { http, tokens, taskReading }: PushingTasksParts,
): PushingTasks {
  const { db, clock, jobs, logger, secretBox, signals } = platform
  const changes = createTaskWatch(platform, async (key) => {
    if (await jobs.hasten(PUSH_TASK, key)) await signals.publish(DUE_JOBS_CHANNEL, {})
  })

  /**
   * Returns the viewer whose rights apply to the notifications; null if the token has ended or the configuration is too
   * old.
   */
  async function viewerOf({ viewerId, tokenId, expiresAt, createdAt }: TaskPush): Promise<Viewer | null> {
    if (clock.now() - createdAt.getTime() > LONGEST_AGE_MS) return null
    const viewer = await tokens.viewerOf(tokenId ?? viewerId)
    if (viewer === null || viewer.id !== viewerId) return null
    const signedIn = { ...viewer, tokenId, expiresAt }
    return (await tokens.stands(signedIn)) ? signedIn : null
  }

  /**
   * Sends the state of a task. Returns false if this URL must not get further notifications. @throws Error if the
   * receiver is busy or unreachable
   */
  async function send(push: TaskPush, task: ReadTask, signal: AbortSignal): Promise<boolean> {
    const { viewerId, taskId, id } = push
    const address = addressOf(push, secretBox)
    if (address instanceof SealBrokenError) {
      logger.error({ viewerId, taskId, id }, 'could not decrypt the address of push notifications; deleting it')
      return false
    }
    const status = { state: stateOf(task), timestamp: task.lastChangeAt.toISOString() }
    const outcome = await http.send({
      method: 'POST',
      url: address.url,
      headers: { ...address.headers, 'content-type': 'application/a2a+json' },
      body: JSON.stringify({ statusUpdate: { taskId, contextId: task.spaceId ?? taskId, status } }),
      // Redirects are not followed, because they could send the credentials to another server.
      stays: true,
      timeoutMs: TIMEOUT_MS,
      signal,
    })
    const result = pushResultOf(outcome)
    if (result === 'later' && outcome.type === 'failure')
      throw new Error(`The receiver did not accept the push notification: ${outcome.message}`)
    return result === 'sent'
  }

  const job = bindJob(PUSH_TASK, async (key, { signal, complete }) => {
    const { viewerId, taskId, id } = key
    const push = await db.prisma.taskPush.findUnique({ where: { viewerId_taskId_id: { viewerId, taskId, id } } })
    if (push === null) return changes.leave(keyOf(key))
    const viewer = await viewerOf(push)
    const task = viewer === null ? null : await taskReading.read(viewer, taskId)
    const state = task === null ? null : pushStateOf(task)
    if (task !== null) changes.watch(keyOf(key), task)
    const isOpen = task !== null && (state === push.sentState || (await send(push, task, signal)))
    const isOver = !isOpen || state === null || isOverTask(stateOf(task))
    if (isOver) changes.leave(keyOf(key))
    await db.transaction(async (tx) => {
      if (isOver) await deleteTaskPushes(tx, { viewerId, taskId, id, sealed: push.sealed })
      else {
        if (state !== push.sentState) await noteSentState(tx, push, state)
        await enqueueTaskPush(tx, jobs, push, nextCheckOf(push, clock.now()))
      }
      await complete(tx)
    })
  })

  return {
    job,
    async restore() {
      const now = clock.now()
      const olderThan = (ms: number) => ({ createdAt: { lt: new Date(now - ms) } })
      await deleteTaskPushes(db.prisma, olderThan(LONGEST_AGE_MS))
      const reserved = { taskId: { startsWith: ROOM_PREFIX } }
      await deleteTaskPushes(db.prisma, { ...reserved, ...olderThan(LONGEST_RESERVATION_MS) })
      const pushes = await db.prisma.$queryRaw<TaskPush[]>`
        SELECT p.* FROM "TaskPush" p WHERE NOT starts_with(p."taskId", ${ROOM_PREFIX}) AND NOT EXISTS (
          SELECT 1 FROM job j WHERE j.name IN (${PUSH_TASK.name}, ${FAILED_JOBS}) AND j.state < 'completed'
            AND j.singleton_key = p."viewerId" || ':' || p."taskId" || ':' || p.id)
        LIMIT ${MOST_AT_ONCE}`
      if (pushes.length === 0) return
      await db.transaction(async (tx) => {
        for (const push of pushes) await enqueueTaskPush(tx, jobs, push, new Date(now))
      })
    },
  }
}

/**
 * The time until the next check of a task, which finds changes whose signals were lost. It is this share of the
 * configuration's age, within these limits.
 */
const CHECK_MS = { least: 2000, most: 60_000, share: 0.2 }

function nextCheckOf({ createdAt }: TaskPush, now: number): Date {
  const { least, most, share } = CHECK_MS
  return new Date(now + Math.min(most, Math.max(least, (now - createdAt.getTime()) * share)))
}

const stateOf = ({ status, parts }: ReadTask) => taskStateOf(status, parts)

/** Returns the part of a task whose changes cause a notification: its state and its waiting questions. */
function pushStateOf(task: ReadTask): string {
  const state = stateOf(task)
  if (task.questions.length === 0) return state
  return `${state} ${createHash('sha256').update(task.questions.toSorted().join('\n')).digest('base64url')}`
}
