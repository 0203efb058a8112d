import { isTooDeep } from './json.ts'

/** The tags between which some small models write a tool call in their text. */
export const TEXT_CALL = { opening: '<tool_call>', closing: '</tool_call>' }

/** A tool call that was read from text. `input`: JSON text. */
export interface TextCall {
  name: string
  input: string
}

/** Whether a text contains such a call, readable or not. */
export const hasTextCall = (text: string): boolean => text.includes(TEXT_CALL.opening)

/** Reads the text between the tags: `{"name": …, "arguments": …}`. Null for anything else. */
export function readTextCall(body: string): TextCall | null {
  try {
    const { name, arguments: given, parameters = given ?? {} } = JSON.parse(body) as Record<string, unknown>
    const input = typeof parameters === 'string' ? JSON.parse(parameters) : parameters
    const isCall = typeof name === 'string' && typeof input === 'object' && input !== null && !isTooDeep(input)
    return isCall ? { name, input: JSON.stringify(input) } : null
  } catch {
    return null
  }
}

/** Reads the first call in a text. Null if there is none, or it is not readable. */
export function firstTextCall(text: string): TextCall | null {
  const [, rest = ''] = text.split(TEXT_CALL.opening, 2)
  return readTextCall(rest.split(TEXT_CALL.closing, 1)[0] ?? '')
}
