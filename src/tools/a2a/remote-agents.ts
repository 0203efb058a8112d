import { openRemoteHeaders, type RemoteColumns, remoteAgentOf } from '../../agents/remote-agent.ts'
import { keepCard } from '../../agents/remote-cards.ts'
import { sleep } from '../../lib/async.ts'
import { ASK_REMOTE_AGENT, parseForeignModel } from '../../lib/foreign-model.ts'
import { cut, type JsonObject } from '../../lib/json.ts'
import { LONGEST_MESSAGE } from '../../lib/validate.ts'
import type { Platform } from '../../platform/platform.ts'
import { SealBrokenError } from '../../platform/secret-box.ts'
import { digestOf } from '../../rules/approvals.ts'
import { type RemoteCall, readRemoteCall, rememberRemoteCall } from '../../stores/call-store.ts'
import { askedApproval } from '../asked-approval.ts'
import type { GuardedHttp } from '../custom/guarded-http.ts'
import { withoutValues } from '../custom/header-removal.ts'
import { type ApprovedCall, type Tool, ToolFailure } from '../tool.ts'
import { type ReadCard, readCard } from './card.ts'
import {
  cleaningOf,
  createA2aClient,
  type RemoteAddress,
  type RemoteMessage,
  RemoteRefusal,
  type Sent,
} from './client.ts'
import { asksForInput, isIdle, type RemoteTask, shownTask } from './remote-task.ts'

/** An agent of this server that represents an agent on another server. */
export interface Asking {
  agentId: string
  /** The model of the agent, in the form `a2a:<card url>`. */
  model: string
}

/** Gives access to the agents on other servers that agents of this server represent. */
export interface RemoteAgents {
  /** Returns the tool that sends a message to the remote agent; null for an agent that represents none. */
  toolFor(agent: RemoteColumns): Tool | null
  /**
   * Yields a task when it is first read and after each change, until the task is idle. Between changes, yields null
   * as a heartbeat.
   * @throws ToolFailure
   */
  follow(asking: Asking, taskId: string, signal: AbortSignal): AsyncGenerator<RemoteTask | null>
  /** Cancels the task that a message has begun. Returns false if there is none. @throws ToolFailure */
  cancel(asking: Asking, call: RemoteCall, signal: AbortSignal): Promise<boolean>
}

const CARD_TIMEOUT_MS = 10_000
/** How long a card is cached. */
const CARD_FRESH_MS = 60_000
const MOST_CARDS = 1000
/** The interval at which an agent that does not stream is polled. */
const POLL_MS = 1000
/** The call fails after this many consecutive connection losses without progress. */
const MOST_BREAKS = 3

const INPUT: JsonObject = {
  type: 'object',
  properties: { text: { type: 'string', description: 'The message.' } },
  required: ['text'],
}
const DESCRIPTION = 'Sends a message to the agent on another server that you represent, and returns its task.'

export function createRemoteAgents(platform: Platform, { http }: { http: GuardedHttp }): RemoteAgents {
  const { db, secretBox, config, logger, clock } = platform
  const client = createA2aClient(http)
  const cards = new Map<string, StoredCard>()

  /** @throws ToolFailure */
  async function reach({ agentId, model }: Asking): Promise<{ row: RemoteColumns; headers: Record<string, string> }> {
    const row = await db.prisma.agent.findUnique({ where: { id: agentId } })
    if (row === null || row.model !== model)
      throw new ToolFailure('NOT_SET_UP', 'The agent was deleted, or now has a different model.')
    try {
      return { row, headers: openRemoteHeaders(row, model, secretBox) }
    } catch (error) {
      if (!(error instanceof SealBrokenError)) throw error
      throw new ToolFailure(
        'NOT_SET_UP',
        'PARLEY_SECRET_KEY does not decrypt the headers of the agent: set them again.',
      )
    }
  }

  /**
   * Returns the agent's card. A cached card is read again after a minute, or if its fingerprint differs from the
   * stored one.
   * @throws ToolFailure
   */
  async function cardOf(
    cardUrl: string,
    { row, headers }: Awaited<ReturnType<typeof reach>>,
    storedFingerprint: string | null,
    signal: AbortSignal,
  ): Promise<StoredCard> {
    const key = `${row.id} ${cardUrl} ${row.remoteHeadersSealed}`
    const known = cards.get(key)
    const isFresh = known !== undefined && known.readAt + CARD_FRESH_MS > clock.now()
    if (isFresh && known.card.fingerprint === storedFingerprint) return known
    const readAt = clock.now()
    const outcome = await http.send({
      method: 'GET',
      url: cardUrl,
      headers: { ...headers, accept: 'application/json' },
      stays: true,
      timeoutMs: CARD_TIMEOUT_MS,
      signal,
    })
    if (outcome.type === 'failure') {
      const { code, message, response } = outcome
      const isRefused = response !== undefined && [401, 403].includes(response.status)
      const said = withoutValues(headers)(message)
      throw new ToolFailure(isRefused ? 'UNAUTHORIZED' : code, `The agent card could not be read. ${said}`)
    }
    const hasHeaders = Object.keys(headers).length > 0
    const card = readCard(new TextDecoder().decode(outcome.body), cardUrl, { hasHeaders })
    cards.delete(key)
    const read = { card, readAt }
    cards.set(key, read)
    const [oldest] = cards.keys()
    if (cards.size > MOST_CARDS && oldest !== undefined) cards.delete(oldest)
    return read
  }

  /** Returns the URL and headers for an agent whose card is trusted. @throws ToolFailure */
  async function addressOf(asking: Asking, signal: AbortSignal): Promise<RemoteAddress> {
    const reached = await reach(asking)
    const { cardUrl, card: before } = remoteAgentOf(reached.row) ?? { cardUrl: '', card: null }
    const { card: read, readAt } = await cardOf(cardUrl, reached, before?.fingerprint ?? null, signal)
    const { streams, deduplicates, ...card } = read
    const isKept = before?.fingerprint === card.fingerprint
    const kept = isKept ? before : await keepCard(db, reached.row, { cardUrl, ...card, readAt })
    if (kept === null) throw new ToolFailure('NOT_SET_UP', 'The agent was deleted, or now has a different model.')
    if (kept.fingerprint === card.fingerprint && kept.trusted === card.fingerprint)
      return addressAt(card.url, asking, { headers: reached.headers, streams, deduplicates })
    logger.warn(
      { agentId: asking.agentId, cardUrl },
      'nothing is sent to an agent on another server, because its card has changed; an admin must confirm the card (confirmAgentCard)',
    )
    throw new ToolFailure(
      'UNCONFIRMED',
      `The agent card at ${cardUrl} has changed: review the new card, and confirm it (confirmAgentCard).`,
    )
  }

  /** Sends a message, unless an earlier attempt has sent it, and waits for the answer. @throws ToolFailure */
  async function ask(asking: Asking, text: string, { callId, signal, attempt }: Use): Promise<JsonObject> {
    const call = await readRemoteCall(db.prisma, callId)
    const address = await addressOf(asking, signal)
    if (call === null) throw new ToolFailure('CANCELED', 'The call no longer exists.')
    const remember = async (remote: RemoteCall) => {
      if (await rememberRemoteCall(db.prisma, { callId, attempt }, remote)) return
      signal.throwIfAborted()
      throw new ToolFailure('CANCELED', 'The call was ended, or another worker executes it.')
    }
    const known = call.remote
    if (known !== null && known.taskId !== null) return resultOf(known.taskId, known.contextId)
    const last = call.last?.model === asking.model ? call.last : null
    const remote = known ?? {
      model: asking.model,
      url: address.url,
      place: call.place,
      messageId: callId,
      contextId: last?.contextId ?? null,
      taskId: null,
      continues: last === null ? null : await waitingTask(address, last, signal),
    }
    if (known === null) await remember(remote)
    const sent =
      (known && (await receivedBefore(address, known, signal))) ?? (await send(address, { ...remote, text }, signal))
    if (sent.type === 'message') {
      await remember({ ...remote, contextId: sent.contextId })
      return { contextId: sent.contextId, answer: answerWithin(sent.text) }
    }
    const { id, contextId } = sent.task
    await remember({ ...remote, contextId, taskId: id })
    return resultOf(id, contextId)
  }

  /**
   * Returns the task of a message; null if the server has not received the message, or cannot say whether it has.
   * @throws ToolFailure
   */
  async function taskOf(
    address: RemoteAddress,
    message: Omit<RemoteMessage, 'text'>,
    signal: AbortSignal,
  ): Promise<RemoteTask | null> {
    const lookup = await client.find(address, message, signal)
    return lookup.type === 'received' ? lookup.task : null
  }

  /**
   * Returns the task of a message that an earlier attempt may have sent. Returns null if the message can safely be
   * sent again, because the server has not received it or deduplicates messages.
   * @throws ToolFailure if sending the message again might repeat its effect
   */
  async function receivedBefore(
    address: RemoteAddress,
    { messageId, contextId, continues = null }: RemoteCall,
    signal: AbortSignal,
  ): Promise<Sent | null> {
    const lookup = await client.find(address, { messageId, contextId, taskId: continues }, signal)
    if (lookup.type === 'received') return { type: 'task', task: lookup.task }
    if (lookup.type === 'unknown' && !address.deduplicates) throw new ToolFailure('INTERRUPTED', UNKNOWN)
    return null
  }

  /** Returns the id of the conversation's last task if the task waits for input; null if it does not. */
  async function waitingTask(
    address: RemoteAddress,
    { taskId }: RemoteCall,
    signal: AbortSignal,
  ): Promise<string | null> {
    if (taskId === null) return null
    const task = await orRefused(client.get(address, taskId, signal))
    return task !== null && asksForInput(task) ? taskId : null
  }

  /**
   * Sends a message. If the server refuses the task or conversation that the message continues, the message had no
   * effect, so it is sent again to begin a new one. After any other failure, the server may have received the
   * message, so it is not sent again.
   */
  async function send(
    address: RemoteAddress,
    { messageId, text, contextId, continues: taskId = null }: RemoteCall & { text: string },
    signal: AbortSignal,
  ): Promise<Sent> {
    try {
      return await client.send(address, { messageId, text, contextId, taskId }, signal)
    } catch (error) {
      const isWithoutEffect = error instanceof RemoteRefusal && error.isWithoutEffect
      if (isWithoutEffect && (taskId !== null || contextId !== null)) {
        const message = { messageId, text, taskId: null, contextId: taskId === null ? null : contextId }
        return await client.send(address, message, signal)
      }
      if (isWithoutEffect || signal.aborted) throw error
      const task = await taskOf(address, { messageId, contextId, taskId }, signal).catch(() => null)
      if (task === null) throw error
      return { type: 'task', task }
    }
  }

  /** Yields the current task and, if its agent streams, the task after each change until the stream ends. */
  async function* look(address: RemoteAddress, taskId: string, signal: AbortSignal): AsyncGenerator<RemoteTask | null> {
    const task = await client.get(address, taskId, signal)
    yield shownTask(task, cleaningOf(address))
    if (!isIdle(task) && address.streams) yield* client.changes(address, task, signal)
  }

  async function* follow(asking: Asking, taskId: string, signal: AbortSignal): AsyncGenerator<RemoteTask | null> {
    let address = await addressOf(asking, signal)
    let breaks = 0
    for (;;) {
      try {
        for await (const change of look(address, taskId, signal)) {
          breaks = 0
          yield change
          if (change !== null && isIdle(change)) return
        }
      } catch (error) {
        signal.throwIfAborted()
        breaks += 1
        address = addressAfter(address, error, breaks)
      }
      await sleep(POLL_MS, signal)
      signal.throwIfAborted()
      yield null
    }
  }

  return {
    toolFor(agent) {
      const remote = remoteAgentOf(agent)
      if (remote === null) return null
      const asking = { agentId: agent.id, model: agent.model }
      const versionDigest = digestOf({ asks: agent.model })
      const terms = { inputSchema: INPUT, versionDigest, grantDigest: null, visible: false, answerMs: null }
      const approval = remote.approval === null ? null : askedApproval(remote.approval, terms, config.limits)
      const execute = async ({ text }: JsonObject, use: Use) => ({ output: await ask(asking, String(text), use) })
      return {
        name: ASK_REMOTE_AGENT,
        description: DESCRIPTION,
        inputSchema: INPUT,
        versionDigest,
        presence: { type: 'hidden' },
        execution: null,
        outside: { mayReceiveConfidential: remote.mayReceiveConfidential },
        ...(approval === null ? {} : { approval }),
        executeApproved: (input, { callId, signal }) => execute(input, { callId, signal, attempt: null }),
        execute: (input, { callId, signal, context }) => execute(input, { callId, signal, attempt: context.attempt }),
      }
    },
    follow,
    async cancel(asking, { url, messageId, contextId, ...call }, signal) {
      const { headers } = await reach(asking)
      const address = addressAt(url, asking, { headers, streams: false, deduplicates: false })
      const taskId =
        call.taskId ?? (await taskOf(address, { messageId, contextId, taskId: call.continues ?? null }, signal))?.id
      if (taskId === undefined) return false
      await client.cancel(address, taskId, signal)
      return true
    },
  }
}

const UNKNOWN =
  "The process that sent the message ended before the agent's server answered, and that server does not list the messages that it received. It is unknown whether the agent has received the message. To send it again, retry the run."

interface StoredCard {
  card: ReadCard
  /** The time at which the card was read, in ms since 1970. */
  readAt: number
}

/** Returns a URL and its headers. The headers are sent only to the origin of the card. */
function addressAt(url: string, { model }: Asking, remote: Omit<RemoteAddress, 'url'>): RemoteAddress {
  const foreign = parseForeignModel(model)
  const isOwn = foreign?.type === 'a2a' && new URL(foreign.cardUrl).origin === new URL(url).origin
  return { ...remote, url, headers: isOwn ? remote.headers : {} }
}

/**
 * Returns the address at which to read a task again after a failure.
 * @throws `error` if a retry is useless
 */
function addressAfter(address: RemoteAddress, error: unknown, breaks: number): RemoteAddress {
  // The task has just ended, or the server does not stream although its card says so.
  if (error instanceof RemoteRefusal && address.streams) return { ...address, streams: false }
  if (!isBreak(error) || breaks >= MOST_BREAKS) throw error
  return address
}

interface Use extends ApprovedCall {
  /** The attempt of the run that executes the call; null if the call is executed outside its run. */
  attempt: number | null
}

const resultOf = (taskId: string, contextId: string | null): JsonObject => ({ taskId, contextId })

/** The codes of failures after which the same task may be read again. */
const BREAKS: ReadonlySet<string> = new Set(['UNREACHABLE', 'TIMED_OUT', 'RATE_LIMITED'])

/** Whether an error means that the connection to a server broke, or that the server was busy. */
export const isBreak = (error: unknown): boolean => error instanceof ToolFailure && BREAKS.has(error.code)

async function orRefused<T>(work: Promise<T>): Promise<T | null> {
  return work.catch((error: unknown) => {
    if (error instanceof RemoteRefusal && error.isWithoutEffect) return null
    throw error
  })
}

/** The maximum length of an answer as JSON. It is shorter than the longest result that is passed to a model. */
const LONGEST_RESULT = 40_000

/** Cuts an answer so that its JSON is no longer than `LONGEST_RESULT`. */
function answerWithin(text: string): string {
  let answer = cut(text, LONGEST_MESSAGE)
  while (JSON.stringify(answer).length > LONGEST_RESULT) answer = cut(answer, Math.floor(answer.length * 0.8))
  return answer.length < text.length ? `${answer}…` : answer
}
