import type { MessagePart } from './message.ts'

/** A tool call that a message shows, as far as agents read of it. */
export interface ReadableCall {
  id: string
  name: string
  status: string
  output: unknown
}

const LONGEST_OUTPUT = 2000

/** What agents read of a message: its texts, and of each call that it shows the tool, how it stands and what came of it. */
export function readableText(parts: readonly MessagePart[], calls: readonly ReadableCall[]): string {
  const described = (toolCallId: string) => describe(calls.find(({ id }) => id === toolCallId))
  return parts.map((part) => (part.type === 'text' ? part.text : described(part.toolCallId))).join('\n\n')
}

function describe(call: ReadableCall | undefined): string {
  if (call === undefined) return '[tool call]'
  const output = call.output == null ? '' : ` → ${JSON.stringify(call.output).slice(0, LONGEST_OUTPUT)}`
  return `[${call.name}: ${call.status.toLowerCase()}${output}]`
}
