import type { Domain } from '../../graphql/domain.ts'
import { isObject } from '../../lib/json.ts'
import { ACTIVE_RUN_STATUSES, ENDED_RUN_STATUSES } from '../../rules/statuses.ts'
import { isOverTask, type TaskState } from '../../rules/task-state.ts'
import { firstInBytes } from '../bytes.ts'
import type { Conversing } from '../conversing.ts'
import { type Caller, type Door, DoorError, type Exchange, endOf, failingAtDoor, notFound } from '../exchange.ts'
import { failureOf, type MessageStream, messageStreamOf, readMessage } from '../json-rpc.ts'
import { mutate, sendMessage, stopRuns, TRIGGER_AGENT } from '../operations.ts'
import { AGENT, LIST_RUNS, type Page, SPACE } from '../tasks/documents.ts'
import { answerCalls } from '../tasks/input-requests.ts'
import { openOwnSpace } from '../tasks/own-space.ts'
import { createTasks, type Task } from '../tasks/tasks.ts'
import { waitForTask } from '../tasks/waiting.ts'
import { stateOf, taskOf } from './a2a-task.ts'
import { A2A_PATH, cardOf, type Described, SERVER } from './card.ts'
import { Following } from './following.ts'

/** The object that a URL identifies: an agent, a space, or the server. */
type Target = { type: 'agent' | 'space'; id: string } | { type: 'server' }

const VERSION = '1.0'
const LONGEST_WAIT_MS = 300_000
/** The default of the protocol. */
const PAGE = 50
const MOST_ON_PAGE = 100
/** The maximum number of replies per run in a list of tasks. */
const LISTED_REPLIES = 10
/** The size of a response apart from its list of tasks. */
const AROUND_LIST_BYTES = 1024
const LONGEST_MESSAGE_ID = 200

const CODES = {
  PARSE: -32700,
  INVALID_REQUEST: -32600,
  METHOD_NOT_FOUND: -32601,
  INVALID_PARAMS: -32602,
  INTERNAL: -32603,
  TASK_NOT_FOUND: -32001,
  TASK_NOT_CANCELABLE: -32002,
  UNSUPPORTED_OPERATION: -32004,
  CONTENT_TYPE_NOT_SUPPORTED: -32005,
  EXTENDED_CARD_NOT_CONFIGURED: -32007,
  VERSION_NOT_SUPPORTED: -32009,
} as const

/** An error of the A2A protocol. */
class A2aError extends Error {
  readonly code: number
  constructor(code: keyof typeof CODES, message: string) {
    super(message)
    this.code = CODES[code]
  }
}

const STREAMING: ReadonlySet<string> = new Set(['SendStreamingMessage', 'SubscribeToTask'])

/** Advice for requests about a task that has ended. */
const READ = 'use GetTask.'
const CONTINUE = 'send a message in the same context without taskId.'

type Params = Record<string, unknown>
interface Sent {
  text: string
  idempotencyKey: string
}

/** Serves agents and spaces as A2A 1.0 agents over JSON-RPC. https://a2a-protocol.org */
export function createA2aDoor({
  conversing,
  taskPushes,
  maxResponseBytes,
  onError,
}: {
  conversing: Conversing
  taskPushes: Domain['taskPushes']
  /** The maximum size of a response. */
  maxResponseBytes: number
  onError(error: Error): void
}): Door {
  const tasks = createTasks(maxResponseBytes)

  async function describe(target: Target, caller: Caller): Promise<Described | null> {
    if (target.type === 'server') return SERVER
    const { agent = null, space = null } = await caller.ask<{ agent?: Described | null; space?: Described | null }>(
      target.type === 'agent' ? AGENT : SPACE,
      { id: target.id },
    )
    return agent ?? space
  }

  /** Returns a task that belongs to the agent, space or server of the URL. @throws A2aError */
  async function existing(target: Target, caller: Caller, id: unknown): Promise<Task> {
    const task = typeof id === 'string' ? await tasks.read(caller, id) : null
    const isHere =
      task !== null &&
      (target.type === 'server' ||
        (target.type === 'agent'
          ? task.outcomes.some(({ agent }) => agent.id === target.id)
          : task.source?.spaceId === target.id))
    if (!isHere) throw new A2aError('TASK_NOT_FOUND', 'There is no such task, or you may not see it.')
    return task
  }

  /** Returns the task with the agents' replies. The cursor in the task is read before the replies. */
  async function whole(caller: Caller, task: Task): Promise<object> {
    return taskOf(task, await tasks.output(caller, task), maxResponseBytes)
  }

  /** Posts the message, or answers the calls of a waiting task. Returns the id of the task. */
  async function send(target: Target, caller: Caller, params: Params): Promise<string> {
    const { taskId, contextId, messageId, parts } = isObject(params['message']) ? params['message'] : {}
    if (!Array.isArray(parts)) throw new A2aError('INVALID_PARAMS', '`message` with `parts` is required.')
    if (typeof taskId === 'string' && taskId !== '') return answerTask(target, caller, taskId, parts)
    if (typeof messageId !== 'string' || messageId === '' || messageId.length > LONGEST_MESSAGE_ID)
      throw new A2aError('INVALID_PARAMS', `\`messageId\` is required, with at most ${LONGEST_MESSAGE_ID} characters.`)
    // The key prevents a second post if the client loses the response and sends the message again.
    const sent = { text: textOf(parts), idempotencyKey: `a2a:${messageId}` }
    if (target.type === 'agent' && caller.viewer.scope !== 'HUMAN') return trigger(target.id, caller, sent)
    const spaceId = await spaceOf(target, caller, typeof contextId === 'string' ? contextId : '')
    const mentionedIds = target.type === 'agent' ? { mentionedIds: [target.id] } : {}
    return (await sendMessage(caller, { spaceId, ...sent, ...mentionedIds })).id
  }

  async function trigger(agentId: string, caller: Caller, { text, idempotencyKey }: Sent): Promise<string> {
    const serviceName = caller.viewer.scope === 'ADMIN' ? { serviceName: 'A2A' } : {}
    const input = { agentId, payload: { text }, idempotencyKey, ...serviceName }
    const { run: started } = await mutate<{ run: { id: string } | null }>(caller, TRIGGER_AGENT, input)
    if (started !== null) return started.id
    throw new A2aError('UNSUPPORTED_OPERATION', 'The message is in the inbox of the agent, so there is no task.')
  }

  async function spaceOf(target: Target, caller: Caller, contextId: string): Promise<string> {
    if (target.type === 'space') {
      if (contextId !== '' && contextId !== target.id)
        throw new A2aError('INVALID_PARAMS', '`contextId` must be the id of this space.')
      return target.id
    }
    if (contextId !== '') return contextId
    if (target.type === 'agent') return openOwnSpace(conversing, caller, { agentId: target.id, door: 'a2a' })
    throw new A2aError('INVALID_PARAMS', '`contextId` must be the id of a space.')
  }

  async function answerTask(
    target: Target,
    caller: Caller,
    taskId: string,
    parts: readonly unknown[],
  ): Promise<string> {
    const task = await unfinished(target, caller, taskId, CONTINUE)
    const responses = parts.flatMap((part) => {
      const data = isObject(part) ? part['data'] : null
      return isObject(data) && isObject(data['inputResponses']) ? [data['inputResponses']] : []
    })
    if (responses.length === 0)
      throw new A2aError('INVALID_PARAMS', 'Answer a task with a data part { "inputResponses": { … } }.')
    await answerCalls(caller, task.pending, Object.assign({}, ...responses))
    return taskId
  }

  /** Posts a message, and stores the push configuration in the request. Returns the id of the task. */
  async function sendConfigured(target: Target, caller: Caller, params: Params): Promise<string> {
    const { configuration } = params
    const wanted = isObject(configuration) ? configuration['taskPushNotificationConfig'] : null
    if (!isObject(wanted)) return send(target, caller, params)
    const input = pushInputOf(wanted)
    const { taskId } = isObject(params['message']) ? params['message'] : {}
    if (typeof taskId === 'string' && taskId !== '') {
      await configure(caller, (await unfinished(target, caller, taskId, CONTINUE)).id, input)
      return send(target, caller, params)
    }
    // The push configuration is checked first, so that no message is posted if the configuration is refused.
    const room = await failingAtDoor(() => taskPushes.reserve(caller.viewer, input))
    try {
      const id = await send(target, caller, params)
      await failingAtDoor(() => taskPushes.create(caller.viewer, id, input, room))
      return id
    } catch (error) {
      await taskPushes.release(room)
      throw error
    }
  }

  async function configure(caller: Caller, taskId: string, input: PushInput): Promise<object> {
    return configOf(await failingAtDoor(() => taskPushes.create(caller.viewer, taskId, input)))
  }

  /** Returns a task that has not ended yet. @throws A2aError */
  async function unfinished(target: Target, caller: Caller, taskId: unknown, instead: string): Promise<Task> {
    const task = await existing(target, caller, taskId)
    if (isOverTask(stateOf(task))) throw new A2aError('UNSUPPORTED_OPERATION', `The task has ended: ${instead}`)
    return task
  }

  async function createPush(target: Target, caller: Caller, params: Params): Promise<object> {
    const task = await unfinished(target, caller, params['taskId'], READ)
    return configure(caller, task.id, pushInputOf(params))
  }

  async function listPushes(target: Target, caller: Caller, params: Params) {
    const task = await existing(target, caller, params['taskId'])
    return (await taskPushes.list(caller.viewer, task.id)).map(configOf)
  }

  async function getPush(target: Target, caller: Caller, params: Params): Promise<object> {
    const config = (await listPushes(target, caller, params)).find(({ id }) => id === params['id'])
    if (config === undefined) throw new A2aError('TASK_NOT_FOUND', 'The task has no such push configuration.')
    return config
  }

  async function deletePush(target: Target, caller: Caller, params: Params): Promise<object> {
    const task = await existing(target, caller, params['taskId'])
    const { id } = params
    if (typeof id === 'string') await taskPushes.delete(caller.viewer, task.id, id)
    return {}
  }

  async function sendAndWait(target: Target, { caller, waiting }: Exchange, params: Params): Promise<object> {
    const id = await sendConfigured(target, caller, params)
    const { configuration } = params
    const returnsAtOnce = isObject(configuration) && configuration['returnImmediately'] === true
    const timeoutMs = returnsAtOnce ? 0 : LONGEST_WAIT_MS
    const task = await waitForTask(tasks, caller, id, { timeoutMs, signal: waiting })
    if (task === null) throw new A2aError('TASK_NOT_FOUND', 'The task no longer exists.')
    return { task: await whole(caller, task) }
  }

  /**
   * Returns the task of each run. This is the task of the message that started the run or, if the viewer may not
   * see such a message, the task of the run itself.
   */
  async function tasksOf(caller: Caller, runs: readonly ListedRun[]): Promise<Map<string, Task>> {
    const ofMessages = await tasks.readMany(
      caller,
      runs.flatMap(({ triggerMessage }) => triggerMessage?.id ?? []),
    )
    const found = new Map<string, Task>()
    for (const { id, triggerMessage } of runs) {
      const task = ofMessages.get(triggerMessage?.id ?? '')
      if (task?.outcomes.some(({ runId }) => runId === id)) found.set(id, task)
    }
    const others = runs.filter(({ id }) => !found.has(id)).map(({ id }) => id)
    return new Map([...found, ...(await tasks.readMany(caller, others))])
  }

  /** Reads a page of tasks. The number of GraphQL operations does not depend on the number of tasks. */
  async function list(target: Target, caller: Caller, params: Params): Promise<object> {
    const { pageSize, pageToken, includeArtifacts, status } = params
    const first = sizeOf(pageSize)
    const { runs } = await caller.ask<{ runs: ListedRuns }>(LIST_RUNS, {
      first,
      after: pageToken || null,
      filter: filterOf(target, params),
    })
    const byRun = await tasksOf(
      caller,
      runs.edges.map(({ node }) => node),
    )
    const listed = runs.edges.flatMap(({ cursor, node }) => {
      const task = byRun.get(node.id)
      return task !== undefined && isListed(task, { target, status, runId: node.id }) ? [{ cursor, task }] : []
    })
    const outputs =
      includeArtifacts === true
        ? await tasks.outputs(
            caller,
            listed.map(({ task }) => task),
            LISTED_REPLIES,
          )
        : null
    const whole = listed.map(({ task }, index) => taskOf(task, outputs?.[index] ?? null, maxResponseBytes))
    // The page contains at least one task, because a single task always fits.
    const shown = firstInBytes(whole, maxResponseBytes - AROUND_LIST_BYTES)
    const { hasNextPage, endCursor } = runs.pageInfo
    const isCut = shown.length < whole.length
    const next = isCut ? listed[shown.length - 1]?.cursor : hasNextPage ? endCursor : ''
    return { tasks: shown, nextPageToken: next ?? '', pageSize: first, totalSize: shown.length }
  }

  async function cancel(target: Target, caller: Caller, params: Params): Promise<object> {
    const task = await existing(target, caller, params['id'])
    if (isOverTask(stateOf(task))) throw new A2aError('TASK_NOT_CANCELABLE', 'The task has ended.')
    await stopRuns(caller, task.activeRunIds)
    const after = await tasks.read(caller, task.id)
    return whole(caller, after ?? task)
  }

  async function follow(
    { caller, waiting }: Exchange,
    id: unknown,
    first: Task,
    to: { stream: MessageStream; endsAtInput: boolean },
  ) {
    const event = (result: object) => ({ jsonrpc: '2.0', id, result })
    const failure = (error: unknown) => ({ jsonrpc: '2.0', id, error: errorOf(error, onError) })
    await new Following({ tasks, caller, waiting, event, failure, maxResponseBytes, ...to }).follow(first)
  }

  /** Executes a request. Returns the result; null if it was streamed. @throws DoorError, A2aError */
  async function dispatch(target: Target, request: Exchange, asked: Asked): Promise<object | null> {
    const { caller } = request
    const { id, method, params, stream } = asked
    switch (method) {
      case 'SendMessage':
        return sendAndWait(target, request, params)
      case 'SendStreamingMessage': {
        const task = await tasks.read(caller, await sendConfigured(target, caller, params))
        if (task === null) throw new A2aError('TASK_NOT_FOUND', 'The task no longer exists.')
        await follow(request, id, task, { stream, endsAtInput: true })
        return null
      }
      case 'SubscribeToTask': {
        const task = await unfinished(target, caller, params['id'], READ)
        await follow(request, id, task, { stream, endsAtInput: false })
        return null
      }
      case 'GetTask':
        return whole(caller, await existing(target, caller, params['id']))
      case 'ListTasks':
        return list(target, caller, params)
      case 'CancelTask':
        return cancel(target, caller, params)
      case 'CreateTaskPushNotificationConfig':
        return createPush(target, caller, params)
      case 'GetTaskPushNotificationConfig':
        return getPush(target, caller, params)
      case 'ListTaskPushNotificationConfigs':
        return { configs: await listPushes(target, caller, params), nextPageToken: '' }
      case 'DeleteTaskPushNotificationConfig':
        return deletePush(target, caller, params)
      case 'GetExtendedAgentCard':
        throw new A2aError('EXTENDED_CARD_NOT_CONFIGURED', 'This server has no extended agent card.')
      default:
        throw new A2aError('METHOD_NOT_FOUND', 'Method not found.')
    }
  }

  async function sendCard(target: Target, exchange: Exchange, path: string): Promise<void> {
    if (exchange.method !== 'GET')
      throw new DoorError('BAD_INPUT', 'Use GET.', { status: 405, headers: { allow: 'GET' } })
    const described = await describe(target, exchange.caller)
    if (described === null) throw notFound('There is no such agent or space.')
    await exchange.send(200, cardOf(described, exchange.linkTo(A2A_PATH + path)))
  }

  async function answer(target: Target, exchange: Exchange): Promise<void> {
    const body = await readMessage(exchange)
    const method = isObject(body) ? body['method'] : null
    if (method === 'SendMessage') await exchange.takePlace({ isServedWhileDraining: true })
    if (STREAMING.has(String(method))) await exchange.takePlace()
    const id = idOf(body)
    const stream = messageStreamOf(exchange)
    try {
      const result = await dispatch(target, exchange, { ...readAsked(body, exchange), stream })
      if (result !== null) await exchange.send(200, { jsonrpc: '2.0', id, result })
    } catch (error) {
      const reason = endOf(error, exchange.caller)
      // If the client has disconnected, `reason` is null.
      if (reason !== null) await exchange.send(200, { jsonrpc: '2.0', id, error: errorOf(reason, onError) })
    } finally {
      stream.end()
    }
  }

  return {
    failureOf,
    endsAtDrain: true,
    async handle(exchange) {
      const [, path = '', kind, id, card] = TARGET.exec(exchange.path) ?? []
      if (!TARGET.test(exchange.path)) throw notFound('There is no such path: use /a2a/agents/:id or /a2a/spaces/:id.')
      const target: Target =
        kind === undefined || id === undefined
          ? { type: 'server' }
          : { type: kind === 'agents' ? 'agent' : 'space', id }
      return card === undefined ? answer(target, exchange) : sendCard(target, exchange, path)
    },
  }
}

/** Matches the paths of the server, of an agent and of a space, and the paths of their cards. */
const TARGET = /^((?:\/(agents|spaces)\/([^/]+))?)(\/\.well-known\/agent-card\.json)?$/

interface Asked {
  id: string | number
  method: string
  params: Params
  stream: MessageStream
}

function idOf(body: unknown): string | number | null {
  const id = isObject(body) ? body['id'] : null
  return typeof id === 'string' || typeof id === 'number' ? id : null
}

/** @throws A2aError if the body is not a request, or asks for another protocol version */
function readAsked(body: unknown, { header }: Exchange): Omit<Asked, 'stream'> {
  const id = idOf(body)
  if (!isObject(body) || body['jsonrpc'] !== '2.0' || typeof body['method'] !== 'string' || id === null)
    throw new A2aError('INVALID_REQUEST', 'Send one JSON-RPC 2.0 request, with an id.')
  const version = header('a2a-version') ?? '0.3'
  if (version.split('.').slice(0, 2).join('.') !== VERSION)
    throw new A2aError('VERSION_NOT_SUPPORTED', `Send the header A2A-Version: ${VERSION}.`)
  const { params = {} } = body
  if (!isObject(params)) throw new A2aError('INVALID_PARAMS', '`params` must be an object.')
  return { id, method: body['method'], params }
}

type PushInput = Parameters<Domain['taskPushes']['create']>[2]

/** @throws A2aError if the push configuration is malformed */
function pushInputOf({ id, url, token, authentication }: Params): PushInput {
  const { scheme, credentials } = isObject(authentication) ? authentication : {}
  const isGivenText = (value: unknown): value is string => typeof value === 'string' && value !== ''
  if (typeof url !== 'string') throw new A2aError('INVALID_PARAMS', '`url` is required.')
  return {
    id: isGivenText(id) ? id : null,
    url,
    token: isGivenText(token) ? token : null,
    authentication: isGivenText(scheme)
      ? { scheme, credentials: typeof credentials === 'string' ? credentials : '' }
      : null,
  }
}

/** Returns a push configuration without its secrets. */
function configOf({ id, taskId, url, scheme }: Awaited<ReturnType<Domain['taskPushes']['list']>>[number]) {
  return { id, taskId, url, ...(scheme === null ? {} : { authentication: { scheme, credentials: '' } }) }
}

interface ListedRun {
  id: string
  triggerMessage: { id: string } | null
}

interface ListedRuns extends Page<ListedRun> {
  edges: { cursor: string; node: ListedRun }[]
}

const ALL_STATUSES = [...ACTIVE_RUN_STATUSES, ...ENDED_RUN_STATUSES]
/** For each state of a task, the statuses that its runs can have. */
const RUNS_OF: Readonly<Record<TaskState, readonly string[]>> = {
  TASK_STATE_WORKING: ALL_STATUSES,
  TASK_STATE_INPUT_REQUIRED: ALL_STATUSES,
  TASK_STATE_COMPLETED: ENDED_RUN_STATUSES,
  TASK_STATE_FAILED: ['FAILED'],
  TASK_STATE_CANCELED: ['CANCELED'],
  TASK_STATE_REJECTED: ENDED_RUN_STATUSES,
}

const sizeOf = (pageSize: unknown): number =>
  typeof pageSize === 'number' && pageSize >= 1 ? Math.min(Math.floor(pageSize), MOST_ON_PAGE) : PAGE

/** @throws A2aError if a filter is not supported */
function filterOf(target: Target, { contextId, status, statusTimestampAfter }: Params): object {
  if (statusTimestampAfter !== undefined && statusTimestampAfter !== null && statusTimestampAfter !== '')
    throw new A2aError('INVALID_PARAMS', 'The filter `statusTimestampAfter` is not supported: leave it out.')
  const isContextKnown = contextId === undefined || contextId === null || typeof contextId === 'string'
  if (!isContextKnown || (target.type === 'space' && contextId && contextId !== target.id))
    throw new A2aError('INVALID_PARAMS', '`contextId` must be the id of the space in this URL.')
  if (isGiven(status) && !(typeof status === 'string' && Object.hasOwn(RUNS_OF, status)))
    throw new A2aError('INVALID_PARAMS', `\`status\` must be one of ${Object.keys(RUNS_OF).join(', ')}.`)
  return {
    spaceId: target.type === 'space' ? target.id : contextId || null,
    ...(target.type === 'agent' ? { agentId: target.id } : {}),
    ...(isGiven(status) ? { status: RUNS_OF[status as TaskState] } : {}),
  }
}

/**
 * Whether a task has the status and is listed for this run. A task with several runs that match the filter is
 * listed only for the newest of them.
 */
function isListed(task: Task, { target, status, runId }: { target: Target; status: unknown; runId: string }): boolean {
  if (isGiven(status) && stateOf(task) !== status) return false
  const found = task.outcomes.filter(
    (outcome) =>
      outcome.runId !== null &&
      (target.type !== 'agent' || outcome.agent.id === target.id) &&
      (!isGiven(status) || RUNS_OF[status as TaskState].includes(outcome.runStatus ?? '')),
  )
  const ids = found.flatMap((outcome) => outcome.runId ?? [])
  return !ids.some((id) => id > runId)
}

const isGiven = (status: unknown): boolean =>
  status !== undefined && status !== null && status !== '' && status !== 'TASK_STATE_UNSPECIFIED'

function errorOf(error: unknown, onError: (error: Error) => void): object {
  if (error instanceof A2aError) return { code: error.code, message: error.message }
  if (error instanceof DoorError) {
    const { code, message, retryAfterMs } = error
    const isInternal = code === 'INTERNAL_SERVER_ERROR' || retryAfterMs !== null
    const data = { code, ...(retryAfterMs === null ? {} : { retryAfterMs }) }
    return { code: isInternal ? CODES.INTERNAL : CODES.INVALID_PARAMS, message, data }
  }
  onError(error as Error)
  return { code: CODES.INTERNAL, message: 'Internal error.' }
}

/**
 * Joins the texts of a message. @throws A2aError if the message has no text, or a part that is neither text nor
 * data
 */
function textOf(parts: readonly unknown[]): string {
  const texts = parts.map((part) => {
    const { text, data } = isObject(part) ? part : {}
    if (typeof text === 'string') return text
    if (data !== undefined) return JSON.stringify(data)
    throw new A2aError('CONTENT_TYPE_NOT_SUPPORTED', 'Send parts with text or data; files are not supported.')
  })
  const text = texts.join('\n\n')
  if (text === '') throw new A2aError('INVALID_PARAMS', 'The message has no text.')
  return text
}
