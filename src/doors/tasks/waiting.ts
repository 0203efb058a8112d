import { createBell, sleep } from '../../lib/async.ts'
import { type Caller, type DoorError, hasLostAccess, retryAfterOf } from '../exchange.ts'
import { FOLLOW_ACTIVITY, FOLLOW_RUN } from './documents.ts'
import type { Task, Tasks } from './tasks.ts'

export interface WaitOptions {
  /** How long to wait. If 0, the task is only read once. */
  timeoutMs: number
  /** Ends the wait early, when the client disconnects or the server drains. */
  signal: AbortSignal
  /** Called with each state that differs from the previous one. */
  onChange?(task: Task): void
}

/**
 * The interval of rechecks. Rechecks are needed because signals may be lost, and because some changes cause no
 * signal. These are decisions by somebody else, and the reading of inbox events.
 */
const RECHECK_MS = 5000
/** Changes that occur within this time are read together. */
const GATHER_MS = 100

/**
 * Waits until a task has ended, or needs an answer that the viewer may give. Returns the last state of the task;
 * null if the task no longer exists.
 * @throws DoorError, for example when the viewer loses access
 */
export async function waitForTask(
  tasks: Tasks,
  caller: Caller,
  id: string,
  { timeoutMs, signal, onChange }: WaitOptions,
): Promise<Task | null> {
  const deadline = performance.now() + timeoutMs
  let task = await tasks.read(caller, id)
  if (timeoutMs <= 0 || task === null || task.status !== 'working') return task
  const bell = createBell()
  const ended: { error: DoorError | null } = { error: null }
  const onEnd = (error: DoorError | null) => {
    ended.error = error
    bell.ring()
  }
  const stop = await followTask(caller, task, { onChange: () => bell.ring(), onEnd })
  try {
    // The task is read once more, because it may have changed before the subscription began.
    bell.ring()
    for (let last = ''; ; ) {
      const leftMs = deadline - performance.now()
      if (leftMs <= 0 || signal.aborted) return task
      await bell.wait(Math.min(leftMs, RECHECK_MS), signal)
      if (signal.aborted) return task
      if (hasLostAccess(ended.error)) throw ended.error
      const read = await readInTurn(tasks, caller, task, { signal, leftMs: deadline - performance.now() })
      if (read === null || read.status !== 'working') return read
      task = read
      const state = JSON.stringify(task)
      if (state !== last) onChange?.(task)
      last = state
      await sleep(GATHER_MS, signal).catch(() => {})
    }
  } finally {
    stop()
  }
}

/** Reads a task. If the viewer's rate limit is exceeded, pauses and returns `known`, so that the wait continues. */
async function readInTurn(
  tasks: Tasks,
  caller: Caller,
  known: Task,
  { signal, leftMs }: { signal: AbortSignal; leftMs: number },
): Promise<Task | null> {
  try {
    return await tasks.read(caller, known.id)
  } catch (error) {
    const retryAfterMs = retryAfterOf(error)
    if (retryAfterMs === null) throw error
    await sleep(Math.max(0, Math.min(retryAfterMs, leftMs)), signal)
    return known
  }
}

export interface TaskFollower {
  /** Called when the runs of the task may have changed. */
  onChange(): void
  /** Called when the subscription has ended, so that no more changes are reported. */
  onEnd(error: DoorError | null): void
}

/** Follows the runs of a task. Returns a function that stops following. @throws DoorError */
export async function followTask(
  caller: Caller,
  { id, source, outcomes }: Task,
  { onChange, onEnd }: TaskFollower,
): Promise<() => void> {
  if (id.startsWith('msg_') && source !== null) {
    const agents = new Set(outcomes.map(({ agent }) => agent.id))
    const onEvent = ({ agentActivity }: { agentActivity: { agent: { id: string } } }) =>
      void (agents.has(agentActivity.agent.id) && onChange())
    return caller.follow(FOLLOW_ACTIVITY, { spaceId: source.spaceId }, { onEvent, onEnd })
  }
  const onEvent = ({ runEvents }: { runEvents: { __typename: string } }) =>
    void (runEvents.__typename.endsWith('Delta') || onChange())
  return caller.follow(FOLLOW_RUN, { runId: outcomes[0]?.runId ?? id }, { onEvent, onEnd })
}
