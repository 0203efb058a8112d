import { BadInputError } from '../lib/errors.ts'
import type { Platform } from '../platform/platform.ts'
import type { BegunComposites, CompositeEnd, CompositePosting } from '../spaces/composite-posting.ts'
import type { Message, MessagePart } from '../spaces/message.ts'
import type { Posting, ToolResult } from '../spaces/posting.ts'
import { placementOf } from '../tools/placement.ts'
import { noActiveSpace, notAMember } from '../tools/space/failures.ts'
import { ToolFailure, type ToolUse, type Utterance } from '../tools/tool.ts'
import { type Composite, createCompositeBook } from './composite-book.ts'
import { createDraftStream, type DraftStream } from './draft-stream.ts'
import { createRunMessages, createSavePace, postableText, type RunMessagesOptions } from './run-messages.ts'
import type { SpaceWriter } from './space-writer.ts'
import { createUtteranceScanner, type UtteranceScanner } from './utterance-scanner.ts'

/** A text part while it is written. */
interface Writing {
  composite: Composite
  /** Rejects with a ToolFailure where the agent may not write there. */
  message: Promise<Message>
  /** What answers it comes after this message of the space. */
  afterSeq: Promise<number>
  stream: DraftStream
  /** The last time that it was put into the database. */
  saved: Promise<unknown>
}

/** A call that shows as a part. */
interface ShownPart {
  composite: Composite
  index: number
  mention: string | null
}

interface CompositeWriterOptions extends RunMessagesOptions {
  platform: Platform
  posting: Posting
  composites: CompositePosting
  /** What an earlier claim of the run has begun. */
  begun: BegunComposites[]
}

/**
 * How a run with the SPACE_TOOLS is heard: one message per space, whose parts are what it says and shows there, in order. A
 * mention, a wait, a pause or the run's end finishes it; the next part begins another.
 */
export function createCompositeWriter(options: CompositeWriterOptions): SpaceWriter {
  const { platform, posting, composites, run } = options
  const messages = createRunMessages(options)
  const book = createCompositeBook({ messages, begun: options.begun })
  const isSaveDue = createSavePace(platform.clock)
  const scanners = new Map<string, UtteranceScanner>()
  const writings = new Map<string, Writing>()
  const shown = new Map<string, ShownPart>()
  const journaled = new Set<string>()

  /** @returns the last message there. @throws ToolFailure */
  async function check(spaceId: string, mention: string | null): Promise<number> {
    if (mention === run.agent.id) throw new ToolFailure('SELF_MENTION', 'An agent cannot mention itself.')
    const may = await composites.mayWrite({ spaceId, senderId: run.agent.id, mention })
    if (may.type === 'not-a-member') throw notAMember()
    if (may.type === 'mentions-no-agent') throw new ToolFailure('BAD_INPUT', NO_AGENT_MEMBER)
    return may.lastSeq
  }

  /** Begins a text part: its text streams as soon as it is known that the agent may write there. */
  function start(callId: string, spaceId: string, mention: string | null): Writing {
    const composite = book.at(spaceId)
    const checked = check(spaceId, mention)
    const message = checked.then(() => book.begin(composite))
    const afterSeq = composite.parts.length > 0 ? checked : message.then(({ seq }) => seq)
    const place = { spaceId, partIndex: composite.parts.length, runId: run.claim.run.id }
    const ready = message.then(({ id }) => id)
    for (const promise of [message, afterSeq, ready]) promise.catch(() => {})
    const stream = createDraftStream(platform, place, ready)
    const writing = { composite, message, afterSeq, stream, saved: Promise.resolve() }
    writings.set(callId, writing)
    return writing
  }

  function saveNowAndThen(writing: Writing): void {
    if (!isSaveDue()) return
    const saved = writing.message.then((message) => posting.save(messages.leaseOf(message), withUnfinished(writing)))
    writing.saved = saved.catch(() => {})
  }

  async function say({ callId }: ToolUse, utterance: Utterance): Promise<Message> {
    const { spaceId, mention } = utterance
    const text = postableText(utterance.text)
    const before = writings.get(callId)
    if (before !== undefined) await check(spaceId, mention)
    const writing = before ?? start(callId, spaceId, mention)
    if (writing.composite.spaceId !== spaceId) throw new ToolFailure('BAD_INPUT', 'Write each field of the input once.')
    const message = await writing.message
    await writing.stream.complete(text)
    await writing.saved
    await addText(callId, writing, message, { ...utterance, text })
    writings.delete(callId)
    return message
  }

  async function addText(callId: string, writing: Writing, message: Message, utterance: Utterance): Promise<void> {
    const { composite, afterSeq } = writing
    const { text, mention, finishes, journals } = utterance
    const parts: MessagePart[] = [...composite.parts, { type: 'text', text }]
    const journal = journals(message, await afterSeq)
    const lease = messages.leaseOf(message)
    if (journal.type === 'state') {
      const remembers = { toolCallId: callId, state: journal.state }
      return finish(composite, message, parts, { mention, adds: { type: 'text' }, remembers })
    }
    const result: ToolResult = { toolCallId: callId, status: 'DONE', output: journal.output, error: null }
    if (mention !== null || finishes)
      await finish(composite, message, parts, { mention, adds: { type: 'text' }, result })
    else await composites.addText(lease, parts, result)
    composite.parts = parts
    journaled.add(callId)
  }

  /** The message is routed now: whoever is mentioned may have left since it was checked. */
  async function finish(
    composite: Composite,
    message: Message,
    parts: MessagePart[],
    end: CompositeEnd,
  ): Promise<void> {
    await composites.finish(messages.leaseOf(message), parts, end).catch((error) => {
      throw error instanceof BadInputError ? new ToolFailure('BAD_INPUT', NO_AGENT_MEMBER) : error
    })
    book.close(composite)
  }

  /** What was written of the part stays, and nothing follows it in this message. */
  async function interrupt(callId: string, writing: Writing, result: ToolResult | null): Promise<boolean> {
    writings.delete(callId)
    const message = await writing.message.catch(() => null)
    if (message === null) return false
    await writing.saved
    await posting.interrupt(messages.leaseOf(message), withUnfinished(writing), result)
    book.close(writing.composite)
    return true
  }

  async function settleShown({ composite, index, mention }: ShownPart, result: ToolResult): Promise<boolean> {
    const message = await book.begin(composite)
    const settle = () => composites.settleCall(messages.leaseOf(message), index, result)
    if (mention === null || result.status !== 'DONE') await settle()
    else await finish(composite, message, composite.parts, { mention, result }).catch(refusedThen(settle))
    return true
  }

  return {
    open(callId, field) {
      scanners.set(callId, createUtteranceScanner(field))
    },
    /** Where a call shows, and whether it may, its input says: it shows when that is whole. */
    openPart() {},
    write(callId, delta) {
      const scanner = scanners.get(callId)
      const text = scanner?.push(delta) ?? ''
      const spaceId = scanner?.spaceId() ?? null
      if (text === '' || spaceId === null) return
      const writing = writings.get(callId) ?? start(callId, spaceId, scanner?.mention() ?? null)
      writing.stream.push(text)
      saveNowAndThen(writing)
    },
    async post(use, text) {
      if (run.activeSpace === null) throw noActiveSpace()
      const journals = ({ id }: Message) => ({ type: 'result' as const, output: { success: true, messageId: id } })
      return say(use, { spaceId: run.activeSpace.id, text, mention: null, finishes: true, journals })
    },
    composite: { say },
    async show({ callId, state }, waitsUntil) {
      const { spaceId, mention } = placementOf(state)
      if (spaceId === null) return false
      await check(spaceId, mention)
      const composite = book.at(spaceId)
      const message = await book.begin(composite)
      const call = { toolCallId: callId, waitsUntil }
      const before = indexOfCall(composite, callId)
      const parts: MessagePart[] =
        before >= 0 ? composite.parts : [...composite.parts, { type: 'tool', toolCallId: callId }]
      if (waitsUntil !== null && mention !== null) {
        await finish(composite, message, parts, { mention, adds: { type: 'call', shown: call } })
        return true
      }
      if (before < 0) await composites.addCall(messages.leaseOf(message), parts, call)
      composite.parts = parts
      shown.set(callId, { composite, index: indexOfCall(composite, callId), mention })
      return true
    },
    hasJournaled: (callId) => journaled.has(callId),
    async close(result) {
      const writing = writings.get(result.toolCallId)
      if (writing !== undefined) return interrupt(result.toolCallId, writing, result)
      const part = shown.get(result.toolCallId)
      return part === undefined ? false : settleShown(part, result)
    },
    async finish() {
      for (const [callId, writing] of writings) await interrupt(callId, writing, null)
      for (const composite of book.open()) {
        const message = await book.begin(composite)
        if (composite.parts.length > 0) await finish(composite, message, composite.parts, { mention: null })
        else await posting.interrupt(messages.leaseOf(message), [], null).then(() => book.close(composite))
      }
    },
  }
}

const NO_AGENT_MEMBER = 'Only an agent that is a member of that space can be mentioned, by its id: see YOUR SPACES.'

function withUnfinished({ composite, stream }: Writing): MessagePart[] {
  const text = stream.text()
  return text === '' ? composite.parts : [...composite.parts, { type: 'text', text, unfinished: true }]
}

function indexOfCall({ parts }: Composite, callId: string): number {
  return parts.findIndex((part) => part.type === 'tool' && part.toolCallId === callId)
}

/** Does something else where a mention was refused. */
function refusedThen(settle: () => Promise<void>) {
  return (error: unknown) => {
    if (error instanceof ToolFailure) return settle()
    throw error
  }
}
