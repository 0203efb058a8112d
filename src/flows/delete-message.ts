import type { Viewer } from '../access/viewer.ts'
import { Prisma } from '../generated/prisma/client.ts'
import { type BoundJob, bindJob } from '../jobs/job.ts'
import { DELETE_COPY } from '../jobs/queues.ts'
import { ConflictError, ForbiddenError } from '../lib/errors.ts'
import type { JsonObject } from '../lib/json.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import type { Message } from '../rules/message.ts'
import { faultOfDeletion } from '../rules/message-changes.ts'
import { isAdmin } from '../rules/permissions.ts'
import { createMessagePublisher } from '../spaces/message-publisher.ts'
import { describeFile } from '../spaces/readable-text.ts'
import { deleteCallsOfMessagesSql, forgetReadFiles, hideCallsOfMessages } from '../stores/call-store.ts'
import { insertDeletions, insertDeletionsOfCopies } from '../stores/deletion-store.ts'
import { deleteFilesOfMessages, filesOfMessages, textsOfFiles } from '../stores/file-store.ts'
import { lockCopiesOfMessage } from '../stores/fork-store.ts'
import { dropWaiting, readersOf, tellChange } from '../stores/inbox-store.ts'
import { clearMessages, lockMessage, versionsOf } from '../stores/message-store.ts'
import type { DerivedTexts } from './derived-texts.ts'
import { endEvents } from './end-events.ts'
import { type ChangingRun, checkSender, lockReached, lockVisible, type ReachedMessage } from './message-access.ts'
import { loadMessageTrigger } from './wake.ts'

/** Deletes the content of messages. Their sequence numbers remain. */
export interface MessageDeletions {
  /**
   * Deletes a message. Only its sender and admins may do this. Returns once the text has also been removed from
   * prompts and journals, or after a few seconds. If text remains then, a sweep removes it later.
   * @throws NotFoundError, ForbiddenError, ConflictError
   */
  deleteMessage(viewer: Viewer, input: { messageId: string }): Promise<Message>
  /**
   * Deletes a message that a run's agent has posted, in the transaction of a tool call.
   * @throws the same errors as `deleteMessage`
   */
  deleteOwn(tx: Tx, run: ChangingRun, message: ReachedMessage): Promise<{ afterCommit(): Promise<void> }>
  /** The job that finishes the deletion of a message's copy in a copied space. */
  copyDeletion: BoundJob
}

interface AfterCommit {
  afterCommit(): Promise<void>
}

export function createMessageDeletions(
  platform: Platform,
  { derivedTexts }: { derivedTexts: Pick<DerivedTexts, 'forget'> },
): MessageDeletions {
  const { db, jobs } = platform
  const publisher = createMessagePublisher(platform)

  async function remove(tx: Tx, message: Message): Promise<AfterCommit & { deleted: Message }> {
    const fault = faultOfDeletion(message)
    if (fault !== null) throw new ConflictError(fault)
    const { deleted, texts } = await clear(tx, message)
    const told = await tellAgents(tx, message)
    await hideCopies(tx, message, texts)
    return {
      deleted,
      async afterCommit() {
        await publisher.deleted(message)
        await told.afterCommit()
        await derivedTexts.forget(message.id)
      },
    }
  }

  /**
   * Drops the deleted message from the inboxes in which it is waiting, and notifies persistent agents that have read
   * it.
   */
  async function tellAgents(tx: Tx, message: Message): Promise<AfterCommit> {
    const { id: messageId, spaceId } = message
    const [readerIds, payload] = [await readersOf(tx, messageId), await noticeOf(tx, message)]
    const ended = await endEvents(tx, platform, { events: await dropWaiting(tx, messageId), reason: DROPPED })
    const { rootId, depth, places, label, askers } = message
    const provenance = { places: [...new Set([...places, spaceId])].sort(), label, askers }
    await tellChange(tx, {
      messageId,
      number: LAST,
      spaceId,
      payload,
      rootId,
      depth,
      agentIds: readerIds,
      ...provenance,
    })
    return ended
  }

  /**
   * Hides the message in all copies of its space, so that nobody sees it after the commit. Uses a few statements that
   * do not read the content, except for copies whose text a repeated run has continued. One job per copy does the
   * rest.
   * @param texts the texts recorded by the deletion of the message
   */
  async function hideCopies(tx: Tx, { id, spaceId, seq }: Message, texts: readonly string[]): Promise<void> {
    const copies = await lockCopiesOfMessage(tx, { spaceId, seq })
    if (copies.length === 0) return
    const [same, continued] = [
      copies.filter(({ runId }) => runId === null),
      copies.filter(({ runId }) => runId !== null),
    ]
    const ids = same.map(({ id: copyId }) => copyId)
    await insertDeletionsOfCopies(tx, { ids, ofId: id, texts })
    await removeContent(tx, ids)
    for (const { id: copyId } of continued) {
      const copy = await lockMessage(tx, copyId)
      if (copy !== null && faultOfDeletion(copy) === null) await clear(tx, copy)
    }
    const tasks = copies.map(({ id: messageId }) => ({ input: { messageId }, key: messageId }))
    await jobs.enqueue(tx, DELETE_COPY, tasks)
  }

  async function deleteCopy(messageId: string): Promise<void> {
    const told = await db.transaction(async (tx) => {
      const message = await lockMessage(tx, messageId)
      if (message === null) return null
      const fault = message.deletedAt === null ? faultOfDeletion(message) : null
      if (fault !== null) throw new ConflictError(fault)
      if (message.deletedAt === null) await clear(tx, message)
      return { message, ...(await tellAgents(tx, message)) }
    })
    if (told === null) return
    await publisher.deleted(told.message)
    await told.afterCommit()
    await derivedTexts.forget(messageId)
  }

  return {
    copyDeletion: bindJob(DELETE_COPY, ({ messageId }) => deleteCopy(messageId)),
    async deleteMessage(viewer, { messageId }) {
      const { deleted, afterCommit } = await db.transaction(async (tx) => {
        const message = await lockVisible(tx, viewer, messageId)
        if (!isAdmin(viewer) && message.senderId !== viewer.id)
          throw new ForbiddenError('Only the sender of a message and admins can delete it.')
        return remove(tx, message)
      })
      await afterCommit()
      return deleted
    },
    async deleteOwn(tx, run, reached) {
      const message = await lockReached(tx, reached)
      checkSender(message, run.agentId, 'delete')
      return remove(tx, message)
    },
  }
}

/**
 * Removes the content of a message. Returns its texts, and records that they must also be removed from everything
 * derived from the message.
 */
async function clear(tx: Tx, message: Message): Promise<{ deleted: Message; texts: string[] }> {
  const { id: messageId, spaceId, createdAt: sentAt, runId } = message
  const stored = [...(await versionsOf(tx, [messageId])), ...(await textsOfFiles(tx, [messageId]))]
  const texts = [...textsIn(message), ...stored.map(({ text }) => text)]
  await insertDeletions(tx, [{ messageId, spaceId, sentAt, runId, texts }])
  const [deleted = message] = await removeContent(tx, [messageId])
  return { deleted, texts }
}

async function removeContent(tx: Tx, ids: string[]): Promise<Message[]> {
  await tx.$executeRaw(deleteCallsOfMessagesSql(Prisma.sql`SELECT unnest(${ids}::text[])`))
  await hideCallsOfMessages(tx, ids)
  await forgetReadFiles(tx, await filesOfMessages(tx, ids))
  await deleteFilesOfMessages(tx, ids)
  return clearMessages(tx, ids)
}

const DROPPED = 'The message was deleted before the agent read it.'
/** The change number of a deletion, which is part of the deduplication key. */
const LAST = 0

const textsIn = ({ parts }: Message): string[] =>
  parts.flatMap((part) => {
    if (part.type === 'text') return [part.text]
    return part.type === 'file' ? [describeFile(part)] : []
  })

/** Returns the notice for persistent agents that have read the message. */
async function noticeOf(
  tx: Tx,
  { id: messageId, spaceId, senderId, threadRootId, createdAt }: Message,
): Promise<JsonObject> {
  const { space, sender } = await loadMessageTrigger(tx, { messageId: null, spaceId, senderId, seq: null })
  return {
    change: 'DELETED',
    messageId,
    sentAt: createdAt.toISOString(),
    spaceId,
    spaceName: space.name,
    ...(threadRootId === null ? {} : { threadRootId }),
    senderId,
    senderName: sender.name,
    senderKind: sender.kind,
  }
}
