import type { InboxEvent, Prisma } from '../generated/prisma/client.ts'
import type { Json, JsonObject } from '../lib/json.ts'
import type { WokenBy } from '../rules/chain.ts'
import { messageOfRow } from '../rules/message.ts'
import type { ClaimedRun } from '../runs/claiming.ts'
import { loadReadableText } from '../runs/readable-calls.ts'

/** A task that started a chain. */
export interface ChainTask {
  quoted: Json
  /** The message that contains the task. The history may already contain this message. */
  messageId: string | null
  /** The confidential space from which the task comes. */
  inConfidenceOf: string | null
}

/**
 * For a run that is called back in a chain, loads the task of the chain's first run, so that the agent can continue.
 * The task comes from a plan, a service or messages. Returns no task for other runs, and no task from a space that the
 * agent has left.
 */
export async function loadTasks(db: Prisma.TransactionClient, run: ClaimedRun): Promise<ChainTask[]> {
  if (run.chainId === null || (run.wokenBy as WokenBy | null)?.type !== 'callback') return []
  const first = await db.run.findFirst({ where: { chainId: run.chainId }, orderBy: { id: 'asc' } })
  if (first === null || first.id === run.id) return []
  const { triggerType, triggerName: name, triggerPayload } = first
  if (triggerType === 'PLAN') return [taskOf({ plan: name, ...(triggerPayload as JsonObject) })]
  if (triggerType === 'SERVICE') return [taskOf({ service: name, payload: triggerPayload as Json })]
  if (triggerType === 'SPACE_MESSAGE') return messageTask(db, run, first.triggerMessageId)
  const events = await db.inboxEvent.findMany({ where: { runId: first.id }, orderBy: { id: 'asc' } })
  return (await Promise.all(events.map((event) => eventTask(db, run, event)))).flat()
}

/**
 * Returns the tasks to include in the run's prompt, without those in its history and those that the confidentiality
 * guard hides.
 */
export function taskToTell(
  tasks: ChainTask[],
  { history, spaces }: { history: { id: string }[]; spaces: { id: string }[] },
): Json {
  const told = tasks
    .filter(({ messageId }) => !history.some(({ id }) => id === messageId))
    .filter(({ inConfidenceOf }) => inConfidenceOf === null || spaces.some(({ id }) => id === inConfidenceOf))
    .map(({ quoted }) => quoted)
  return told.length > 1 ? told : (told[0] ?? null)
}

const taskOf = (quoted: Json): ChainTask => ({ quoted, messageId: null, inConfidenceOf: null })

async function eventTask(
  db: Prisma.TransactionClient,
  run: ClaimedRun,
  { type, payload, messageId }: InboxEvent,
): Promise<ChainTask[]> {
  if (type === 'SPACE_MESSAGE') return messageTask(db, run, messageId)
  const { name, instruction, payload: sent, toolName, result } = payload as JsonObject
  if (type === 'PLAN') return [taskOf({ plan: name ?? null, instruction: instruction ?? null })]
  if (type === 'SERVICE') return [taskOf({ service: name ?? null, payload: sent ?? null })]
  return [taskOf({ tool: toolName ?? null, result: result ?? null })]
}

async function messageTask(
  db: Prisma.TransactionClient,
  run: ClaimedRun,
  messageId: string | null,
): Promise<ChainTask[]> {
  const message = messageId === null ? null : await db.message.findUnique({ where: { id: messageId } })
  if (message === null) return []
  const [row] = await db.$queryRaw<{ space: string; from: string; confidential: boolean }[]>`
    SELECT s.name AS space, e.name AS "from", s.confidential FROM "Membership" m JOIN "Space" s ON s.id = m."spaceId"
    JOIN "Entity" e ON e.id = ${message.senderId} WHERE m."spaceId" = ${message.spaceId} AND m."entityId" = ${run.agentId}`
  if (row === undefined) return []
  const { confidential, ...named } = row
  const quoted = { ...named, text: await loadReadableText(db, messageOfRow(message).parts) }
  return [{ quoted, messageId, inConfidenceOf: confidential ? message.spaceId : null }]
}
