import { cut } from '../lib/json.ts'
import type { MessagePart } from './message.ts'

/** A tool call that a message shows, as far as agents read of it. */
export interface ReadableCall {
  id: string
  name: string
  status: string
  /** Null also for one that is too long; then `outputStart` is the beginning of its JSON. */
  output: unknown
  outputStart?: string | null
}

/** Of what came of a call, in characters of JSON. */
export const LONGEST_OUTPUT = 2000

/** What agents read of a message: its texts, and of each call that it shows the tool, how it stands and what came of it. */
export function readableText(parts: readonly MessagePart[], calls: readonly ReadableCall[]): string {
  const described = (toolCallId: string) => describe(calls.find(({ id }) => id === toolCallId))
  return parts.map((part) => (part.type === 'text' ? part.text : described(part.toolCallId))).join('\n\n')
}

function describe(call: ReadableCall | undefined): string {
  if (call === undefined) return '[tool call]'
  const output = call.outputStart ?? (call.output == null ? '' : JSON.stringify(call.output))
  return `[${call.name}: ${call.status.toLowerCase()}${output === '' ? '' : ` → ${cut(output, LONGEST_OUTPUT)}`}]`
}
