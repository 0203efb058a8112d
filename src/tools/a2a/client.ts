import { cut, isObject, isTooDeep } from '../../lib/json.ts'
import { failureOf, type GuardedHttp } from '../custom/guarded-http.ts'
import { withoutBeginnings, withoutValues } from '../custom/header-removal.ts'
import { ToolFailure } from '../tool.ts'
import { eventsIn, orNullIfSilent } from './event-stream.ts'
import { idIn, type RemoteTask, readTask, shownTask, type TextCleaning, taskAfter, textOfParts } from './remote-task.ts'

/** An agent's interface on another server. */
export interface RemoteAddress {
  url: string
  headers: Record<string, string>
  /** Whether the agent can stream the events of a task. */
  streams: boolean
  /** Whether a message takes effect only once if it is sent again with the same id. */
  deduplicates: boolean
}

export interface RemoteMessage {
  /** The id of the message, which stays the same if the message is sent again. */
  messageId: string
  text: string
  contextId: string | null
  /** The task that waits for this message; null if the message is to begin a task. */
  taskId: string | null
}

export type Sent = { type: 'task'; task: RemoteTask } | { type: 'message'; contextId: string | null; text: string }

/**
 * Whether a server has received a message. `unknown`: the server cannot list tasks, or lists them without their
 * messages.
 */
export type Lookup = { type: 'received'; task: RemoteTask } | { type: 'not-received' | 'unknown' }

/**
 * A client for A2A 1.0 over JSON-RPC. Its methods throw ToolFailure, whose message is written for people and
 * contains no header values.
 */
export interface A2aClient {
  /**
   * Sends a message, and returns the task or the answer. Does not wait for the end of the task if the server allows
   * this.
   */
  send(address: RemoteAddress, message: RemoteMessage, signal: AbortSignal): Promise<Sent>
  get(address: RemoteAddress, taskId: string, signal: AbortSignal): Promise<RemoteTask>
  /** Looks for the task that a message has begun or continued. */
  find(address: RemoteAddress, message: Omit<RemoteMessage, 'text'>, signal: AbortSignal): Promise<Lookup>
  /**
   * Yields the task after each of its events, and null after other data, such as a heartbeat. Ends when the stream
   * ends, exceeds the size limit, or is silent for 30 s.
   */
  changes(address: RemoteAddress, task: RemoteTask, signal: AbortSignal): AsyncGenerator<RemoteTask | null>
  /** Cancels a task. Does nothing if the task has ended or the server does not know it. */
  cancel(address: RemoteAddress, taskId: string, signal: AbortSignal): Promise<void>
}

/** The server answered a request with a JSON-RPC error. */
export class RemoteRefusal extends ToolFailure {
  readonly jsonRpcCode: number | null
  constructor(jsonRpcCode: number | null, message: string) {
    super('REMOTE_ERROR', message)
    this.jsonRpcCode = jsonRpcCode
  }

  /**
   * Whether the request had no effect. This is the case if the server does not know the task or conversation, or
   * does not support the request.
   */
  get isWithoutEffect(): boolean {
    return this.jsonRpcCode !== null && WITHOUT_EFFECT.has(this.jsonRpcCode)
  }
}

/** The codes of TaskNotFoundError, invalid parameters and UnsupportedOperationError. */
const WITHOUT_EFFECT: ReadonlySet<number> = new Set([-32001, -32602, -32004])
const NO_SUCH_METHOD = -32601
const TASK_NOT_CANCELABLE = -32002

const isRefusal = (error: unknown, ...codes: number[]): boolean =>
  error instanceof RemoteRefusal &&
  (error.isWithoutEffect || (error.jsonRpcCode !== null && codes.includes(error.jsonRpcCode)))

const VERSION = '1.0'
/** The time limit for sending. A server that ignores `returnImmediately` responds only when the task is done. */
const SEND_TIMEOUT_MS = 300_000
const REQUEST_TIMEOUT_MS = 20_000
const LONGEST_WORDS = 500
const TASKS_SEARCHED = 20
/** The page size is small because the history of a task may be long. */
const TASKS_A_PAGE = 5
/** The limit is higher than for an answer, because a task may contain data that is not part of the answer's text. */
const LARGEST_TASK_BYTES = 8 * 1_048_576
const UNAUTHENTICATED_STATUSES = [401, 403]

export function createA2aClient(http: GuardedHttp): A2aClient {
  async function call(
    { url, headers }: RemoteAddress,
    method: string,
    params: object,
    {
      timeoutMs = REQUEST_TIMEOUT_MS,
      signal,
      maxBytes,
    }: { timeoutMs?: number; signal: AbortSignal; maxBytes?: number },
  ): Promise<unknown> {
    const outcome = await http.send({
      method: 'POST',
      url,
      headers: { ...headers, ...HEADERS, accept: 'application/json' },
      body: requestOf(method, params),
      // Redirects are not followed, because the request must not be sent to another URL.
      stays: true,
      timeoutMs,
      signal,
      ...(maxBytes === undefined ? {} : { maxBytes }),
    })
    const clean = withoutValues(headers)
    if (outcome.type === 'answer') return resultIn(utf8.decode(outcome.body), clean)
    const { code, message, response } = outcome
    if (response === undefined) throw new ToolFailure(code, clean(message))
    const refusal = doesStatusDecide(response.status) ? null : refusalIn(utf8.decode(response.body), clean)
    throw refusal ?? statusFailure(response.status, clean(message))
  }

  /**
   * Returns the stream of a task's events; null if the server does not respond within 30 s.
   * @throws ToolFailure, or errors of the connection
   */
  async function subscribe(
    { url, headers }: RemoteAddress,
    taskId: string,
    signal: AbortSignal,
  ): Promise<ReadableStream<Uint8Array> | null> {
    const sent = http.fetch(url, {
      method: 'POST',
      headers: { ...headers, ...HEADERS, accept: 'text/event-stream' },
      body: requestOf('SubscribeToTask', { id: taskId }),
      redirect: 'error',
      signal,
    })
    const response = await orNullIfSilent(sent, signal)
    if (response === null) return null
    const isStream = response.ok && (response.headers.get('content-type') ?? '').startsWith('text/event-stream')
    if (isStream) return response.body
    const text = await orNullIfSilent(response.text(), signal)
    if (text === null) return null
    throw (
      (doesStatusDecide(response.status) ? null : refusalIn(text, withoutValues(headers))) ??
      statusFailure(
        response.status,
        `The agent's server responded with status ${response.status} instead of an event stream.`,
      )
    )
  }

  /** Looks for a message in the newest tasks. */
  async function findAmongTasks(
    address: RemoteAddress,
    contextId: string | null,
    lookupIn: (task: unknown) => Lookup | null,
    signal: AbortSignal,
  ): Promise<Lookup> {
    const params = {
      ...(contextId === null ? {} : { contextId }),
      pageSize: TASKS_A_PAGE,
      historyLength: TASKS_SEARCHED,
      includeArtifacts: false,
    }
    let page: object = params
    for (let searched = 0; searched < TASKS_SEARCHED; ) {
      const listed = await orNullIfRefused(call(address, 'ListTasks', page, { signal }))
      const { tasks, nextPageToken } = isObject(listed) ? listed : {}
      if (!Array.isArray(tasks)) return { type: 'unknown' }
      const found = tasks.map(lookupIn).find((lookup) => lookup !== null)
      if (found !== undefined) return found
      if (!tasks.every(showsMessages)) return { type: 'unknown' }
      if (tasks.length === 0 || typeof nextPageToken !== 'string' || nextPageToken === '') break
      searched += tasks.length
      page = { ...params, pageToken: nextPageToken }
    }
    // The list begins with the newest tasks, so it would have contained the task of the message.
    return { type: 'not-received' }
  }

  return {
    async send(address, { messageId, text, contextId, taskId }, signal) {
      const message = {
        messageId,
        role: 'ROLE_USER',
        parts: [{ text }],
        ...(contextId === null ? {} : { contextId }),
        ...(taskId === null ? {} : { taskId }),
      }
      const configuration = { acceptedOutputModes: ['text/plain'], returnImmediately: true }
      const options = { timeoutMs: SEND_TIMEOUT_MS, signal }
      const sent = await call(address, 'SendMessage', { message, configuration }, options)
      const { task, message: answer } = isObject(sent) ? sent : {}
      const cleaning = cleaningOf(address)
      const read = readTask(task, cleaning)
      if (read !== null) return { type: 'task', task: read }
      if (!isObject(answer)) throw badAnswer('neither a task nor a message')
      return { type: 'message', contextId: idIn(answer['contextId']), text: textOfParts(answer['parts'], cleaning) }
    },

    async get(address, taskId, signal) {
      const options = { signal, maxBytes: LARGEST_TASK_BYTES }
      const cleaning = cleaningOf(address)
      const task = readTask(await call(address, 'GetTask', { id: taskId, historyLength: 0 }, options), cleaning)
      if (task === null) throw badAnswer('something that is not a task')
      return task
    },

    async find(address, { messageId, contextId, taskId }, signal) {
      const cleaning = cleaningOf(address)
      const lookupIn = (task: unknown): Lookup | null => {
        const read = isObject(task) && hasMessage(task, messageId) ? readTask(task, cleaning) : null
        return read && { type: 'received', task: read }
      }
      if (taskId === null) return findAmongTasks(address, contextId, lookupIn, signal)
      const params = { id: taskId, historyLength: TASKS_SEARCHED }
      // The server refuses the request if it no longer stores the task.
      const task = await orNullIfRefused(call(address, 'GetTask', params, { signal, maxBytes: LARGEST_TASK_BYTES }))
      return lookupIn(task) ?? { type: showsMessages(task) ? 'not-received' : 'unknown' }
    },

    async *changes(address, begun, signal) {
      const cleaning = cleaningOf(address)
      const left = new AbortController()
      const ended = AbortSignal.any([signal, left.signal])
      try {
        const body = await subscribe(address, begun.id, ended)
        let task = begun
        for await (const events of body === null ? [] : eventsIn(body, ended)) {
          for (const event of events) task = taskAfter(task, eventIn(event, cleaning.clean), cleaning)
          yield events.length === 0 ? null : shownTask(task, cleaning)
        }
      } catch (error) {
        signal.throwIfAborted()
        const failure = streamFailure(error, cleaning)
        // TOO_LARGE is not rethrown, because the caller then reads the task again and follows it in another stream.
        if (failure.code !== 'TOO_LARGE') throw failure
      } finally {
        left.abort()
      }
    },

    async cancel(address, taskId, signal) {
      await call(address, 'CancelTask', { id: taskId }, { signal }).catch((error: unknown) => {
        if (!isRefusal(error, TASK_NOT_CANCELABLE, NO_SUCH_METHOD)) throw error
      })
    },
  }
}

const HEADERS = { 'content-type': 'application/json', 'a2a-version': VERSION }
const utf8 = new TextDecoder()

const requestOf = (method: string, params: object) => JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })

const badAnswer = (what: string) => new ToolFailure('BAD_ANSWER', `The agent's server responded with ${what}.`)

/** Whether a failure is reported by its HTTP status instead of the JSON-RPC error in the body. */
const doesStatusDecide = (status: number) =>
  UNAUTHENTICATED_STATUSES.includes(status) || status === 429 || status >= 500

export const cleaningOf = ({ headers }: Pick<RemoteAddress, 'headers'>): TextCleaning => ({
  clean: withoutValues(headers),
  trim: withoutBeginnings(headers),
})

function streamFailure(error: unknown, { clean }: TextCleaning): ToolFailure {
  if (error instanceof ToolFailure) return error
  const { code, message } = failureOf(error)
  return new ToolFailure(code, clean(message))
}

function statusFailure(status: number, message: string): ToolFailure {
  if (UNAUTHENTICATED_STATUSES.includes(status)) return new ToolFailure('UNAUTHORIZED', message)
  if (status === 429) return new ToolFailure('RATE_LIMITED', message)
  return new ToolFailure(status >= 500 ? 'UNREACHABLE' : 'BAD_STATUS', message)
}

function parsed(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text)
    return isTooDeep(value) ? undefined : value
  } catch {
    return undefined
  }
}

/** Returns the error in a JSON-RPC response; null if the text contains none. */
function refusalIn(text: string, clean: (text: string) => string): ToolFailure | null {
  const response = parsed(text)
  const error = isObject(response) ? response['error'] : undefined
  if (!isObject(error)) return null
  const words = typeof error['message'] === 'string' ? error['message'] : 'no reason'
  const code = Number.isInteger(error['code']) ? Number(error['code']) : null
  const shown = code === null ? '' : ` (${code})`
  return new RemoteRefusal(code, cut(clean(`The agent's server refused the request${shown}: ${words}`), LONGEST_WORDS))
}

function resultIn(text: string, clean: (text: string) => string): unknown {
  const refusal = refusalIn(text, clean)
  if (refusal !== null) throw refusal
  const response = parsed(text)
  if (!isObject(response) || response['result'] === undefined) throw badAnswer('something that is not JSON-RPC')
  return response['result']
}

/**
 * Returns the result in a stream event; undefined for an event without one, such as a heartbeat. @throws
 * RemoteRefusal
 */
function eventIn(text: string, clean: (text: string) => string): unknown {
  const refusal = refusalIn(text, clean)
  if (refusal !== null) throw refusal
  const event = parsed(text)
  return isObject(event) ? event['result'] : undefined
}

/** Resolves with null if the server does not know the task or the method. */
function orNullIfRefused(work: Promise<unknown>): Promise<unknown> {
  return work.catch((error: unknown) => {
    if (isRefusal(error, NO_SUCH_METHOD)) return null
    throw error
  })
}

/** Whether a task includes the messages that it has received. Servers may omit the history. */
const showsMessages = (task: unknown): boolean =>
  isObject(task) && Array.isArray(task['history']) && task['history'].length > 0

function hasMessage(task: Record<string, unknown>, messageId: string): boolean {
  const status = task['status']
  const messages = [
    ...(Array.isArray(task['history']) ? task['history'] : []),
    isObject(status) ? status['message'] : null,
  ]
  return messages.some((message) => isObject(message) && message['messageId'] === messageId)
}
