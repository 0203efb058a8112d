import { MissingRequiredClientCapabilityError, ProtocolError, ProtocolErrorCode } from '@modelcontextprotocol/server'
import { isObject } from '../../lib/json.ts'
import { DoorError } from '../exchange.ts'
import { stopRuns } from '../operations.ts'
import { answerCalls, inputRequestsOf } from '../tasks/input-requests.ts'
import type { Task, Tasks } from '../tasks/tasks.ts'
import type { Calls } from './calls.ts'
import { type McpExchange, type Result, TASKS_EXTENSION } from './exchange.ts'
import { taskFields } from './task-fields.ts'

/** The methods `tasks/get`, `tasks/update` and `tasks/cancel`, which the MCP package does not implement. */
export interface TaskMethods {
  get(exchange: McpExchange, params: unknown): Promise<Result>
  update(exchange: McpExchange, params: unknown, inputResponses: unknown): Promise<Result>
  cancel(exchange: McpExchange, params: unknown): Promise<Result>
  /** Returns the state of a task, including its questions or its result. */
  describe(exchange: McpExchange, task: Task): Promise<Result>
}

export interface TaskMethodParts {
  tasks: Tasks
  calls: Calls
  maxResponseBytes: number
}

/** @throws MissingRequiredClientCapabilityError unless the client supports the Tasks extension */
export function checkTakesTasks({ takesTasks }: McpExchange): void {
  if (takesTasks) return
  throw new MissingRequiredClientCapabilityError({ requiredCapabilities: { extensions: { [TASKS_EXTENSION]: {} } } })
}

export function createTaskMethods({ tasks, calls, maxResponseBytes }: TaskMethodParts): TaskMethods {
  async function taskOf(exchange: McpExchange, params: unknown): Promise<Task> {
    checkTakesTasks(exchange)
    const { taskId } = isObject(params) ? params : {}
    const task = typeof taskId === 'string' ? await tasks.read(exchange.caller, taskId) : null
    if (task === null)
      throw new ProtocolError(ProtocolErrorCode.InvalidParams, 'There is no such task, or you may not see it.')
    return task
  }

  async function describe(exchange: McpExchange, task: Task): Promise<Result> {
    const fields = taskFields(exchange, task)
    if (fields['status'] === 'input_required')
      return { ...fields, inputRequests: inputRequestsOf(task.pending, maxResponseBytes / 2) }
    return task.status === 'completed' ? { ...fields, result: await calls.resultOf(exchange, task) } : fields
  }

  return {
    describe,
    get: (exchange, params) => asProtocolError(async () => describe(exchange, await taskOf(exchange, params))),
    update: (exchange, params, inputResponses) =>
      asProtocolError(async () => {
        const task = await taskOf(exchange, params)
        if (!isObject(inputResponses))
          throw new ProtocolError(ProtocolErrorCode.InvalidParams, '`inputResponses` must be an object.')
        await answerCalls(exchange.caller, task.pending, inputResponses)
        return {}
      }),
    cancel: (exchange, params) =>
      asProtocolError(async () => {
        const { activeRunIds } = await taskOf(exchange, params)
        await stopRuns(exchange.caller, activeRunIds)
        return {}
      }),
  }
}

/** Handles a request whose result cannot contain errors. @throws ProtocolError */
export async function asProtocolError<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw error instanceof DoorError ? protocolErrorOf(error) : error
  }
}

/**
 * Converts a DoorError. Errors in the client's input become "invalid parameters", and so do references to objects
 * that the viewer may not see.
 */
export function protocolErrorOf({ code, message, retryAfterMs }: DoorError): ProtocolError {
  const isInternal = code === 'INTERNAL_SERVER_ERROR' || code === 'RATE_LIMITED'
  const of = isInternal ? ProtocolErrorCode.InternalError : ProtocolErrorCode.InvalidParams
  return new ProtocolError(of, message, { code, ...(retryAfterMs === null ? {} : { retryAfterMs }) })
}
