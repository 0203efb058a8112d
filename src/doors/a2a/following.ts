import { createBell, sleep } from '../../lib/async.ts'
import { isOverTask } from '../../rules/task-state.ts'
import { type Caller, DoorError, endOf, hasLostAccess, notFound, retryAfterOf } from '../exchange.ts'
import type { MessageStream } from '../json-rpc.ts'
import { FOLLOW_REPLIES, type Message } from '../tasks/documents.ts'
import type { Task, Tasks } from '../tasks/tasks.ts'
import { followTask } from '../tasks/waiting.ts'
import { artifactOf, contextOf, isShown, stateOf, statusOf, taskOf } from './a2a-task.ts'

const RECHECK_MS = 5000
/** Changes that occur within this time are read and sent together. */
const TICK_MS = 500
const KEEP_ALIVE_MS = 10_000
/** The maximum number of changed messages that one query reads. */
const MESSAGES_A_QUERY = 50
/**
 * The maximum number of messages of other runs that are remembered, in case those runs turn out to belong to the
 * task.
 */
const MOST_OTHERS = 1000

export interface FollowingParts {
  tasks: Tasks
  caller: Caller
  /** Aborts when the client disconnects, when its token becomes invalid, or when the server drains. */
  waiting: AbortSignal
  /** Creates an event of the stream. */
  event(result: object): object
  /** Creates the event that is sent if the stream ends before the task. */
  failure(error: unknown): object
  stream: MessageStream
  /** Whether the stream also ends when the task needs input from the client. */
  endsAtInput: boolean
  maxResponseBytes: number
}

/** An event of the space in which the agents reply. */
interface Changed {
  __typename: string
  message?: { id: string; run: { id: string } | null }
  messageId?: string
}

/**
 * Sends a task, and then its changes until the task ends. No changes are sent while a slow client has unread
 * events. The next event contains all of these changes.
 */
export class Following {
  readonly #parts: FollowingParts
  readonly #sent = new Map<string, Pick<Message, 'text' | 'status'>>()
  readonly #bell = createBell()
  #status = ''
  #runIds: ReadonlySet<string> = new Set()
  /** The ids of replies that have changed since they were read. */
  readonly #changed = new Set<string>()
  /** The messages of other runs. Maps the id of each message to the id of its run. */
  readonly #others = new Map<string, string>()
  /** Whether events about messages may have been missed, so that all replies must be read again. */
  #hasGap = false
  /** Whether a subscription has ended. If so, each recheck must read all replies. */
  #isBlind = false
  #snapshots = 0
  #lostAccess: DoorError | null = null

  constructor(parts: FollowingParts) {
    this.#parts = parts
  }

  /** Serves the stream and resolves when it has ended. @throws errors that occur before the stream is open */
  async follow(first: Task): Promise<void> {
    const { caller, stream } = this.#parts
    const { source } = first
    const onEnd = (error: DoorError | null) => this.#noteEnd(error)
    const onChange = () => this.#bell.ring()
    const stops = [await followTask(caller, first, { onChange, onEnd })]
    const keepAlive = setInterval(() => stream.isBusy() || stream.keepAlive(), KEEP_ALIVE_MS)
    try {
      if (source !== null) {
        const onEvent = ({ spaceMessages }: { spaceMessages: Changed }) => this.#noteMessage(spaceMessages)
        stops.push(await caller.follow(FOLLOW_REPLIES, { spaceId: source.spaceId }, { onEvent, onEnd }))
      }
      const task = await this.#begin(first.id)
      stream.onReady(onChange)
      await this.#sendUntilEnd(task)
    } finally {
      clearInterval(keepAlive)
      for (const stop of stops) stop()
    }
  }

  /** Sends changes until the task ends. If the stream must end earlier, sends an error. */
  async #sendUntilEnd(begun: Task): Promise<void> {
    const { stream, failure } = this.#parts
    try {
      let task = begun
      while (this.#continues(task)) task = await this.#next(task)
    } catch (error) {
      const reason = this.#parts.waiting.aborted ? this.#interruption() : error
      // If the client has disconnected, `reason` is null.
      if (reason !== null) stream.send(failure(reason))
    } finally {
      stream.end()
    }
  }

  /** Returns the reason why the stream ends before the task; null if the client has disconnected. */
  #interruption(): unknown {
    return endOf(SHUT_DOWN, this.#parts.caller)
  }

  #noteEnd(error: DoorError | null): void {
    if (hasLostAccess(error)) this.#lostAccess = error
    this.#isBlind = true
    this.#bell.ring()
  }

  #noteMessage({ __typename, message, messageId = message?.id }: Changed): void {
    if (__typename === 'SpaceSnapshot') {
      this.#snapshots += 1
      this.#hasGap ||= this.#snapshots > 1
    }
    if (messageId === undefined) return
    const runId = message?.run?.id
    if (this.#sent.has(messageId) || this.#changed.has(messageId) || (runId && this.#runIds.has(runId))) {
      this.#changed.add(messageId)
      this.#bell.ring()
    } else if (runId) {
      this.#others.set(messageId, runId)
      const [oldest] = this.#others.keys()
      if (this.#others.size > MOST_OTHERS && oldest !== undefined) this.#others.delete(oldest)
    }
  }

  #noteRuns({ outcomes }: Task): void {
    this.#runIds = new Set(outcomes.flatMap(({ runId }) => runId ?? []))
    for (const [messageId, runId] of this.#others)
      if (this.#runIds.has(runId)) {
        this.#changed.add(messageId)
        this.#others.delete(messageId)
      }
  }

  /** @throws DoorError */
  async #begin(id: string): Promise<Task> {
    const { tasks, caller, stream, event, maxResponseBytes } = this.#parts
    const task = await tasks.read(caller, id)
    if (task === null) throw noTask()
    this.#noteRuns(task)
    const output = await tasks.output(caller, task)
    for (const { id: replyId, text, status } of output.replies) this.#sent.set(replyId, { text, status })
    this.#status = JSON.stringify(statusOf(task, maxResponseBytes))
    stream.open(event({ task: taskOf(task, output, maxResponseBytes) }))
    return task
  }

  #continues(task: Task): boolean {
    const state = stateOf(task)
    return !isOverTask(state) && !(this.#parts.endsAtInput && state === 'TASK_STATE_INPUT_REQUIRED')
  }

  /**
   * Waits for a change or a recheck, and sends the changes. Returns the task as last read.
   * @throws DoorError if the stream cannot continue
   */
  async #next(task: Task): Promise<Task> {
    const { tasks, caller, waiting, stream } = this.#parts
    await this.#bell.wait(RECHECK_MS, waiting)
    await sleep(TICK_MS, waiting)
    if (waiting.aborted) throw this.#interruption()
    if (this.#lostAccess !== null) throw this.#lostAccess
    if (stream.isBusy()) return task
    try {
      const read = await tasks.read(caller, task.id)
      if (read === null) throw noTask()
      this.#noteRuns(read)
      await this.#sendReplies(read)
      this.#sendStatus(read)
      return read
    } catch (error) {
      const retryAfterMs = retryAfterOf(error)
      if (retryAfterMs === null) throw error
      await sleep(retryAfterMs, waiting)
      this.#bell.ring()
      return task
    }
  }

  /** Sends the new content of changed replies. Reads all replies if events were missed, or if this is the last read. */
  async #sendReplies(task: Task): Promise<void> {
    const { tasks, caller } = this.#parts
    if (this.#hasGap || this.#isBlind || !this.#continues(task)) {
      const { replies } = await tasks.output(caller, task)
      for (const reply of replies) this.#sendReply(task, reply)
      this.#hasGap = false
      if (this.#continues(task)) return
    }
    while (this.#changed.size > 0) {
      const ids = [...this.#changed].slice(0, MESSAGES_A_QUERY)
      const messages = await tasks.messages(caller, ids)
      for (const id of ids) this.#changed.delete(id)
      for (const reply of messages) this.#sendReply(task, reply)
    }
  }

  #sendReply(task: Task, reply: Message): void {
    if (!isShown(reply)) return
    const { stream, event } = this.#parts
    const { id, text, status } = reply
    const known = this.#sent.get(id)
    if (known?.text === text && known.status === status) return
    const append = known !== undefined && known.text !== '' && text.startsWith(known.text)
    const artifact = artifactOf(reply, append ? text.slice(known.text.length) : text)
    const names = { taskId: task.id, contextId: contextOf(task) }
    stream.send(event({ artifactUpdate: { ...names, artifact, append, lastChunk: status !== 'STREAMING' } }))
    this.#sent.set(id, { text, status })
  }

  #sendStatus(task: Task): void {
    const { stream, event, maxResponseBytes } = this.#parts
    const status = statusOf(task, maxResponseBytes)
    const next = JSON.stringify(status)
    const update = { taskId: task.id, contextId: contextOf(task), status }
    if (next !== this.#status) stream.send(event({ statusUpdate: update }))
    this.#status = next
  }
}

const SHUT_DOWN = new DoorError('UNAVAILABLE', 'The server is shutting down: continue with SubscribeToTask.', {
  retryAfterMs: TICK_MS,
})
const noTask = () => notFound('The task no longer exists, or you may not see it.')
