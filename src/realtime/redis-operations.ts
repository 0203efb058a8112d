import { encodeCursor } from './cursor.ts'
import { type AppendResult, LogUnavailableError, type TextDelta } from './event-log.ts'
import type { Keys } from './redis-scripts.ts'

/** A single write to a topic. */
export type Operation =
  | {
      type: 'event'
      json: string
      unlessSealed: string | undefined
      once: string | undefined
      ordinal: number | undefined
    }
  /** Appends a delta to a draft. `replaces`: the delta is the whole text of the part. */
  | { type: 'text'; delta: TextDelta; whole: () => string; unlessSealed: string | undefined; replaces: boolean }
  | { type: 'seal'; seal: string }
  | { type: 'finish'; messageId: string }
  /** Publishes a signal on another channel, in the same batch. */
  | { type: 'signal'; channel: string; text: string }
  | { type: 'expire'; ms: number }

/**
 * The outcome of an operation. `misfit`: the delta does not fit the draft, so this operation and the rest of
 * its batch were not executed.
 */
export type Outcome = AppendResult | { type: 'done' } | { type: 'misfit' }

/** The size of an operation within a batch, in characters. */
export function sizeOf(operation: Operation): number {
  if (operation.type === 'event') return operation.json.length
  return operation.type === 'text' ? operation.delta.delta.length : 0
}

/** The seal that the operation sets or checks. */
function sealOf(operation: Operation): string | undefined {
  if (operation.type === 'seal') return operation.seal
  return 'unlessSealed' in operation ? operation.unlessSealed : undefined
}

/** Adds the keys and arguments of an operation to those of its batch, in the order that the script expects. */
export function encode(
  operation: Operation,
  topic: string,
  keys: Keys,
  into: { keys: string[]; args: (string | number)[] },
): void {
  const seal = sealOf(operation)
  if (seal !== undefined) into.keys.push(keys.seal(topic, seal))
  const mayBeSealed = seal === undefined ? '0' : '1'
  switch (operation.type) {
    case 'event':
      into.args.push('event', mayBeSealed, operation.json, operation.once ?? '', operation.ordinal ?? '')
      return
    case 'text': {
      const { messageId, partIndex, offset, delta } = operation.delta
      into.keys.push(keys.draft(topic, messageId), keys.text(topic, messageId, partIndex))
      const json = JSON.stringify({ type: 'MessageTextDelta', messageId, partIndex, offset, delta })
      const escaped = JSON.stringify(delta).slice(1, -1)
      into.args.push(
        operation.replaces ? 'whole' : 'delta',
        mayBeSealed,
        json,
        partIndex,
        offset,
        delta.length,
        escaped,
      )
      return
    }
    case 'seal':
      into.args.push('seal')
      return
    case 'finish':
      into.keys.push(keys.draft(topic, operation.messageId))
      into.args.push('finish')
      return
    case 'signal':
      into.args.push('signal', operation.channel, operation.text)
      return
    case 'expire':
      into.args.push('expire', operation.ms)
  }
}

/** Replaces the delta by the whole text of its part. @throws if that text is not available */
export function withWhole(operation: Operation): Operation {
  if (operation.type !== 'text') throw new LogUnavailableError('Redis refused a write that has no draft.')
  const delta = { ...operation.delta, offset: 0, delta: operation.whole() }
  return { ...operation, delta, replaces: true }
}

/** Parses the result of a batch. `last`: the offset of its last appended entry; null if it appended none. */
export function readAnswer(answer: string): { epoch: string; last: number | null; outcomes: Outcome[] } {
  const [epoch, ...texts] = answer.split(',') as [string, ...string[]]
  const appended = texts.filter((text) => text[0] === 'a')
  const last = appended.length === 0 ? null : Number(appended.at(-1)!.slice(1))
  return { epoch, last, outcomes: texts.map((text) => outcomeOf(epoch, text)) }
}

function outcomeOf(epoch: string, text: string): Outcome {
  const n = Number(text.slice(1))
  switch (text[0]) {
    case 'a':
    case 'h':
      return { type: 'appended', cursor: encodeCursor({ epoch, n }) }
    case 'm':
      return { type: 'missing', after: n }
    case 's':
      return { type: 'sealed' }
    case 'd':
      return { type: 'duplicate' }
    case 'o':
      return { type: 'done' }
    default:
      return { type: 'misfit' }
  }
}
