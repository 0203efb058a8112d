import { toJson } from '../lib/json.ts'
import type { Platform } from '../platform/platform.ts'
import { createCallNews } from '../spaces/call-news.ts'
import type { Message } from '../spaces/message.ts'
import type { Posting, ToolResult } from '../spaces/posting.ts'
import type { Showing } from '../spaces/showing.ts'
import type { ShownCall } from '../spaces/shown-call.ts'
import { noActiveSpace, notAMember } from '../tools/space/failures.ts'
import type { Speech, Tool, ToolUse } from '../tools/tool.ts'
import { createDraftStream, type DraftStream } from './draft-stream.ts'
import { createRunMessages, createSavePace, postableText, type RunMessagesOptions } from './run-messages.ts'
import { createTextFieldScanner } from './text-field.ts'

/** How a run is heard in spaces while this process executes it. */
export interface SpaceWriter extends Speech {
  /** The model begins to write the input of a speaking call whose turn it is: `field` of it streams. */
  open(callId: string, field: string): void
  /** The model begins to write the input of a call that shows, whose turn it is: where its space is known, it shows already. */
  openPart(callId: string, tool: Tool): void
  /** More of a speaking call's input, as raw JSON. */
  write(callId: string, delta: string): void
  /**
   * Shows a call as a part; with `waitsUntil` somebody has to answer it by then. False: it is to show nowhere.
   * @throws ToolFailure
   */
  show(use: ToolUse, waitsUntil: Date | null): Promise<boolean>
  /**
   * What was shown or written for a call is over: its message is whole, or INTERRUPTED where the model broke its input off, and
   * its result journaled. False: it posted nothing.
   */
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

interface WriterOptions extends RunMessagesOptions {
  platform: Platform
  posting: Posting
  showing: Showing
  /** The messages that an earlier claim of the run has begun and this one goes on with, by the call that each shows. */
  begun: Map<string, Message>
}

/** For the ACTIVE_SPACE tools: each send_message, and each visible call, is a message of the active space. */
export function createSpaceWriter(options: WriterOptions): SpaceWriter {
  const { platform, posting, showing, run } = options
  const messages = createRunMessages(options)
  const isSaveDue = createSavePace(platform.clock)
  const callNews = createCallNews(platform)
  const scanners = new Map<string, ReturnType<typeof createTextFieldScanner>>()
  const open = new Map<string, OpenMessage>(
    [...options.begun].map(([callId, message]) => [callId, { message: Promise.resolve(message), stream: null }]),
  )
  const journaled = new Set<string>()

  function begin(callId: string, shows?: ShownCall): Promise<Message | null> {
    if (run.activeSpace === null) throw noActiveSpace()
    const message = messages.begin(run.activeSpace.id, callId, shows)
    message.catch(() => {})
    return message
  }

  /** The message of a call that speaks: there already when it streamed, else from now on. */
  function spoken(callId: string): { message: Promise<Message | null>; stream: DraftStream } {
    const before = open.get(callId)
    if (before?.stream) return { message: before.message, stream: before.stream }
    const message = begin(callId)
    const ready = message.then((begun) => begun?.id ?? Promise.reject(notAMember()))
    const place = { spaceId: run.activeSpace?.id ?? '', partIndex: 0, runId: run.claim.run.id }
    const entry = { message, stream: createDraftStream(platform, place, ready) }
    open.set(callId, entry)
    return entry
  }

  function saveNowAndThen({ message, stream }: { message: Promise<Message | null>; stream: DraftStream }): void {
    if (!isSaveDue()) return
    const saved = message.then(
      (begun) => begun && posting.save(messages.leaseOf(begun), [{ type: 'text', text: stream.text() }]),
    )
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
      const text = postableText(given)
      const entry = spoken(callId)
      const message = await entry.message
      if (message === null) throw notAMember()
      if (message.routedAt !== null) return message
      await entry.stream.complete(text)
      const output = toJson({ success: true, messageId: message.id })
      const result: ToolResult = { toolCallId: callId, status: 'DONE', output, error: null }
      const posted = await posting.finish(messages.leaseOf(message), [{ type: 'text', text }], result)
      journaled.add(callId)
      return posted
    },
    composite: null,
    openPart(callId, { name, execution }) {
      if (run.activeSpace === null) return
      const writing = { toolName: name, execution }
      open.set(callId, { message: begin(callId, { toolCallId: callId, waitsUntil: null, writing }), stream: null })
    },
    async show({ callId }, waitsUntil) {
      const shown = { toolCallId: callId, waitsUntil }
      const before = open.get(callId)
      const message = before?.message ?? begin(callId, shown)
      open.set(callId, { message, stream: null })
      const begun = await message
      if (begun === null) throw notAMember()
      if (before !== undefined) await showing.goOn(messages.leaseOf(begun), shown)
      if (waitsUntil !== null) await callNews.waits({ id: callId, agentId: run.agent.id, spaceId: begun.spaceId })
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
        await posting.interrupt(messages.leaseOf(message), [{ type: 'text', text: entry.stream.text() }], result)
        return true
      }
      if (result.status === 'CANCELED') await posting.interrupt(messages.leaseOf(message), message.parts, result)
      else await posting.finish(messages.leaseOf(message), message.parts, result)
      return true
    },
  }
}
