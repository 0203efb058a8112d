import { type DemoCall, type DemoEvent, type DemoReading, isFailure } from './demo-reading.ts'

// The demo model can send a file, search, answer in a thread, and edit its answer, if a message asks for this. Each
// action needs a built-in tool of the agent.

type Call = Pick<DemoCall, 'toolName' | 'input'>
type MessageEvent = Extract<DemoEvent, { type: 'message' }>

const FILE = /\b(send|write|make|create|give|attach)\b[^.?!\n]{0,40}\bfile\b/i
const SEARCH = /\b(?:search|look)\s+for\s+["“]?([^"”\n.?!]{1,200})/i
const THREAD = /\bin (a|the|this) thread\b/i
const EDIT = /\b(edit|correct|change)\b[^.?!\n]{0,20}\b(your|that) (answer|message|reply)\b/i

const named = (reading: DemoReading, names: readonly string[]) => names.find((name) => reading.tools.has(name))

/** Returns the calls to make before the answer, if a person's message asks for them. */
export function gestureCalls({ message }: MessageEvent, spaceId: string, reading: DemoReading): Call[] {
  if (message.kind === 'agent') return []
  const place = (toolName: string) => (/[A-Z]/.test(toolName) ? { spaceId } : {})
  const sendFile = named(reading, ['send_file', 'sendFile'])
  const search = named(reading, ['search_messages', 'searchMessages'])
  const query = SEARCH.exec(message.text)?.[1]?.trim() ?? ''
  const calls: Call[] = []
  if (sendFile !== undefined && FILE.test(message.text)) {
    const text = `A note from ${reading.name}, written by the demo model.\n\n${message.from} asked: ${message.text}\n`
    calls.push({ toolName: sendFile, input: { ...place(sendFile), name: 'note.txt', mediaType: 'text/plain', text } })
  }
  if (search !== undefined && query !== '') calls.push({ toolName: search, input: { query, limit: 5 } })
  return calls
}

/** Returns the `replyTo` for the answer if the message asks for an answer in a thread. */
export function threadOfAnswer({ message }: MessageEvent): { replyTo?: string } {
  const isAsked = message.kind === 'human' && THREAD.test(message.text)
  return isAsked && message.id !== null ? { replyTo: message.id } : {}
}

/** Returns the call that edits the answer after it was sent; null if the message does not ask for an edit. */
export function editOfAnswer(event: DemoEvent, reading: DemoReading): Call | null {
  const edit = named(reading, ['edit_message', 'editMessage'])
  const isAsked = event.type === 'message' && event.message.kind === 'human' && EDIT.test(event.message.text)
  if (edit === undefined || !isAsked || reading.calls.some(({ toolName }) => toolName === edit)) return null
  const sent = reading.calls.findLast(({ toolName }) => toolName === 'send_message' || toolName === 'sendSpaceMessage')
  const messageId = (sent?.output as { messageId?: unknown } | null | undefined)?.messageId
  if (sent === undefined || isFailure(sent) || typeof messageId !== 'string') return null
  return { toolName: edit, input: { messageId, text: `${String(sent.input.text)} (I have edited this message.)` } }
}

/** Returns a sentence about each search and each file. */
export function resultsOfGestures({ calls }: Pick<DemoReading, 'calls'>): string {
  return calls.flatMap(sentenceOf).join(' ')
}

function sentenceOf(call: DemoCall): string[] {
  const { toolName, input, output } = call
  if (output === undefined) return []
  if (/^send_?file$/i.test(toolName))
    return [isFailure(call) ? 'I could not send a file.' : `I sent the file ${String(input.name)}.`]
  if (!/^search_?messages$/i.test(toolName)) return []
  if (isFailure(call)) return ['I could not search.']
  const { found } = output as { found?: unknown }
  if (!Array.isArray(found)) return []
  return [`I found ${found.length} ${found.length === 1 ? 'message' : 'messages'} with these words.`]
}
