import { cut } from '../lib/json.ts'
import type { FilePart, MessagePart } from '../rules/message.ts'
import { LONGEST_OUTPUT } from '../stores/call-store.ts'

/** A tool call in a message, in the form in which agents read it. */
export interface ReadableCall {
  id: string
  name: string
  status: string
  /**
   * The output; null if there is none or if it is too long. If it is too long, `outputStart` contains the beginning of
   * its JSON.
   */
  output: unknown
  outputStart?: string | null
}

/** Renders a message for agents: its texts and, for each call, the tool, the status and the output. */
export function readableText(parts: readonly MessagePart[], calls: readonly ReadableCall[]): string {
  const described = (toolCallId: string) => describe(calls.find(({ id }) => id === toolCallId))
  return parts
    .map((part) => {
      if (part.type === 'text') return part.text
      return part.type === 'tool' ? described(part.toolCallId) : describeFile(part)
    })
    .join('\n\n')
}

/** Renders a file for agents: its name, its type, and the id with which an agent can read the file. */
export function describeFile({ name, mediaType, fileId }: Omit<FilePart, 'type'>): string {
  return `[file ${JSON.stringify(name)}, ${mediaType}, ${fileId}]`
}

function describe(call: ReadableCall | undefined): string {
  if (call === undefined) return '[tool call]'
  const output = call.outputStart ?? (call.output == null ? '' : JSON.stringify(call.output))
  return `[${call.name}: ${call.status.toLowerCase()}${output === '' ? '' : ` → ${cut(output, LONGEST_OUTPUT)}`}]`
}
