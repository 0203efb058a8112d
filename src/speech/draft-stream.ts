import { messageOf } from '../lib/errors.ts'
import { cut } from '../lib/json.ts'
import { LONGEST_MESSAGE } from '../lib/validate.ts'
import type { Platform } from '../platform/platform.ts'
import { runTopic, spaceTopic } from '../realtime/topics.ts'

/** Streams the text part of a message to its space while it is written, in deltas joined over `PARLEY_DELTA_MS`. */
export interface DraftStream {
  /** Adds text from the model. */
  push(text: string): void
  /** Streams the rest of the complete text. Resolves when all of it is in the log, or was dropped. */
  complete(whole: string): Promise<void>
  /** All text pushed so far. */
  text(): string
}

interface DraftPlace {
  spaceId: string
  partIndex: number
  runId: string
  /** Called when text was sent. */
  onDelta?: () => void
}

/**
 * Streams to the space's topic, until the run's topic is sealed. `ready` resolves with the id of
 * the message once it exists; text pushed before that waits.
 */
export function createDraftStream(
  { log, logger, config, deltas }: Platform,
  place: DraftPlace,
  ready: Promise<string>,
): DraftStream {
  const { spaceId, partIndex, runId, onDelta = () => {} } = place
  const topic = spaceTopic(spaceId)
  let text = ''
  let sent = 0
  let messageId: string | null = null
  let appended: Promise<unknown> = Promise.resolve()

  /** Appends need not wait for each other: the log keeps the order of the calls. */
  function send(): void {
    if (messageId === null || sent === text.length) return
    const delta = { messageId, partIndex, offset: sent, delta: text.slice(sent) }
    const upTo = text.length
    sent = upTo
    const append = log.appendDelta(topic, delta, () => text.slice(0, upTo), { unlessSealed: runTopic(runId) })
    const settled = append.then(onDelta, (error) =>
      logger.warn({ runId, messageId, error: messageOf(error) }, 'could not append a text delta; dropping it'),
    )
    appended = Promise.all([appended, settled])
  }

  const joiner = deltas.joiner({ intervalMs: config.deltaMs, place: topic }, send)
  const begun = ready.then((id) => {
    messageId = id
    send()
  })
  begun.catch(() => {})

  function push(more: string): void {
    const taken = cut(more, LONGEST_MESSAGE - text.length)
    if (taken === '') return
    text += taken
    joiner.push('text', taken)
  }

  return {
    push,
    async complete(whole) {
      if (whole.startsWith(text)) push(whole.slice(text.length))
      await begun
      joiner.flush()
      await appended
    },
    text: () => text,
  }
}
