import { isTooDeep } from './json.ts'

/** The tags that enclose a tool call in the text of some small models. */
export const TEXT_CALL = { opening: '<tool_call>', closing: '</tool_call>' }

/** A tool call that was parsed from text. `input` is JSON text. */
export interface TextCall {
  name: string
  input: string
}

/** Whether a text contains a tool call after the opening tag, even an invalid one. */
export const hasTextCall = (text: string): boolean => text.includes(TEXT_CALL.opening)

/** Parses the text between the tags: `{"name": …, "arguments": …}`. Returns null for any other text. */
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

/** Parses the first call in a text. Returns null if there is no call, or if the first one is invalid. */
export function firstTextCall(text: string): TextCall | null {
  const [, rest = ''] = text.split(TEXT_CALL.opening, 2)
  return readTextCall(rest.split(TEXT_CALL.closing, 1)[0] ?? '')
}
