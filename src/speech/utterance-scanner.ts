import type { JsonObject } from '../lib/json.ts'
import { messageCharacters } from '../lib/validate.ts'
import { createTextFieldScanner } from './text-field.ts'

/** Scans a text while the model writes the call's input. */
export interface UtteranceScanner {
  /** Takes more of the input's JSON and returns the text that can be streamed now: none before `before` is known. */
  push(delta: string): string
  /** The fields that precede the text; null until the text has begun, or if they are too long to parse. */
  before(): JsonObject | null
}

/** Maximum characters before a text that streams. */
const LONGEST_BEFORE = 20_000

/** Scans an input with a text in `field`. White space alone does not begin a text. */
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

/** Parses the fields of a JSON object that is cut off before the name of one. Null if it is not one. */
function fieldsIn(cutOff: string): JsonObject | null {
  try {
    return JSON.parse(`${cutOff.replace(/,?\s*$/, '')}}`) as JsonObject
  } catch {
    return null
  }
}
