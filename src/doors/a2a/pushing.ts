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

/** Names a configuration. */
type TaskPushKey = Pick<TaskPush, 'viewerId' | 'taskId' | 'id'>

/** Notifies A2A clients of the state of tasks, at the addresses that they have configured. */
export interface TaskPushing {
  /** Follows a task from now on until it has ended, replacing a configuration with the same key. */
  follow(push: TaskPush): void
  /** Stops following for a configuration that was deleted. */
  stop(key: TaskPushKey): void
  /** Stops following, and releases the leases, so that other processes continue. */
  close(): Promise<void>
}

/** Signals may be lost, and some changes of tasks cause none. */
const RECHECK_MS = 5000
/** Changes within this time are read together. */
const GATHER_MS = 100
/** A lease ends after 60 s. */
const RENEW_MS = 20_000
/** How often a process checks for tasks that no process follows, and how many it takes over at a time. */
const ADOPT_MS = 15_000
const ADOPTED_AT_ONCE = 100
/** The delay after an unexpected error before a task is followed again. */
const AFTER_ERROR_MS = 120_000

/** The state of a task that its clients know without a notification. */
export const UNTOLD: State = 'TASK_STATE_WORKING'

/** One configuration that this process follows. */
interface Follower {
  push: TaskPush
  stop: AbortController
  ended: Promise<void>
}

/**
 * A task is followed by the process that stored the configuration, and by another one if that process dies. A notification
 * contains only the state:
 * the client reads the task with its own rights. It is sent at least once: if a process dies between sending
 * and recording it, another process sends it again.
 */
export function createTaskPushing({ taskPushes, tasks, callerOf, onError }: TaskPushingParts): TaskPushing {
  const closing = new AbortController()
  const followers = new Map<string, Follower>()
  const running = new Set<Follower>()

  /** Keeps a lease that this process has just acquired. */
  function createLease(push: TaskPush, signal: AbortSignal) {
    let renewedAt = performance.now()

    /** Returns false if the configuration was deleted or replaced, or another process follows it. */
    async function renew(): Promise<boolean> {
      renewedAt = performance.now()
      return taskPushes.renew(push)
    }

    /** Renews the lease if it is due. Returns false as `renew`. */
    const keep = async () => performance.now() - renewedAt < RENEW_MS || renew()

    return {
      renew,
      keep,
      /** Waits. Returns false as `renew`. */
      async keepFor(ms: number): Promise<boolean> {
        const until = performance.now() + ms
        for (let leftMs = ms; leftMs > 0; leftMs = until - performance.now()) {
          await sleep(Math.min(leftMs, RENEW_MS), signal)
          signal.throwIfAborted()
          if (!(await keep())) return false
        }
        return true
      },
    }
  }

  /** Sends new states of a task, with delays after refusals by the receiver. */
  function createSender(push: TaskPush, lease: ReturnType<typeof createLease>, signal: AbortSignal) {
    let sent = push.sentState
    let refusals = 0
    let attemptAt = 0

    async function attempt(task: Task, state: string): Promise<boolean> {
      // Another process, or another configuration, may be sending.
      if (!(await lease.renew())) return false
      const status = { state: stateOf(task), timestamp: task.lastUpdatedAt }
      const update = { taskId: task.id, contextId: contextOf(task), status }
      const result = await taskPushes.send(push, { statusUpdate: update }, { refusals, signal })
      signal.throwIfAborted()
      switch (result.type) {
        case 'sent':
          sent = state
          refusals = 0
          return taskPushes.noteSent(push, state)
        case 'later':
          refusals += 1
          attemptAt = performance.now() + result.afterMs
          return true
        case 'over':
          if (result.error !== null) onError(result.error)
          return false
      }
    }

    return {
      /** Sends the state unless the client already has it, or the next attempt is not due yet. Returns false if no further notification can be sent. */
      async send(task: Task): Promise<boolean> {
        const state = pushStateOf(task)
        if (state !== sent && performance.now() >= attemptAt && !(await attempt(task, state))) return false
        return !(state === sent && isOver(stateOf(task)))
      },
      /** The time until the next attempt, or the next check of the task. */
      waitMs: () => (refusals === 0 ? RECHECK_MS : Math.min(RECHECK_MS, Math.max(1, attemptAt - performance.now()))),
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
      if (caller.signal.aborted) throw error
      if (error instanceof DoorError && LOST.has(error.code)) return { type: 'read', task: null }
      if (retryAfterOf(error) === null) onError(error)
      return { type: 'failed', afterMs: Math.max(retryAfterOf(error) ?? 0, RECHECK_MS) }
    }
  }

  /**
   * Sends each change of state; after a failure, only the newest one. Resolves when the configuration is no longer needed,
   * was deleted or replaced, or is followed by another process.
   */
  async function notifyUntilEnd(push: TaskPush, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    const viewer = await taskPushes.viewerOf(push)
    if (viewer === null) return
    const caller = callerOf(viewer, signal)
    const lease = createLease(push, signal)
    const sender = createSender(push, lease, signal)

    /** Returns the task; null if the configuration is no longer needed. */
    async function read(): Promise<Task | null> {
      for (;;) {
        const read = await readOnce(push, caller)
        if (read.type === 'read') return read.task
        if (!(await lease.keepFor(read.afterMs))) return null
      }
    }

    const bell = createBell()
    let task = await read()
    if (task === null) return
    const onChange = () => bell.ring()
    const stop = await followTask(caller, task, { onChange, onEnd: onChange }).catch(() => () => {})
    try {
      while (task !== null && (await sender.send(task))) {
        await bell.wait(sender.waitMs(), signal)
        await sleep(GATHER_MS, signal)
        signal.throwIfAborted()
        if (!(await lease.keep())) return
        task = await read()
      }
    } finally {
      stop()
    }
  }

  async function run(push: TaskPush, signal: AbortSignal): Promise<void> {
    try {
      await notifyUntilEnd(push, signal)
      // Has no effect if this process no longer has the lease.
      await taskPushes.remove(push)
    } catch (error) {
      if (!signal.aborted) onError(error)
      await taskPushes.release(push, signal.aborted ? 0 : AFTER_ERROR_MS)
    }
  }

  function stop(key: TaskPushKey): void {
    followers.get(nameOf(key))?.stop.abort()
  }

  function follow(push: TaskPush): void {
    stop(push)
    const controller = new AbortController()
    const signal = AbortSignal.any([closing.signal, controller.signal])
    const ended = forRequester(push.viewerId, () => run(push, signal)).catch(onError)
    const follower: Follower = { push, stop: controller, ended }
    const name = nameOf(push)
    followers.set(name, follower)
    running.add(follower)
    void ended.finally(() => {
      running.delete(follower)
      if (followers.get(name) === follower) followers.delete(name)
    })
  }

  /** Takes over the tasks that no process follows. */
  async function adoptAll(): Promise<void> {
    for (;;) {
      const heldIds = [...running].map(({ push }) => push.leaseId)
      const pushes = await taskPushes.lease({ most: ADOPTED_AT_ONCE, heldIds })
      // Tasks that were leased while the server closed are released at once.
      for (const push of pushes) follow(push)
      if (closing.signal.aborted || pushes.length < ADOPTED_AT_ONCE) return
    }
  }

  let adopting: Promise<void> | null = null
  function adopt(): void {
    adopting ??= adoptAll()
      .catch(onError)
      .finally(() => (adopting = null))
  }
  const timer = setInterval(adopt, ADOPT_MS).unref()
  adopt()

  return {
    follow,
    stop,
    async close() {
      clearInterval(timer)
      closing.abort()
      await adopting
      await Promise.all([...running].map(({ ended }) => ended))
    },
  }
}

const nameOf = ({ viewerId, taskId, id }: TaskPushKey) => `${viewerId} ${taskId} ${id}`

const LOST: ReadonlySet<string> = new Set(['UNAUTHENTICATED', 'FORBIDDEN', 'NOT_FOUND'])

/** The part of a task of which its client is notified: its state, and the questions that wait. */
function pushStateOf(task: Task): string {
  const state = stateOf(task)
  const keys = Object.keys(inputRequestsOf(task.pending))
  if (keys.length === 0) return state
  return `${state} ${createHash('sha256').update(keys.toSorted().join('\n')).digest('base64url')}`
}
