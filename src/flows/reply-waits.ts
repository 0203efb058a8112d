import { marksOf } from '../confidentiality/marks.ts'
import { type EntityKind, Prisma } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'
import { type Message, mentionsOf } from '../rules/message.ts'
import { isMet, type Reply, type WaitCondition } from '../spaces/reply-search.ts'
import { storeReplies } from '../stores/call-store.ts'

/** The state of a call that waits for a reply. Contains only the fields that other modules use. */
export interface WaitState {
  /**
   * Describes the wait. A reply is a later message in the space, or a later part of a message that was unfinished
   * when the wait began.
   */
  wait: {
    messageId: string
    /**
     * The thread of the question, in which the reply must be posted. Absent or null if the question is outside of
     * threads.
     */
    threadRootId?: string | null
    afterSeq: number
    underWay: Record<string, number>
    /** Whether a human's message can be the reply. */
    asksPeople: boolean
  }
  /** The reply; absent until it arrives. */
  reply?: Reply
}

interface OpenWait {
  id: string
  agentId: string
  runId: string
  wait: WaitState['wait']
  conditions: WaitCondition[]
}

/** A finished message, with its full text as agents read it. */
export interface WholeMessage {
  message: Message
  sender: { name: string; kind: EntityKind }
  content: string
}

/**
 * Settles the waits that a message answers, in the transaction that posts the message. Returns the waiting runs by
 * agent. The message does not wake these agents, because their runs receive it as the reply. Omits mentioned agents,
 * which are woken as well.
 */
export async function answerWaits(tx: Tx, whole: WholeMessage): Promise<Map<string, string>> {
  const { message } = whole
  const met = (await openWaits(tx, message)).flatMap((wait) => {
    const reply = replyTo(wait, whole)
    return reply === null ? [] : [{ id: wait.id, reply, agentId: wait.agentId, runId: wait.runId }]
  })
  if (met.length > 0) await storeReplies(tx, met)
  // An earlier part of this message may already have answered the wait.
  const before = message.runId === null ? [] : await answeredBefore(tx, message.id)
  const answered = new Map([...before, ...met].map(({ agentId, runId }) => [agentId, runId ?? '']))
  for (const id of mentionsOf(message)) answered.delete(id)
  return answered
}

type InSpace = Pick<Message, 'id' | 'spaceId' | 'senderId' | 'runId' | 'threadRootId'>

/**
 * SQL condition on a call: the call waits for a reply in the message's space and thread (`isWhereAsked`), its agent
 * did not send the message, and its agent is still a member.
 */
const mayBeAnswered = ({ spaceId, senderId, threadRootId }: InSpace) => Prisma.sql`
  "spaceId" = ${spaceId} AND status = 'RUNNING' AND state->'wait' IS NOT NULL AND state->'reply' IS NULL
  AND "agentId" <> ${senderId}
  AND (state#>>'{wait,threadRootId}' IS NOT DISTINCT FROM ${threadRootId} OR state#>>'{wait,messageId}' = ${threadRootId})
  AND EXISTS (SELECT 1 FROM "Membership" b WHERE b."spaceId" = "ToolCall"."spaceId" AND b."entityId" = "ToolCall"."agentId")`

/** Locks the waiting calls in a fixed order, so that each call is answered only once. */
function openWaits(tx: Tx, message: InSpace): Promise<OpenWait[]> {
  return tx.$queryRaw<OpenWait[]>`
    SELECT id, "agentId", "runId", state->'wait' AS wait, input#>'{wait,for}' AS conditions FROM "ToolCall"
    WHERE ${mayBeAnswered(message)} ORDER BY id FOR NO KEY UPDATE`
}

/** SQL condition: the message answers no wait, and no earlier part of it has answered one. */
export function isNoReply(message: InSpace): Prisma.Sql {
  const before = Prisma.sql`NOT EXISTS (SELECT 1 FROM "Outcome" WHERE "messageId" = ${message.id} AND kind = 'ANSWERED')`
  const none = Prisma.sql`NOT EXISTS (SELECT 1 FROM "ToolCall" WHERE ${mayBeAnswered(message)})`
  return message.runId === null ? none : Prisma.sql`${none} AND ${before}`
}

/** Returns the waiting runs that a new message of a human would answer, by agent. Locks nothing. */
export async function readAnswerable(
  tx: Tx,
  { spaceId, senderId, threadRootId }: Pick<Message, 'spaceId' | 'senderId' | 'threadRootId'>,
): Promise<Map<string, string>> {
  const waits = await tx.$queryRaw<Omit<OpenWait, 'wait'>[]>`
    SELECT id, "agentId", "runId", input#>'{wait,for}' AS conditions FROM "ToolCall"
    WHERE ${mayBeAnswered({ id: '', spaceId, senderId, threadRootId, runId: null })}`
  const met = waits.filter(({ conditions }) => conditions.some((one) => isMet(one, { senderId, kind: 'HUMAN' })))
  return new Map(met.map(({ agentId, runId }) => [agentId, runId]))
}

function answeredBefore(tx: Tx, messageId: string): Promise<{ agentId: string; runId: string | null }[]> {
  return tx.outcome.findMany({ where: { messageId, kind: 'ANSWERED' }, select: { agentId: true, runId: true } })
}

function replyTo({ wait, conditions, agentId }: OpenWait, { message, sender, content }: WholeMessage): Reply | null {
  const { id: messageId, senderId, seq } = message
  const wholeBefore = wait.underWay[messageId]
  if (wholeBefore === undefined && seq <= wait.afterSeq) return null
  const parts = message.parts.slice(wholeBefore ?? 0)
  if (parts.length === 0 || !conditions.some((one) => isMet(one, { senderId, kind: sender.kind }))) return null
  const text = parts.find((part) => part.type === 'text')?.text ?? content
  return {
    messageId,
    text,
    entityId: senderId,
    entityName: sender.name,
    entityType: sender.kind === 'AGENT' ? 'agent' : 'human',
    mentionsWaiter: mentionsOf(message).includes(agentId),
    marks: marksOf(message),
  }
}
