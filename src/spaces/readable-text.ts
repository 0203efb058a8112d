import type { Tx } from '../platform/db.ts'
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

/** The same of a message whose calls are not at hand. */
export async function loadReadableText(tx: Tx, parts: readonly MessagePart[]): Promise<string> {
  const ids = parts.flatMap((part) => (part.type === 'tool' ? [part.toolCallId] : []))
  if (ids.length === 0) return readableText(parts, [])
  const calls = await tx.toolCall.findMany({
    where: { id: { in: ids } },
    select: { id: true, toolName: true, status: true, output: true },
  })
  return readableText(
    parts,
    calls.map(({ toolName: name, ...call }) => ({ ...call, name })),
  )
}
