import { randomUUID } from 'node:crypto'
import type { LanguageModelMiddleware } from 'ai'
import { type ChunkMapping, mappedStream } from '../lib/mapped-stream.ts'
import { readTextCall, TEXT_CALL, type TextCall } from '../lib/text-call.ts'
import type { StreamPart } from './language-model.ts'

const { opening: OPENING, closing: CLOSING } = TEXT_CALL

/**
 * Converts `<tool_call>{"name": …, "arguments": …}</tool_call>` in a model's text to calls to its tools. Small local
 * models generate such text, and some servers do not recognize the calls in it. Text is not converted if it is not JSON
 * or if its tool was not offered.
 */
export const textCalls: LanguageModelMiddleware = {
  specificationVersion: 'v4',
  async wrapStream({ doStream, params }) {
    const { stream, ...rest } = await doStream()
    const names = new Set(params.toolChoice?.type === 'none' ? [] : (params.tools ?? []).map(({ name }) => name))
    return { stream: names.size === 0 ? stream : mappedStream(stream, createCallReader(names)), ...rest }
  },
}

function createCallReader(names: ReadonlySet<string>): ChunkMapping<StreamPart, StreamPart> {
  const blocks = new Map<string, TextBlock>()
  let hasCalls = false
  return {
    push(part) {
      if (part.type === 'text-delta') {
        const block = blocks.get(part.id) ?? createTextBlock(names)
        blocks.set(part.id, block)
        const text = block.push(part.delta)
        return text === '' ? [] : [{ ...part, delta: text }]
      }
      if (part.type === 'text-end') {
        const { text, calls } = blocks.get(part.id)?.end() ?? { text: '', calls: [] }
        blocks.delete(part.id)
        hasCalls ||= calls.length > 0
        const rest: StreamPart[] = text === '' ? [] : [{ type: 'text-delta', id: part.id, delta: text }]
        return [...rest, part, ...calls.flatMap(partsOf)]
      }
      const isEndOfCalls = part.type === 'finish' && hasCalls && part.finishReason.unified === 'stop'
      return [isEndOfCalls ? { ...part, finishReason: { ...part.finishReason, unified: 'tool-calls' } } : part]
    },
  }
}

/** A block of text while it streams. */
interface TextBlock {
  /** Adds more text. Returns the part of the text that cannot belong to a call. */
  push(delta: string): string
  end(): { text: string; calls: TextCall[] }
}

function createTextBlock(names: ReadonlySet<string>): TextBlock {
  const calls: TextCall[] = []
  let held = ''
  let isInside = false

  /** Ends the call in `held`, up to `end`. Returns an empty text, or the text itself if it is not a call. */
  function endCall(end: number): string {
    const body = held.slice(OPENING.length, end)
    const whole = held.slice(0, end + CLOSING.length)
    held = held.slice(end + CLOSING.length)
    isInside = false
    const call = readTextCall(body)
    if (call === null || !names.has(call.name)) return whole
    calls.push(call)
    return ''
  }

  return {
    push(delta) {
      held += delta
      let text = ''
      for (;;) {
        const at = held.indexOf(isInside ? CLOSING : OPENING)
        if (isInside && at < 0) return text
        if (isInside) {
          text += endCall(at)
          continue
        }
        const end = at < 0 ? held.length - beginningOf(OPENING, held) : at
        text += held.slice(0, end)
        held = held.slice(end)
        if (at < 0) return text
        isInside = true
      }
    },
    end() {
      const text = isInside ? endCall(held.length) : held
      return { text, calls }
    },
  }
}

/** Returns how many characters at the end of the text could be the beginning of the tag. */
function beginningOf(tag: string, text: string): number {
  for (let length = Math.min(tag.length - 1, text.length); length > 0; length--)
    if (text.endsWith(tag.slice(0, length))) return length
  return 0
}

function partsOf({ name, input }: TextCall): StreamPart[] {
  const id = `call_${randomUUID()}`
  return [
    { type: 'tool-input-start', id, toolName: name },
    { type: 'tool-input-delta', id, delta: input },
    { type: 'tool-input-end', id },
    { type: 'tool-call', toolCallId: id, toolName: name, input },
  ]
}
