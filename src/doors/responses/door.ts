import { jsonBytes } from '../../lib/json.ts'
import { percentDecoded } from '../../lib/percent-encoding.ts'
import type { Activity } from '../activity.ts'
import { type Conversing, nameOf } from '../conversing.ts'
import {
  badInput,
  type Caller,
  type Door,
  DoorError,
  type DoorErrorCode,
  type EventStream,
  type Exchange,
  endOf,
  NOT_TO_RETRY,
  notFound,
  tooLong,
} from '../exchange.ts'
import { type Connection, nodesOf, sendMessage, stopRuns } from '../operations.ts'
import { chatChunks, chatCompletionOf } from './chat.ts'
import { type Model, modelsFor } from './models.ts'
import { type ResponseRequest, readChatRequest, readResponseRequest } from './request.ts'
import { type Asked, messageIdOf, resourceOf, responseId } from './resource.ts'
import { ResponseEvents } from './response-events.ts'
import { type Turn, type TurnView, viewTurn, watchTurn } from './turn-stream.ts'

const PING = ':\n\n'
const DONE = 'data: [DONE]\n\n'

/** A turn that has begun, and fields of the request that began it. */
interface Begun extends Turn {
  asked: Asked
}

/**
 * Serves Open Responses, with agents as models: `/v1/models` and `/v1/responses`. `/v1/chat/completions` is for
 * clients that do not support Responses. https://www.openresponses.org
 */
export function createResponsesDoor(conversing: Conversing, activity: Activity): Door {
  /** Posts the new message in the conversation that the request continues, or in a new conversation. */
  async function begin(exchange: Exchange, caller: Caller, request: ResponseRequest): Promise<Begun> {
    const key = keyOf(exchange.header('idempotency-key'))
    const { text } = request
    await exchange.takePlace()
    const { spaceId, repeats, isNew } = await placeOf(caller, request, key)
    try {
      const messageId = repeats ?? (await sendMessage(caller, { spaceId, text, idempotencyKey: key })).id
      return { spaceId, messageId, asked: askedOf(messageId, request) }
    } catch (error) {
      // The space is kept if there is an idempotency key, because another request with the same key may use the space.
      if (isNew && key === null && isRefusal(error)) await conversing.discard(caller, spaceId)
      throw error
    }
  }

  async function placeOf(
    caller: Caller,
    { agentId, previousId, known, text }: ResponseRequest,
    thread: string | null,
  ): Promise<{ spaceId: string; repeats: string | null; isNew: boolean }> {
    if (previousId !== null)
      return { spaceId: (await findTurn(caller, previousId)).spaceId, repeats: null, isNew: false }
    if (agentId === null) throw badInput('model is required: use an id from GET /v1/models.', 'model')
    const found = known === null ? null : await conversing.continued(caller, { agentId, ...known, next: text })
    if (found !== null) return { ...found, isNew: false }
    const opened = await conversing.open(caller, { agentId, thread, name: nameOf(text) })
    return { ...opened, repeats: null }
  }

  /** Waits until the turn ends, and returns the final view. @throws DoorError */
  async function lastView(exchange: Exchange, caller: Caller, turn: Turn): Promise<TurnView> {
    let last: TurnView | null = null
    for await (const view of watchTurn(exchange, caller, turn, { activity, onIdle: () => {} })) last = view
    if (last === null) throw notFound('The conversation was deleted.')
    return last
  }

  async function streamResponse(exchange: Exchange, caller: Caller, begun: Begun, after: number): Promise<void> {
    const stream = exchange.openStream()
    const { maxResponseBytes: maxEventBytes } = exchange
    const events = new ResponseEvents(begun.asked, { startingAfter: after, maxEventBytes })
    const write = (event: { type: string }) => stream.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)
    let last: TurnView | null = null
    await written(
      caller,
      stream,
      async () => {
        for await (const view of watchTurn(exchange, caller, begun, { activity, onIdle: pinging(stream) })) {
          last = view
          for (const event of events.next(view)) await write(event)
        }
      },
      (failure) => {
        const event = events.failure(failure.message, last)
        return `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`
      },
    )
  }

  async function createResponse(exchange: Exchange): Promise<void> {
    const { caller } = exchange
    const request = readResponseRequest(await exchange.json())
    checkRepeated(request, exchange.maxResponseBytes)
    const begun = await begin(exchange, caller, request)
    if (request.isStream) return streamResponse(exchange, caller, begun, NOTHING_YET)
    const reading = request.background ? viewTurn(exchange, caller, begun) : lastView(exchange, caller, begun)
    const view = await afterDeed(reading)
    await sendResource(exchange, begun, view)
  }

  /** Sends the state of a response. @throws DoorError if its newest output alone is too long */
  async function sendResource(exchange: Exchange, { asked }: Begun, view: TurnView): Promise<void> {
    const { maxResponseBytes } = exchange
    const resource = resourceOf(asked, view, maxResponseBytes)
    if (resource.output.length === 0 && view.items.length + view.words.length > 0) throw tooLong(maxResponseBytes)
    await exchange.send(200, resource)
  }

  async function createCompletion(exchange: Exchange): Promise<void> {
    const { caller } = exchange
    const request = readChatRequest(await exchange.json())
    const begun = await begin(exchange, caller, request)
    if (request.isStream) {
      const stream = exchange.openStream()
      return written(
        caller,
        stream,
        async () => {
          const chunks = chatChunks(begun.asked, request.includesUsage)
          for await (const view of watchTurn(exchange, caller, begun, { activity, onIdle: pinging(stream) }))
            for (const chunk of chunks.next(view)) await stream.write(`data: ${JSON.stringify(chunk)}\n\n`)
        },
        (failure) => `data: ${JSON.stringify(failureOf(failure))}\n\n`,
      )
    }
    const view = await afterDeed(lastView(exchange, caller, begun))
    if (view.error !== null) throw new DoorError('INTERNAL_SERVER_ERROR', view.error.message, NOT_TO_RETRY)
    await exchange.send(200, chatCompletionOf(begun.asked, view, exchange.maxResponseBytes))
  }

  async function getResponse(exchange: Exchange, id: string): Promise<void> {
    const { caller } = exchange
    const begun = await findTurn(caller, id)
    if (exchange.query.get('stream') === 'true') {
      const after = startingAfter(exchange.query)
      await exchange.takePlace()
      return streamResponse(exchange, caller, begun, after)
    }
    await sendResource(exchange, begun, await viewTurn(exchange, caller, begun))
  }

  async function cancelResponse(exchange: Exchange, id: string): Promise<void> {
    const { caller } = exchange
    const begun = await findTurn(caller, id)
    await stopTurn(caller, begun)
    await sendResource(exchange, begun, await viewTurn(exchange, caller, begun))
  }

  async function listModels(exchange: Exchange): Promise<void> {
    const data: Model[] = []
    let left = exchange.maxResponseBytes - jsonBytes({ object: 'list', data })
    for await (const model of modelsFor(exchange.caller)) {
      left -= jsonBytes(model) + 1
      if (left < 0) break
      data.push(model)
    }
    await exchange.send(200, { object: 'list', data })
  }

  async function getModel(exchange: Exchange, id: string): Promise<void> {
    for await (const model of modelsFor(exchange.caller)) if (model.id === id) return exchange.send(200, model)
    throw notFound('There is no such model.')
  }

  const routes: readonly [method: string, path: RegExp, handle: (exchange: Exchange, id: string) => Promise<void>][] = [
    ['GET', /^\/models$/, listModels],
    ['GET', /^\/models\/([^/]+)$/, getModel],
    ['POST', /^\/responses$/, createResponse],
    ['GET', /^\/responses\/([^/]+)$/, getResponse],
    ['POST', /^\/responses\/([^/]+)\/cancel$/, cancelResponse],
    ['POST', /^\/chat\/completions$/, createCompletion],
  ]

  return {
    async handle(exchange) {
      const found = routes.filter(([, path]) => path.test(exchange.path))
      const route = found.find(([method]) => method === exchange.method)
      if (route === undefined) {
        if (found.length === 0) throw notFound('There is no such path.')
        const allow = found.map(([method]) => method).join(', ')
        throw new DoorError('BAD_INPUT', `Use ${allow}.`, { status: 405, headers: { allow } })
      }
      const [, path, handle] = route
      const id = percentDecoded(path.exec(exchange.path)?.[1] ?? '')
      if (id === null) {
        throw notFound('There is no such path.')
      }
      await handle(exchange, id)
    },
    endsAtDrain: false,
    failureOf,
  }
}

/**
 * Waits for work that follows a post.
 * @throws DoorError with a status after which clients do not retry, because a retry would post again
 */
async function afterDeed<Result>(work: Promise<Result>): Promise<Result> {
  try {
    return await work
  } catch (error) {
    if (!(error instanceof DoorError)) throw error
    throw new DoorError(error.code, error.message, { field: error.field, ...NOT_TO_RETRY })
  }
}

const REFUSALS: ReadonlySet<DoorErrorCode> = new Set([
  'BAD_INPUT',
  'FORBIDDEN',
  'NOT_FOUND',
  'LIMIT_EXCEEDED',
  'RATE_LIMITED',
])

/** Whether the error means that no message has been posted. */
const isRefusal = (error: unknown) => error instanceof DoorError && REFUSALS.has(error.code)

/** A sequence number lower than that of any event. */
const NOTHING_YET = -1

const TYPES: Readonly<Record<string, string>> = {
  UNAUTHENTICATED: 'authentication_error',
  FORBIDDEN: 'permission_error',
  NOT_FOUND: 'not_found',
  RATE_LIMITED: 'too_many_requests',
  UNAVAILABLE: 'server_error',
  INTERNAL_SERVER_ERROR: 'server_error',
}

const failureOf = ({ message, code, field }: DoorError) => ({
  error: { message, type: TYPES[code] ?? 'invalid_request_error', param: field, code: code.toLowerCase() },
})

/** The maximum share of a response that may consist of fields repeated from the request. */
const REPEATED_SHARE = 0.5

/** @throws DoorError if the fields repeated from the request leave too few bytes for the output of a response */
function checkRepeated({ model, instructions, metadata, tools }: ResponseRequest, maxResponseBytes: number): void {
  const most = Math.floor(maxResponseBytes * REPEATED_SHARE)
  if (jsonBytes([model, instructions, metadata, tools]) > most)
    throw badInput(`model, instructions, metadata and tools may have at most ${most} bytes in total.`)
}

const LONGEST_KEY = 190

function keyOf(header: string | undefined): string | null {
  if (header === undefined || header === '') return null
  if (header.length > LONGEST_KEY) throw badInput(`Idempotency-Key has at most ${LONGEST_KEY} characters.`)
  return `v1:${header}`
}

function askedOf(messageId: string, request: ResponseRequest): Asked {
  const { model, previousId, background, instructions, metadata, tools, store } = request
  const createdAt = Math.floor(Date.now() / 1000)
  return { id: responseId(messageId), createdAt, model, previousId, background, instructions, metadata, tools, store }
}

const TURN = `query DoorResponse($id: ID!) { message(id: $id) { id createdAt sender { kind } space { id } } }`

/** Finds the turn of a response. @throws DoorError */
async function findTurn(caller: Caller, id: string): Promise<Begun> {
  const messageId = messageIdOf(id)
  const { message } =
    messageId === null
      ? { message: null }
      : await caller.ask<{
          message: { id: string; createdAt: string; sender: { kind: string }; space: { id: string } } | null
        }>(TURN, { id: messageId })
  if (message?.sender.kind !== 'HUMAN') throw notFound('There is no such response.')
  const asked: Asked = {
    id: responseId(message.id),
    createdAt: Math.floor(Date.parse(message.createdAt) / 1000),
    model: null,
    previousId: null,
    background: false,
    instructions: null,
    metadata: {},
    tools: [],
    store: true,
  }
  return { spaceId: message.space.id, messageId: message.id, asked }
}

function startingAfter(query: URLSearchParams): number {
  const given = query.get('starting_after')
  if (given === null) return NOTHING_YET
  if (!/^\d{1,15}$/.test(given))
    throw badInput('starting_after must be the sequence_number of an event.', 'starting_after')
  return Number(given)
}

const pinging = (stream: EventStream) => () => void stream.write(PING).catch(() => {})

/**
 * Writes the stream of a turn and ends it. If the work fails, the last event reports the failure.
 * @throws errors that the client did not cause
 */
async function written(
  caller: Caller,
  stream: EventStream,
  work: () => Promise<void>,
  lastOf: (failure: DoorError) => string,
): Promise<void> {
  try {
    await work()
    await stream.write(DONE)
  } catch (error) {
    const reason = endOf(error, caller)
    if (reason === null) return
    const known = reason instanceof DoorError ? reason : new DoorError('INTERNAL_SERVER_ERROR', UNEXPECTED)
    await stream.write(lastOf(known) + DONE)
    if (known !== reason) throw reason
  } finally {
    stream.end()
  }
}

const UNEXPECTED = 'Internal server error. Report the X-Request-Id header to the operator.'

const RUNS = `query DoorRuns($rootId: ID!) {
  runs(filter: { rootId: $rootId, status: [QUEUED, RUNNING, WAITING_TOOL] }, first: 50) { edges { node { id } } }
}`
/** Stops all runs of a turn. @throws DoorError */
async function stopTurn(caller: Caller, { messageId }: Turn): Promise<void> {
  const { runs } = await caller.ask<{ runs: Connection<{ id: string }> }>(RUNS, { rootId: messageId })
  const ids = nodesOf(runs).map(({ id }) => id)
  await stopRuns(caller, ids)
}
