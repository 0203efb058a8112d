import { randomUUID } from 'node:crypto'
import { mcpToolName } from '../agents/tool-names.ts'
import { triggerMessageOf } from '../context/prompt.ts'
import { belongsTo, type Scene } from '../context/scene.ts'
import { ASK_REMOTE_AGENT, type ForeignModel, parseForeignModel } from '../lib/foreign-model.ts'
import { cut, isObject, type JsonObject } from '../lib/json.ts'
import { type ModelFault, RemoteAgentError } from '../lib/model-fault.ts'
import { estimateTokens } from '../lib/token-estimate.ts'
import { LONGEST_MESSAGE } from '../lib/validate.ts'
import type {
  CallOptions,
  Generated,
  LanguageModelV4,
  PromptMessage,
  StreamPart,
  ToolResultOutput,
} from '../models/language-model.ts'
import type { RemoteAgents } from '../tools/a2a/remote-agents.ts'
import { answerIn, type RemoteTask } from '../tools/a2a/remote-task.ts'
import type { RunExecution } from '../tools/run-context.ts'
import { type Tool, ToolFailure } from '../tools/tool.ts'

export interface RelayParts {
  run: Pick<RunExecution, 'context'>
  scene: Scene
  tools: ReadonlyMap<string, Tool>
  remotes: Pick<RemoteAgents, 'follow'>
  /** Enqueues a job that cancels the run's tasks on other servers. */
  cancelTasks(): Promise<void>
}

/**
 * Returns a model that relays messages to an agent on another server. It makes three generations in this process. The
 * first one calls the tool that sends the message to the agent. The second one posts the answer while it arrives, and
 * the third one ends the run. So the journal, approvals, confidentiality and budgets work as for any model, and a
 * resumed run finds the task that it began. For the reasons, see docs/decisions/foreign-agents.md.
 */
export function createRelayModel(name: string, foreign: ForeignModel, parts: RelayParts): LanguageModelV4 {
  const asks = foreign.type === 'a2a' ? ASK_REMOTE_AGENT : mcpToolName(foreign.serverName, foreign.toolName)

  /** Yields the parts of the next generation. @throws RemoteAgentError */
  function next({ prompt, abortSignal }: CallOptions): AsyncGenerator<StreamPart> {
    const { result, isSaid, isCut } = progressIn(prompt, asks)
    if (result === null) return question(parts, foreign, asks)
    if (isSaid) return nothing(isCut ? parts : null)
    const answer =
      foreign.type === 'a2a'
        ? remoteAnswer(parts, name, resultIn(result), abortSignal ?? new AbortController().signal)
        : toolAnswer(result)
    return posted(parts, answer)
  }

  return {
    specificationVersion: 'v4',
    provider: foreign.type,
    modelId: name,
    supportedUrls: {},
    doGenerate: async () => {
      throw new Error('A relay model supports only streaming.')
    },
    doStream: async (options) => ({ stream: streamOf(next(options)) }),
  }
}

/** The progress of a run, as its next prompt shows it. */
interface Progress {
  /** The result of the last question to the agent; null if the run has sent none yet. */
  result: ToolResultOutput | null
  /** Whether the run has posted an answer since that question. */
  isSaid: boolean
  /** Whether the answer was cut off at the maximum length of a message. The task may then still be running. */
  isCut: boolean
}

function progressIn(prompt: readonly PromptMessage[], asks: string): Progress {
  const results = prompt.flatMap((message) => (message.role === 'tool' ? message.content : []))
  const made = results.flatMap((part) => (part.type === 'tool-result' ? [part] : []))
  const at = made.findLastIndex(({ toolName }) => toolName === asks)
  const said = at === -1 ? undefined : made.slice(at + 1).find(({ toolName }) => SENDS.has(toolName))
  if (said !== undefined) checkPosted(said.output)
  const isCut = said !== undefined && isCutText(textOfCall(prompt, said.toolCallId))
  return { result: made[at]?.output ?? null, isSaid: said !== undefined, isCut }
}

/** Returns the text that a call has posted. */
function textOfCall(prompt: readonly PromptMessage[], toolCallId: string): unknown {
  const calls = prompt.flatMap((message) => (message.role === 'assistant' ? message.content : []))
  const call = calls.find((part) => part.type === 'tool-call' && part.toolCallId === toolCallId)
  return call?.type === 'tool-call' && isObject(call.input) ? call.input['text'] : null
}

/** @throws RemoteAgentError if the call did not post the answer */
function checkPosted(output: ToolResultOutput): void {
  const error = errorIn(valueIn(output))
  if (error !== null)
    throw new RemoteAgentError(
      `The agent's answer could not be posted: ${error.message} (${error.code}). Retry the run.`,
      { fault: 'BROKEN_OFF' },
    )
  if (output.type === 'error-text' || output.type === 'error-json' || output.type === 'execution-denied')
    throw new RemoteAgentError("The agent's answer could not be posted. Retry the run.", { fault: 'BROKEN_OFF' })
}

const SENDS: ReadonlySet<string> = new Set(['send_message', 'sendSpaceMessage'])

/** Calls the tool that sends the question to the agent. */
async function* question(
  { run, scene, tools }: RelayParts,
  foreign: ForeignModel,
  asks: string,
): AsyncGenerator<StreamPart> {
  const tool = tools.get(asks)
  if (tool === undefined) throw new RemoteAgentError(notOffered(foreign), { fault: 'NOT_SET_UP' })
  const text = questionOf(run, scene)
  const field = foreign.type === 'a2a' ? 'text' : textFieldOf(tool)
  if (field === null)
    throw new RemoteAgentError(`The tool ${asks} cannot answer messages: its only required input must be one string.`, {
      fault: 'NOT_SET_UP',
    })
  const call = callParts(asks)
  yield call.begin
  yield call.delta(JSON.stringify({ [field]: text }))
  yield* call.end()
  yield finish('tool-calls', { inputTokens: estimateTokens(text) })
}

function notOffered(foreign: ForeignModel): string {
  if (foreign.type === 'a2a') return 'The agent now has a different model. Retry the run.'
  const { serverName, toolName } = foreign
  return `The MCP server "${serverName}" does not offer the tool "${toolName}" now: it cannot be reached, does not have the tool, or the tool has changed and an admin must confirm it (confirmMcpTools).`
}

/**
 * Returns the input field for the text. This is the only required field if it is a string. If no field is required, it
 * is the only string field.
 */
function textFieldOf({ inputSchema }: Tool): string | null {
  const properties = isObject(inputSchema['properties']) ? inputSchema['properties'] : {}
  const required = Array.isArray(inputSchema['required']) ? inputSchema['required'].map(String) : []
  const texts = Object.keys(properties).filter((key) => {
    const property = properties[key]
    return isObject(property) && property['type'] === 'string'
  })
  const fields = required.length === 0 ? texts : required
  const [field = ''] = fields
  return fields.length === 1 && texts.includes(field) ? field : null
}

/**
 * Returns the text to send to the agent. If the agent is alone with the sender and nobody else has posted since the
 * agent's last message, this is just the text of the message. Otherwise, it is the trigger in the form for other
 * agents, with the messages since the agent's last one.
 */
function questionOf({ context }: Pick<RunExecution, 'context'>, scene: Scene): string {
  const { triggerMessage, history, agent, spaces } = scene
  const last = history.findLastIndex(({ senderId }) => senderId === agent.id)
  const since = history.slice(last + 1)
  const space = spaces.find(({ id }) => id === context.run.triggerSpaceId)
  const isAlone = space?.size === 2 && since.every((line) => line === triggerMessage)
  const isPlain = context.run.wokenBy === null && scene.task === null && scene.triggerTexts.length === 0
  if (isAlone && isPlain && triggerMessage !== null && belongsTo(scene, context.run.triggerSpaceId))
    return triggerMessage.text
  return triggerMessageOf(context, { ...scene, history: since })
}

/** Posts an answer while it arrives. If there is no space to post in, the answer becomes the run's closing text. */
async function* posted(parts: RelayParts, answer: AsyncGenerator<string | null>): AsyncGenerator<StreamPart> {
  const place = placeOf(parts)
  const id = randomUUID()
  const call = place === null ? null : callParts(place.tool)
  let text = ''
  for await (const more of answer) {
    if (more === null) {
      // An empty part keeps the attempt from failing because of silence.
      yield { type: 'raw', rawValue: null }
      continue
    }
    if (text === '') {
      if (call === null) yield { type: 'text-start', id }
      else {
        yield call.begin
        yield call.delta(place?.opening ?? '')
      }
    }
    text += more
    yield call === null ? { type: 'text-delta', id, delta: more } : call.delta(JSON.stringify(more).slice(1, -1))
  }
  if (text !== '' && call === null) yield { type: 'text-end', id }
  if (text !== '' && call !== null) {
    yield call.delta('"}')
    yield* call.end()
  }
  yield finish(text !== '' && call !== null ? 'tool-calls' : 'stop', { outputTokens: estimateTokens(text) })
}

/**
 * Returns the tool that posts the answer, and the beginning of the tool's input up to the text. Returns null if the run
 * has no space to post in.
 */
function placeOf({ run, scene, tools }: RelayParts): { tool: string; opening: string } | null {
  const { activeSpace, run: row } = run.context
  if (tools.has('send_message')) return activeSpace === null ? null : { tool: 'send_message', opening: '{"text":"' }
  const isHere = row.triggerSpaceId !== null && belongsTo(scene, row.triggerSpaceId)
  if (!isHere || !tools.has('sendSpaceMessage')) return null
  return { tool: 'sendSpaceMessage', opening: `{"spaceId":${JSON.stringify(row.triggerSpaceId)},"text":"` }
}

/** Yields the new text of an answer as it grows, and null as a heartbeat. @throws RemoteAgentError */
async function* remoteAnswer(
  parts: RelayParts,
  model: string,
  { taskId, answer }: JsonObject,
  signal: AbortSignal,
): AsyncGenerator<string | null> {
  if (typeof answer === 'string' && answer.trim() !== '') yield answer
  if (typeof taskId !== 'string') return
  let said = ''
  let task: RemoteTask | null = null
  for await (const change of followed(parts, model, taskId, signal)) {
    task = change ?? task
    if (change === null) {
      yield null
      continue
    }
    const { text, isTooLong } = postableIn(change)
    const more = moreOf(text, said)
    yield more?.toWellFormed() ?? null
    said += more ?? ''
    if (!isTooLong) continue
    // No more text can be posted, so there is no reason to wait for the end of the task.
    if (text !== said) throw replaced()
    yield ELLIPSIS
    return
  }
  if (task !== null) checkEnd(task, said)
}

/** Yields the task after each change. @throws RemoteAgentError */
async function* followed(
  { run, remotes }: RelayParts,
  model: string,
  taskId: string,
  signal: AbortSignal,
): AsyncGenerator<RemoteTask | null> {
  try {
    yield* remotes.follow({ agentId: run.context.run.agentId, model }, taskId, signal)
  } catch (error) {
    throw error instanceof ToolFailure ? remoteError(error.code, error.message, { isRetryable: true }) : error
  }
}

/**
 * Returns the rest of an answer after the posted text; null if there is no more text or the answer no longer begins
 * with the posted text.
 */
function moreOf(text: string, said: string): string | null {
  const isMore = text.length > said.length && text.startsWith(said) && (said !== '' || text.trim() !== '')
  return isMore ? text.slice(said.length) : null
}

/** The maximum length of a message, minus one character for the ellipsis that ends a longer answer. */
const LONGEST_ANSWER = LONGEST_MESSAGE - 1
const ELLIPSIS = '…'
/** How many more characters can be cut off, because they are halves of surrogate pairs. */
const LONGEST_CUT = 2

/**
 * Whether a posted answer can be the beginning of a longer answer. A complete answer of this length that ends with an
 * ellipsis is also treated as one.
 */
const isCutText = (text: unknown): boolean =>
  typeof text === 'string' && text.endsWith(ELLIPSIS) && text.length > LONGEST_ANSWER - LONGEST_CUT

/** Returns the answer so far, without the first half of a surrogate pair if the second half has not arrived yet. */
function postableIn(task: RemoteTask): { text: string; isTooLong: boolean } {
  const answer = answerIn(task)
  const text = cut(answer, LONGEST_ANSWER).replace(/[\ud800-\udbff]$/, '')
  return { text, isTooLong: answer.length > LONGEST_ANSWER && text.trim() !== '' }
}

/** After this error, the model is called again and replaces the posted text from the first difference on. */
const replaced = () =>
  new RemoteAgentError('The agent has replaced its earlier text.', { fault: 'BROKEN_OFF', isRetryable: true })

/** @throws RemoteAgentError if the task ended without an answer, or if its answer differs from the posted one */
function checkEnd(task: RemoteTask, said: string): void {
  const { state, status } = task
  const words = status.trim() === '' ? 'The agent gave no reason.' : cut(status, LONGEST_REASON)
  if (state === 'FAILED') throw new RemoteAgentError(`The agent failed: ${words}`, { fault: 'BROKEN_OFF' })
  if (state === 'CANCELED')
    throw new RemoteAgentError(`The task was canceled on its server. ${words}`, { fault: 'BROKEN_OFF' })
  if (state === 'REJECTED') throw new RemoteAgentError(`The agent rejected the message: ${words}`, { fault: 'REFUSED' })
  if (state === 'AUTH_REQUIRED')
    throw new RemoteAgentError(`The agent requires credentials: ${words}`, { fault: 'KEY' })
  const { text } = postableIn(task)
  if (text.trim() !== '' && text !== said) throw replaced()
}

const LONGEST_REASON = 500

async function* toolAnswer(output: ToolResultOutput): AsyncGenerator<string> {
  const value = valueIn(output)
  checkResult(value)
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  if (text.trim() !== '') yield cut(text, LONGEST_MESSAGE)
}

function valueIn(output: ToolResultOutput): unknown {
  if (output.type === 'content')
    return output.value.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('\n')
  return 'value' in output ? output.value : null
}

/** Returns the result of the tool that sends a question. @throws RemoteAgentError if it failed */
function resultIn(output: ToolResultOutput): JsonObject {
  const value = valueIn(output)
  checkResult(value)
  return isObject(value) ? value : {}
}

/** @throws RemoteAgentError if the value is the result of a failed call */
function checkResult(value: unknown): void {
  const error = errorIn(value)
  if (error !== null) throw remoteError(error.code, error.message)
}

function errorIn(value: unknown): { code: string; message: string } | null {
  const error = isObject(value) ? value['error'] : undefined
  if (!isObject(error) || typeof error['code'] !== 'string') return null
  return { code: error['code'], message: String(error['message'] ?? '') }
}

const FAULTS: Readonly<Record<string, ModelFault>> = {
  CONFIDENTIAL: 'CONFIDENTIAL',
  UNCONFIRMED: 'UNCONFIRMED',
  UNAUTHORIZED: 'KEY',
  RATE_LIMITED: 'RATE',
  UNREACHABLE: 'UNAVAILABLE',
  TIMED_OUT: 'UNAVAILABLE',
  INTERRUPTED: 'UNAVAILABLE',
  TOO_LARGE: 'BROKEN_OFF',
  BAD_ANSWER: 'BROKEN_OFF',
  NOT_SET_UP: 'NOT_SET_UP',
  BAD_CARD: 'NOT_SET_UP',
  BAD_URL: 'NOT_SET_UP',
  BLOCKED_ADDRESS: 'NOT_SET_UP',
}
const RETRIED: ReadonlySet<string> = new Set(['UNREACHABLE', 'TIMED_OUT', 'RATE_LIMITED'])

function remoteError(code: string, message: string, { isRetryable = false } = {}): RemoteAgentError {
  return new RemoteAgentError(message, {
    fault: FAULTS[code] ?? 'REFUSED',
    isRetryable: isRetryable && RETRIED.has(code),
  })
}

/** Returns the stream parts of one tool call. */
function callParts(toolName: string) {
  const id = `call_${randomUUID().replaceAll('-', '')}`
  let input = ''
  return {
    begin: { type: 'tool-input-start', id, toolName } as const,
    delta(delta: string): StreamPart {
      input += delta
      return { type: 'tool-input-delta', id, delta }
    },
    *end(): Generator<StreamPart> {
      yield { type: 'tool-input-end', id }
      yield { type: 'tool-call', toolCallId: id, toolName, input }
    },
  }
}

/**
 * Ends the run after its answer was posted.
 * @param cut the parts with which to cancel the task of an answer that was cut off; null for a complete answer
 */
async function* nothing(cut: RelayParts | null): AsyncGenerator<StreamPart> {
  await cut?.cancelTasks()
  yield finish('stop', {})
}

/**
 * Ends a generation. The agent does not report its usage, so the usage is estimated from the sent and received text.
 */
function finish(
  unified: Generated['finishReason']['unified'],
  { inputTokens = 0, outputTokens = 0 }: { inputTokens?: number; outputTokens?: number },
): StreamPart {
  return {
    type: 'finish',
    finishReason: { unified, raw: undefined },
    usage: {
      inputTokens: { total: inputTokens, noCache: inputTokens, cacheRead: 0, cacheWrite: 0 },
      outputTokens: { total: outputTokens, text: outputTokens, reasoning: 0 },
      raw: { parleyEstimate: true },
    },
  }
}

function streamOf(parts: AsyncGenerator<StreamPart>): ReadableStream<StreamPart> {
  return new ReadableStream<StreamPart>(
    {
      start: (controller) => controller.enqueue({ type: 'stream-start', warnings: [] }),
      async pull(controller) {
        const { done, value } = await parts.next()
        if (done === true) controller.close()
        else controller.enqueue(value)
      },
      async cancel() {
        await parts.return(undefined)
      },
    },
    { highWaterMark: 0 },
  )
}

/** Returns models that can also resolve the run's remote agent as a model. */
export function withRelay<M extends { resolve(name: string): Promise<unknown> }>(models: M, parts: RelayParts): M {
  return {
    ...models,
    async resolve(name: string) {
      const foreign = name === parts.scene.agent.model ? parseForeignModel(name) : null
      return foreign === null ? models.resolve(name) : createRelayModel(name, foreign, parts)
    },
  }
}
