import { storableText } from '../lib/json.ts'
import { LONGEST_MESSAGE } from '../lib/validate.ts'
import type { Clock } from '../platform/clock.ts'
import type { Platform } from '../platform/platform.ts'
import type { Message, MessagePart } from '../spaces/message.ts'
import { ToolFailure, type ToolUse, type Utterance } from '../tools/tool.ts'
import { createDraftStream, type DraftStream } from './draft-stream.ts'
import type { MessageGrowth } from './message-growth.ts'
import type { MessagePolicy, OpenMessage, Place } from './message-policy.ts'
import type { RunPosting, ToolResult } from './run-posting.ts'
import type { UtteranceScanner } from './utterance-scanner.ts'

/** What a run's calls say: each a text part, streamed while the model writes its call's input. */
export interface SpokenParts {
  open(callId: string, field: string): void
  write(callId: string, delta: string): void
  /** The whole text of a call: what is missing of it streams, and it becomes a part. @throws ToolFailure */
  say(use: ToolUse, utterance: Utterance): Promise<Message>
  /**
   * A call is over. Of a text that did not become a part, what was written stays, and nothing follows it in its message.
   * True: the result is journaled, by this or with the text that it said. False: it said nothing.
   */
  close(result: ToolResult): Promise<boolean>
  /** Nothing more comes of what is being written. */
  interruptAll(): Promise<void>
}

/** A text part while it is written. */
interface Writing {
  open: OpenMessage
  /** Rejects with a ToolFailure where the agent may not write there. */
  message: Promise<Message>
  /** What answers it comes after this message of the space. */
  afterSeq: Promise<number>
  stream: DraftStream
  /** The last time that it was put into the database. */
  saved: Promise<unknown>
}

interface SpokenPartsInput {
  runId: string
  posting: RunPosting
  policy: MessagePolicy
  growth: MessageGrowth
}

export function createSpokenParts(
  platform: Platform,
  { runId, posting, policy, growth }: SpokenPartsInput,
): SpokenParts {
  const isSaveDue = createSavePace(platform.clock)
  const scanners = new Map<string, UtteranceScanner>()
  const writings = new Map<string, Writing>()
  const journaled = new Set<string>()

  /** Begins a text part: its text streams as soon as it is known that the agent may write there. */
  function start(callId: string, place: Place): Writing {
    const open = policy.at(callId, place.spaceId)
    const checked = policy.check(place)
    const message = checked.then(() => growth.begin(open))
    const isFirst = open.parts.length === 0
    const afterSeq = message.then(async ({ seq }) => (isFirst ? seq : ((await checked) ?? seq)))
    const ready = message.then(({ id }) => id)
    for (const promise of [message, afterSeq, ready]) promise.catch(() => {})
    const stream = createDraftStream(platform, { spaceId: place.spaceId, partIndex: open.parts.length, runId }, ready)
    const writing = { open, message, afterSeq, stream, saved: Promise.resolve() }
    writings.set(callId, writing)
    return writing
  }

  function saveNowAndThen(writing: Writing): void {
    if (!isSaveDue()) return
    const saved = writing.message.then((message) => posting.save(message, soFar(writing)))
    writing.saved = saved.catch(() => {})
  }

  /** The parts of a message with what is written of the next one. */
  function soFar({ open, stream }: Writing): MessagePart[] {
    const text = stream.text()
    if (text === '') return open.parts
    return [...open.parts, { type: 'text', text, ...(policy.composite ? { unfinished: true } : {}) }]
  }

  async function addText(callId: string, { open, afterSeq }: Writing, message: Message, utterance: Utterance) {
    const { text, mention, finishes, journals } = utterance
    const parts: MessagePart[] = [...open.parts, { type: 'text', text }]
    const journal = journals(message, await afterSeq)
    const adds = { type: 'text' as const }
    if (journal.type === 'asks') {
      const { state, waitMs, people } = journal
      return growth.grow(open, message, parts, {
        adds,
        asks: { toolCallId: callId, state, waitMs, people },
        ends: { mention },
      })
    }
    const result: ToolResult = { toolCallId: callId, status: 'DONE', output: journal.output, error: null }
    const ends = finishes || mention !== null ? { ends: { mention } } : {}
    await growth.grow(open, message, parts, { adds, result, ...ends })
    journaled.add(callId)
  }

  async function interrupt(callId: string, writing: Writing, result: ToolResult | null): Promise<boolean> {
    writings.delete(callId)
    const message = await writing.message.catch(() => null)
    if (message === null) return false
    await writing.saved
    await posting.interrupt(message, soFar(writing), result)
    policy.close(writing.open)
    return true
  }

  return {
    open(callId, field) {
      scanners.set(callId, policy.scanner(field))
    },
    write(callId, delta) {
      const scanner = scanners.get(callId)
      const text = scanner?.push(delta) ?? ''
      const place = scanner === undefined || text === '' ? null : policy.placeOfText(scanner)
      if (place === null) return
      const writing = writings.get(callId) ?? start(callId, place)
      writing.stream.push(text)
      saveNowAndThen(writing)
    },
    async say({ callId }, utterance) {
      const { spaceId, mention } = utterance
      const text = postableText(utterance.text)
      const before = writings.get(callId)
      if (before !== undefined) await policy.check({ spaceId, mention })
      const writing = before ?? start(callId, { spaceId, mention })
      if (writing.open.spaceId !== spaceId) throw new ToolFailure('BAD_INPUT', 'Write each field of the input once.')
      const message = await writing.message
      await writing.stream.complete(text)
      await writing.saved
      await addText(callId, writing, message, { ...utterance, text })
      writings.delete(callId)
      return message
    },
    async close(result) {
      const { toolCallId } = result
      const writing = writings.get(toolCallId)
      if (writing === undefined) return journaled.has(toolCallId)
      return interrupt(toolCallId, writing, result)
    },
    async interruptAll() {
      for (const [callId, writing] of writings) await interrupt(callId, writing, null)
    },
  }
}

/** A text as it can be posted. @throws ToolFailure for none, or one that is too long. */
function postableText(given: string): string {
  const text = storableText(given)
  if (text.trim() !== '' && text.length <= LONGEST_MESSAGE) return text
  throw new ToolFailure('BAD_INPUT', `A message has 1 to ${LONGEST_MESSAGE} characters, not only white space.`)
}

const SAVE_INTERVAL_MS = 1000

/**
 * Says, once a second, that the text of a message which is being written should be put into the database, should the live log
 * be lost with this process.
 */
function createSavePace({ now }: Clock): () => boolean {
  let savedAt = now()
  return () => {
    if (now() - savedAt < SAVE_INTERVAL_MS) return false
    savedAt = now()
    return true
  }
}
