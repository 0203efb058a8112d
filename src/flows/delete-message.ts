import type { Viewer } from '../access/viewer.ts'
import { spaceChannel, spaceTopic } from '../broker/topics.ts'
import { Prisma } from '../generated/prisma/client.ts'
import { type BoundJob, bindJob } from '../jobs/job.ts'
import { DELETE_COPY } from '../jobs/queues.ts'
import { ConflictError, ForbiddenError } from '../lib/errors.ts'
import type { JsonObject } from '../lib/json.ts'
import type { Tx } from '../platform/db.ts'
import type { Platform } from '../platform/platform.ts'
import { type Message, messageOfRow } from '../rules/message.ts'
import { faultOfDeletion } from '../rules/message-changes.ts'
import { isAdmin } from '../rules/permissions.ts'
import { describeFile } from '../spaces/readable-text.ts'
import { deleteCallsOfMessagesSql, forgetReadFiles, hideCallsOfMessages } from '../stores/call-store.ts'
import { insertDeletions } from '../stores/deletion-store.ts'
import { deleteFilesOfMessages, textsOfFiles } from '../stores/file-store.ts'
import { lockCopiesOfMessage } from '../stores/fork-store.ts'
import { dropWaiting, readersOf, tellChange } from '../stores/inbox-store.ts'
import { clearMessages, lockMessage, versionsOf } from '../stores/message-store.ts'
import { lockSpace } from '../stores/space-store.ts'
import { loseTurns } from './chain.ts'
import { type ChangingRun, checkSender, lockReached, lockVisible, type ReachedMessage } from './message-access.ts'
import { collectOutcomeChanges } from './outcome-changes.ts'
import { loadMessageTrigger } from './wake.ts'

/** Deletes messages: their sequence number stays, but none of their content. */
export interface MessageDeletions {
  /**
   * For the sender and admins. Returns once the text is also gone from prompts and journals, or after a few
   * seconds; a sweep does the rest. @throws NotFoundError, ForbiddenError, ConflictError
   */
  deleteMessage(viewer: Viewer, input: { messageId: string }): Promise<Message>
  /** Deletes a message of a run's agent, in the transaction of the call. @throws the same */
  deleteOwn(tx: Tx, run: ChangingRun, message: ReachedMessage): Promise<{ afterCommit(): Promise<void> }>
  /** Does for one copy of a deleted message what its deletion did not do at once. */
  copyDeletion: BoundJob
}

/** Removes the text of a deleted message from rows that were derived from it. */
export interface DerivedTexts {
  /** Never throws: a sweep continues what failed. */
  forget(messageId: string): Promise<void>
  /** Removes the texts of messages that were deleted while a run was active from everything that the run has written since. */
  forgetInRun(runId: string): Promise<void>
}

interface AfterCommit {
  afterCommit(): Promise<void>
}

export function createMessageDeletions(
  platform: Platform,
  { derivedTexts }: { derivedTexts: DerivedTexts },
): MessageDeletions {
  const { db, jobs, log } = platform

  async function remove(tx: Tx, message: Message): Promise<AfterCommit & { deleted: Message }> {
    const fault = faultOfDeletion(message)
    if (fault !== null) throw new ConflictError(fault)
    const [deleted = message] = await clear(tx, [message])
    const told = await tellAgents(tx, message)
    const copies = await clearCopies(tx, message)
    return {
      deleted,
      async afterCommit() {
        await Promise.all([message, ...copies].map((one) => publishDeletion(platform, one)))
        await told.afterCommit()
        await derivedTexts.forget(message.id)
      },
    }
  }

  /** Drops the deleted message from the inboxes that it waits in, and notifies persistent agents that have read it. */
  async function tellAgents(tx: Tx, message: Message): Promise<AfterCommit> {
    const { id: messageId, spaceId } = message
    const [readerIds, payload] = [await readersOf(tx, messageId), await noticeOf(tx, message)]
    const outcomes = collectOutcomeChanges(tx, log)
    const dropped = await dropWaiting(tx, messageId)
    for (const { agentId } of dropped)
      await outcomes.set({ messageId, agentId, kind: 'DROPPED', reason: DROPPED, runId: null })
    const lost = await loseTurns(tx, platform, dropped)
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
    return {
      async afterCommit() {
        await outcomes.announce()
        await lost.afterCommit()
      },
    }
  }

  /**
   * Clears the message in all copies of its space, in a few statements, so that nobody sees it after the commit. A job for each
   * copy does the rest, and clears a copy that a repeated run is still writing. @returns the cleared copies
   */
  async function clearCopies(tx: Tx, { spaceId, seq }: Message): Promise<Message[]> {
    await lockSpace(tx, spaceId)
    const rows = await lockCopiesOfMessage(tx, { spaceId, seq })
    const copies = rows.map(messageOfRow)
    const ready = copies.filter((copy) => faultOfDeletion(copy) === null)
    if (ready.length > 0) await clear(tx, ready)
    const tasks = copies.map(({ id: messageId }) => ({ input: { messageId }, key: messageId }))
    if (tasks.length > 0) await jobs.enqueue(tx, DELETE_COPY, tasks)
    return ready
  }

  async function deleteCopy(messageId: string): Promise<void> {
    const told = await db.transaction(async (tx) => {
      const message = await lockMessage(tx, messageId)
      if (message === null) return null
      const fault = message.deletedAt === null ? faultOfDeletion(message) : null
      if (fault !== null) throw new ConflictError(fault)
      if (message.deletedAt === null) await clear(tx, [message])
      return { message, ...(await tellAgents(tx, message)) }
    })
    if (told === null) return
    // Published again, because the process that deleted the original may have died before it did.
    await publishDeletion(platform, told.message)
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

/** Removes the content of messages, and records that what was derived from it must be removed too. */
async function clear(tx: Tx, messages: readonly Message[]): Promise<Message[]> {
  const ids = messages.map(({ id }) => id)
  const stored = [...(await versionsOf(tx, ids)), ...(await textsOfFiles(tx, ids))]
  await insertDeletions(
    tx,
    messages.map((message) => ({
      messageId: message.id,
      spaceId: message.spaceId,
      sentAt: message.createdAt,
      runId: message.runId,
      texts: [
        ...textsIn(message),
        ...stored.flatMap(({ messageId, text }) => (messageId === message.id ? [text] : [])),
      ],
    })),
  )
  await tx.$executeRaw(deleteCallsOfMessagesSql(Prisma.sql`SELECT unnest(${ids}::text[])`))
  await hideCallsOfMessages(tx, ids)
  await forgetReadFiles(tx, messages.flatMap(filesIn))
  await deleteFilesOfMessages(tx, ids)
  return clearMessages(tx, ids)
}

/** Publishes a deletion, and drops the earlier events of the space, some of which may contain the text. */
export async function publishDeletion(
  { log, signals }: Pick<Platform, 'log' | 'signals'>,
  { id: messageId, spaceId }: Pick<Message, 'id' | 'spaceId'>,
): Promise<void> {
  await Promise.all([
    log.append(spaceTopic(spaceId), { type: 'MessageUpdated', messageId }, { forgets: true }),
    signals.publish(spaceChannel(spaceId), { type: 'message' }, spaceTopic(spaceId)),
  ])
}

const DROPPED = 'The message was deleted before the agent read it.'
/** The number of a message's last change, which is part of the deduplication key. */
const LAST = 0

const textsIn = ({ parts }: Message): string[] =>
  parts.flatMap((part) => {
    if (part.type === 'text') return [part.text]
    return part.type === 'file' ? [describeFile(part)] : []
  })

const filesIn = ({ parts }: Message): string[] => parts.flatMap((part) => (part.type === 'file' ? [part.fileId] : []))

/** The notice for minds that have read the message. */
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
