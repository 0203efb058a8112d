import { confidentialAmong, marksOf } from '../confidence/marks.ts'
import { type EntityKind, Prisma } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { spaceTopic } from '../realtime/topics.ts'
import { createCallPublisher } from '../runs/call-publisher.ts'
import { loadReadableText } from '../runs/readable-calls.ts'
import type { ReplyWaits, WaitingCall, WaitState } from '../runs/reply-waits.ts'
import { replied, showsWaiting } from '../runs/tool-calls.ts'
import { type Message, messageOfRow } from '../spaces/message.ts'
import { isMet, type Reply, type WaitCondition } from '../spaces/reply-search.ts'

interface OpenWait {
  id: string
  agentId: string
  runId: string
  wait: WaitState['wait']
  conditions: WaitCondition[]
}

/** A finished message with all that agents read of it. */
export interface WholeMessage {
  message: Message
  sender: { name: string; kind: EntityKind }
  content: string
}

/**
 * Finds the waits that a message answers, in the transaction that posts it.
 * @returns by agent, the waiting run, for agents that the message therefore does not wake; a
 * mentioned agent is answered and woken
 */
export async function answerWaits(tx: Tx, whole: WholeMessage): Promise<Map<string, string>> {
  const { message } = whole
  const met = (await openWaits(tx, message)).flatMap((wait) => {
    const reply = replyTo(wait, whole)
    return reply === null ? [] : [{ id: wait.id, reply, agentId: wait.agentId, runId: wait.runId }]
  })
  if (met.length > 0) await replied(tx, met)
  // An earlier part of the message may have answered already.
  const before = message.runId === null ? [] : await answeredBefore(tx, message.id)
  const answered = new Map([...before, ...met].map(({ agentId, runId }) => [agentId, runId ?? '']))
  if (message.mentionedAgentId !== null) answered.delete(message.mentionedAgentId)
  return answered
}

type InSpace = Pick<Message, 'id' | 'spaceId' | 'senderId' | 'runId'>

/**
 * Condition on a call: it waits for a reply in the message's space, from somebody other than
 * itself, and its agent is still a member.
 */
const mayBeAnswered = ({ spaceId, senderId }: InSpace) => Prisma.sql`
  "spaceId" = ${spaceId} AND status = 'RUNNING' AND state->'wait' IS NOT NULL AND state->'reply' IS NULL
  AND "agentId" <> ${senderId}
  AND EXISTS (SELECT 1 FROM "Membership" b WHERE b."spaceId" = "ToolCall"."spaceId" AND b."entityId" = "ToolCall"."agentId")`

/** Locks in a fixed order, so that a call is answered once. */
function openWaits(tx: Tx, message: InSpace): Promise<OpenWait[]> {
  return tx.$queryRaw<OpenWait[]>`
    SELECT id, "agentId", "runId", state->'wait' AS wait, input#>'{wait,for}' AS conditions FROM "ToolCall"
    WHERE ${mayBeAnswered(message)} ORDER BY id FOR NO KEY UPDATE`
}

/** Condition: the message answers no wait, and no earlier part of it has answered one. */
export function isNoReply(message: InSpace): Prisma.Sql {
  const before = Prisma.sql`NOT EXISTS (SELECT 1 FROM "Outcome" WHERE "messageId" = ${message.id} AND kind = 'ANSWERED')`
  const none = Prisma.sql`NOT EXISTS (SELECT 1 FROM "ToolCall" WHERE ${mayBeAnswered(message)})`
  return message.runId === null ? none : Prisma.sql`${none} AND ${before}`
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
    mentionsWaiter: message.mentionedAgentId === agentId,
    marks: marksOf(message),
  }
}

export interface ReplyWaitsHooks {
  /** Finishes a message whose calls no longer wait, and routes it unless it was routed. */
  finishAnswered(tx: Tx, messageId: string): Promise<{ afterCommit(): Promise<void> }>
  /** Stops a run on behalf of its own agent. */
  stop(runId: string, options: { cascade: boolean; byId: string }): Promise<unknown>
}

export function createReplyWaits(platform: Platform, hooks: ReplyWaitsHooks): ReplyWaits {
  const { db, log } = platform
  const callPublisher = createCallPublisher(platform)

  return {
    async leftMs(callId) {
      const [row] = await db.query<{ leftMs: number }>(Prisma.sql`
        SELECT (extract(epoch FROM "expiresAt" - now()) * 1000)::float8 AS "leftMs" FROM "ToolCall" WHERE id = ${callId}`)
      return row?.leftMs ?? 0
    },
    async settle(tx, call, found) {
      const [row] = await tx.$queryRaw<{ reply: Reply | null; label: string[] }[]>`
        SELECT state->'reply' AS reply, ${labelOfReply(call, found)} AS label FROM "ToolCall" WHERE id = ${call.callId} FOR NO KEY UPDATE`
      const posted = row?.reply ?? null
      const isFound = posted === null && found !== null
      const unknowing = isFound && !found.mentionsWaiter ? await wokenBefore(tx, call, found.messageId) : null
      const isNoted = isFound && (unknowing !== null || (await noteAnswered(tx, call, found.messageId)))
      const reply = posted ?? (found === null ? null : await withText(tx, found))
      const finished = await finishQuestion(tx, hooks, call)
      return {
        reply,
        label: row?.label ?? [],
        async afterCommit() {
          await finished?.afterCommit()
          await callPublisher.settled({ ...call, id: call.callId })
          if (isNoted && reply !== null)
            await log.append(spaceTopic(call.spaceId), { type: 'MessageUpdated', messageId: reply.messageId })
          if (unknowing !== null) await hooks.stop(unknowing, { cascade: false, byId: call.agentId })
        },
      }
    },
  }
}

/**
 * The confidential spaces from which the reply comes, its own space included: of the reply stored
 * with the call, else of the found one.
 */
function labelOfReply({ spaceId }: WaitingCall, found: Reply | null): Prisma.Sql {
  const posted = Prisma.sql`ARRAY(SELECT jsonb_array_elements_text(coalesce(state#>'{reply,marks}', '[]')))`
  return confidentialAmong(Prisma.sql`${posted} || ${[spaceId, ...(found?.marks ?? [])]}::text[]`)
}

/**
 * Records the outcome ANSWERED if a message is answered by its first part before routing. Keeps the
 * outcome of a message that was routed before the wait began.
 */
async function noteAnswered(tx: Tx, { agentId, runId }: WaitingCall, messageId: string): Promise<boolean> {
  const count = await tx.$executeRaw`
    INSERT INTO "Outcome" ("messageId", "agentId", kind, reason, "runId")
    VALUES (${messageId}, ${agentId}, 'ANSWERED', ${ANSWERED}, ${runId}) ON CONFLICT DO NOTHING`
  return count > 0
}

/**
 * Handles a reply that was posted while the question was still streaming: the wait was not
 * recorded yet, so it woke a run of the agent. Sets its outcome to ANSWERED.
 * @returns that run if it is active and has posted nothing: it must be stopped
 */
async function wokenBefore(tx: Tx, { agentId, runId }: WaitingCall, messageId: string): Promise<string | null> {
  const [woken] = await tx.$queryRaw<{ id: string }[]>`
    UPDATE "Outcome" o SET kind = 'ANSWERED', reason = ${ANSWERED}, "runId" = ${runId}
    FROM "Run" r WHERE o."messageId" = ${messageId} AND o."agentId" = ${agentId} AND o.kind = 'RUN' AND r.id = o."runId"
      AND r.id <> ${runId} AND r.status IN ('QUEUED', 'RUNNING', 'WAITING_TOOL')
      AND NOT EXISTS (SELECT 1 FROM "RunSpace" s WHERE s."runId" = r.id)
    RETURNING r.id`
  return woken?.id ?? null
}

export const ANSWERED = 'The message answered a waiting run of this agent.'

/** Uses what the tools show as text if a message only shows tools. */
async function withText(tx: Tx, reply: Reply): Promise<Reply> {
  if (reply.text !== '') return reply
  const row = await tx.message.findUniqueOrThrow({ where: { id: reply.messageId } })
  return { ...reply, text: await loadReadableText(tx, messageOfRow(row).parts) }
}

async function finishQuestion(tx: Tx, hooks: ReplyWaitsHooks, { callId, messageId }: WaitingCall) {
  const [row] = await tx.$queryRaw<{ waits: boolean }[]>`SELECT ${showsWaiting(messageId, callId)} AS waits`
  return row?.waits === true ? null : hooks.finishAnswered(tx, messageId)
}
