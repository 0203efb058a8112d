import { runTopic, spaceTopic } from '../broker/topics.ts'
import { messageOf } from '../lib/errors.ts'
import { cut } from '../lib/json.ts'
import { LONGEST_MESSAGE } from '../lib/validate.ts'
import type { Platform } from '../platform/platform.ts'

/**
 * Streams a text part of a message to its space while the model writes the text, in deltas joined over
 * `PARLEY_DELTA_MS`.
 */
export interface DraftStream {
  /**
   * Adds text from the model. Returns true if it replaced some of the earlier text, because the text since `restart`
   * differs.
   */
  push(text: string): boolean
  /**
   * The caller calls this when the model writes the text again from the beginning. Repeated text is not streamed again.
   */
  restart(): void
  /** Streams the rest of the complete text. Resolves when the whole text is in the log or was dropped. */
  complete(whole: string): Promise<void>
  /** The text so far. */
  text(): string
}

interface DraftPlace {
  spaceId: string
  partIndex: number
  runId: string
  /** Called after text has been appended to the log. */
  onDelta?: () => void
}

/**
 * Streams a text to the space's topic until the run's topic is sealed. `ready` resolves with the id of the message when
 * it exists. Until then, pushed text is buffered. `known` is the text that an earlier attempt of the run has streamed.
 * The model now writes it again from the beginning.
 */
export function createDraftStream(
  { log, logger, config, deltas }: Platform,
  place: DraftPlace,
  ready: Promise<string>,
  known = '',
): DraftStream {
  const { spaceId, partIndex, runId, onDelta = () => {} } = place
  const topic = spaceTopic(spaceId)
  let text = known
  /** The text that was pushed since `restart`, as long as it only repeats the earlier text; otherwise null. */
  let repeated: string | null = known === '' ? null : ''
  let sent = known.length
  let messageId: string | null = null
  let appended: Promise<unknown> = Promise.resolve()

  /** Sends the new text. The appends do not wait for each other, because the log keeps the order of the calls. */
  function send(): void {
    if (messageId === null || sent === text.length) return
    const delta = { messageId, partIndex, offset: sent, delta: text.slice(sent) }
    const whole = text
    sent = whole.length
    follow(log.appendDelta(topic, delta, () => whole, { unlessSealed: runTopic(runId) }))
  }

  function follow(append: Promise<unknown>): void {
    const settled = append.then(onDelta, (error) =>
      logger.warn({ runId, messageId, error: messageOf(error) }, 'could not append a text delta; dropping it'),
    )
    appended = Promise.all([appended, settled])
  }

  /** Replaces the text, beginning at the first difference. */
  function rewrite(whole: string): void {
    const offset = commonLength(text, whole)
    text = whole
    if (messageId === null) return
    if (offset >= sent) {
      send()
      return
    }
    sent = whole.length
    const replacement = { messageId, partIndex, offset, text: whole.slice(offset) }
    follow(log.replaceText(topic, replacement, whole, { unlessSealed: runTopic(runId) }))
  }

  const joiner = deltas.joiner({ intervalMs: config.deltaMs, place: topic }, send)
  const begun = ready.then((id) => {
    messageId = id
    send()
  })
  begun.catch(() => {})

  function append(more: string): void {
    const taken = cut(more, LONGEST_MESSAGE - text.length)
    if (taken === '') return
    text += taken
    joiner.push('text', taken)
  }

  function push(more: string): boolean {
    if (repeated === null) {
      append(more)
      return false
    }
    const again = cut(repeated + more, LONGEST_MESSAGE)
    repeated = text.startsWith(again) ? again : null
    if (repeated !== null) return false
    if (again.startsWith(text)) {
      append(again.slice(text.length))
      return false
    }
    rewrite(again)
    return true
  }

  return {
    push,
    restart() {
      repeated = ''
    },
    async complete(whole) {
      repeated = null
      if (whole.startsWith(text)) append(whole.slice(text.length))
      else rewrite(whole)
      await begun
      joiner.flush()
      await appended
    },
    text: () => text,
  }
}

/**
 * Returns the length of the common beginning of two texts. The beginning never ends in the middle of a surrogate pair.
 */
function commonLength(one: string, other: string): number {
  const shorter = Math.min(one.length, other.length)
  let length = 0
  while (length < shorter && one[length] === other[length]) length += 1
  return cut(one, length).length
}
