import { createHash } from 'node:crypto'
import type { Viewer } from '../../access/viewer.ts'
import type { Domain } from '../../graphql/domain.ts'
import { createBell, sleep } from '../../lib/async.ts'
import { forRequester } from '../../lib/requester-context.ts'
import { type Caller, DoorError, retryAfterOf } from '../exchange.ts'
import { inputRequestsOf } from '../tasks/input-requests.ts'
import type { Task, Tasks } from '../tasks/tasks.ts'
import { followTask } from '../tasks/waiting.ts'
import { contextOf, isOver, type State, stateOf } from './a2a-task.ts'

type TaskPushes = Domain['taskPushes']
type TaskPush = Awaited<ReturnType<TaskPushes['create']>>

export interface TaskPushingParts {
  taskPushes: TaskPushes
  tasks: Tasks
  /** Returns a caller for work that no request waits for. */
  callerOf(viewer: Viewer, signal: AbortSignal): Caller
  onError(error: unknown): void
}

/** Notifies A2A clients of the state of tasks, at the addresses that they have configured. */
export interface TaskPushing {
  /** Follows a task until it has ended, from now on. */
  follow(push: TaskPush): void
  /** Stops following, and releases the leases, so that other processes go on. */
  close(): Promise<void>
}

/** Signals may be lost, and some changes of tasks have none. Renews the lease too. */
const RECHECK_MS = 5000
/** Changes within this time are read together. */
const GATHER_MS = 100
/** How often a process looks for tasks that no process follows. */
const ADOPT_MS = 15_000
/** The time before each further attempt. After the last one the configuration is removed. */
const RETRY_MS = [2000, 10_000, 60_000, 300_000, 1_800_000]

/** The state of a task that its clients have without a notification. */
export const UNTOLD: State = 'TASK_STATE_WORKING'

/**
 * A task is followed by the process that stored the configuration, and by another one if that process dies. A notification has
 * the state only: the client reads the task with its own rights. It is sent at least once: a process that dies between sending
 * and noting it sends it again.
 */
export function createTaskPushing({ taskPushes, tasks, callerOf, onError }: TaskPushingParts): TaskPushing {
  const closing = new AbortController()
  const { signal } = closing
  const running = new Set<Promise<void>>()

  /** Sends what is new of a task, with the waits of a receiver that refuses. */
  function createSender(push: TaskPush) {
    let sent = push.sentState
    let refusals = 0
    let attemptAt = 0

    async function attempt(task: Task, state: string): Promise<boolean> {
      const status = { state: stateOf(task), timestamp: task.lastUpdatedAt }
      const update = { taskId: task.id, contextId: contextOf(task), status }
      const result = await taskPushes.send(push, { statusUpdate: update }, signal)
      signal.throwIfAborted()
      if (result === 'sent') {
        await taskPushes.noteSent(push, state)
        sent = state
        refusals = 0
        return true
      }
      const waitMs = result === 'later' ? RETRY_MS[refusals] : undefined
      refusals += 1
      attemptAt = performance.now() + (waitMs ?? 0)
      return waitMs !== undefined
    }

    return {
      /** Sends the state unless the client has it, or it is too early. Returns false if nothing more can be sent. */
      async send(task: Task): Promise<boolean> {
        const state = pushStateOf(task)
        if (state !== sent && performance.now() >= attemptAt && !(await attempt(task, state))) return false
        return !(state === sent && isOver(stateOf(task)))
      },
      /** The time until the next attempt, or the next look at the task. */
      waitMs: () => (refusals === 0 ? RECHECK_MS : Math.min(RECHECK_MS, Math.max(1, attemptAt - performance.now()))),
    }
  }

  /** Returns the task; null if the configuration has no more use. */
  async function read(push: TaskPush, caller: Caller): Promise<Task | null> {
    for (;;) {
      const read = await readOnce(push, caller)
      if (read.type === 'read') return read.task
      await sleep(read.afterMs, signal)
      signal.throwIfAborted()
    }
  }

  async function readOnce(
    push: TaskPush,
    caller: Caller,
  ): Promise<{ type: 'read'; task: Task | null } | { type: 'failed'; afterMs: number }> {
    try {
      const isAllowed = (await taskPushes.viewerOf(push)) !== null
      return { type: 'read', task: isAllowed ? await tasks.read(caller, push.taskId) : null }
    } catch (error) {
      if (signal.aborted) throw error
      if (error instanceof DoorError && LOST.has(error.code)) return { type: 'read', task: null }
      if (retryAfterOf(error) === null) onError(error)
      return { type: 'failed', afterMs: Math.max(retryAfterOf(error) ?? 0, RECHECK_MS) }
    }
  }

  /** Sends each change of state, the newest one after a failure. Resolves when the configuration has no more use. */
  async function notifyUntilEnd(push: TaskPush): Promise<void> {
    const viewer = await taskPushes.viewerOf(push)
    if (viewer === null) return
    const caller = callerOf(viewer, signal)
    const bell = createBell()
    let task = await read(push, caller)
    if (task === null) return
    const onChange = () => bell.ring()
    const stop = await followTask(caller, task, { onChange, onEnd: onChange }).catch(() => () => {})
    const sender = createSender(push)
    try {
      while (task !== null && (await sender.send(task))) {
        await bell.wait(sender.waitMs(), signal)
        await sleep(GATHER_MS, signal)
        signal.throwIfAborted()
        // It was deleted by its client, or replaced by another one, which is followed by itself.
        if (!(await taskPushes.renew(push))) return
        task = await read(push, caller)
      }
    } finally {
      stop()
    }
  }

  async function run(push: TaskPush): Promise<void> {
    try {
      await notifyUntilEnd(push)
      await taskPushes.remove(push)
    } catch (error) {
      if (!signal.aborted) onError(error)
      await taskPushes.release(push).catch(onError)
    }
  }

  function follow(push: TaskPush): void {
    if (signal.aborted) return
    const following = forRequester(push.viewerId, () => run(push)).catch(onError)
    running.add(following)
    void following.finally(() => running.delete(following))
  }

  const adopt = () =>
    void taskPushes.lease().then((pushes) => {
      for (const push of pushes) follow(push)
    }, onError)
  const timer = setInterval(adopt, ADOPT_MS).unref()

  return {
    follow,
    async close() {
      clearInterval(timer)
      closing.abort()
      await Promise.all(running)
    },
  }
}

const LOST: ReadonlySet<string> = new Set(['UNAUTHENTICATED', 'FORBIDDEN', 'NOT_FOUND'])

/** The part of a task of which its client is notified: its state, and the questions that wait. */
function pushStateOf(task: Task): string {
  const state = stateOf(task)
  const keys = Object.keys(inputRequestsOf(task.pending))
  if (keys.length === 0) return state
  return `${state} ${createHash('sha256').update(keys.toSorted().join('\n')).digest('base64url')}`
}
