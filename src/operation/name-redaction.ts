import { isBuiltInTool } from '../agents/tool-names.ts'
import { isObject, nameIn, oneLine } from '../lib/json.ts'
import { ERASED, type ErasedHuman } from './erased-human.ts'

/** A string within a JSON value, and its replacement. */
export interface Edit {
  /** The keys and indexes that lead from the root to the string; empty if the value itself is the string. */
  path: string[]
  text: string
}

/** Facts that show whether a name in a row belongs to the erased human or to a namesake. */
export interface Surroundings {
  /** Whether a name without an id in this row means the erased human. */
  isByName: boolean
  /** Whether a name in a line about this space means the erased human. */
  isHere(spaceId: string): boolean
}

/**
 * Finds the places where the server wrote the name of an erased human. If the human's messages are erased too, also
 * finds the reasons of the human's decisions. Each function takes a decoded value and returns the strings to replace.
 * Text by people, agents, services and external tools is not changed: it is stored in separate fields, and prompts
 * quote it as JSON.
 */
export interface NameRedaction {
  /** Edits for `Message.origin`. */
  origin(value: unknown): Edit[]
  /** Edits for `InboxEvent.payload`. */
  payload(value: unknown): Edit[]
  /** Edits for `Run.state`. */
  cycleState(value: unknown): Edit[]
  /** Edits for `Cycle.messages`. */
  modelMessages(value: unknown): Edit[]
  /** Edits for `ToolCall.output`, and for copies of tool results in other columns. */
  toolOutput(toolName: string, value: unknown): Edit[]
  /** Edits for `ToolCall.state`. */
  toolState(value: unknown): Edit[]
  /** Returns `ToolCall.error` without the name. */
  toolError(text: string): string
}

type JsonRecord = Record<string, unknown>

/** Fields that contain an entity's name, each with the field that contains the entity's id. */
const NAMES_BESIDE_IDS = [
  ['senderId', 'sender'],
  ['senderId', 'senderName'],
  ['entityId', 'entityName'],
  ['id', 'name'],
] as const
/** Fields in results of built-in tools whose value is a sentence by the server. */
const SENTENCES = ['message', 'error', 'decisions', 'triggerSummary', 'about']

const JSON_STRING = String.raw`"(?:[^"\\]|\\.)*"`
/** Matches `- [<space> (id: spc_…)] `, which src/context/inbox-message.ts writes. */
const MESSAGE_LINE = new RegExp(String.raw`^- \[(?:${JSON_STRING}|[^[\]():,"\\]*) \(id: (spc_[0-9a-f]{32})\)\] `)
const RESULT_LINE = /^- \[TOOL_RESULT ([^\s()[\]]+) \(id: tcl_[0-9a-f]{32}\)\] /
/** Matches the text before the names of deciders (src/rules/approvals.ts). */
const BEFORE_DECIDERS = /^(?: {2}It was )?(?:approved by |denied by |expired, approved only by |Only |Denied by )/
const STRING_HERE = new RegExp(JSON_STRING, 'y')
const REASON_HERE = new RegExp(String.raw` \(${JSON_STRING}\)`, 'y')
/** Matches the reason that a single decider gave for denying a call. */
const DENIAL_REASON_HERE = new RegExp(`: ${JSON_STRING}`, 'y')
/** Matches `a message from "<name>" (human) in `, which src/agents/inbox-source.ts writes. */
const SOURCE = new RegExp(
  String.raw`(a message from )(${JSON_STRING})( \(human\) in ${JSON_STRING} \(id: (spc_[0-9a-f]{32})\))`,
  'g',
)
/**
 * Matches the beginning of a refusal by `src/confidentiality/discretion.ts`, in its old or its present wording, up to the
 * person's name.
 */
const NOT_HEARD = new RegExp(`^(?:what you know comes from|You have read content of) ${JSON_STRING}; `)

export function createNameRedaction(human: ErasedHuman, { isByName, isHere }: Surroundings): NameRedaction {
  const line = oneLine(human.name)
  const quoted = JSON.stringify(line)
  /** A line can contain the name with or without quotes. */
  const forms = [...new Set([nameIn(human.name), line, quoted])]
  const isName = (value: unknown) => value === human.name || value === line

  /** Replaces the human's name in a list of deciders. */
  function deciders(text: string, start: number): string {
    const kept: string[] = [text.slice(0, start)]
    let at = start
    for (;;) {
      const name = matchAt(STRING_HERE, text, at)
      if (name === null) break
      at += name.length
      const reason = matchAt(REASON_HERE, text, at) ?? matchAt(DENIAL_REASON_HERE, text, at) ?? ''
      at += reason.length
      const isErased = name === quoted
      kept.push(isErased ? JSON.stringify(ERASED) : name, isErased && human.messages ? '' : reason)
      if (!text.startsWith(', "', at)) break
      kept.push(', ')
      at += 2
    }
    return kept.join('') + text.slice(at)
  }

  /** Replaces the name in a sentence that the server wrote. Returns other sentences unchanged. */
  function sentence(text: string): string {
    if (!isByName) return sources(text)
    const before = BEFORE_DECIDERS.exec(text)?.[0]
    const notHeard = NOT_HEARD.exec(text)?.[0]
    const readings = [
      before === undefined ? text : deciders(text, before.length),
      notHeard === undefined ? text : after(text, notHeard, [line], [', who is in "', ' and ']),
      after(text, '', [human.name, line], [' is a human: only agents can be woken.']),
      summary(sources(text)),
    ]
    return readings.find((reading) => reading !== text) ?? text
  }

  const summary = (text: string) => (isByName ? after(text, '', [line], [' in "']) : text)

  const sources = (text: string) =>
    text.replaceAll(SOURCE, (whole, before: string, name: string, rest: string, spaceId: string) =>
      name === quoted && isHere(spaceId) ? `${before}${JSON.stringify(ERASED)}${rest}` : whole,
    )

  function promptLine(text: string): string {
    const inSpace = MESSAGE_LINE.exec(text)
    if (inSpace !== null) return isHere(inSpace[1] ?? '') ? after(text, inSpace[0], forms, [' (human): "']) : text
    const result = RESULT_LINE.exec(text)
    if (result !== null) return result[0] + resultText(result[1] ?? '', text.slice(result[0].length))
    if (text.startsWith('  It was ')) return isByName ? sentence(text) : text
    if (text.startsWith('- a message from ')) return sources(text)
    return after(text, '  It is addressed to ', forms, [` (id: ${human.id}).`])
  }

  /** Replaces the name in the result of a call, which a line quotes as JSON. */
  function resultText(toolName: string, text: string): string {
    const value = parsed(text)
    const edits = value === undefined ? [] : toolOutput(toolName, value)
    return edits.length === 0 ? text : JSON.stringify(applyEdits(value, edits))
  }

  const promptText = (text: string) => text.split('\n').map(promptLine).join('\n')

  /** Adds the edits of one object: first names next to ids, then names without an id. */
  function objectEdits(value: JsonRecord, path: string[], edits: Edit[]): void {
    const rename = (key: string) => {
      if (typeof value[key] === 'string' && value[key] !== ERASED) edits.push({ path: [...path, key], text: ERASED })
    }
    for (const [idKey, nameKey] of NAMES_BESIDE_IDS) if (value[idKey] === human.id) rename(nameKey)
    const { sender, senderId, type, triggerSenderName, triggerSpaceId, triggerSource } = value
    if (isByName && isName(sender) && senderId === undefined && type === 'human') rename('sender')
    if (isName(triggerSenderName) && (isByName || (typeof triggerSpaceId === 'string' && isHere(triggerSpaceId))))
      rename('triggerSenderName')
    const texts = SENTENCES.map((key): [string, (text: string) => string] => [key, sentence])
    if (isByName && typeof triggerSource === 'string')
      texts.push(['triggerSource', (text) => after(text, '', [line], [' in '])])
    for (const [key, change] of texts) edits.push(...editOf(value[key], [...path, key], change))
  }

  /** Returns the edits for a value that the server created, including all nested objects. */
  function walk(value: unknown, path: string[] = []): Edit[] {
    const edits: Edit[] = []
    const waiting: [unknown, string[]][] = [[value, path]]
    for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
      const [one, at] = next
      if (typeof one !== 'object' || one === null) continue
      if (isObject(one)) objectEdits(one, at, edits)
      for (const [key, inner] of Object.entries(one)) waiting.push([inner, [...at, key]])
    }
    return edits
  }

  function toolOutput(toolName: string, value: unknown): Edit[] {
    if (isBuiltInTool(toolName)) return walk(value)
    // In results of other tools, the only text by the server is the error of a refusal or timeout.
    const error = isObject(value) ? value['error'] : undefined
    if (!isObject(error) || !BEFORE_DECIDERS.test(String(error['message']))) return []
    return editOf(error['message'], ['error', 'message'], sentence)
  }

  return {
    toolOutput,
    toolError: sentence,
    toolState: walk,
    origin: (value) => (isObject(value) ? shallow(value, objectEdits) : []),
    payload(value) {
      if (!isObject(value)) return []
      const { senderId, senderName, toolName, result, decisions, mention } = value
      return [
        ...shallow({ senderId, senderName }, objectEdits),
        ...walk(mention, ['mention']),
        ...editOf(decisions, ['decisions'], sentence),
        ...within(['result'], toolOutput(String(toolName), result)),
      ]
    },
    cycleState(value) {
      if (!isObject(value)) return []
      const injections = Array.isArray(value['injections']) ? value['injections'] : []
      return [
        ...editOf(value['inbox'], ['inbox'], promptText),
        ...injections.flatMap((one, index) =>
          isObject(one) ? editOf(one['text'], ['injections', String(index), 'text'], promptText) : [],
        ),
      ]
    },
    modelMessages(value) {
      if (!Array.isArray(value)) return []
      return value.flatMap((message, index) =>
        isObject(message) ? within([String(index)], messageEdits(message, { promptText, toolOutput })) : [],
      )
    },
  }
}

/**
 * Returns the edits for a message to or from a model. Only user messages that the server wrote, and tool results, are
 * edited.
 */
function messageEdits(
  { role, content }: JsonRecord,
  { promptText, toolOutput }: { promptText(text: string): string } & Pick<NameRedaction, 'toolOutput'>,
): Edit[] {
  if (role === 'user' && typeof content === 'string') return editOf(content, ['content'], promptText)
  if ((role !== 'user' && role !== 'tool') || !Array.isArray(content)) return []
  return content.flatMap((part, index) => {
    const path = ['content', String(index)]
    if (!isObject(part)) return []
    if (role === 'user') return editOf(part['text'], [...path, 'text'], promptText)
    const output = part['output']
    if (!isObject(output)) return []
    return within([...path, 'output', 'value'], toolOutput(String(part['toolName']), output['value']))
  })
}

function editOf(value: unknown, path: string[], change: (text: string) => string): Edit[] {
  if (typeof value !== 'string') return []
  const text = change(value)
  return text === value ? [] : [{ path, text }]
}

const within = (path: string[], edits: Edit[]): Edit[] =>
  edits.map((edit) => ({ path: [...path, ...edit.path], text: edit.text }))

function shallow(value: JsonRecord, edit: (value: JsonRecord, path: string[], edits: Edit[]) => void): Edit[] {
  const edits: Edit[] = []
  edit(value, [], edits)
  return edits
}

/** Replaces the name in `<before><name><following>…` with "Erased". Returns other texts unchanged. */
function after(text: string, before: string, names: readonly string[], following: readonly string[]): string {
  if (!text.startsWith(before)) return text
  for (const name of names)
    for (const next of following)
      if (text.startsWith(`${name}${next}`, before.length))
        return `${before}${ERASED}${text.slice(before.length + name.length)}`
  return text
}

function matchAt(pattern: RegExp, text: string, at: number): string | null {
  pattern.lastIndex = at
  return pattern.exec(text)?.[0] ?? null
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Returns a copy of the value with the edits applied. */
export function applyEdits(value: unknown, edits: readonly Edit[]): unknown {
  let result = structuredClone(value)
  for (const { path, text } of edits) {
    const last = path.at(-1)
    if (last === undefined) {
      result = text
      continue
    }
    let holder = result as JsonRecord
    for (const key of path.slice(0, -1)) holder = holder[key] as JsonRecord
    Object.defineProperty(holder, last, { value: text, enumerable: true, configurable: true, writable: true })
  }
  return result
}
