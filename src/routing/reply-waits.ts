import type { EntityKind } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { spaceTopic } from '../realtime/topics.ts'
import { createCallNews } from '../runs/call-news.ts'
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

/** A message that is whole now, with all that agents read of it. */
export interface WholeMessage {
  message: Message
  sender: { name: string; kind: EntityKind }
  content: string
}

/**
 * The waits that a message answers, decided in the transaction that posts it. @returns by agent, the run that waited, for those
 * whom it therefore does not wake: whoever is mentioned is answered and woken.
 */
export async function answerWaits(tx: Tx, whole: WholeMessage): Promise<Map<string, string>> {
  const { message } = whole
  const met = (await openWaits(tx, message)).flatMap((wait) => {
    const reply = replyTo(wait, whole)
    return reply === null ? [] : [{ id: wait.id, reply, agentId: wait.agentId, runId: wait.runId }]
  })
  if (met.length > 0) await replied(tx, met)
  // A part of it that was whole before may have answered already.
  const before = message.runId === null ? [] : await answeredBefore(tx, message.id)
  const answered = new Map([...before, ...met].map(({ agentId, runId }) => [agentId, runId ?? '']))
  if (message.mentionedAgentId !== null) answered.delete(message.mentionedAgentId)
  return answered
}

/** Locked, in an order that is the same for all: a call is answered once. */
function openWaits(tx: Tx, { spaceId, senderId }: Message): Promise<OpenWait[]> {
  return tx.$queryRaw<OpenWait[]>`
    SELECT id, "agentId", "runId", state->'wait' AS wait, input#>'{wait,for}' AS conditions FROM "ToolCall"
    WHERE "spaceId" = ${spaceId} AND status = 'RUNNING' AND state->'wait' IS NOT NULL AND state->'reply' IS NULL
      AND "agentId" <> ${senderId}
    ORDER BY id FOR NO KEY UPDATE`
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
  }
}

export interface ReplyWaitsHooks {
  /** A message whose calls wait no more: it is whole, and routed unless it was. */
  finishAnswered(tx: Tx, messageId: string): Promise<{ afterCommit(): Promise<void> }>
}

export function createReplyWaits(platform: Platform, hooks: ReplyWaitsHooks): ReplyWaits {
  const { log } = platform
  const callNews = createCallNews(platform)

  return {
    async settle(tx, call, found) {
      const [row] = await tx.$queryRaw<{ reply: Reply | null }[]>`
        SELECT state->'reply' AS reply FROM "ToolCall" WHERE id = ${call.callId} FOR NO KEY UPDATE`
      const posted = row?.reply ?? null
      const isNoted = posted === null && found !== null && (await noteAnswered(tx, call, found.messageId))
      const reply = posted ?? (found === null ? null : await withText(tx, found))
      const finished = await finishQuestion(tx, hooks, call)
      return {
        reply,
        async afterCommit() {
          await finished?.afterCommit()
          await callNews.settled({ ...call, id: call.callId })
          if (isNoted && reply !== null)
            await log.append(spaceTopic(call.spaceId), { type: 'MessageUpdated', messageId: reply.messageId })
        },
      }
    },
  }
}

/** Before it is routed, a message whose first part has answered; one that was routed before the wait began has its outcome. */
async function noteAnswered(tx: Tx, { agentId, runId }: WaitingCall, messageId: string): Promise<boolean> {
  const count = await tx.$executeRaw`
    INSERT INTO "Outcome" ("messageId", "agentId", kind, reason, "runId")
    VALUES (${messageId}, ${agentId}, 'ANSWERED', ${ANSWERED}, ${runId}) ON CONFLICT DO NOTHING`
  return count > 0
}

export const ANSWERED = 'It answered what a run of this agent was waiting for.'

/** What only shows tools says what they show. */
async function withText(tx: Tx, reply: Reply): Promise<Reply> {
  if (reply.text !== '') return reply
  const row = await tx.message.findUniqueOrThrow({ where: { id: reply.messageId } })
  return { ...reply, text: await loadReadableText(tx, messageOfRow(row).parts) }
}

async function finishQuestion(tx: Tx, hooks: ReplyWaitsHooks, { callId, messageId }: WaitingCall) {
  const [row] = await tx.$queryRaw<{ waits: boolean }[]>`SELECT ${showsWaiting(messageId, callId)} AS waits`
  return row?.waits === true ? null : hooks.finishAnswered(tx, messageId)
}
