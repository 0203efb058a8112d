import { createBell, sleep } from '../../lib/async.ts'
import { FOLLOW_SPACE, type Message } from '../tasks/documents.ts'
import type { Caller, Operations } from '../tasks/operations.ts'
import type { Stream } from '../tasks/stream.ts'
import type { Task, Tasks } from '../tasks/tasks.ts'
import { followTask } from '../tasks/waiting.ts'
import { artifactOf, contextOf, isOver, isShown, stateOf, statusOf, taskOf } from './a2a-task.ts'

const RECHECK_MS = 5000
/** Changes within this time are sent together. */
const GATHER_MS = 200
const KEEP_ALIVE_MS = 10_000

export interface FollowingParts {
  operations: Operations
  tasks: Tasks
  caller: Caller
  /** Aborts when the client has gone, or when the server drains. */
  waiting: AbortSignal
  /** Makes an event of the stream. */
  event(result: object): object
  stream: Stream
  /** Whether the stream ends when the client must answer. */
  endsAtInput: boolean
}

/**
 * Sends a task, and then its changes until it ends. Changes that a slow client has not read yet are joined:
 * only the state that was sent is kept.
 */
export class Following {
  readonly #parts: FollowingParts
  readonly #sent = new Map<string, Pick<Message, 'text' | 'status'>>()
  #status = ''

  constructor(parts: FollowingParts) {
    this.#parts = parts
  }

  /** Resolves when the stream has ended. @throws errors before the stream is open */
  async follow(first: Task): Promise<void> {
    const { operations, caller, stream } = this.#parts
    const bell = createBell()
    const ring = () => bell.ring()
    const stops = [await followTask(operations, caller, first, ring)]
    try {
      const { source } = first
      const to = { onEvent: ring, onEnd: ring }
      if (source !== null)
        stops.push(await operations.follow(caller, FOLLOW_SPACE, { spaceId: source.spaceId, after: null }, to))
      let task = await this.#begin(first.id)
      stream.onReady(ring)
      try {
        while (task !== null && this.#continues(task)) task = await this.#next(task, bell)
      } finally {
        stream.end()
      }
    } finally {
      for (const stop of stops) stop()
    }
  }

  async #begin(id: string): Promise<Task | null> {
    const { tasks, caller, stream, event } = this.#parts
    const task = await tasks.read(caller, id)
    if (task === null) return null
    const output = await tasks.output(caller, task)
    for (const { id: replyId, text, status } of output.replies) this.#sent.set(replyId, { text, status })
    this.#status = JSON.stringify(statusOf(task))
    stream.open(event({ task: taskOf(task, output, output.cursor) }))
    return task
  }

  #continues(task: Task): boolean {
    const state = stateOf(task)
    const { endsAtInput, waiting } = this.#parts
    return !waiting.aborted && !isOver(state) && !(endsAtInput && state === 'TASK_STATE_INPUT_REQUIRED')
  }

  /** Waits for a change, and sends it. Returns the task; null if it exists no more. */
  async #next(task: Task, bell: ReturnType<typeof createBell>): Promise<Task | null> {
    const { tasks, caller, waiting, stream } = this.#parts
    const keepAlive = setInterval(() => stream.isBusy() || stream.keepAlive(), KEEP_ALIVE_MS)
    await bell.wait(RECHECK_MS, waiting)
    await sleep(GATHER_MS, waiting)
    clearInterval(keepAlive)
    if (waiting.aborted || stream.isBusy()) return task
    const read = await tasks.read(caller, task.id)
    if (read !== null) await this.#send(read)
    return read
  }

  async #send(task: Task): Promise<void> {
    const { tasks, caller, stream, event } = this.#parts
    const names = { taskId: task.id, contextId: contextOf(task) }
    const { replies } = await tasks.output(caller, task)
    for (const reply of replies.filter(isShown)) {
      const { id, text, status } = reply
      const known = this.#sent.get(id)
      if (known?.text === text && known.status === status) continue
      const append = known !== undefined && known.text !== '' && text.startsWith(known.text)
      const artifact = artifactOf(reply, append ? text.slice(known.text.length) : text)
      stream.send(event({ artifactUpdate: { ...names, artifact, append, lastChunk: status !== 'STREAMING' } }))
      this.#sent.set(id, { text, status })
    }
    const status = statusOf(task)
    const next = JSON.stringify(status)
    if (next !== this.#status) stream.send(event({ statusUpdate: { ...names, status } }))
    this.#status = next
  }
}
