import { messageOf } from '../lib/errors.ts'
import { cut } from '../lib/json.ts'
import { LONGEST_MESSAGE } from '../lib/validate.ts'
import type { Platform } from '../platform/platform.ts'
import { runTopic, spaceTopic } from '../realtime/topics.ts'

/** The text part of a message while it is written: what is pushed is streamed to the space, joined over `PARLEY_DELTA_MS`. */
export interface DraftStream {
  /** More of the text, as the model writes it. */
  push(text: string): void
  /** The whole text: what is missing of it is streamed. Resolves when all of it is in the log, or given up. */
  complete(whole: string): Promise<void>
  /** Everything pushed so far. */
  text(): string
}

interface DraftPlace {
  spaceId: string
  partIndex: number
  runId: string
  /** Called with what of the text has gone out. */
  onDelta?: () => void
}

/**
 * Streams to the space's topic, guarded by the run: once that is over nothing more of it comes through.
 * `ready` resolves with the message's id when it exists; text pushed before that waits.
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

  /** Appends need not wait for one another: the log keeps the order of the calls. */
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
