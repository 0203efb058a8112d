import type { InputSchema } from './demo-input.ts'
import type { CallOptions, PromptMessage, ToolResultOutput } from './language-model.ts'

/** The parts of a prompt that the demo model understands. Missing parts are empty, and reading never fails. */
export interface DemoReading {
  /** The name of the agent. */
  name: string
  spaces: DemoSpace[]
  /** The events that woke the agent, oldest first. A persistent agent can have several. */
  events: DemoEvent[]
  /** The messages in the prompt, oldest first. */
  recent: DemoMessage[]
  /** The lines of the agent's memories. */
  memories: string[]
  /** The calls of this run so far, in order. */
  calls: DemoCall[]
  /** The available tools, with their input schemas. */
  tools: Map<string, InputSchema>
  toolChoice: 'auto' | 'required' | 'none'
  /** The agent's role in the scene that the console's *Try it* plays; null if it has none. */
  role: DemoRole | null
}

/** The roles of `demo-scene.ts`. */
export type DemoRole = 'forecaster' | 'skeptic' | 'buyer'

export interface DemoSpace {
  id: string
  name: string
  active: boolean
  /** The members of the space, except the agent itself. */
  members: { name: string; kind: 'human' | 'agent' }[]
}

export interface DemoMessage {
  id: string | null
  from: string
  kind: 'human' | 'agent'
  at: string | null
  text: string
}

export type DemoEvent =
  /** `mentioned` tells whether the message mentions this agent. */
  | { type: 'message'; spaceId: string | null; message: DemoMessage; mentioned: boolean }
  | { type: 'plan' | 'service' | 'toolResult'; name: string; text: string }

export interface DemoCall {
  toolName: string
  input: Record<string, unknown>
  /** The result of the call; undefined if there is none yet. */
  output: unknown
}

/** Whether the result of a call is an error. */
export function isFailure({ output }: DemoCall): boolean {
  return typeof output === 'object' && output !== null && 'error' in output && Boolean(output.error)
}

/** Reads the prompt of one step. */
export function readDemoPrompt({ prompt, tools = [], toolChoice }: CallOptions): DemoReading {
  const instructions = prompt.flatMap((message) => (message.role === 'system' ? [message.content] : [])).join('\n')
  const wokenAt = prompt.findLastIndex((message) => message.role === 'user' && !isInterjection(textOf(message)))
  const waking = prompt[wokenAt]
  const since = prompt.slice(wokenAt + 1)
  const texts = [waking, ...since.filter(({ role }) => role === 'user')].flatMap((message) =>
    message === undefined ? [] : [textOf(message)],
  )
  const spaces = readSpaces(instructions)
  return {
    name: readName(instructions),
    spaces,
    events: texts.flatMap((text) => readEvents(text, spaces)),
    recent: texts.flatMap((text) => readMessages(block(text, '(?:RECENT MESSAGES|THIS THREAD)') ?? '')),
    memories: readBullets(block(instructions, '(?:YOUR )?MEMORIES') ?? ''),
    calls: readCalls(since),
    tools: new Map(
      tools.flatMap((tool) => (tool.type === 'function' ? [[tool.name, tool.inputSchema as InputSchema]] : [])),
    ),
    toolChoice: toolChoice?.type === 'tool' ? 'required' : (toolChoice?.type ?? 'auto'),
    role: (ROLE.exec(instructions)?.[1] as DemoRole | undefined) ?? null,
  }
}

/** Matches the sentence in an agent's instructions that contains its role. */
const ROLE = /\(The demo model plays: (forecaster|skeptic|buyer)\.\)/

function readName(instructions: string): string {
  const name =
    /^You are (.+?), an? (?:AI )?agent\b/im.exec(instructions)?.[1] ?? /\bYou are ([^.,\n]+)/i.exec(instructions)?.[1]
  return name?.trim() ?? 'the agent'
}

/** Whether a user message was inserted before a later step of a cycle. */
function isInterjection(text: string): boolean {
  return /^\s*\[(URGENT|INBOX PREVIEW)/.test(text)
}

function textOf(message: PromptMessage): string {
  if (typeof message.content === 'string') return message.content
  return message.content.map((part) => (part.type === 'text' ? part.text : '')).join('\n')
}

/** Returns the text from a heading in capitals up to the next heading, including the rest of the heading's line. */
function block(text: string, heading: string): string | null {
  const start = new RegExp(`^#* ?${heading}\\b[^\\n:]*:?`, 'm').exec(text)
  if (start === null) return null
  const rest = text.slice(start.index + start[0].length)
  const end = /\n#* ?[A-Z][A-Z ]{3,}\b[^\n:"]*:/.exec(rest)
  return end === null ? rest : rest.slice(0, end.index)
}

function readBullets(text: string): string[] {
  return text.split('\n').flatMap((line) => /^\s*[-*]\s+(.+)$/.exec(line)?.[1] ?? [])
}

const SPACE_LINE = /^["“](.*)["”] \(id: ([^)\s]+)\)(.*)$/

function readSpaces(instructions: string): DemoSpace[] {
  return readBullets(block(instructions, '(?:YOUR )?SPACES') ?? '').flatMap((line) => {
    const [, name = '', id = '', rest = ''] = SPACE_LINE.exec(line) ?? []
    if (id === '') return []
    const list = rest.replace(/^.*?Members:\s*/, '')
    const members = [...list.matchAll(/(?:^|,\s*)(.+?) \((human|agent)[^)]*\)/g)].map((match) => ({
      name: unquoted(match[1] as string),
      kind: match[2] as 'human' | 'agent',
    }))
    return [
      {
        id,
        name: unescaped(name),
        active: /\[ACTIVE\]/i.test(rest),
        members: members.filter((member) => member.name !== 'You'),
      },
    ]
  })
}

function readEvents(text: string, spaces: DemoSpace[]): DemoEvent[] {
  const trigger = block(text, 'TRIGGER')
  if (trigger !== null) return [readTrigger(trigger, spaces)]
  return readBullets(text).flatMap((line) => readInboxLine(line) ?? [])
}

/** Matches the sender of a message whose text is not shown. */
const SENDER = /\bmessage from (.+) \((human|agent)\)/i

/**
 * Matches `plan "Report" is due: {"instruction":"…"}`, `service "jira" sent (quoted as data): {…}`, and similar lines.
 */
const CALLER = /\b(plan|service) ["“](.*?)["”][^:\n]*:?\s*([\s\S]*)$/i

function readTrigger(text: string, spaces: DemoSpace[]): DemoEvent {
  const [message] = readMessages(text)
  const around = text.replace(/^\s*\{.*\}\s*$/gm, '')
  const sender = SENDER.exec(around)
  if (message !== undefined || sender !== null) {
    const spaceId = /\bspc_\w+/.exec(around)?.[0] ?? spaces.find(({ active }) => active)?.id ?? null
    const [, from = '', kind] = sender ?? []
    const unseen: DemoMessage = { id: null, from, kind: kind === 'agent' ? 'agent' : 'human', at: null, text: '' }
    return { type: 'message', spaceId, message: message ?? unseen, mentioned: /\bmention(s|ed)\b/i.test(around) }
  }
  const [, type, name, payload] = CALLER.exec(text) ?? []
  const isPlan = type?.toLowerCase() === 'plan'
  return { type: isPlan ? 'plan' : 'service', name: name ?? 'unknown', text: readPayload(payload ?? text) }
}

/** Returns the plan's instruction from the payload. If the payload has none, returns the payload. */
function readPayload(text: string): string {
  try {
    const value = JSON.parse(text)
    if (typeof value === 'string') return value
    if (typeof value?.instruction === 'string') return value.instruction
  } catch {}
  return text.trim()
}

const INBOX_LINE = /^\[(?:PLAN|SERVICE|TOOL_RESULT) |^\[.*\(id: /
const INBOX_MESSAGE = /^\[(.*) \(id: ([^)\s]+)\)(?:, thread on \S+)?\] (.*?) \((human|agent)\): "([\s\S]*)"$/

function readInboxLine(line: string): DemoEvent | null {
  if (!INBOX_LINE.test(line)) return null
  const other = /^\[(PLAN|SERVICE|TOOL_RESULT) (.*?)(?: \(id: [^)]*\))?\] (.*)$/.exec(line)
  if (other !== null) {
    const type = ({ PLAN: 'plan', SERVICE: 'service', TOOL_RESULT: 'toolResult' } as const)[other[1] as 'PLAN']
    return { type, name: other[2] as string, text: other[3] as string }
  }
  const [, , spaceId = '', from = '', kind, text = ''] = INBOX_MESSAGE.exec(line) ?? []
  if (spaceId === '') return null
  const message: DemoMessage = { id: null, from, kind: kind as 'human' | 'agent', at: null, text: unescaped(text) }
  return { type: 'message', spaceId, message, mentioned: false }
}

/** Returns a name without its JSON quotes, if it is quoted. */
function unquoted(name: string): string {
  const [, inside] = /^"(.*)"$/.exec(name) ?? []
  return inside === undefined ? name : unescaped(inside)
}

/** Decodes the inside of a JSON string. Returns other text unchanged. */
function unescaped(text: string): string {
  try {
    return JSON.parse(`"${text}"`)
  } catch {
    return text
  }
}

function readMessages(text: string): DemoMessage[] {
  return text.split('\n').flatMap((line) => readMessage(line.trim()) ?? [])
}

function readMessage(json: string): DemoMessage | null {
  if (!json.startsWith('{')) return null
  try {
    const value = JSON.parse(json) as Record<string, unknown>
    const from = value.from ?? value.sender
    if (typeof from !== 'string' || typeof value.text !== 'string') return null
    return {
      id: typeof value.id === 'string' ? value.id : null,
      from,
      kind: (value.kind ?? value.type) === 'agent' ? 'agent' : 'human',
      at: typeof (value.at ?? value.timestamp) === 'string' ? String(value.at ?? value.timestamp) : null,
      text: value.text,
    }
  } catch {
    return null
  }
}

type AssistantPart = Extract<PromptMessage, { role: 'assistant' }>['content'][number]
type ToolPart = Extract<PromptMessage, { role: 'tool' }>['content'][number]

function readCalls(messages: PromptMessage[]): DemoCall[] {
  const parts = messages.flatMap((message): (AssistantPart | ToolPart)[] =>
    message.role === 'assistant' || message.role === 'tool' ? message.content : [],
  )
  const outputs = new Map(
    parts.flatMap((part) => (part.type === 'tool-result' ? [[part.toolCallId, valueOfOutput(part.output)]] : [])),
  )
  return parts.flatMap((part) => {
    if (part.type !== 'tool-call') return []
    const input = typeof part.input === 'object' && part.input !== null ? part.input : {}
    const output = outputs.get(part.toolCallId)
    return [{ toolName: part.toolName, input: input as Record<string, unknown>, output }]
  })
}

function valueOfOutput(output: ToolResultOutput): unknown {
  if (output.type === 'execution-denied') return { error: { message: output.reason ?? 'It was denied.' } }
  if (output.type === 'error-text' || output.type === 'error-json') return { error: output.value }
  return output.value
}
