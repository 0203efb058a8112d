import { spaceTopic } from '../broker/topics.ts'
import { confidentialAmong } from '../confidentiality/marks.ts'
import { Prisma } from '../generated/prisma/client.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { messageOfRow } from '../rules/message.ts'
import { createCallPublisher } from '../runs/call-publisher.ts'
import { loadReadableText } from '../runs/readable-calls.ts'
import type { Reply } from '../spaces/reply-search.ts'
import { showsWaitingCallSql } from '../stores/call-store.ts'
import { markAnswered, markAnsweredAfterWaking } from '../stores/outcome-store.ts'
import type { Lifecycle } from './lifecycle.ts'
import type { Post } from './post.ts'

/** A call that waits for a reply. */
export interface WaitingCall {
  callId: string
  runId: string
  agentId: string
  /** The message that contains the question. */
  messageId: string
  spaceId: string
}

export interface SettledWait {
  reply: Reply | null
  /** The confidential spaces from which the reply comes. */
  label: string[]
  afterCommit(): Promise<void>
}

/** Manages the time limits and the results of calls that wait for a reply. */
export interface ReplyWaits {
  /** Returns the remaining time of a wait when its run resumes, in milliseconds by the clock of the database. */
  leftMs(callId: string): Promise<number>
  /**
   * Determines the reply and finishes the message that asked for it, in the transaction that settles the call.
   * `found` is the reply that a search has found, or null if the wait timed out. If the call row already contains a
   * reply from a newer message, keeps that reply.
   */
  settle(tx: Tx, call: WaitingCall, found: Reply | null): Promise<SettledWait>
}

/** The flows that `settle` calls at the end of a wait. */
export interface ReplyWaitParts {
  posting: Pick<Post, 'finishAnswered'>
  lifecycle: Pick<Lifecycle, 'stop'>
}

export function createReplyWaits(platform: Platform, { posting, lifecycle }: ReplyWaitParts): ReplyWaits {
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
      // A reply that was posted while the question was still streaming has also started a run. That run must be
      // stopped.
      const unknowing =
        isFound && !found.mentionsWaiter
          ? await markAnsweredAfterWaking(tx, { ...call, messageId: found.messageId })
          : null
      const isNoted =
        isFound && (unknowing !== null || (await markAnswered(tx, { ...call, messageId: found.messageId })))
      const reply = posted ?? (found === null ? null : await withText(tx, found))
      const finished = await finishQuestion(tx, posting, call)
      return {
        reply,
        label: row?.label ?? [],
        async afterCommit() {
          await finished?.afterCommit()
          await callPublisher.settled({ ...call, id: call.callId })
          if (isNoted && reply !== null)
            await log.append(spaceTopic(call.spaceId), { type: 'MessageUpdated', messageId: reply.messageId })
          if (unknowing !== null) await lifecycle.stop(unknowing, { cascade: false, byId: call.agentId })
        },
      }
    },
  }
}

/**
 * Returns SQL for the confidential spaces from which the reply comes, including the space in which the reply was
 * posted. Uses the reply that is stored with the call or, if there is none, the reply that was found.
 */
function labelOfReply({ spaceId }: WaitingCall, found: Reply | null): Prisma.Sql {
  const posted = Prisma.sql`ARRAY(SELECT jsonb_array_elements_text(coalesce(state#>'{reply,marks}', '[]')))`
  return confidentialAmong(Prisma.sql`${posted} || ${[spaceId, ...(found?.marks ?? [])]}::text[]`)
}

/**
 * Returns the reply with its text. If the message has no text of its own, uses the text of the tool calls that it
 * shows.
 */
async function withText(tx: Tx, reply: Reply): Promise<Reply> {
  if (reply.text !== '') return reply
  const row = await tx.message.findUniqueOrThrow({ where: { id: reply.messageId } })
  return { ...reply, text: await loadReadableText(tx, messageOfRow(row).parts) }
}

async function finishQuestion(tx: Tx, posting: ReplyWaitParts['posting'], { callId, messageId }: WaitingCall) {
  const [row] = await tx.$queryRaw<{ waits: boolean }[]>`SELECT ${showsWaitingCallSql(messageId, callId)} AS waits`
  return row?.waits === true ? null : posting.finishAnswered(tx, messageId)
}
