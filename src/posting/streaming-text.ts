import type { JsonObject } from '../lib/json.ts'
import { LONGEST_MESSAGE, messageCharacters } from '../lib/validate.ts'
import type { Clock } from '../platform/clock.ts'
import type { Platform } from '../platform/platform.ts'
import type { Message, MessagePart } from '../rules/message.ts'
import { type SpeechPresence, ToolFailure, type ToolUse, type Utterance } from '../tools/tool.ts'
import { createDraftStream, type DraftStream } from './draft-stream.ts'
import { isConfidential } from './guard.ts'
import type { MessageGrowth, MessagePolicy, OpenMessage, Place } from './message-policy.ts'
import type { RunMessages, ToolResult } from './run-messages.ts'
import { createTextFieldScanner } from './text-field.ts'

/**
 * The texts that a run's calls post. Each text is a part of a message. It is streamed while the model writes the call's
 * input.
 */
export interface StreamingTexts {
  /** Called when the input of a call begins to stream, or begins again for a call whose text is streaming. */
  open(callId: string, presence: SpeechPresence): void
  write(callId: string, delta: string): void
  /** Completes the text of a call. Streams the rest, and adds the text as a finished part. @throws ToolFailure */
  say(use: ToolUse, utterance: Utterance): Promise<Message>
  /** Whether people have seen unfinished text of the call. */
  isHeard(callId: string): Promise<boolean>
  /**
   * Ends a call. If the call's text was not completed, the text so far is kept and ends its message. Returns true if
   * the result is journaled, by this method or with the text. Returns false if the call posted nothing.
   */
  close(result: ToolResult): Promise<boolean>
  isQuiet(): boolean
  /** Ends the texts that are streaming. */
  interruptAll(): Promise<void>
  /** Returns the call that continues the text of an earlier attempt; null if there is none or if it has ended. */
  continued(): string | null
}

/** A text part while the model writes it. */
interface Writing {
  open: OpenMessage
  /** The message that contains the text. Rejects with a ToolFailure if the agent may not post in the space. */
  message: Promise<Message>
  /** Replies to the text have a higher `seq` than this. */
  afterSeq: Promise<number>
  stream: DraftStream
  /** The last save of the text to the database. */
  saved: Promise<unknown>
  /** The error that prevents posting the rest, because a member may not read the text. */
  refusal: unknown
  /** Whether the model is generating the text again, perhaps for another space. */
  isRepeated: boolean
  /** Whether the text was begun in another thread, before the model had written its `replyTo`. */
  isMoved: boolean
}

interface StreamingTextsInput {
  runId: string
  onDelta: () => void
  posting: RunMessages
  policy: MessagePolicy
  growth: MessageGrowth
  /** Whether the run has confidential content. */
  isMarked(): boolean
  /** The text that an earlier attempt has left unfinished, and the call that continues it; null if there is none. */
  before: TextBefore | null
}

export interface TextBefore {
  callId: string
  open: OpenMessage
  text: string
}

export function createStreamingTexts(
  platform: Platform,
  { runId, onDelta, posting, policy, growth, isMarked, before }: StreamingTextsInput,
): StreamingTexts {
  const isSaveDue = createSavePace(platform.clock, isMarked)
  const opened = new Map<string, { scanner: UtteranceScanner; presence: SpeechPresence }>()
  const writings = new Map<string, Writing>()
  const journaled = new Set<string>()

  /**
   * Begins a message. The statement that writes a new message includes the check of the guard. A continued message is
   * checked here.
   */
  async function beginIn(open: OpenMessage): Promise<Message> {
    if (open.message !== null) await posting.checkHeard(open.spaceId)
    return growth.begin(open)
  }

  /** Begins a text part. It starts to stream when `refuse` has resolved and the agent may post in the space. */
  function start(callId: string, place: Place, refuse: () => Promise<void> = async () => {}): Writing {
    const open = policy.at(callId, place)
    const checked = refuse().then(() => policy.check(place))
    const message = checked.then(() => beginIn(open))
    const isFirst = open.parts.length === 0
    const afterSeq = message.then(async ({ seq }) => (isFirst ? seq : ((await checked) ?? seq)))
    const ready = message.then(({ id }) => id)
    for (const promise of [message, afterSeq, ready]) promise.catch(() => {})
    const stream = createDraftStream(platform, partOf(open), ready)
    const state = { saved: Promise.resolve(), refusal: null, isRepeated: false, isMoved: false }
    const writing: Writing = { open, message, afterSeq, stream, ...state }
    writings.set(callId, writing)
    return writing
  }

  const partOf = ({ spaceId, parts }: OpenMessage) => ({ spaceId, partIndex: parts.length, runId, onDelta })

  /** Continues the text of an earlier attempt, which the model writes again. */
  function resume({ callId, open, text }: TextBefore): void {
    const message = growth.begin(open)
    const ready = message.then(({ id }) => id)
    const stream = createDraftStream(platform, partOf(open), ready, text)
    const state = { saved: Promise.resolve(), refusal: null, isRepeated: true, isMoved: false }
    writings.set(callId, { open, message, afterSeq: message.then(({ seq }) => seq), stream, ...state })
  }
  if (before !== null) resume(before)

  /**
   * Saves the text if a save is due, or if `isRewritten` is set because the text may no longer begin with the saved
   * text.
   */
  function saveNowAndThen(writing: Writing, isRewritten: boolean): void {
    if (!isSaveDue() && !isRewritten) return
    const saved = writing.saved.then(async () => posting.save(await writing.message, soFar(writing)))
    writing.saved = saved.catch((error) => {
      if (isConfidential(error)) writing.refusal ??= error
    })
  }

  /** Returns the parts of a message, including the text so far of its next part. */
  function soFar({ open, stream }: Writing): MessagePart[] {
    const text = stream.text()
    if (text === '') return open.parts
    return [...open.parts, { type: 'text', text, ...(policy.composite ? { unfinished: true } : {}) }]
  }

  async function addText(callId: string, writing: Writing, begun: Message, utterance: Utterance) {
    const { open, afterSeq } = writing
    const { text, mention, finishes, journals } = utterance
    const parts: MessagePart[] = [...open.parts, { type: 'text', text }]
    const { message, moves } = await placed(writing, begun, utterance)
    const journal = journals(message, await afterSeq)
    const adds = { type: 'text' as const }
    open.message = Promise.resolve(message)
    if (journal.type === 'asks') {
      const { state, waitMs, people } = journal
      return growth.grow(open, message, parts, {
        adds,
        ...moves,
        asks: { toolCallId: callId, state, waitMs, people },
        ends: { mention },
      })
    }
    const result: ToolResult = { toolCallId: callId, status: 'DONE', output: journal.output, error: null }
    const ends = finishes || mention !== null ? { ends: { mention } } : {}
    await growth.grow(open, message, parts, { adds, ...moves, result, ...ends })
    journaled.add(callId)
  }

  /**
   * Returns the message in the thread that its call requires, and the change that moves it to this thread. @throws
   * ToolFailure
   */
  async function placed({ isMoved }: Writing, message: Message, { spaceId, replyTo }: Utterance) {
    if (replyTo === undefined && !isMoved) return { message, moves: {} }
    const place = await posting.placeOf(spaceId, replyTo)
    if (place.replyToId === message.replyToId) return { message, moves: {} }
    // If people have replied to the text while it streamed, the message has a thread and does not move.
    if (message.threadRootId === null && (await posting.hasReplies(message))) return { message, moves: {} }
    return { message: { ...message, ...place }, moves: { moves: place } }
  }

  /** Moves a text to another thread, if the call's `replyTo` follows the text. */
  async function bringTo(callId: string, writing: Writing, replyTo: string | undefined): Promise<void> {
    const { open, stream } = writing
    const message = await writing.message
    if (policy.mayMove(open, replyTo)) {
      policy.move(open, replyTo)
      writing.isMoved = true
      return
    }
    // The message cannot move, because it has other parts in its thread or the new thread has an open message. The text
    // continues in the new thread's message.
    writings.delete(callId)
    await writing.saved
    await stream.complete(stream.text())
    if (open.parts.length > 0) await growth.grow(open, message, open.parts, { ends: { mention: null } })
    else await posting.interrupt(message, open.parts, null)
    policy.close(open)
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

  /** Ends a text if the model generates it again and now gives another space. */
  async function endIfElsewhere(callId: string, spaceId: string): Promise<void> {
    const writing = writings.get(callId)
    if (writing?.isRepeated === true && writing.open.spaceId !== spaceId) await interrupt(callId, writing, null)
  }

  return {
    open(callId, presence) {
      opened.set(callId, { scanner: createUtteranceScanner(presence.field), presence })
      const writing = writings.get(callId)
      writing?.stream.restart()
      if (writing !== undefined) writing.isRepeated = true
    },
    write(callId, delta) {
      const { scanner, presence } = opened.get(callId) ?? {}
      const text = scanner?.push(delta) ?? ''
      const before = scanner?.before() ?? null
      const place = before === null || text === '' ? null : policy.placeOfText(before)
      if (before === null || place === null) return
      const writing = writings.get(callId) ?? start(callId, place, async () => presence?.refuse?.(before))
      if (writing.refusal !== null || writing.open.spaceId !== place.spaceId) return
      saveNowAndThen(writing, writing.stream.push(text))
    },
    async say({ callId }, utterance) {
      const { spaceId, mention, replyTo } = utterance
      const text = postableText(utterance.text)
      await endIfElsewhere(callId, spaceId)
      const begun = writings.get(callId)
      if (begun !== undefined && begun.open.spaceId === spaceId && begun.open.replyTo !== replyTo)
        await bringTo(callId, begun, replyTo)
      const before = writings.get(callId)
      if (before !== undefined) await policy.check({ spaceId, mention })
      const writing = before ?? start(callId, { spaceId, mention, ...(replyTo === undefined ? {} : { replyTo }) })
      if (writing.open.spaceId !== spaceId) throw new ToolFailure('BAD_INPUT', 'Write each field of the input once.')
      const message = await writing.message
      if (before !== undefined) await posting.checkHeard(spaceId)
      await writing.saved
      if (writing.refusal !== null) throw writing.refusal
      await writing.stream.complete(text)
      await addText(callId, writing, message, { ...utterance, text })
      writings.delete(callId)
      return message
    },
    async isHeard(callId) {
      const writing = writings.get(callId)
      const message = await writing?.message.catch(() => null)
      return message != null && writing?.stream.text() !== ''
    },
    async close(result) {
      const { toolCallId } = result
      const writing = writings.get(toolCallId)
      if (writing === undefined) return journaled.has(toolCallId)
      return interrupt(toolCallId, writing, result)
    },
    isQuiet: () => writings.size === 0,
    continued: () => (before !== null && writings.has(before.callId) ? before.callId : null),
    async interruptAll() {
      for (const [callId, writing] of writings) await interrupt(callId, writing, null)
    },
  }
}

/**
 * Validates a text, and removes the control characters that the stream also removes.
 * @throws ToolFailure if it is empty or too long
 */
function postableText(given: string): string {
  const text = messageCharacters(given).toWellFormed()
  if (text.trim() !== '' && text.length <= LONGEST_MESSAGE) return text
  throw new ToolFailure('BAD_INPUT', `A message has 1 to ${LONGEST_MESSAGE} characters, not only white space.`)
}

const SAVE_INTERVAL_MS = 1000
/**
 * The interval at which a text with confidential content is saved. Each save checks that all members may still read it.
 */
const LOOK_INTERVAL_MS = 100

/**
 * Returns a function that tells whether a streaming text should be saved now. A saved text survives the loss of this
 * process and the event log.
 */
function createSavePace({ now }: Clock, isMarked: () => boolean): () => boolean {
  let savedAt = now()
  return () => {
    if (now() - savedAt < (isMarked() ? LOOK_INTERVAL_MS : SAVE_INTERVAL_MS)) return false
    savedAt = now()
    return true
  }
}

/** Finds a text in a call's input while the model writes the input. */
export interface UtteranceScanner {
  /**
   * Reads the next piece of the input's JSON. Returns the text that can be streamed now. It is empty until `before`
   * returns the fields.
   */
  push(delta: string): string
  /**
   * Returns the fields that precede the text; null if the text has not begun yet, or if the fields are too long to
   * parse.
   */
  before(): JsonObject | null
}

/** A text is not streamed if more than this many characters precede it. */
const LONGEST_BEFORE = 20_000

/** Creates a scanner for an input whose field `field` contains the text. White space alone does not begin a text. */
export function createUtteranceScanner(field: string): UtteranceScanner {
  const text = createTextFieldScanner(field)
  let head = ''
  let before: JsonObject | null = null
  let held = ''
  let hasBegun = false

  return {
    push(delta) {
      if (!hasBegun && head.length <= LONGEST_BEFORE) head += delta
      held += messageCharacters(text.push(delta))
      if (!hasBegun && held.trim() !== '') {
        hasBegun = true
        const end = text.nameAt() ?? 0
        before = end <= LONGEST_BEFORE ? fieldsIn(head.slice(0, end)) : null
      }
      if (before === null) return ''
      const now = held
      held = ''
      return now
    },
    before: () => before,
  }
}

/** Parses the fields of a JSON object that ends before the name of a field. Returns null for any other text. */
function fieldsIn(cutOff: string): JsonObject | null {
  try {
    return JSON.parse(`${cutOff.replace(/,?\s*$/, '')}}`) as JsonObject
  } catch {
    return null
  }
}
