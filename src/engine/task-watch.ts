import type { AgentSignal } from '../broker/topics.ts'
import { agentChannel } from '../broker/topics.ts'
import { messageOf } from '../lib/errors.ts'
import type { Platform } from '../platform/platform.ts'
import type { ReadTask } from '../runs/task-reading.ts'

/**
 * Watches the runs of tasks in this process, so that clients are notified of changes at once. Signals can get lost, and
 * when a process stops, nobody watches its tasks. The periodic check of each task finds missed changes and starts to
 * watch the task again.
 */
export interface TaskWatch {
  /** Begins to watch the runs of a task, or updates the watched runs. Calls `onChange` when the watch has begun. */
  watch(key: string, task: Pick<ReadTask, 'runs'>): void
  leave(key: string): void
}

/** The maximum number of watched tasks. Further tasks are only checked periodically. */
const MOST_TASKS = 1000
const MOST_AGENTS = 20
/** Changes within this time are checked together. */
const GATHER_MS = 50
/** The minimum time between two checks of a task. */
const BETWEEN_MS = 1000

interface Watched {
  runIds: ReadonlySet<string>
  stops: (() => void)[]
  isOver: boolean
  timer: NodeJS.Timeout | null
  noticedAt: number
}

export function createTaskWatch(
  { signals, logger }: Pick<Platform, 'signals' | 'logger'>,
  onChange: (key: string) => Promise<void>,
): TaskWatch {
  const watched = new Map<string, Watched>()

  function notice(key: string, one: Watched): void {
    if (one.timer !== null || one.isOver) return
    const waitMs = Math.max(GATHER_MS, one.noticedAt + BETWEEN_MS - performance.now())
    one.timer = setTimeout(() => {
      one.timer = null
      one.noticedAt = performance.now()
      onChange(key).catch((error) => logger.warn({ error: messageOf(error) }, 'could not check a task at once'))
    }, waitMs).unref()
  }

  async function begin(key: string, one: Watched, agentIds: readonly string[]): Promise<void> {
    try {
      for (const agentId of agentIds) {
        const stop = await signals.subscribe(agentChannel(agentId), (signal) => {
          if (concerns(signal as AgentSignal, one.runIds)) notice(key, one)
        })
        if (one.isOver) stop()
        else one.stops.push(stop)
      }
      // The task may have changed before the watch began, so it is checked once.
      notice(key, one)
    } catch (error) {
      logger.warn({ error: messageOf(error) }, 'could not watch a task')
      leave(key)
    }
  }

  function leave(key: string): void {
    const one = watched.get(key)
    if (one === undefined) return
    watched.delete(key)
    one.isOver = true
    if (one.timer !== null) clearTimeout(one.timer)
    for (const stop of one.stops) stop()
  }

  return {
    leave,
    watch(key, { runs }) {
      const runIds = new Set(runs.map(({ id }) => id))
      const known = watched.get(key)
      if (known !== undefined) {
        known.runIds = runIds
        return
      }
      const agentIds = [...new Set(runs.map(({ agentId }) => agentId))].slice(0, MOST_AGENTS)
      if (watched.size >= MOST_TASKS || agentIds.length === 0) return
      const one: Watched = { runIds, stops: [], isOver: false, timer: null, noticedAt: Number.NEGATIVE_INFINITY }
      watched.set(key, one)
      void begin(key, one, agentIds)
    },
  }
}

/** Whether an agent's signal could announce a change of one of these runs. */
const concerns = (signal: AgentSignal, runIds: ReadonlySet<string>): boolean =>
  signal.type === 'run-changed' && signal.run !== undefined && runIds.has(signal.run.id)
