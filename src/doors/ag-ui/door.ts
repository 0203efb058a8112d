import { EventType, PROTOCOL_VERSION, type RunFinishedOutcome } from '@ag-ui/core'
import { checkMessageText } from '../../lib/validate.ts'
import type { Activity } from '../activity.ts'
import { firstInBytes } from '../bytes.ts'
import { type Conversing, nameOf } from '../conversing.ts'
import { type Caller, type Door, DoorError, type EventStream, type Exchange, endOf, notFound } from '../exchange.ts'
import { readPlace, sendMessage } from '../operations.ts'
import { patient } from '../patient.ts'
import { failureOf, followTurn, isCanceled } from '../turn.ts'
import { answerCall, readCall } from '../waiting-calls.ts'
import { EventWriter, FRAME_BYTES } from './event-writer.ts'
import { type RunInput, readRejoin, readRunInput } from './input.ts'
import { interruptOf, resume } from './interrupts.ts'
import { keyOf } from './messages.ts'

const PLACE = /^\/(agents|spaces)\/([^/]+)$/
const PING = ':\n\n'

/** The start position and the scope of a stream. */
interface Start {
  spaceId: string
  /** See TurnScope. */
  rootId: string | null
  after: string
  /** Whether the stream begins with a snapshot of all messages. */
  hydrates: boolean
}

/** A stream that has begun. */
interface Opened extends Pick<Exchange, 'caller' | 'linkTo'> {
  input: RunInput
  /** Null if the conversation has not begun yet. */
  start: Start | null
  stream: EventStream
  maxEventBytes: number
}

/**
 * Serves AG-UI 1.0: `POST /ag-ui/agents/:id` and `POST /ag-ui/spaces/:id` run agents, and GET rejoins.
 * https://docs.ag-ui.com
 */
export function createAgUiDoor(conversing: Conversing, activity: Activity): Door {
  /** Returns the space of the request; null if the conversation has not begun yet. */
  async function findSpace(
    caller: Caller,
    { path }: Exchange,
    { threadId, message }: RunInput,
  ): Promise<string | null> {
    const [, kind, id = ''] = PLACE.exec(path) ?? []
    if (kind === undefined) throw notFound('There is no such path: use /ag-ui/agents/:id or /ag-ui/spaces/:id.')
    if (kind === 'spaces') return id
    const conversation = { agentId: id, thread: `ag-ui:${threadId}` }
    if (message === null) return conversing.find(caller, conversation)
    // The text is checked before the space is created, so that a refused text leaves no empty space behind.
    const onNew = () => checkMessageText(message.text, 'messages')
    return (await conversing.open(caller, { ...conversation, name: nameOf(message.text), onNew })).spaceId
  }

  /** Posts the new message, answers calls, and opens the stream. */
  async function open(exchange: Exchange, input: RunInput): Promise<Opened> {
    const { caller, linkTo, maxResponseBytes: maxEventBytes } = exchange
    await exchange.takePlace()
    const spaceId = await findSpace(caller, exchange, input)
    const start = spaceId === null ? null : await begin(caller, spaceId, input)
    return { caller, linkTo, maxEventBytes, input, start, stream: exchange.openStream() }
  }

  /**
   * Serves an open stream. This is separate from `open`, so that the rest of the request can be freed while the
   * stream is open.
   */
  async function serve({ caller, linkTo, maxEventBytes, input, start, stream }: Opened): Promise<void> {
    const onIdle = () => void stream.write(PING).catch(() => {})
    const reader = patient(caller, onIdle)
    const writer =
      start === null
        ? null
        : new EventWriter({
            caller: reader,
            stream,
            spaceId: start.spaceId,
            known: input.known,
            cursor: start.after,
            maxEventBytes,
          })
    try {
      if (start === null || writer === null) await showNothing(stream, input)
      else await run({ caller: reader, linkTo, writer, maxEventBytes, input, start, activity, onIdle })
    } catch (error) {
      const reason = endOf(error, caller)
      if (reason === null) return
      const { message, code } = reason instanceof DoorError ? reason : UNEXPECTED
      if (writer !== null) await writer.write({ type: EventType.RUN_ERROR, message, code })
      else await stream.write(`data: ${JSON.stringify({ type: EventType.RUN_ERROR, message, code })}\n\n`)
      if (!(reason instanceof DoorError)) throw reason
    } finally {
      stream.end()
    }
  }

  return {
    // `handle` is not an async function, because an async function would take more memory while the stream is open.
    handle(exchange) {
      const { method } = exchange
      if (method === 'POST') return exchange.json().then((body) => open(exchange, readRunInput(body)).then(serve))
      if (method === 'GET')
        return open(exchange, readRejoin(exchange.query, exchange.path.split('/')[2] ?? '')).then(serve)
      throw new DoorError('BAD_INPUT', 'Use POST to run, GET to rejoin.', {
        status: 405,
        headers: { allow: 'GET, POST' },
      })
    },
    endsAtDrain: false,
    failureOf: ({ message, code }) => ({ type: EventType.RUN_ERROR, message, code }),
  }
}

const UNEXPECTED = {
  message: 'Internal server error. Report the X-Request-Id header to the operator.',
  code: 'INTERNAL_SERVER_ERROR',
}

const OWN_QUERY = `query DoorOwn($id: ID!) { message(id: $id) { id space { id } } }`

/** Posts the new message, and submits results of calls and decisions on them. @throws DoorError */
async function begin(caller: Caller, spaceId: string, input: RunInput): Promise<Start> {
  const { cursor, lastSeq } = await readPlace(caller, spaceId)
  const resumedRoot = await resume(caller, input.resume)
  const answeredRoot = await submitResults(caller, input.results)
  const hasAnswered = input.resume.length + input.results.length > 0
  const posted = input.message === null ? null : await post(caller, spaceId, input.message)
  const isNew = posted?.seq != null && posted.seq > lastSeq
  return {
    spaceId,
    // If the client has sent its history again without a new message, its newest input is its answers to calls. The
    // runs that these answers continue are then followed.
    rootId: (isNew ? null : (resumedRoot ?? answeredRoot)) ?? posted?.id ?? null,
    after: input.after ?? cursor,
    hydrates: input.after === null && !isNew && !hasAnswered,
  }
}

/**
 * Posts a message unless it was posted before. `seq` is null if the client had received the message from this
 * server.
 */
async function post(
  caller: Caller,
  spaceId: string,
  { id, text }: { id: string; text: string },
): Promise<{ id: string; seq: number | null }> {
  if (id.startsWith('msg_')) {
    const { message } = await caller.ask<{ message: { id: string; space: { id: string } } | null }>(OWN_QUERY, { id })
    if (message?.space.id === spaceId) return { id, seq: null }
  }
  return sendMessage(caller, { spaceId, text, idempotencyKey: await keyFor(id) })
}

const LONGEST_KEY_ID = 150

/** Returns the idempotency key of a message. Long ids are hashed, because the length of keys is limited. */
async function keyFor(id: string): Promise<string> {
  if (id !== '' && id.length <= LONGEST_KEY_ID) return keyOf(id)
  const hash = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(id))
  return keyOf(`sha256:${Buffer.from(hash).toString('base64url')}`)
}

async function submitResults(caller: Caller, results: RunInput['results']): Promise<string | null> {
  let rootId: string | null = null
  for (const { toolCallId, content } of results) {
    const call = await readCall(caller, toolCallId)
    rootId = call.run?.rootId ?? rootId
    if (call.waitsFor === 'RESULT') await answerCall(caller, call, { type: 'result', result: parsed(content) })
  }
  return rootId
}

function parsed(content: string): unknown {
  try {
    return JSON.parse(content)
  } catch {
    return content
  }
}

/** Writes the events for a conversation that has not begun yet. */
async function showNothing(stream: EventStream, { threadId, runId, after }: RunInput): Promise<void> {
  const events = [
    { type: EventType.RUN_STARTED, threadId, runId, protocolVersion: PROTOCOL_VERSION },
    { type: EventType.MESSAGES_SNAPSHOT, messages: [] },
    { type: EventType.RUN_FINISHED, threadId, runId },
  ]
  const position = after === null ? {} : { rawEvent: { cursor: after } }
  for (const event of events) await stream.write(`data: ${JSON.stringify({ ...event, ...position })}\n\n`)
}

interface Running extends Pick<Exchange, 'linkTo'> {
  caller: Caller
  writer: EventWriter
  maxEventBytes: number
  input: RunInput
  start: Start
  activity: Activity
  onIdle: () => void
}

async function run(running: Running): Promise<void> {
  const { caller, linkTo, writer, maxEventBytes, input, start, activity, onIdle } = running
  const { threadId, runId, follows } = input
  const { spaceId, rootId, after, hydrates } = start
  const started = { type: EventType.RUN_STARTED, threadId, runId, protocolVersion: PROTOCOL_VERSION } as const
  const finished = { type: EventType.RUN_FINISHED, threadId, runId } as const
  if (hydrates) {
    await writer.writeWithoutCursor(started)
    await writer.showAll()
  } else await writer.write(started)
  for await (const next of followTurn(caller, { spaceId, rootId, after, waitsForPeople: follows, activity, onIdle })) {
    if (next.type === 'event') {
      await writer.show(next.event)
      continue
    }
    await writer.closeTexts()
    const { waiting, usage } = next.state
    const failure = waiting.length > 0 ? null : failureOf(next.state)
    if (failure !== null) return writer.write({ type: EventType.RUN_ERROR, ...failure })
    // The remaining interrupts are sent after the client has answered these.
    const interrupts = firstInBytes(
      waiting.map((call) => interruptOf(call, { spaceId, linkTo })),
      maxEventBytes - FRAME_BYTES,
    )
    const outcome: RunFinishedOutcome =
      waiting.length > 0
        ? { type: 'interrupt', interrupts }
        : { type: isCanceled(next.state) ? 'cancelled' : 'success' }
    const hasUsage = usage !== null && usage.totalTokens > 0 && rootId !== null
    return writer.write({ ...finished, outcome, ...(hasUsage ? { usage: [usage] } : {}) })
  }
  await writer.closeTexts()
  throw notFound('The space was deleted.')
}
