import type { Message, ResumeEntry, RunAgentInput } from '@ag-ui/core'
import { RunAgentInputSchema } from '@ag-ui/core/schemas'
import { decodeCursor } from '../../broker/cursor.ts'
import { badInput } from '../exchange.ts'
import { resultId } from './messages.ts'

/**
 * A request from a client. The history in the request is divided into the new part and the messages that the client
 * had before.
 */
export interface RunInput {
  threadId: string
  runId: string
  /**
   * The last message of the history, if a human wrote it. It may have been posted before, because the client may
   * send its history again.
   */
  message: { id: string; text: string } | null
  /** Results of tool calls that the client has added at the end of the history. */
  results: { toolCallId: string; content: string }[]
  resume: ResumeEntry[]
  /** The cursor after which the stream resumes; null if the client sent none. */
  after: string | null
  /** Whether the stream continues while calls wait for people. */
  follows: boolean
  /** The messages and calls that the client already has; null if unknown. */
  known: Known | null
}

export interface Known {
  /** The length of each text, by message id. */
  messages: ReadonlyMap<string, number>
  /** The ids of the calls whose input the client already has. */
  toolCalls: ReadonlySet<string>
  results: ReadonlySet<string>
}

const LONGEST_ID = 500
/**
 * The maximum number of list entries in a body. Checking more of them against the schema would block the event loop for
 * too long.
 */
const MOST_ENTRIES = 10_000

/** @throws DoorError, BadInputError */
export function readRunInput(body: unknown): RunInput {
  checkLengths(body)
  const parsed = RunAgentInputSchema.safeParse(body)
  if (!parsed.success) {
    const [issue] = parsed.error.issues
    throw badInput(
      `The body is not a valid RunAgentInput: ${issue?.path.join('.') ?? ''} ${issue?.message ?? ''}`.trim(),
    )
  }
  const input = parsed.data as RunAgentInput
  checkVersion(input.protocolVersion)
  checkIds(input)
  const { threadId, runId, messages, resume = [] } = input
  const parley = propsOf(input.forwardedProps)
  return {
    threadId,
    runId,
    message: newMessage(messages),
    results: newResults(messages),
    resume,
    after: cursorIn(parley['after']),
    follows: parley['follow'] === true,
    known: knownOf(messages),
  }
}

/** Reads the parameters of a GET request, which starts no run. @throws DoorError, BadInputError */
export function readRejoin(query: URLSearchParams, defaultThread: string): RunInput {
  const threadId = query.get('threadId') ?? defaultThread
  const input = { threadId, runId: query.get('runId') ?? crypto.randomUUID() }
  checkIds(input)
  const after = cursorIn(query.get('after') ?? undefined)
  return {
    ...input,
    message: null,
    results: [],
    resume: [],
    after,
    known: null,
    follows: query.get('follow') === 'true',
  }
}

/** @throws DoorError if the body has more list entries than can be checked quickly against the schema */
function checkLengths(body: unknown): void {
  const messages = listIn(body, 'messages')
  const lists = [messages, listIn(body, 'tools'), listIn(body, 'context'), listIn(body, 'resume')]
  let count = lists.reduce((sum, list) => sum + list.length, 0)
  if (count <= MOST_ENTRIES)
    for (const message of messages) count += listIn(message, 'content').length + listIn(message, 'toolCalls').length
  if (count > MOST_ENTRIES)
    throw badInput(
      `The body has too many messages, tools, context entries and parts: at most ${MOST_ENTRIES} in total.`,
      'messages',
    )
}

function listIn(value: unknown, field: string): readonly unknown[] {
  const list = typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[field] : null
  return Array.isArray(list) ? list : []
}

function checkVersion(version: string | undefined): void {
  if (version !== undefined && !/^[01](\.|$)/.test(version))
    throw badInput(`Unsupported protocolVersion ${JSON.stringify(version.slice(0, 40))}: this server speaks 1.0.`)
}

function checkIds({ threadId, runId }: { threadId: string; runId: string }): void {
  for (const [name, value] of Object.entries({ threadId, runId }))
    if (value === '' || value.length > LONGEST_ID)
      throw badInput(`${name} must have 1 to ${LONGEST_ID} characters.`, name)
}

function propsOf(forwardedProps: unknown): Readonly<Record<string, unknown>> {
  const { parley } = (typeof forwardedProps === 'object' ? (forwardedProps ?? {}) : {}) as { parley?: unknown }
  return typeof parley === 'object' && parley !== null ? (parley as Record<string, unknown>) : {}
}

function cursorIn(value: unknown): string | null {
  if (value === undefined || value === null) return null
  if (typeof value !== 'string') throw badInput('parley.after must be a cursor: rawEvent.cursor of an event.', 'after')
  decodeCursor(value)
  return value
}

function newMessage(messages: readonly Message[]): RunInput['message'] {
  const last = messages.at(-1)
  if (last?.role !== 'user') return null
  return { id: last.id, text: contentText(last.content) }
}

/** @throws DoorError if the content contains anything but text */
function contentText(content: Extract<Message, { role: 'user' }>['content']): string {
  if (typeof content === 'string') return content
  const texts = content.map((part) => {
    if (part.type === 'text') return part.text
    throw badInput(
      `This endpoint accepts only text in messages, not ${part.type}. Upload files with POST /files, and send them with GraphQL.`,
    )
  })
  return texts.join('\n\n')
}

/** Returns the results at the end of the history, except results that this server has sent. */
function newResults(messages: readonly Message[]): RunInput['results'] {
  const tail = messages.slice(messages.findLastIndex(({ role }) => role !== 'tool') + 1)
  return tail.flatMap((message) =>
    message.role === 'tool' && message.id !== resultId(message.toolCallId) && message.toolCallId.startsWith('tcl_')
      ? [{ toolCallId: message.toolCallId, content: contentText(message.content) }]
      : [],
  )
}

function knownOf(messages: readonly Message[]): Known {
  const lengthOf = (message: Message) => {
    const content = ('content' in message ? message.content : null) ?? ''
    // Content that is not a string was written by the client itself, so the client has all of it.
    return typeof content === 'string' ? content.length : Number.POSITIVE_INFINITY
  }
  const callsOf = (message: Message) => (message.role === 'assistant' ? (message.toolCalls ?? []) : [])
  return {
    messages: new Map(messages.map((message) => [message.id, lengthOf(message)])),
    // If a client was disconnected after TOOL_CALL_START, its call has empty arguments. A complete input has at
    // least the arguments `{}`.
    toolCalls: new Set(messages.flatMap(callsOf).flatMap((call) => (call.function.arguments === '' ? [] : call.id))),
    results: new Set(messages.flatMap((message) => (message.role === 'tool' ? [message.toolCallId] : []))),
  }
}
