import { cut, isObject, isTooDeep } from '../../lib/json.ts'
import { failureOf, type GuardedHttp } from '../custom/guarded-http.ts'
import { withoutValues } from '../custom/header-removal.ts'
import { ToolFailure } from '../tool.ts'
import { eventsIn, orNullIfSilent } from './event-stream.ts'
import { idIn, type RemoteTask, readTask, taskAfter, textOfParts } from './remote-task.ts'

/** Where an agent on another server answers. */
export interface RemoteAddress {
  url: string
  headers: Record<string, string>
  /** Whether it can stream the events of a task. */
  streams: boolean
}

export interface RemoteMessage {
  /** The same if the message is sent again. */
  messageId: string
  text: string
  contextId: string | null
  /** The task that waits for this message. */
  taskId: string | null
}

export type Sent = { type: 'task'; task: RemoteTask } | { type: 'message'; contextId: string | null; text: string }

/** A2A 1.0 by JSON-RPC. Every method throws a ToolFailure, whose message is for people and contains no header. */
export interface A2aClient {
  /** Sends a message, and returns the task or the answer, without waiting for the end of the task if the server allows that. */
  send(address: RemoteAddress, message: RemoteMessage, signal: AbortSignal): Promise<Sent>
  get(address: RemoteAddress, taskId: string, signal: AbortSignal): Promise<RemoteTask>
  /** Returns the newest task that was begun or continued by a message; null if the server does not know it, or cannot tell. */
  find(
    address: RemoteAddress,
    message: Omit<RemoteMessage, 'text' | 'taskId'>,
    signal: AbortSignal,
  ): Promise<RemoteTask | null>
  /**
   * Yields a task after each of its events; null when the server has sent something else, as a sign of life. Returns when the stream
   * ends, is longer than the guard allows, or is silent for half a minute.
   */
  changes(address: RemoteAddress, task: RemoteTask, signal: AbortSignal): AsyncGenerator<RemoteTask | null>
  /** Cancels a task. A task that has ended, or that the server does not know, is no failure. */
  cancel(address: RemoteAddress, taskId: string, signal: AbortSignal): Promise<void>
}

/** The server answered a request with an error: it did nothing. */
export class RemoteRefusal extends ToolFailure {}

const VERSION = '1.0'
/** A server that ignores `returnImmediately` answers when its task is done. */
const SEND_TIMEOUT_MS = 300_000
const REQUEST_TIMEOUT_MS = 20_000
const LONGEST_WORDS = 500
const TASKS_SEARCHED = 20
const UNAUTHENTICATED_STATUSES = [401, 403]

export function createA2aClient(http: GuardedHttp): A2aClient {
  async function call(
    { url, headers }: RemoteAddress,
    method: string,
    params: object,
    { timeoutMs = REQUEST_TIMEOUT_MS, signal }: { timeoutMs?: number; signal: AbortSignal },
  ): Promise<unknown> {
    const outcome = await http.send({
      method: 'POST',
      url,
      headers: { ...headers, ...HEADERS, accept: 'application/json' },
      body: requestOf(method, params),
      // A request must not be repeated elsewhere.
      stays: true,
      timeoutMs,
      signal,
    })
    const clean = withoutValues(headers)
    if (outcome.type === 'answer') return resultIn(utf8.decode(outcome.body), clean)
    const { code, message, response } = outcome
    if (response === undefined) throw new ToolFailure(code, clean(message))
    throw refusalIn(utf8.decode(response.body), clean) ?? statusFailure(response.status, clean(message))
  }

  /** Returns the stream of the events of a task; null if the server is silent. @throws ToolFailure, errors of the connection */
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
      refusalIn(text, withoutValues(headers)) ??
      statusFailure(response.status, `The agent's server sent no stream of events, but status ${response.status}.`)
    )
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
      const read = readTask(task)
      if (read !== null) return { type: 'task', task: read }
      if (!isObject(answer)) throw badAnswer('neither a task nor a message')
      return { type: 'message', contextId: idIn(answer['contextId']), text: textOfParts(answer['parts']) }
    },

    async get(address, taskId, signal) {
      const task = readTask(await call(address, 'GetTask', { id: taskId, historyLength: 0 }, { signal }))
      if (task === null) throw badAnswer('something that is not a task')
      return task
    },

    async find(address, { messageId, contextId }, signal) {
      const params = {
        ...(contextId === null ? {} : { contextId }),
        pageSize: TASKS_SEARCHED,
        historyLength: TASKS_SEARCHED,
      }
      const listed = await call(address, 'ListTasks', { ...params, includeArtifacts: false }, { signal }).catch(
        (error: unknown) => {
          if (error instanceof RemoteRefusal) return null
          throw error
        },
      )
      const tasks = isObject(listed) && Array.isArray(listed['tasks']) ? listed['tasks'] : []
      const found = tasks.find((task) => isObject(task) && hasMessage(task, messageId))
      return readTask(found)
    },

    async *changes(address, begun, signal) {
      const clean = withoutValues(address.headers)
      const left = new AbortController()
      const ended = AbortSignal.any([signal, left.signal])
      try {
        const body = await subscribe(address, begun.id, ended)
        let task = begun
        for await (const event of body === null ? [] : eventsIn(body, ended)) {
          task = event === null ? task : taskAfter(task, resultIn(event, clean))
          yield event === null ? null : task
        }
      } catch (error) {
        signal.throwIfAborted()
        if (error instanceof ToolFailure) throw error
        const { code, message } = failureOf(error)
        // A long stream: the caller reads the task again, and follows it in another one.
        if (code !== 'TOO_LARGE') throw new ToolFailure(code, clean(message))
      } finally {
        left.abort()
      }
    },

    async cancel(address, taskId, signal) {
      await call(address, 'CancelTask', { id: taskId }, { signal }).catch((error: unknown) => {
        if (!(error instanceof RemoteRefusal)) throw error
      })
    },
  }
}

const HEADERS = { 'content-type': 'application/json', 'a2a-version': VERSION }
const utf8 = new TextDecoder()

const requestOf = (method: string, params: object) => JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })

const badAnswer = (what: string) => new ToolFailure('BAD_ANSWER', `The agent's server answered with ${what}.`)

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

/** Returns the error in a JSON-RPC response; null if the text is none. */
function refusalIn(text: string, clean: (text: string) => string): ToolFailure | null {
  const response = parsed(text)
  const error = isObject(response) ? response['error'] : undefined
  if (!isObject(error)) return null
  const words = typeof error['message'] === 'string' ? error['message'] : 'no reason'
  const code = Number.isInteger(error['code']) ? ` (${error['code']})` : ''
  return new RemoteRefusal(
    'REMOTE_ERROR',
    clean(cut(`The agent's server refused the request${code}: ${words}`, LONGEST_WORDS)),
  )
}

function resultIn(text: string, clean: (text: string) => string): unknown {
  const refusal = refusalIn(text, clean)
  if (refusal !== null) throw refusal
  const response = parsed(text)
  if (!isObject(response) || response['result'] === undefined) throw badAnswer('something that is not JSON-RPC')
  return response['result']
}

function hasMessage(task: Record<string, unknown>, messageId: string): boolean {
  const status = task['status']
  const messages = [
    ...(Array.isArray(task['history']) ? task['history'] : []),
    isObject(status) ? status['message'] : null,
  ]
  return messages.some((message) => isObject(message) && message['messageId'] === messageId)
}
