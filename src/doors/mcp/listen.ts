import { SERVER_INFO_META_KEY, SUBSCRIPTION_ID_META_KEY } from '@modelcontextprotocol/server'
import { sleep } from '../../lib/async.ts'
import { isObject } from '../../lib/json.ts'
import { DoorError, endOf, retryAfterOf } from '../exchange.ts'
import type { MessageStream } from '../json-rpc.ts'
import { FOLLOW_SPACE, FOLLOW_SPACES } from '../tasks/documents.ts'
import type { Task, Tasks } from '../tasks/tasks.ts'
import { followTask } from '../tasks/waiting.ts'
import type { McpExchange, Result } from './exchange.ts'
import { spaceOf } from './resources.ts'
import { protocolErrorOf, type TaskMethods } from './task-methods.ts'

/** The key of the cursor in a notification. */
const CURSOR_META_KEY = 'io.parley/cursor'
const MOST_FOLLOWED = 100
const KEEP_ALIVE_MS = 12_000
/**
 * The interval of rechecks. Rechecks are needed because signals may be lost, and because some changes of tasks
 * cause no signal. Each recheck reads a few tasks, in turn.
 */
const RECHECK_MS = 5000
const TASKS_A_RECHECK = 5

/** The filter that a client sends, which contains the objects to follow. */
interface Wanted {
  uris: string[]
  taskIds: string[]
  isList: boolean
}

export interface ListenParts {
  tasks: Tasks
  methods: TaskMethods
  serverInfo: object
}

/**
 * Serves one `subscriptions/listen` request. A notification only reports that an object has changed. While a client
 * reads slowly, at most one notification per object waits to be sent.
 */
export class Listening {
  readonly #parts: ListenParts
  readonly #exchange: McpExchange
  readonly #subscriptionId: string | number
  readonly #stream: MessageStream
  /** The notifications that wait to be sent, by the key of their object. */
  readonly #waiting = new Map<string, { method: string; params: Result }>()
  readonly #ends = new Map<string, () => void>()
  #isOpen = false
  #isOver = false
  /** The error that ended the stream before it was open. */
  #failure: unknown = null
  #keepAlive: NodeJS.Timeout | undefined
  #recheck: NodeJS.Timeout | undefined
  /** Functions that read a task again, by the task's id. Those that were called most recently are at the end. */
  readonly #rechecks = new Map<string, () => void>()

  constructor(parts: ListenParts, exchange: McpExchange, subscriptionId: string | number, stream: MessageStream) {
    this.#parts = parts
    this.#exchange = exchange
    this.#subscriptionId = subscriptionId
    this.#stream = stream
  }

  /**
   * Follows the wanted objects, except those that the viewer may not see, and sends the acknowledgement.
   * @throws DoorError if the whole request is refused
   */
  async begin(wanted: Wanted): Promise<void> {
    const { signal } = this.#exchange.caller
    const onAbort = () => {
      const ended = endOf(null, this.#exchange.caller)
      if (ended === null) this.#stop()
      else this.#fail(ended)
    }
    signal.addEventListener('abort', onAbort, { once: true })
    const uris = await this.#honored(wanted.uris, (uri) => this.#followSpace(uri))
    const taskIds = await this.#honored(wanted.taskIds, (id) => this.#followTask(id))
    const isList = wanted.isList && (await this.#honored([LIST], () => this.#followSpaces())).length > 0
    const notifications = {
      ...(isList ? { resourcesListChanged: true } : {}),
      ...(uris.length > 0 ? { resourceSubscriptions: uris } : {}),
      ...(taskIds.length > 0 ? { taskIds } : {}),
    }
    if (this.#failure !== null) throw this.#failure
    if (this.#isOver) return
    this.#stream.open(this.#notification('notifications/subscriptions/acknowledged', { notifications }))
    this.#isOpen = true
    this.#stream.onReady(() => this.#flush())
    this.#keepAlive = setInterval(() => this.#stream.isBusy() || this.#stream.keepAlive(), KEEP_ALIVE_MS)
    this.#recheck = setInterval(() => this.#recheckTasks(), RECHECK_MS)
    this.#exchange.waiting.addEventListener('abort', () => signal.aborted || this.#finish(), { once: true })
    this.#flush()
    if (this.#exchange.waiting.aborted || this.#ends.size === 0) this.#finish()
  }

  /**
   * Follows objects. Returns the ids of those that can be followed. An object that the viewer may not see is
   * treated like one that does not exist.
   * @throws DoorError
   */
  async #honored(ids: readonly string[], follow: (id: string) => Promise<boolean>): Promise<string[]> {
    const followed: string[] = []
    for (const id of ids) {
      const isFollowed = await follow(id).catch((error) => {
        if (error instanceof DoorError && HIDDEN.has(error.code)) return false
        this.#stop()
        throw error
      })
      if (isFollowed) followed.push(id)
    }
    return followed
  }

  async #followSpace(uri: string): Promise<boolean> {
    const named = spaceOf(uri)
    if (named === null) return false
    const { spaceId, after } = named
    let isFirst = after === null
    const onEvent = ({
      spaceMessages: { __typename, cursor },
    }: {
      spaceMessages: { __typename: string; cursor: string }
    }) => {
      // If there is no cursor, the first event is a snapshot, which does not mean that anything has changed.
      if (!isFirst && !UNTOLD.has(__typename))
        this.#notify(uri, 'notifications/resources/updated', { uri, _meta: { [CURSOR_META_KEY]: cursor } })
      isFirst = false
    }
    await this.#follow(uri, (onEnd) =>
      this.#exchange.caller.follow(FOLLOW_SPACE, { spaceId, after }, { onEvent, onEnd }),
    )
    return true
  }

  async #followTask(id: string): Promise<boolean> {
    const { tasks } = this.#parts
    const { caller } = this.#exchange
    const task = await tasks.read(caller, id)
    if (task === null) return false
    let last = ''
    const tell = async (known?: Task) => {
      const read = known ?? (await tasks.read(caller, id))
      if (read === null) this.#leave(id)
      if (read === null || this.#isOver) return
      const params = await this.#parts.methods.describe(this.#exchange, read)
      const state = JSON.stringify(params)
      if (state !== last) this.#notify(id, 'notifications/tasks', params)
      last = state
      if (read.status === 'completed' || read.status === 'cancelled') this.#leave(id)
    }
    const tellInTurn = joined(() => this.#retrying(id, tell))
    await this.#follow(id, (onEnd) =>
      followTask(caller, task, {
        onChange: tellInTurn,
        // The subscription ends without an error when the run has ended. The final state is then read.
        onEnd: (error) => (error === null ? tellInTurn() : onEnd(error)),
      }),
    )
    if (!this.#isOver) this.#rechecks.set(id, tellInTurn)
    // The current state is sent, because the task may have changed since the client last read it.
    await tell(task)
    return true
  }

  /**
   * Runs the work. If the viewer's rate limit is exceeded, runs it again when the limit allows. Any other error
   * ends the stream.
   */
  async #retrying(key: string, work: () => Promise<void>): Promise<void> {
    while (!this.#isOver)
      try {
        return await work()
      } catch (error) {
        const retryAfterMs = retryAfterOf(error)
        if (error instanceof DoorError && HIDDEN.has(error.code)) return this.#leave(key)
        if (retryAfterMs === null) return this.#fail(error)
        await sleep(retryAfterMs, this.#exchange.waiting)
        if (this.#exchange.waiting.aborted) return
      }
  }

  #recheckTasks(): void {
    for (const [id, recheck] of [...this.#rechecks].slice(0, TASKS_A_RECHECK)) {
      this.#rechecks.delete(id)
      this.#rechecks.set(id, recheck)
      recheck()
    }
  }

  async #followSpaces(): Promise<boolean> {
    const onEvent = ({ viewerEvents: { __typename } }: { viewerEvents: { __typename: string } }) => {
      if (LIST_CHANGES.has(__typename)) this.#notify(LIST, 'notifications/resources/list_changed', {})
    }
    await this.#follow(LIST, (onEnd) => this.#exchange.caller.follow(FOLLOW_SPACES, {}, { onEvent, onEnd }))
    return true
  }

  async #follow(key: string, begin: (onEnd: (error: DoorError | null) => void) => Promise<() => void>): Promise<void> {
    const end = await begin((error) =>
      error === null || HIDDEN.has(error.code) ? this.#leave(key) : this.#fail(error),
    )
    if (this.#isOver) end()
    else this.#ends.set(key, end)
  }

  /** Stops following one object. When no object is left, the stream ends. */
  #leave(key: string): void {
    this.#ends.get(key)?.()
    this.#ends.delete(key)
    this.#rechecks.delete(key)
    if (this.#isOpen && this.#ends.size === 0) this.#finish()
  }

  #notify(key: string, method: string, params: Result): void {
    if (this.#isOver) return
    this.#waiting.set(key, { method, params })
    this.#flush()
  }

  #flush(): void {
    if (!this.#isOpen || this.#isOver) return
    for (const [key, { method, params }] of this.#waiting) {
      if (this.#stream.isBusy()) return
      this.#waiting.delete(key)
      this.#stream.send(this.#notification(method, params))
    }
  }

  #notification(method: string, { _meta, ...params }: Result): object {
    const meta = { ...(isObject(_meta) ? _meta : {}), [SUBSCRIPTION_ID_META_KEY]: this.#subscriptionId }
    return { jsonrpc: '2.0', method, params: { ...params, _meta: meta } }
  }

  /** Ends the stream with its result, because no object is left to follow or the server drains. */
  #finish(): void {
    if (this.#isOver) return
    const { serverInfo } = this.#parts
    for (const { method, params } of this.#waiting.values()) this.#stream.send(this.#notification(method, params))
    const _meta = { [SUBSCRIPTION_ID_META_KEY]: this.#subscriptionId, [SERVER_INFO_META_KEY]: serverInfo }
    this.#stream.send({ jsonrpc: '2.0', id: this.#subscriptionId, result: { resultType: 'complete', _meta } })
    this.#stop()
    this.#stream.end()
  }

  /** Ends the stream with an error. The client can then listen again from its last cursors. */
  #fail(error: unknown): void {
    if (this.#isOver) return
    if (this.#isOpen) {
      const { code, message, data } = protocolErrorOf(error instanceof DoorError ? error : UNKNOWN)
      this.#stream.send({ jsonrpc: '2.0', id: this.#subscriptionId, error: { code, message, data } })
    }
    this.#stop()
    if (this.#isOpen) this.#stream.end()
    else this.#failure = error
  }

  #stop(): void {
    this.#isOver = true
    clearInterval(this.#keepAlive)
    clearInterval(this.#recheck)
    this.#rechecks.clear()
    for (const end of this.#ends.values()) end()
    this.#ends.clear()
    this.#waiting.clear()
  }
}

const LIST = 'list'
const UNKNOWN = new DoorError('INTERNAL_SERVER_ERROR', 'The stream was interrupted: open it again.')
const HIDDEN: ReadonlySet<string> = new Set(['NOT_FOUND', 'FORBIDDEN'])
/** Events that cause no notification, because they do not change the resource or occur for each delta of a text. */
const UNTOLD: ReadonlySet<string> = new Set(['MessageTextDelta', 'MessageTextReplaced', 'MemberPresenceChanged'])
const LIST_CHANGES: ReadonlySet<string> = new Set(['ViewerSpaceAdded', 'ViewerSpaceRemoved'])

/** Reads the filter of a request. If the filter is invalid, returns an error message. */
export function wantedBy(params: unknown): Wanted | string {
  const { notifications } = isObject(params) ? params : {}
  if (!isObject(notifications)) return '`notifications` is required.'
  const { resourceSubscriptions: uris = [], taskIds = [], resourcesListChanged = false } = notifications
  if (!isTexts(uris)) return '`resourceSubscriptions` must be a list of URIs.'
  if (!isTexts(taskIds)) return '`taskIds` must be a list of ids.'
  if (uris.length + taskIds.length > MOST_FOLLOWED)
    return `Follow at most ${MOST_FOLLOWED} resources and tasks in one stream.`
  return { uris: [...new Set(uris)], taskIds: [...new Set(taskIds)], isList: resourcesListChanged === true }
}

const isTexts = (value: unknown): value is string[] =>
  Array.isArray(value) && value.every((item) => typeof item === 'string')

/**
 * Returns a function that runs the work. If it is called one or more times during a run, the work runs once more
 * afterwards.
 */
function joined(work: () => Promise<void>): () => void {
  let running = false
  let isAsked = false
  const run = async () => {
    running = true
    while (isAsked) {
      isAsked = false
      await work()
    }
    running = false
  }
  return () => {
    isAsked = true
    if (!running) void run()
  }
}
