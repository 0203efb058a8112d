import { Prisma } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'
import type { MessagePart } from '../spaces/message.ts'
import { readableText } from '../spaces/readable-text.ts'

/** A subquery: the calls that a message shows, as a JSON array of ReadableCall. */
export function shownCalls(messageId: Prisma.Sql): Prisma.Sql {
  return Prisma.sql`
    SELECT jsonb_agg(jsonb_build_object('id', c.id, 'name', c."toolName", 'status', c.status, 'output', c.output))
    FROM "ToolCall" c WHERE c."messageId" = ${messageId}`
}

/** What agents read of a message whose calls are not at hand. */
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
