import { newId } from '../lib/ids.ts'
import { storableText, toJson } from '../lib/json.ts'
import { LONGEST_MESSAGE } from '../lib/validate.ts'
import type { Platform } from '../platform/platform.ts'
import { createCallNews } from '../spaces/call-news.ts'
import type { Message, MessageOrigin } from '../spaces/message.ts'
import type { MessageLease, Posting, ToolResult } from '../spaces/posting.ts'
import { NOT_A_MEMBER } from '../tools/space/enter-space.ts'
import { NO_ACTIVE_SPACE } from '../tools/space/read-messages.ts'
import { type RunInHand, type Speech, ToolFailure, type ToolUse } from '../tools/tool.ts'
import { createDraftStream, type DraftStream } from './draft-stream.ts'
import { createTextFieldScanner } from './text-field.ts'

/** How a run with the ACTIVE_SPACE tools is heard: each send_message, and each visible call, is a message of the active space. */
export interface SpaceWriter extends Speech {
  /** The model begins to write the input of a speaking call whose turn it is: `field` of it streams. */
  open(callId: string, field: string): void
  /** More of that input, as raw JSON. */
  write(callId: string, delta: string): void
  /**
   * Shows a call as a part; with `waitsUntil` somebody has to answer it by then. False: it is to show nowhere.
   * @throws ToolFailure
   */
  show(use: ToolUse, waitsUntil: Date | null): Promise<boolean>
  /** What was shown or written for a call is over: its message is whole, and its result journaled. False: it posted nothing. */
  close(result: ToolResult): Promise<boolean>
  /** Whether a call's result was journaled together with what it posted. */
  hasJournaled(callId: string): boolean
  /** The run pauses or ends by itself: messages that were left open for more are whole now. */
  finish(): Promise<void>
}

interface OpenMessage {
  message: Promise<Message | null>
  stream: DraftStream | null
}

interface WriterOptions {
  platform: Platform
  posting: Posting
  run: RunInHand
  /** Where the run's trigger came from: goes with messages in other spaces. */
  origin: MessageOrigin
}

/** How often the text of a message that is being written is put into the database, should the live log be lost with this process. */
const SAVE_INTERVAL_MS = 1000

export function createSpaceWriter({ platform, posting, run, origin }: WriterOptions): SpaceWriter {
  const { clock } = platform
  const callNews = createCallNews(platform)
  const scanners = new Map<string, ReturnType<typeof createTextFieldScanner>>()
  const open = new Map<string, OpenMessage>()
  const journaled = new Set<string>()
  const { claim, agent } = run
  let savedAt = clock.now()

  function begin(callId: string, shows?: { toolCallId: string; waitsUntil: Date | null }): Promise<Message | null> {
    if (run.activeSpace === null) throw new ToolFailure('NO_ACTIVE_SPACE', NO_ACTIVE_SPACE)
    const message = posting.begin({
      id: newId('msg'),
      spaceId: run.activeSpace.id,
      senderId: agent.id,
      runId: claim.run.id,
      attempt: claim.attempt,
      postKey: callId,
      mentionedAgentId: null,
      rootId: claim.run.rootId,
      depth: claim.run.depth + 1,
      origin: claim.run.triggerSpaceId === run.activeSpace.id ? null : origin,
      ...(shows ? { shows } : {}),
    })
    message.catch(() => {})
    return message
  }

  /** The message of a call that speaks: there already when it streamed, else from now on. */
  function spoken(callId: string): { message: Promise<Message | null>; stream: DraftStream } {
    const before = open.get(callId)
    if (before?.stream) return { message: before.message, stream: before.stream }
    const message = begin(callId)
    const ready = message.then((begun) => begun?.id ?? Promise.reject(new ToolFailure('NOT_A_MEMBER', NOT_A_MEMBER)))
    const place = { spaceId: run.activeSpace?.id ?? '', partIndex: 0, runId: claim.run.id }
    const entry = { message, stream: createDraftStream(platform, place, ready) }
    open.set(callId, entry)
    return entry
  }

  function lease({ id, spaceId }: Message): MessageLease {
    return { id, spaceId, runId: claim.run.id, attempt: claim.attempt }
  }

  function saveNowAndThen({ message, stream }: { message: Promise<Message | null>; stream: DraftStream }): void {
    if (clock.now() - savedAt < SAVE_INTERVAL_MS) return
    savedAt = clock.now()
    const saved = message.then((begun) => begun && posting.save(lease(begun), [{ type: 'text', text: stream.text() }]))
    saved.catch(() => {})
  }

  return {
    open(callId, field) {
      scanners.set(callId, createTextFieldScanner(field))
    },
    write(callId, delta) {
      const text = scanners.get(callId)?.push(delta).replaceAll('\0', '')
      if (text === undefined || text === '' || run.activeSpace === null) return
      const entry = spoken(callId)
      entry.stream.push(text)
      saveNowAndThen(entry)
    },
    async post({ callId }, given) {
      const text = storableText(given)
      if (text.trim() === '' || text.length > LONGEST_MESSAGE) {
        throw new ToolFailure('BAD_INPUT', `A message has 1 to ${LONGEST_MESSAGE} characters, not only white space.`)
      }
      const entry = spoken(callId)
      const message = await entry.message
      if (message === null) throw new ToolFailure('NOT_A_MEMBER', NOT_A_MEMBER)
      if (message.routedAt !== null) return message
      await entry.stream.complete(text)
      const output = toJson({ success: true, messageId: message.id })
      const result: ToolResult = { toolCallId: callId, status: 'DONE', output, error: null }
      const posted = await posting.finish(lease(message), [{ type: 'text', text }], result)
      journaled.add(callId)
      return posted
    },
    composite: null,
    async show({ callId }, waitsUntil) {
      const message = begin(callId, { toolCallId: callId, waitsUntil })
      open.set(callId, { message, stream: null })
      const begun = await message
      if (begun === null) throw new ToolFailure('NOT_A_MEMBER', NOT_A_MEMBER)
      if (waitsUntil !== null) await callNews.waits({ id: callId, agentId: agent.id, spaceId: begun.spaceId })
      return true
    },
    hasJournaled: (callId) => journaled.has(callId),
    /** Nothing is left open for more; but what has begun must exist before the run ends, or what streamed of it were lost. */
    async finish() {
      await Promise.allSettled([...open.values()].map(({ message }) => message))
    },
    async close(result) {
      const entry = open.get(result.toolCallId)
      const message = await entry?.message.catch(() => null)
      if (entry === undefined || message == null || message.routedAt !== null) return false
      if (entry.stream !== null) {
        await posting.interrupt(lease(message), [{ type: 'text', text: entry.stream.text() }], result)
        return true
      }
      await posting.finish(lease(message), message.parts, result)
      return true
    },
  }
}
