import { ProtocolError, ProtocolErrorCode, type ServerContext } from '@modelcontextprotocol/server'
import { z } from 'zod'
import { cut, isObject, jsonBytes } from '../../lib/json.ts'
import { isEndedRun } from '../../rules/statuses.ts'
import type { Conversing } from '../conversing.ts'
import { badInput, DoorError, notFound, tooLong } from '../exchange.ts'
import { answerCalls, consoleOnly, type InputResponses, inputRequestsOf } from '../tasks/input-requests.ts'
import type { Task, Tasks } from '../tasks/tasks.ts'
import { waitForTask } from '../tasks/waiting.ts'
import type { McpExchange, Result } from './exchange.ts'
import { taskFields } from './task-fields.ts'
import { isToolName, LONGEST_WAIT_SECONDS, TOOLS, WAITING_TOOLS } from './tool-inputs.ts'
import { createTools, describeCall, textOfOutput } from './tools.ts'

export interface CallParts {
  conversing: Pick<Conversing, 'open'>
  tasks: Tasks
  /** The maximum size of a result. */
  maxResponseBytes: number
}

export interface Calls {
  /** Answers `tools/call`. @throws ProtocolError for a malformed call */
  call(exchange: McpExchange, params: unknown, context: ServerContext): Promise<Result>
  /** Returns the result of the call that started a task, after the task has ended. */
  resultOf(exchange: McpExchange, task: Task): Promise<Result>
}

const DEFAULT_WAIT_SECONDS = 45
/**
 * The share of a response that a result's data may take. A result contains its data twice, as data and as text.
 * JSON in a text is escaped, and therefore up to twice as long.
 */
export const SHARE_OF_DATA = 1 / 4
/** The size of a response apart from its result. It includes the description of a task. */
export const AROUND_RESULT_BYTES = 8192

const invalid = (message: string) => new ProtocolError(ProtocolErrorCode.InvalidParams, message)

export function createCalls({ conversing, tasks, maxResponseBytes }: CallParts): Calls {
  const mostListBytes = maxResponseBytes * SHARE_OF_DATA
  const tools = createTools(conversing, mostListBytes)

  /**
   * Returns a result with the data as text. If the size limit allows, the result also contains the data as
   * structured content.
   * @throws DoorError if the text is too long
   */
  function resultWith(data: Record<string, unknown>, text = JSON.stringify(data), isError = false): Result {
    const content = [{ type: 'text', text }]
    const whole = { content, structuredContent: data, ...(isError ? { isError } : {}) }
    const mostBytes = maxResponseBytes - AROUND_RESULT_BYTES
    if (jsonBytes(whole) <= mostBytes) return whole
    const short = { content, ...(isError ? { isError } : {}) }
    if (jsonBytes(short) <= mostBytes) return short
    throw tooLong(maxResponseBytes)
  }

  async function resultOf({ caller }: McpExchange, task: Task): Promise<Result> {
    const output = await tasks.output(caller, task)
    const { id, status, outcomes, source, pending } = task
    const isFinished = status === 'completed' || status === 'cancelled'
    const data = {
      taskId: id,
      status,
      ...(source === null ? {} : source),
      outcomes,
      replies: output.replies,
      ...(output.isCut ? { isCut: true } : {}),
      ...(pending.length === 0 ? {} : { pendingCalls: pending.map(describeCall) }),
    }
    const hasFailed = outcomes.length > 0 && outcomes.every(({ runStatus, kind }) => isFailure(runStatus, kind))
    const elsewhere = consoleOnly(pending)
    const text = textOfOutput(output, isFinished) + (elsewhere === null ? '' : `\n\n[${elsewhere}]`)
    return resultWith(data, text, isFinished && hasFailed)
  }

  /** Waits for a task. Returns the task's result, questions for the user, or the task itself. */
  async function settle(
    exchange: McpExchange,
    { taskId, waitSeconds, dismissed }: { taskId: string; waitSeconds: number | undefined; dismissed: boolean },
    context: ServerContext,
  ): Promise<Result> {
    const { caller, takesTasks, takesForms, waiting } = exchange
    const seconds = Math.min(waitSeconds ?? (takesTasks ? 0 : DEFAULT_WAIT_SECONDS), LONGEST_WAIT_SECONDS)
    const task = await waitForTask(tasks, caller, taskId, {
      timeoutMs: seconds * 1000,
      signal: waiting,
      onChange: (state) => reportProgress(context, state),
    })
    if (task === null) throw notFound('The message or run that was started no longer exists.')
    if (task.status === 'completed' || task.status === 'cancelled') return resultOf(exchange, task)
    if (takesTasks) return { resultType: 'task', ...taskFields(exchange, task) }
    const inputRequests =
      task.status === 'input_required' && takesForms && !dismissed
        ? inputRequestsOf(task.pending, maxResponseBytes / 2)
        : {}
    if (Object.keys(inputRequests).length > 0)
      return { resultType: 'input_required', inputRequests, requestState: task.id }
    return resultOf(exchange, task)
  }

  /**
   * Submits a client's answers to the questions of a call, without posting a message. Returns whether the user
   * dismissed a question.
   */
  async function resume(exchange: McpExchange, taskId: string, responses: InputResponses): Promise<boolean> {
    const task = await tasks.read(exchange.caller, taskId)
    if (task === null) throw invalid('`requestState` refers to an object that does not exist, or that you may not see.')
    const dismissed = await answerCalls(exchange.caller, task.pending, responses)
    return dismissed.size > 0
  }

  async function answer(exchange: McpExchange, name: keyof typeof TOOLS, given: unknown, context: ServerContext) {
    const parsed = TOOLS[name].input.safeParse(given ?? {})
    if (!parsed.success) throw badInput(`Invalid input: ${z.prettifyError(parsed.error)}`)
    const state = context.mcpReq.requestState<unknown>()
    if (state !== undefined) {
      if (!WAITING_TOOLS.includes(name)) throw invalid(`${name} does not accept \`requestState\`.`)
      if (typeof state !== 'string') throw invalid('`requestState` must be the value that the server sent.')
      const responses = isObject(context.mcpReq.inputResponses) ? context.mcpReq.inputResponses : {}
      const dismissed = await resume(exchange, state, responses)
      const { waitSeconds } = parsed.data as { waitSeconds?: number }
      return settle(exchange, { taskId: state, waitSeconds, dismissed }, context)
    }
    const outcome = await tools[name](exchange.caller, parsed.data as never)
    if (outcome.type === 'complete') return resultWith(outcome.data)
    return settle(exchange, { ...outcome, dismissed: false }, context)
  }

  return {
    resultOf,
    async call(exchange, params, context) {
      const { name, arguments: given } = isObject(params) ? params : {}
      if (!isToolName(name)) throw invalid(`Unknown tool: ${String(name).slice(0, 100)}. See tools/list.`)
      try {
        return await answer(exchange, name, given, context)
      } catch (error) {
        if (!(error instanceof DoorError)) throw error
        // The error is returned as the tool's result, so that the model can read it and try something else.
        const { code, message, retryAfterMs } = error
        const data = { error: { code, message, ...(retryAfterMs === null ? {} : { retryAfterMs }) } }
        return { content: [{ type: 'text', text: message }], structuredContent: data, isError: true }
      }
    },
  }
}

const isFailure = (runStatus: Task['outcomes'][number]['runStatus'], kind: string) =>
  runStatus === 'FAILED' || kind === 'FAILED'

const LONGEST_PROGRESS = 1000

/** Reports the agents' progress to a client that asked for progress notifications. */
function reportProgress({ mcpReq }: ServerContext, { outcomes, waiting }: Task): void {
  const token = (mcpReq._meta as { progressToken?: string | number } | undefined)?.progressToken
  if (token === undefined) return
  const progress = outcomes.filter(({ runStatus }) => runStatus !== null && isEndedRun(runStatus)).length
  const states = outcomes.map(({ agent, runStatus, kind }) => `${agent.name}: ${runStatus ?? kind}`).join(', ')
  const words = waiting === 0 ? states : `${states} (${waiting} calls are waiting for an answer)`
  const message = cut(words, LONGEST_PROGRESS)
  const params = { progressToken: token, progress, total: outcomes.length, message }
  void mcpReq.notify({ method: 'notifications/progress', params }).catch(() => {})
}
