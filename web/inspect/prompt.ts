import { createTwoFilesPatch } from 'diff'
import { isSameJson, jsonText } from '../ui/json-text.ts'

/** A message to or from a model: the AI SDK's ModelMessage. */
export interface ModelMessage {
  role: string
  content: unknown
}

/** A part of a message in readable form: text, or a value with its fields. */
export interface PromptPart {
  /** Its kind, in a few words: `text`, `calls order`, `result of order`, `reasoning`, `file: image/png`. */
  title: string
  text: string | null
  /** The input or result of a tool. Undefined if the part is text. */
  value: unknown
}

const LIMITS = { characters: 300_000, depth: 200 }

/** The API returns messages as JSON of any shape. */
export const listOf = (messages: unknown): ModelMessage[] =>
  Array.isArray(messages) ? messages.filter(isObject).map((message) => message as unknown as ModelMessage) : []

/** Returns the parts of a message. A part of an unknown type is shown as a value. */
export function partsOf({ content }: ModelMessage): PromptPart[] {
  const parts = Array.isArray(content) ? content : [content]
  return parts.map((part): PromptPart => {
    if (typeof part === 'string') return { title: 'text', text: part, value: undefined }
    if (!isObject(part)) return { title: 'value', text: null, value: part }
    const { type, toolName, text } = part
    if (type === 'text') return { title: 'text', text: String(text), value: undefined }
    if (type === 'reasoning') return { title: 'reasoning', text: String(text), value: undefined }
    if (type === 'tool-call') return { title: `calls ${String(toolName)}`, text: null, value: part['input'] ?? {} }
    if (type === 'tool-result') return resultOf(part)
    if (type === 'file' || type === 'image') return fileOf(part)
    return { title: String(type ?? 'value'), text: null, value: part }
  })
}

/** `{ type: 'text' | 'json' | 'error-text' | 'error-json' | 'content', value }` */
function resultOf({ toolName, output }: Record<string, unknown>): PromptPart {
  const { type, value } = isObject(output) ? output : { type: 'json', value: output }
  const title = `${String(type).startsWith('error') ? 'error' : 'result'} of ${String(toolName)}`
  return typeof value === 'string' ? { title, text: value, value: undefined } : { title, text: null, value }
}

/** The bytes of a file are left out, because people cannot read them. */
function fileOf({ mediaType, filename }: Record<string, unknown>): PromptPart {
  const words = [mediaType ?? 'file', filename].filter((word) => typeof word === 'string').join(', ')
  return { title: 'file', text: words, value: undefined }
}

/** Returns a message as text: text parts unchanged, and all other parts with their title, as JSON. */
export function textOf(message: ModelMessage): string {
  return partsOf(message).map(textOfPart).join('\n')
}

export function textOfPart({ title, text, value }: PromptPart): string {
  if (title === 'text') return text ?? ''
  return `[${title}] ${text ?? jsonText(value, LIMITS).text}`
}

/** A part of the instructions with its heading. */
export interface Section {
  /** Null for the beginning, which has none. */
  title: string | null
  text: string
}

/** A line such as `YOUR SPACES:` or `DECISIONS: (by people, …)`, as `context/prompt.ts` writes them. */
const HEADING = /^([A-Z][A-Z ]{2,60}):(?: \(.*\))?$/

/**
 * Splits instructions at the headings that the server writes after an empty line. Instructions of an agent that contain
 * such a line are split as well, which loses nothing.
 */
export function sectionsOf(instructions: string): Section[] {
  const sections: Section[] = []
  for (const block of instructions.split('\n\n')) {
    const [first = '', ...rest] = block.split('\n')
    const title = HEADING.exec(first)?.[1]
    const last = sections.at(-1)
    if (title !== undefined) sections.push({ title, text: rest.join('\n') })
    else if (last === undefined) sections.push({ title: null, text: block })
    else last.text += `\n\n${block}`
  }
  return sections
}

/** The part of a step’s input that is compared. */
export interface Prompt {
  instructions: string
  messages: readonly ModelMessage[]
  tools: readonly string[]
}

/** How a prompt differs from that of the previous step. */
export interface PromptChanges {
  /** A unified diff of the instructions; null if they are equal; '' if they differ too much to compare. */
  instructions: string | null
  /** How many messages, from the first on, are equal. */
  same: number
  /** The messages that only the previous step sent. */
  removed: readonly ModelMessage[]
  added: readonly ModelMessage[]
  addedTools: readonly string[]
  removedTools: readonly string[]
}

/** Stops comparing texts that differ in more lines, or that take longer. */
const DIFF_LIMITS = { context: 2, maxEditLength: 2000, timeout: 200 }

export function changesBetween(before: Prompt, now: Prompt): PromptChanges {
  let same = 0
  while (
    same < before.messages.length &&
    same < now.messages.length &&
    isSame(before.messages[same], now.messages[same])
  ) {
    same += 1
  }
  const isChanged = before.instructions !== now.instructions
  return {
    instructions: isChanged ? diffOf(before.instructions, now.instructions) : null,
    same,
    removed: before.messages.slice(same),
    added: now.messages.slice(same),
    addedTools: now.tools.filter((name) => !before.tools.includes(name)),
    removedTools: before.tools.filter((name) => !now.tools.includes(name)),
  }
}

const isSame = (one: unknown, other: unknown) => isSameJson(one, other)

function diffOf(before: string, now: string): string {
  // Both texts end with a line break, so that the diff contains no "no newline" note.
  return createTwoFilesPatch('before', 'now', `${before}\n`, `${now}\n`, undefined, undefined, DIFF_LIMITS) ?? ''
}

/** Describes the difference in one line: `2 new messages, changed instructions, without check_stock`. */
export function wordsOfChanges({ instructions, removed, added, addedTools, removedTools }: PromptChanges): string {
  const words = [
    added.length > 0 && counted(added.length, 'new message'),
    removed.length > 0 && counted(removed.length, 'removed message'),
    instructions !== null && 'changed instructions',
    addedTools.length > 0 && `also ${addedTools.join(', ')}`,
    removedTools.length > 0 && `without ${removedTools.join(', ')}`,
  ].filter((part) => part !== false)
  return words.length === 0 ? 'Same as in the previous step.' : `Compared with the previous step: ${words.join(', ')}.`
}

const counted = (count: number, noun: string) => `${count} ${noun}${count === 1 ? '' : 's'}`

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
