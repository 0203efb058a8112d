import type { ChatTransport, UIMessage, UIMessageChunk } from 'ai'
import type { Connection } from './connection.ts'
import { errorOf, ParleyError } from './errors.ts'
import { type LiveSpace, liveSpace } from './live-space.ts'
import { STOP_RUN } from './operations.ts'
import { isWhole, type Message, type MessagePart } from './space-events.ts'
import { followTurn, messagesOfTurn } from './turn.ts'

export interface ChatTransportOptions {
  connection: Connection
  /** The space that contains the chat. The token must belong to a human who is a member. */
  spaceId: string
  /** The agent that each message mentions. By default, the space's routing decides. */
  mentionedAgentId?: string
}

type Chunks = ReadableStream<UIMessageChunk>

/**
 * Connects `useChat` of the AI SDK to a space. The replies to a message become one answer, with a text part for each text that
 * agents post and a dynamic tool part for each visible call. Stopping the answer stops its runs and all runs that those
 * started.
 */
export function createChatTransport<UI extends UIMessage = UIMessage>(
  options: ChatTransportOptions,
): ChatTransport<UI> {
  const { connection, spaceId, mentionedAgentId = null } = options
  const space = liveSpace(connection, { spaceId, withActivity: false })

  return {
    resumeStreamIsReplay: true,
    async sendMessages({ trigger, messages, abortSignal }) {
      if (trigger === 'regenerate-message') {
        throw new ParleyError('Messages in a space cannot be regenerated. Send a new message instead.', 'BAD_INPUT')
      }
      const last = messages.findLast(({ role }) => role === 'user')
      const text = (last?.parts ?? []).flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('\n\n')
      const stop = await watched(space)
      try {
        const idempotencyKey = last?.id ?? crypto.randomUUID()
        const { message } = await space.send({ text, mentionedAgentId, idempotencyKey })
        return answerTo(connection, space, message, abortSignal, stop)
      } catch (failure) {
        stop()
        throw errorOf(failure)
      }
    },
    async reconnectToStream({ abortSignal }) {
      const stop = await watched(space)
      const question = space.getState().messages.findLast(({ sender }) => sender.kind === 'HUMAN')
      if (question !== undefined && isUnderWay(space, question)) {
        return answerTo(connection, space, question, abortSignal, stop)
      }
      stop()
      return null
    },
  }
}

/**
 * Subscribes to the space, and resolves when its messages are loaded. @throws ParleyError if the viewer may not
 * see the space
 */
function watched(space: LiveSpace): Promise<() => void> {
  return new Promise((resolve, reject) => {
    const look = () => {
      const { status, error } = space.getState()
      if (status === 'live') resolve(stop)
      if (status !== 'ended') return
      stop()
      reject(error ?? new ParleyError('Live updates of this space have ended.', 'NETWORK'))
    }
    const stop = space.subscribe(look)
    look()
  })
}

const ALIVE = ['QUEUED', 'RUNNING', 'WAITING_TOOL']

/** Returns whether a run of the message's turn was still active when the space was loaded. */
function isUnderWay(space: LiveSpace, question: Message): boolean {
  const turn = messagesOfTurn(space.getState().messages, question)
  const outcomes = turn.flatMap((message) => message.outcomes)
  return (
    turn.some((message) => !isWhole(message)) ||
    outcomes.some(({ kind, run }) => kind === 'INBOX' || (run !== null && ALIVE.includes(run.status)))
  )
}

/** Streams the answers to a message in the AI SDK's format. */
function answerTo(
  connection: Connection,
  space: LiveSpace,
  question: Message,
  abortSignal: AbortSignal | undefined,
  release: () => void,
): Chunks {
  let leave = () => {}
  return new ReadableStream<UIMessageChunk>({
    start(controller) {
      const written = createPartWriter((chunk) => controller.enqueue(chunk))
      let runIds: string[] = []
      controller.enqueue({ type: 'start', messageId: `answer-to-${question.id}` })
      const stop = followTurn(connection, space, question, {
        onAnswers(answers) {
          runIds = [...new Set(answers.flatMap(({ run }) => (run === null ? [] : [run.id])))]
          written.write(answers)
        },
        onEnd(answers, failures) {
          written.write(answers)
          written.close()
          for (const errorText of failures) controller.enqueue({ type: 'error', errorText })
          controller.enqueue({ type: 'finish' })
          finish()
        },
      })
      const abort = () => {
        const woken = question.outcomes.flatMap(({ run }) => (run === null ? [] : [run.id]))
        for (const runId of new Set([...woken, ...runIds])) {
          // Ignore the error that the server returns for runs that have already ended.
          connection.ask(STOP_RUN, { runId, cascade: true }).catch(() => {})
        }
        written.close()
        controller.enqueue({ type: 'abort' })
        finish()
      }
      const finish = () => {
        leave()
        controller.close()
      }
      leave = () => {
        leave = () => {}
        abortSignal?.removeEventListener('abort', abort)
        stop()
        release()
      }
      if (abortSignal?.aborted) abort()
      else abortSignal?.addEventListener('abort', abort)
    },
    cancel: () => leave(),
  })
}

/** Creates a function that writes what is new in each part. */
function createPartWriter(enqueue: (chunk: UIMessageChunk) => void) {
  const lengths = new Map<string, number>()
  const open = new Set<string>()
  const told = new Map<string, 'input' | 'end'>()

  function writeText(id: string, text: string): void {
    const length = lengths.get(id)
    if (length === undefined) {
      enqueue({ type: 'text-start', id })
      open.add(id)
    }
    // The stored text of an interrupted message may be shorter than its streamed text, and this stream cannot remove
    // text.
    if (text.length > (length ?? 0)) enqueue({ type: 'text-delta', id, delta: text.slice(length ?? 0) })
    lengths.set(id, Math.max(length ?? 0, text.length))
  }

  function closeText(id: string): void {
    if (open.delete(id)) enqueue({ type: 'text-end', id })
  }

  function writeCall({ toolCall }: Extract<MessagePart, { __typename: 'ToolCallPart' }>): void {
    const { id: toolCallId, toolName, status, input, output, error } = toolCall
    if (status === 'STREAMING') return
    if (!told.has(toolCallId)) {
      enqueue({ type: 'tool-input-available', toolCallId, toolName, input, dynamic: true })
      told.set(toolCallId, 'input')
    }
    if (status === 'RUNNING' || status === 'WAITING' || told.get(toolCallId) === 'end') return
    told.set(toolCallId, 'end')
    if (status === 'DONE') enqueue({ type: 'tool-output-available', toolCallId, output, dynamic: true })
    else enqueue({ type: 'tool-output-error', toolCallId, errorText: error ?? status, dynamic: true })
  }

  return {
    write(answers: readonly Message[]): void {
      for (const message of answers) {
        for (const part of message.parts) {
          if (part.__typename === 'TextPart') writeText(part.id, part.text)
          else if (part.__typename === 'ToolCallPart') writeCall(part)
          const isLast = part === message.parts.at(-1)
          if (isWhole(message) || !isLast) closeText(part.id)
        }
      }
    },
    close(): void {
      for (const id of [...open]) closeText(id)
    },
  }
}
