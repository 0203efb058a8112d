import type { Tx } from '../platform/db.ts'
import type { MessagePart } from '../rules/message.ts'
import { readableText } from '../spaces/readable-text.ts'

/** Loads the calls of a message. Returns the message's text as agents read it. */
export async function loadReadableText(tx: Tx, parts: readonly MessagePart[]): Promise<string> {
  const ids = parts.flatMap((part) => (part.type === 'tool' ? [part.toolCallId] : []))
  if (ids.length === 0) return readableText(parts, [])
  const calls = await tx.toolCall.findMany({
    where: { id: { in: ids } },
    select: { id: true, toolName: true, status: true, output: true, approval: true },
  })
  return readableText(
    parts,
    calls.map(({ toolName: name, approval, output, ...call }) => ({
      ...call,
      name,
      output: (approval as { hidesOutput?: boolean } | null)?.hidesOutput === true ? null : output,
    })),
  )
}
