import { Prisma } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'
import type { MessagePart } from '../spaces/message.ts'
import { LONGEST_OUTPUT, readableText } from '../spaces/readable-text.ts'

/** The output of a tool that is visible only because it needs approval is private to its run. */
const SHOWS_OUTPUT = Prisma.sql`(c.approval->>'hidesOutput')::boolean IS NOT TRUE`

/** Subquery: the calls that a message shows, as a JSON array of ReadableCall; long outputs are truncated. */
export function shownCalls(messageId: Prisma.Sql): Prisma.Sql {
  return Prisma.sql`
    SELECT jsonb_agg(jsonb_build_object('id', c.id, 'name', c."toolName", 'status', c.status,
      'output', CASE WHEN ${SHOWS_OUTPUT} AND length(c.output::text) <= ${2 * LONGEST_OUTPUT} THEN c.output END,
      'outputStart', CASE WHEN ${SHOWS_OUTPUT} AND length(c.output::text) > ${2 * LONGEST_OUTPUT} THEN left(c.output::text, ${LONGEST_OUTPUT}) END))
    FROM "ToolCall" c WHERE c."messageId" = ${messageId}`
}

/** Returns what agents read of a message, loading its calls. */
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
