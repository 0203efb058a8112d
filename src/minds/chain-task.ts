import type { InboxEvent, Prisma, Run } from '../generated/prisma/client.ts'
import type { Json, JsonObject } from '../lib/json.ts'
import type { WokenBy } from '../runs/chains.ts'
import { loadReadableText } from '../runs/readable-calls.ts'
import { messageOfRow } from '../spaces/message.ts'

/**
 * For a run that is called back in a chain: what the chain's first run was to do, from a plan, a service, or a message of another
 * space, so that its agent can pick up where it left off. Null for any other run, and for a message of a space to which the agent
 * does not belong; what was said in the space itself is in its history.
 */
export async function loadTask(db: Prisma.TransactionClient, run: Run): Promise<Json> {
  if (run.chainId === null || (run.wokenBy as WokenBy | null)?.type !== 'callback') return null
  const first = await db.run.findFirst({ where: { chainId: run.chainId }, orderBy: { id: 'asc' } })
  if (first === null || first.id === run.id) return null
  const { triggerType, triggerName: name, triggerPayload } = first
  if (triggerType === 'PLAN') return { plan: name, ...(triggerPayload as JsonObject) }
  if (triggerType === 'SERVICE') return { service: name, payload: triggerPayload as Json }
  if (triggerType === 'SPACE_MESSAGE') return messageTask(db, run, first.triggerMessageId)
  const events = await db.inboxEvent.findMany({ where: { runId: first.id }, orderBy: { id: 'asc' } })
  const tasks = await Promise.all(events.map((event) => eventTask(db, run, event)))
  const told = tasks.filter((task) => task !== null)
  return told.length > 1 ? told : (told[0] ?? null)
}

function eventTask(db: Prisma.TransactionClient, run: Run, { type, payload, messageId }: InboxEvent): Promise<Json> {
  if (type === 'SPACE_MESSAGE') return messageTask(db, run, messageId)
  const { name, instruction, payload: sent, toolName, result } = payload as JsonObject
  if (type === 'PLAN') return Promise.resolve({ plan: name ?? null, instruction: instruction ?? null })
  if (type === 'SERVICE') return Promise.resolve({ service: name ?? null, payload: sent ?? null })
  return Promise.resolve({ tool: toolName ?? null, result: result ?? null })
}

async function messageTask(db: Prisma.TransactionClient, run: Run, messageId: string | null): Promise<Json> {
  if (messageId === null) return null
  const message = await db.message.findUnique({ where: { id: messageId } })
  if (message === null || message.spaceId === run.triggerSpaceId) return null
  const [row] = await db.$queryRaw<{ space: string; from: string }[]>`
    SELECT s.name AS space, e.name AS "from" FROM "Membership" m JOIN "Space" s ON s.id = m."spaceId"
    JOIN "Entity" e ON e.id = ${message.senderId} WHERE m."spaceId" = ${message.spaceId} AND m."entityId" = ${run.agentId}`
  return row === undefined ? null : { ...row, text: await loadReadableText(db, messageOfRow(message).parts) }
}
